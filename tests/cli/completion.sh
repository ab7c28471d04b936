#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The completions that programs print work in the shells: what each offers for a line, of which the last word is begun.
# shellcheck disable=SC2016,SC2317 # the shells expand it; in_SHELL is called by its name
set -euo pipefail

bin=${SLIME_BIN:?}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0
export PATH=$bin:$PATH

for shell in bash zsh fish; do
	for program in nanoctrl peeragent slime-bench slime-cache slime; do
		[ ! -x "$bin/$program" ] || "$bin/$program" --completion=$shell >"$tmp/$program.$shell"
	done
done

in_bash() {
	bash -c '. "$0"; COMP_WORDS=("${@:2}"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); compopt() { :; }; "_$1"; printf "%s\n" "${COMPREPLY[@]}"' \
		"$tmp/$1.bash" "$1" "$@"
}

# _describe and _arguments are zsh's own: here they print what they are told to offer.
in_zsh() {
	zsh -fc 'words=("${@:2}"); CURRENT=${#words}
		_describe() { print -l -- ${next%%:*} }
		_arguments() { print -l -- ${${@#\*}%%[=[]*} }
		complete_it() { source $1 }; complete_it $0' "$tmp/$1.zsh" "$1" "$@"
}

in_fish() {
	fish --no-config -c 'source $argv[1]; complete -C "$argv[2..-1]"' "$tmp/$1.fish" "$@" | cut -f 1
}

# offers SHELL EXPECTED WORD...: one of what is offered for the words is EXPECTED.
offers() {
	local shell=$1 expected=$2

	shift 2
	"in_$shell" "$@" >"$tmp/offered"
	grep -qx -- "$expected" "$tmp/offered" && return
	echo "$shell does not offer $expected for '$*' but: $(tr '\n' ' ' <"$tmp/offered")"
	failed=1
}

offers_not() {
	local shell=$1 unexpected=$2

	shift 2
	"in_$shell" "$@" >"$tmp/offered"
	grep -qx -- "$unexpected" "$tmp/offered" || return 0
	echo "$shell offers $unexpected for '$*'"
	failed=1
}

for shell in bash zsh fish; do
	if [ -f "$tmp/nanoctrl.$shell" ]; then
		offers $shell apply nanoctrl ""
		offers $shell obs nanoctrl ""
		offers $shell links nanoctrl obs ""
		offers_not $shell apply nanoctrl obs ""
		offers $shell --wait nanoctrl obs links --
		offers_not $shell --wait nanoctrl apply --
		offers $shell --help nanoctrl obs links --
	fi
	[ ! -f "$tmp/peeragent.$shell" ] || offers $shell --config peeragent --
done
if [ -f "$tmp/peeragent.bash" ]; then
	offers bash json peeragent --log-format ""
	offers fish json peeragent --log-format ""
	cd "$tmp"
	touch node.yaml
	offers bash node.yaml peeragent --config node
	grep -q -- "'\*--log-format=.*:(text json)'" peeragent.zsh || { echo "zsh has no words for --log-format" && failed=1; }
	if peeragent --completion=tcsh 2>"$tmp/error" || ! grep -q 'expected bash, zsh or fish, got "tcsh"' "$tmp/error"; then
		echo "peeragent --completion=tcsh: $(cat "$tmp/error")"
		failed=1
	fi
fi
exit $failed
