#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every shell script passes shellcheck.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/files.sh"

need shellcheck
mapfile -t scripts < <(project_scripts)
echo "${#scripts[@]} scripts"
shellcheck -x -P SCRIPTDIR "${scripts[@]}"
