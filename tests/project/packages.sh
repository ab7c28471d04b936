#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deploy/packages.sh names every package that the programs load libraries from, and that our scripts take commands from.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/files.sh"

need dpkg-query
need objdump
bin=${SLIME_BIN:-build/dev/bin}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A purpose's packages, what they cannot be installed without, and what every Debian has, down to the smallest.
packages_of() {
	local -a packages

	mapfile -t packages < <(deploy/packages.sh "$1" --list)
	printf '%s\n' "${packages[@]}"
	# It fails where one is not installed, as those of a purpose that nobody asked for.
	{ dpkg-query -W -f='${Depends}, ${Pre-Depends}\n' "${packages[@]}" 2>/dev/null || true; } |
		tr '|' ',' | tr ',' '\n' | sed 's/^ *//; s/[ :(].*//'
	dpkg-query -W -f='${Essential} ${Priority} ${Package}\n' |
		awk '$1 == "yes" || $2 == "required" { print $NF }'
}

# Every line of needs: a purpose, who needs it, what, and the file that this is here.

# needs_of_program PURPOSE FILE. What a program names itself: the libraries of its libraries come with their packages. The sanitizers' come with the
# compiler, and users' programs do without them; libgcc_s comes with libc.
needs_of_program() {
	local library

	ldd "$2" >"$work/ldd"
	for library in $(objdump -p "$2" | awk '$1 == "NEEDED" && $2 !~ /^lib(asan|ubsan|tsan|gcc_s)\./ { print $2 }'); do
		awk -v library="$library" -v user="${2##*/}" -v purpose="$1" \
			'$1 == library && $3 ~ /^\/(usr\/)?lib\// { print purpose, user, library, $3 }' "$work/ldd"
	done
}

# The words of a script that stand where a command does, without what is in here-documents, strings and comments.
command_words() {
	awk '
		done_at != "" { if ($1 == done_at) done_at = ""; next }
		match($0, /<<-?.?[A-Z]+/) { done_at = substr($0, RSTART, RLENGTH); gsub(/[^A-Z]/, "", done_at) }
		/^[ \t]*#/ { next }
		{
			sub(/^[ \t]*[^ \t()]+( \| [^ \t()]+)*\)/, "")
			gsub(/"[^"(]*"/, "\"\"")
			gsub(/\$\{/, "$")
			gsub(/[A-Za-z0-9_]\([^()]*\)?/, "_") # a call in awk
			gsub(/\$\(|`|\|\||&&|[|;(){}!]|<\(/, "\n")
			n = split($0, part, "\n")
			for (i = 1; i <= n; i++) {
				word = part[i]
				sub(/^[ \t]+/, "", word)
				while (word ~ /^(if|then|else|elif|do|while|until|exec|need|command -v|[A-Za-z_]+=[^ ]*) /)
					sub(/^(command -v|[^ ]+) +/, "", word)
				if (word ~ /^print( |$)/) # of awk, though a package has a command of this name
					continue
				if (match(word, /^[a-z][a-z0-9_.+-]*/) && substr(word, RLENGTH + 1) !~ /^( *=|,)/)
					print substr(word, 1, RLENGTH)
			}
		}' "$1" | sort -u
}

purpose_of() {
	case $1 in
	deploy/packages.sh) echo run ;;
	deploy/debian/* | deploy/image/* | deploy/slurm/* | tests/deploy/*) echo deploy ;;
	deploy/trial.sh) echo test ;;
	deploy/*) echo build ;;
	bench/*) echo bench ;;
	*) echo test ;;
	esac
}

# sudo, systemctl and kubectl are used where they are there.
needs_of_script() {
	local word

	for word in $(command_words "$1"); do
		if [ "$(type -t "$word")" != file ] || [[ $word =~ ^(sudo|systemctl|kubectl)$ ]] || grep -q "^$word()" "$1"; then
			continue
		fi
		echo "$(purpose_of "$1") $1 $word $(type -P "$word")"
	done
}

# Lines "file package". A file may be known by where its link leads, or by its name before /lib became a link.
packages_of_files() {
	local file

	sort -u | while read -r file; do
		for name in "$file" "$(readlink -f "$file")" "/usr$file" "${file#/usr}"; do
			echo "$file $name"
		done
	done >"$work/names"
	cut -d' ' -f2 "$work/names" | sort -u | xargs dpkg-query -S 2>/dev/null >"$work/owners" || true
	awk 'NR == FNR { if ($0 !~ /^diversion/) { sub(/[:,].*/, "", $1); owner[$NF] = $1 } next }
		$2 in owner && !seen[$1]++ { print $1, owner[$2] }' "$work/owners" "$work/names"
}

# Elsewhere than on Debian the list is what there is.
mkdir "$work/elsewhere"
for tool in bash cat sed sort; do
	ln -s "$(type -P "$tool")" "$work/elsewhere/"
done
elsewhere() { # WORDS ARGUMENT...
	local said

	said=$(PATH=$work/elsewhere "$BASH" deploy/packages.sh "${@:2}" 2>&1) || true
	[[ $said == *"$1"* ]] && return
	echo "deploy/packages.sh ${*:2} where there is no dpkg-query: $said"
	exit 1
}
elsewhere "usage: " --help
elsewhere cmake build --list
elsewhere "packages.sh build --list names what is needed" build --missing

for program in "$bin"/*; do
	[ ! -x "$program" ] || needs_of_program run "$program"
done >"$work/needs"
# Another system's agents, once tests/interop has installed them; what they bring themselves is no package.
for program in "${bin%/*}"/interop/venv/lib/python3*/site-packages/dlslime/*.so; do
	[ ! -e "$program" ] || needs_of_program test "$program"
done >>"$work/needs"
for script in $(project_scripts); do
	needs_of_script "$script"
done >>"$work/needs"
cut -d' ' -f4 "$work/needs" | packages_of_files >"$work/packages"
for purpose in run build test bench deploy; do
	packages_of "$purpose" | sed "s/^/$purpose /"
done >"$work/listed"

awk '
	FILENAME ~ /listed$/ { listed[$1, $2] = 1; next }
	FILENAME ~ /packages$/ { package[$1] = $2; next }
	!(($1, package[$4]) in listed) {
		printf "%s uses %s (%s), of %s: purpose %s of deploy/packages.sh does not bring it\n", $2, $3, $4,
			package[$4] == "" ? "no package" : package[$4], $1
		bad = 1
	}
	END { print FNR, "needs"; exit bad }
' "$work/listed" "$work/packages" "$work/needs"
