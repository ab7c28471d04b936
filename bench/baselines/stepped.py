# SPDX-License-Identifier: Apache-2.0
"""The other end of bench/verdict/side.py: a peer that measures a round for each line on standard input."""

import json
import os
import sys

NOT_INSTALLED = 77
CPUS = sorted(os.sched_getaffinity(0))
SERVER_CPU = CPUS[0]
CLIENT_CPU = CPUS[1 % len(CPUS)]


def absent(what):
    print(f"{os.path.basename(sys.argv[0])}: {what}", file=sys.stderr)
    sys.exit(NOT_INSTALLED)


def pin(cpu):
    os.sched_setaffinity(0, {cpu})


def median(values):
    return sorted(values)[len(values) // 2]


def serve(measure_round):
    """Print what measure_round() returns, a dictionary, for each line until the end."""
    for _ in sys.stdin:
        print(json.dumps(measure_round()), flush=True)
