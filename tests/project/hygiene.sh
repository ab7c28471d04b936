#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What no file may contain: waiting by sleeping in tests, paths of the machine a file was written on, work left open. A
# decision has a number of its own, and what refers to one finds it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/files.sh"

failed=0

# forbid WHAT FILES PATTERN [EXCEPT]: a line that matches is a failure, except in this file.
forbid() {
	local what=$1 files=$2 pattern=$3 except=${4:-^$} found

	found=$(project_files "$files" | grep -v '^tests/project/hygiene\.sh$' |
		xargs -r -d '\n' grep -InE -- "$pattern" /dev/null | grep -vE -- "$except" || true)
	if [ -n "$found" ]; then
		echo "$what:"
		echo "$found"
		failed=1
	fi
}

# A process of others does not say when it is ready: tests/support may pause between two looks at it. And where time
# itself is what is tested, the line says so.
forbid "a test waits for an event, with a deadline; it does not sleep" '^tests/([^s]|s[^u]).*\.[ch]$' \
	'\<(sleep|usleep|nanosleep|clock_nanosleep)\(' 'the passing of time'
forbid "a path of somebody's machine" . '/(home|Users)/[a-z]|/root/|/work/|/tmp/[a-z]+\.[A-Za-z0-9]{6,}'
forbid "work left open" '\.(c|h|sh|lua|txt|cmake)$' '\<(TODO|FIXME|XXX)\>'
forbid "trailing blanks" '\.(c|h|sh|lua|txt|cmake|md|yaml|json)$' '[[:blank:]]$'

complain() {
	echo "$*"
	failed=1
}

for number in $(project_files '^docs/decisions/' | sed 's|.*/\([0-9]*\)-.*|\1|' | sort | uniq -d); do
	complain "several decisions have the number $number"
done
for decision in $(project_files '\.(md|c|h)$' | xargs -r -d '\n' grep -hoE -- '\<[0-9]{4}-[a-z][a-z0-9-]*\.md' | sort -u); do
	[ -f "docs/decisions/$decision" ] || complain "there is no docs/decisions/$decision, which something refers to"
done
exit "$failed"
