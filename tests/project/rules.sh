#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tests that docs/rules.md names exist, and it has each rule once: a test is a function of cmocka's, a "case_" of a
# script, or a file.
set -euo pipefail
export LC_ALL=C
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

# In backquotes: words with two underscores, words that begin with case_, and paths.
names() {
	grep -oE "\`([a-z0-9_]+__[a-z0-9_]+|case_[a-z0-9_]+|[a-z0-9_/.-]+\.(c|sh|py|md))\`" "$page" | tr -d "\`" | sort -u
}

# A rule begins its paragraph: "**S1.** It has a sentence.", also "**C7, C8.**" or "**C21-C23.**".
rules() {
	sed -nE 's/^\*\*([SCW][0-9][SCW0-9, -]*)\.\*\* [A-Z].*/\1/p' "$page" | tr -d ' ' | tr ',' '\n' | while IFS=- read -r from to; do
		to=${to:-$from}
		seq -f "${from:0:1}%g" "${from:1}" "${to:1}"
	done
}

all_rules() {
	printf 'S%d\n' {1..36}
	printf 'C%d\n' {1..33}
	printf 'W%d\n' {1..25} {30..44} {50..67} {70..82}
}

# What may be named: a function, a file, and each end of a path that begins at a folder.
existing() {
	printf '%s\n' "$functions"
	printf '%s\n' "${files[@]}" | awk -F/ '{ name = $NF; print name; for (i = NF - 1; i; i--) print name = $i "/" name }'
}
while read -r name; do
	complain "names $name: there is no such test"
done < <(comm -23 <(names) <(existing | sort -u))
n=$(names | wc -l)
[ "$n" -gt 0 ] || complain "names no test"
diff <(all_rules | sort) <(rules | sort) || complain "has not each rule once"
echo "$n tests"
exit "$bad"
