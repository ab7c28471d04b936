#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tests that docs/rules.md names exist, and it has each rule once: a test is a function of cmocka's, a "case_" of a
# script, or a file.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/files.sh"

page=docs/rules.md
mapfile -t files < <(project_files '^(tests|bench|libslime/examples|docs)/')
mapfile -t sources < <(project_files '^tests/.*\.(c|sh)$')
functions=$(grep -hoE '^(static void [a-z0-9_]+__[a-z0-9_]+\(void \*\*state\)|case_[a-z0-9_]+\(\))' "${sources[@]}" |
	sed 's/^static void //; s/(.*//')
bad=0

complain() {
	echo "$page $*"
	bad=1
}

exists() {
	case $1 in
	*.*) grep -q "/$1\$" < <(printf '/%s\n' "${files[@]}") ;;
	*) grep -qx -- "$1" <<<"$functions" ;;
	esac
}

# In backquotes: words with two underscores, words that begin with case_, and paths.
names() {
	grep -oE "\`([a-z0-9_]+__[a-z0-9_]+|case_[a-z0-9_]+|[a-z0-9_/.-]+\.(c|sh|py|md))\`" "$page" | tr -d "\`" | sort -u
}

# The first cells of the tables: "S1", "C7, C8" or "C21-C23".
rules() {
	sed -nE 's/^\| ([SCW][0-9][SCW0-9, -]*) \|.*/\1/p' "$page" | tr -d ' ' | tr ',' '\n' | while IFS=- read -r from to; do
		to=${to:-$from}
		seq -f "${from:0:1}%g" "${from:1}" "${to:1}"
	done
}

all_rules() {
	printf 'S%d\n' {1..36}
	printf 'C%d\n' {1..33}
	printf 'W%d\n' {1..25} {30..44} {50..67} {70..82}
}

n=0
while read -r name; do
	exists "$name" || complain "names $name: there is no such test"
	n=$((n + 1))
done < <(names)
[ "$n" -gt 0 ] || complain "names no test"
diff <(all_rules | sort) <(rules | sort) || complain "has not each rule once"
echo "$n tests"
exit "$bad"
