#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# No files call each other in a circle but those of one noun and those of cmake/known-circles; and the check finds
# circles, tried on small trees.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/files.sh"

check=$PWD/cmake/check-circles.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0

# What the check says, the known circle ("-": none), and the calls: each FILE>FILE or FILE alone.
cases() {
	cat <<'END'
ok   -          a>b b>c
ok   -          a>b a>c b>d c>d
ok   -          x/conn>x/conn_end x/conn_end>x/conn
ok   -          conn>conn_a conn_a>conn_b conn_b>conn_c conn_c>conn
ok   a,b        a>b b>a
ok   a,b,c      a>b b>c c>a
bad  -          a>b b>a
bad  -          a>b b>c c>a
bad  -          x/conn>y/conn y/conn>x/conn
bad  -          conn>conn_a conn_a>conn_b conn_b>conn_c conn_c>conn_d conn_d>conn
bad  a,b        a>b b>c c>a
bad  a,b        a>b
bad  a,b,c      a>b b>a c
bad  a,b        c>d d>c
END
}

# A source with a function that calls one of each file named behind it.
write_source() {
	local file=$1 to

	mkdir -p "$tree/part/$(dirname "$file")"
	{
		for to in "${@:2}"; do echo "void ${to/\//_in_}_f(void);"; done
		echo "void ${file/\//_in_}_f(void); void ${file/\//_in_}_f(void) {"
		for to in "${@:2}"; do echo "${to/\//_in_}_f();"; done
		echo '}'
	} >"$tree/part/$file.c"
	mkdir -p "$tree/build/part/CMakeFiles/t.dir/$(dirname "$file")"
	cc -c "$tree/part/$file.c" -o "$tree/build/part/CMakeFiles/t.dir/$file.c.o"
}

try() {
	local want=$1 known=$2 got=ok call file
	local -A calls=()

	rm -rf "${tree:?}"/*
	for call in "${@:3}"; do
		calls[${call%>*}]+=" "
		[ "$call" = "${call%>*}" ] || calls[${call%>*}]+=${call#*>}
		[ -n "${calls[${call#*>}]+x}" ] || calls[${call#*>}]=
	done
	for file in "${!calls[@]}"; do
		# shellcheck disable=SC2086 # a list
		write_source "$file" ${calls[$file]}
	done
	: >"$tree/known"
	[ "$known" = - ] || sed 's,[^,]*,part/&.c,g; y/,/ /' <<<"$known" >"$tree/known"
	"$check" -t "$tree" -k "$tree/known" "$tree/build" part >"$tree/said" 2>&1 || got=bad
	if [ "$got" != "$want" ]; then
		echo "$* is $got: $(cat "$tree/said")"
		failed=1
	fi
}

need nm
need cc
while read -r want known calls; do
	# shellcheck disable=SC2086 # a list
	try "$want" "$known" $calls
done < <(cases)

"$check" -k cmake/known-circles "${SLIME_BUILD:?}" libslime nanoctrl peeragent pages cli tool || failed=1
exit "$failed"
