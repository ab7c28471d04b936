#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prose in Markdown is wrapped at 100 columns. Tables, code and definitions of links are excepted, and so are URLs and a
# word that is longer than a line. In Markdown and manual pages no statement begins with "who", "what" or "nobody", and
# words that have a term in docs/glossary.md are not used. Comments of the sources do not begin with "who" or "nobody".
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/files.sh"

failed=0
mapfile -t pages < <(project_files '\.md$')
mapfile -t manuals < <(project_files '^docs/man/')

# In the locale C, columns are counted as the bytes that begin a character.
LC_ALL=C awk '
function statement(    at) {
	gsub(/`[^`]*`/, "", text)
	at = match(text, /(^|[.:;*|] )(Who|Whoever|What|Nobody|Somebody) [^.?!:]*[.:]/)
	if (at) {
		printf "%s:%d: a riddle: %s\n", file, first, substr(text, at, 60)
		failed = 1
	}
	text = ""
}
FNR == 1 { statement(); fence = code = 0; blank = 1; file = FILENAME }
/^ *(```|~~~)/ { fence = !fence; next }
fence { next }
/^[ \t]*$/ { statement(); blank = 1; next }
{ code = /^(    |\t)/ && (blank || code); blank = 0 }
code || /^ *\[[^]]*\]:/ { next }
/^ *([|#-]|[0-9]+[.)] )/ { statement() }
{
	if (text == "")
		first = FNR
	words = $0
	sub(/^ *([-*+]|[0-9]+[.)]) +/, "", words)
	text = text (text == "" ? "" : " ") words
}
/^ *[|]/ { next }
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
END { statement(); exit failed }
' "${pages[@]}" || failed=1

if grep -nE '^(Who|Whoever|What|Nobody|Somebody) [^?]*$' "${manuals[@]}"; then
	echo "no statement begins so: say who does what"
	failed=1
fi
mapfile -t sources < <(project_files '^(cli|libslime|nanoctrl|pages|peeragent|tool)/.*\.(c|h|lua)$')
if grep -nE '(/\*|--) (Who|Whom|Whoever|Whatever|Nobody|Somebody) ' "${sources[@]}"; then
	echo "no comment begins so: say who does what"
	failed=1
fi
if grep -nwE 'knocks?|knocked|farewells?|ghosts?|portions?|learners?|whoever' "${pages[@]}" "${manuals[@]}" |
	grep -vE '__[a-z_]*(knock|farewell|ghost|portion|learner|whoever)|(knock|farewell|ghost|portion|learner|whoever)[a-z]*_'; then
	echo "these words have a term in docs/glossary.md"
	failed=1
fi
echo "${#pages[@]} pages, ${#manuals[@]} manual pages"
exit "$failed"
