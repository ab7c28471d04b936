#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The files and functions of the table "Where things happen" in docs/architecture.md exist.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/files.sh"

# shellcheck disable=SC2016 # backquotes of Markdown
rows=$(sed -nE '/^## Where things happen/,/^## Layers/s/^\| .* \| `([^`]*)` \| (`([a-z0-9_]+)\(\)`)? ?\|$/\1 \3/p' docs/architecture.md)
n=0
failed=0

while read -r file function; do
	n=$((n + 1))
	if [ ! -f "$file" ]; then
		echo "docs/architecture.md names $file, which does not exist"
		failed=1
	# The definition begins its line, perhaps behind its type.
	elif [ "$function" ] && ! grep -qE "^([a-z].*[ *])?$function\(" "$file"; then
		echo "docs/architecture.md names $function() in $file, which does not define it"
		failed=1
	fi
done <<<"$rows"
echo "$n places"
[ "$n" -ge 12 ] && exit "$failed"
