#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The manual pages: they name each function that the library exports and each initialiser of its headers, slime_context(3)
# each attribute of a context, and no page or document refers to a page of ours that is not there.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/files.sh"

failed=0
complain() {
	echo "$*"
	failed=1
}

while read -r function; do
	grep -q "\b$function\b" docs/man/*.3 docs/man/slime.7 || complain "no page of docs/man names $function"
done < <(sed -n 's/^\t\(slime_[a-z_]*\);$/\1/p' libslime/slime.map)

while read -r function; do
	grep -q "\b$function\b" docs/man/slime_agent.3 || complain "slime_agent(3) does not name $function"
done < <(grep -oE '\bslime_[a-z_]+\(' peeragent/lib/include/slime/agent.h | tr -d '(' | sort -u |
	grep -E '^slime_(agent|topology|link)_' | grep -v '_fn$')

while read -r function; do
	grep -q "\b$function\b" docs/man/slime_target.3 || complain "slime_target(3) does not name $function"
done < <(grep -oE '\bslime_(agent_)?target_[a-z_]+\(' peeragent/lib/include/slime/target.h | tr -d '(' | sort -u)

# The page has the functions of one kind in one line, without their arguments.
while read -r function; do
	grep -q "\b$function\b" docs/man/slime_pages.3 || complain "slime_pages(3) does not name $function"
done < <(grep -oE '\bslime_pages_[a-z_]+\(' pages/include/slime/pages.h | tr -d '(' | sort -u |
	grep -v '_fn$')

# A macro that initialises is of no use to C++ nor to other languages.
while read -r initialiser; do
	grep -qw "${initialiser,,}" libslime/slime.map peeragent/lib/include/slime/agent.h pages/include/slime/pages.h ||
		complain "no function stands beside $initialiser"
done < <(sed -n 's/^#define \(SLIME_[A-Z_]*_INIT\)\b.*/\1/p' libslime/include/slime/*.h peeragent/lib/include/slime/*.h pages/include/slime/*.h)

# What is all zeros instead may mean something else.
while read -r initialiser; do
	grep -q "\b$initialiser\b" docs/man/*.3 || complain "no page of docs/man names $initialiser"
done < <(sed -n 's/^#define \(SLIME_[A-Z_]*_INIT\)\b.*/\1/p' libslime/include/slime/*.h)

attributes() {
	sed -n '/^struct slime_context_attr {/,/^};/s/^\t[a-z][a-z0-9_ ]*[ *]\([a-z0-9_]*\);.*/\1/p' libslime/include/slime/context.h
}
[ "$(attributes | wc -l)" -gt 25 ] || complain "the attributes of a context cannot be read: $(attributes)"
for attribute in $(attributes); do
	grep -q "^\.IR\? .*\b$attribute\b" docs/man/slime_context.3 || complain "slime_context(3) says nothing of $attribute"
done

while read -r page section; do
	# man(1) finds a page by each word of its first line, too.
	[ -f "docs/man/$page.$section" ] || sed -n '/^\.SH NAME/{n;p;}' docs/man/*."$section" | grep -q "\b$page\b" ||
		complain "there is no $page($section), which something refers to"
done < <(cat docs/man/* docs/*.md docs/decisions/*.md README.md libslime/include/slime/*.h | sed 's/\\-/-/g' |
	grep -oE '\b(slime[a-z_-]*|nanoctrl|peeragent)`? ?\([1-8]\)' | tr -d '\`)' | tr '(' ' ' | sort -u)

[ $failed -eq 0 ]
