#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tests that docs/rules.md names exist.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/files.sh"

mapfile -t sources < <(project_files '^tests/.*\.(c|sh)$')
mapfile -t names < <(grep -oE '[a-z0-9_/]+(__[a-z0-9_]+|\.sh|\.c)' docs/rules.md | sort -u)
[ "${#names[@]}" -gt 0 ]

bad=0
for name in "${names[@]}"; do
	case $name in
	*.*) grep -q "/$name\$" <<<"$(printf '%s\n' "${sources[@]}")" ;;
	*) grep -qw -- "$name" "${sources[@]}" ;;
	esac || {
		echo "docs/rules.md names $name: there is no such test"
		bad=1
	}
done
echo "${#names[@]} tests"
exit "$bad"
