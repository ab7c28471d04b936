#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prose in Markdown is wrapped at 100 columns. Tables, code and definitions of links are excepted, and so are URLs and a
# word that is longer than a line.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/files.sh"

mapfile -t pages < <(project_files '\.md$')
# In the locale C, columns are counted as the bytes that begin a character.
LC_ALL=C awk '
FNR == 1 { fence = code = 0; blank = 1 }
/^ *(```|~~~)/ { fence = !fence; next }
fence { next }
/^[ \t]*$/ { blank = 1; next }
{ code = /^(    |\t)/ && (blank || code); blank = 0 }
code || /^ *[|]/ || /^ *\[[^]]*\]:/ { next }
{
	line = $0
	gsub(/[\200-\277]/, "", line)
	gsub(/https?:[^ )>]*/, "", line)
	words = line
	sub(/^ *([-*+]|[0-9]+[.)]) +/, "", words)
	sub(/^ +/, "", words)
	if (length(line) > 100 && words ~ / /) {
		printf "%s:%d: %d columns\n", FILENAME, FNR, length(line)
		failed = 1
	}
}
END { exit failed }
' "${pages[@]}"
echo "${#pages[@]} pages"
