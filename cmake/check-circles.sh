#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Finds source files that call each other in a circle: cmake/check-circles.sh [-t TREE] [-k KNOWN] BUILD_DIR PART...
#
# A PART is a folder of TREE, by default of the repository; its objects in BUILD_DIR are read with nm. File A calls file B when A's object
# needs a symbol that B's object defines. A circle is a largest set of files of which each calls each other, directly or
# through files of the set. Up to four files of one noun may form one: NAME.c and NAME_part.c in one folder.
#
# KNOWN lists the circles that exist and are to be broken, one a line: its files, separated by spaces. The list may only
# shrink: the check fails on a circle that is not a part of a line, and on a line's file that is in no circle any more.
#
# Prints each circle that is not of one noun, with the calls inside it and their symbols.
set -euo pipefail

usage() {
	echo "usage: check-circles.sh [-t TREE] [-k KNOWN] BUILD_DIR PART..." >&2
	exit 2
}

tree=$(dirname "${BASH_SOURCE[0]}")/..
known=/dev/null
while getopts t:k: option; do
	case $option in
	t) tree=$OPTARG ;;
	k) known=$(realpath "$OPTARG") ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || usage
build=$(realpath "$1")
shift
cd "$tree"

# The objects of the parts whose source exists: a build folder also keeps those of deleted files.
objects() {
	local object source

	find "${@/#/"$build"/}" -path '*.dir/*' -name '*.c.o' | sort | while IFS= read -r object; do
		source=${object#"$build"/}
		source=${source/CMakeFiles\/*.dir\//}
		[ ! -f "${source%.o}" ] || printf '%s\0' "$object"
	done
}

# "SOURCE SYMBOL LETTER" for each symbol that an object needs or provides.
symbols() {
	objects "$@" | xargs -0 -r nm -A -P -g | sed "s,^$build/,,; s,CMakeFiles/.*\\.dir/,,; s,\\.o: , ,"
}

symbols "$@" | awk -v known="$known" '
# The noun of a file: its folder, and its name up to the first "_".
function noun(path) {
	sub(/\.c$/, "", path)
	if (match(path, /_[^\/]*$/))
		path = substr(path, 1, RSTART - 1)
	return path
}

# Marks everything that from reaches.
function walk(from, seen,    stack, n, at, i, next_one, count) {
	stack[n = 1] = from
	while (n > 0) {
		at = stack[n--]
		count = split(calls[at], next_one, " ")
		for (i = 1; i <= count; i++)
			if (!(next_one[i] in seen)) {
				seen[next_one[i]] = 1
				stack[++n] = next_one[i]
			}
	}
}

# known_line[FILE] is its line of KNOWN.
function read_known(    line, i, n, file) {
	while ((getline line < known) > 0) {
		if (line ~ /^#/ || line ~ /^[ \t]*$/)
			continue
		n_known++
		n = split(line, file, " ")
		for (i = 1; i <= n; i++)
			known_line[file[i]] = n_known
	}
}

# Adds each call from file to file, with the symbol that it goes by.
function connect(    i, need, to) {
	for (i = 1; i <= n_needs; i++) {
		split(needs[i], need, " ")
		to = defined_by[need[2]]
		if (to == "" || to == need[1])
			continue
		if (!((need[1], to) in by))
			calls[need[1]] = calls[need[1]] " " to
		by[need[1], to] = by[need[1], to] " " need[2]
	}
}

# circle[1..n]: the files that reach the i-th file and are reached by it; returns n.
function circle_of(i,    j, n) {
	for (j = i; j <= n_files; j++)
		if ((files[i], files[j]) in reaches && (files[j], files[i]) in reaches)
			circle[++n] = files[j]
	return n
}

function is_one_noun(n,    j) {
	for (j = 1; j <= n; j++)
		if (noun(circle[j]) != noun(circle[1]))
			return 0
	return n <= 4
}

function is_known(n,    j) {
	for (j = 1; j <= n; j++)
		if (!(circle[j] in known_line) || known_line[circle[j]] != known_line[circle[1]])
			return 0
	return 1
}

function print_circle(n,    j, k) {
	for (j = 1; j <= n; j++) {
		printf "  %s\n", circle[j]
		for (k = 1; k <= n; k++)
			if ((circle[j], circle[k]) in by)
				printf "    > %s:%s\n", circle[k], by[circle[j], circle[k]]
	}
}

!($1 in is_file) { is_file[files[++n_files] = $1] = 1 }
$3 == "U" || $3 == "w" { needs[++n_needs] = $1 " " $2; next }
!($2 in defined_by) { defined_by[$2] = $1 }

END {
	if (NR == 0) {
		print "no objects of these parts are built"
		exit 2
	}
	read_known()
	connect()
	for (i = 1; i <= n_files; i++) {
		delete seen
		walk(files[i], seen)
		for (to in seen)
			reaches[files[i], to] = 1
	}
	for (i = 1; i <= n_files; i++) {
		if (files[i] in done)
			continue
		n = circle_of(i)
		for (j = 1; j <= n; j++)
			done[circle[j]] = 1
		if (n == 0 || is_one_noun(n))
			continue
		for (j = 1; j <= n; j++)
			in_circle[circle[j]] = 1
		printf "circle of %d files%s:\n", n, is_known(n) ? " (known)" : ""
		print_circle(n)
		bad = bad || !is_known(n)
	}
	for (path in known_line)
		if (!(path in in_circle)) {
			printf "%s is in no circle any more: remove it from %s\n", path, known
			bad = 1
		}
	exit bad
}
'
