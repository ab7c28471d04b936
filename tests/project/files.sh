# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the tests about the repository.

cd "${SLIME_SOURCE:-$(dirname "${BASH_SOURCE[0]}")/../..}" || exit 1

# The files of the repository whose path matches, one a line: also those not yet added; in an unpacked archive
# everything but builds.
project_files() {
	if git -c safe.directory='*' rev-parse --is-inside-work-tree >/dev/null 2>&1; then
		git -c safe.directory='*' ls-files --cached --others --exclude-standard
	else
		find . -path ./build -prune -o -type f -printf '%P\n'
	fi | sort | grep -E -- "$1" | while IFS= read -r file; do [ ! -f "$file" ] || printf '%s\n' "$file"; done
}

project_scripts() {
	project_files . | while IFS= read -r file; do
		case $(head -c 32 "$file" | head -n 1 | tr -d '\0') in
		'#!'*sh | '#!'*sh\ *) printf '%s\n' "$file" ;;
		esac
	done
}

skip() {
	echo "skipped: $*"
	exit 77
}

need() {
	command -v "$1" >/dev/null || skip "$1 is not installed"
}
