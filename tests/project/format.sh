#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# C files are laid out as .clang-format says. Another version of clang-format lays out differently: 14 is ours.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/files.sh"

need clang-format-14
untidy=$(project_files '\.[ch]$' | xargs -r -n 16 -P 2 clang-format-14 --dry-run --Werror 2>&1 |
	sed -n 's/^\([^ ]*\):[0-9]*:[0-9]*: error: .*/\1/p' | sort -u || true)
if [ -n "$untidy" ]; then
	echo "clang-format-14 -i mends these:"
	echo "$untidy"
	exit 1
fi
