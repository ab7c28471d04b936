#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs/configuration.md says what the programs' tables say, and the man pages name every option. With --write the
# tables of the page are made anew.
set -eu

bin=${SLIME_BIN:?}
source=${SLIME_SOURCE:?}
page=$source/docs/configuration.md
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT INT TERM
failed=0

complain()
{
	echo "$*" >&2
	failed=1
}

# The page with the table of program $1 replaced by the file $2.
replace()
{
	sed -e "/^<!-- begin $1 -->/,/^<!-- end $1 -->/{/^<!-- begin/r $2
		/^<!--/!d}" "$page"
}

check_settings()
{
	if ! "$bin/$1" --help=settings >"$tmp/table"; then
		complain "$1 --help=settings fails"
		return 0
	fi
	if ! grep -q "^<!-- begin $1 -->" "$page"; then
		complain "docs/configuration.md has no place for the settings of $1"
		return 0
	fi
	replace "$1" "$tmp/table" >"$tmp/page"
	cmp -s "$tmp/page" "$page" && return 0
	if [ "${write:-}" ]; then
		cp "$tmp/page" "$page"
	else
		complain "docs/configuration.md is behind the table of $1: make pages with 'SLIME_BIN=$bin SLIME_SOURCE=. tests/cli/pages.sh --write'"
		diff "$page" "$tmp/page" >&2 || true
	fi
}

# The options of every command, without the two that every program has.
options()
{
	"$bin/$1" --help >"$tmp/help"
	cp "$tmp/help" "$tmp/all"
	sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z ]*[a-z]\)  .*/\1/p' "$tmp/help" >"$tmp/commands"
	while read -r command; do
		# shellcheck disable=SC2086 # a command may be two words
		"$bin/$1" $command --help >>"$tmp/all"
	done <"$tmp/commands"
	sed -n 's/^  .\{0,4\}\(--[a-z][a-z-]*\).*/\1/p' "$tmp/all" | sort -u | sed -e "/^--help\$/d" -e "/^--version\$/d"
}

check_man()
{
	man=$source/docs/man/$1.1
	if [ ! -f "$man" ]; then
		complain "docs/man/$1.1 is missing"
		return 0
	fi
	sed 's/\\-/-/g' "$man" >"$tmp/man"
	options "$1" >"$tmp/options"
	while read -r option; do
		grep -q -e "$option\([^a-z-]\|$\)" "$tmp/man" || complain "docs/man/$1.1 does not name $option"
	done <"$tmp/options"
}

write=${1:-}
for program in nanoctrl peeragent slime-bench; do
	[ -x "$bin/$program" ] || continue
	check_settings "$program"
	check_man "$program"
done
[ ! -x "$bin/slime" ] || check_man slime
[ ! -x "$bin/slime-cache" ] || check_man slime-cache # it has no configuration file
exit $failed
