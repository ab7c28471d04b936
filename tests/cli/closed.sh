#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Standard descriptors that are closed: no file that a program opens takes their place.
set -euo pipefail

bin=${SLIME_BIN:?}
failed=0

for program in nanoctrl peeragent slime-bench slime-cache slime slime-measure slime-reference; do
	[ -x "$bin/$program" ] || continue
	status=0
	(exec "$bin/$program" --version <&- >&- 2>&-) || status=$?
	[ "$status" -eq 0 ] || {
		echo "$program --version ended with $status"
		failed=1
	}
done
exit "$failed"
