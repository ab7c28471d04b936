# SPDX-License-Identifier: Apache-2.0
"""The other end of bench/verdict/side.py: a peer that measures a round for each line on standard input."""

import importlib.util
import json
import os
import sys
import time

from sweep import absent, enter_environment, nearest_rank

ROUND_S = 0.3
CPUS = sorted(os.sched_getaffinity(0))
SERVER_CPU = CPUS[0]
CLIENT_CPU = CPUS[1 % len(CPUS)]


def use_venv(module):
    """Go on in the virtual environment that setup.sh makes, if it has the module."""
    enter_environment()
    if not importlib.util.find_spec(module):
        absent(f"no {module}: bench/baselines/setup.sh")


def pin(cpu):
    os.sched_setaffinity(0, {cpu})


def timed(operate):
    """Repeat operate() for a round: what it measured, as the C programs name it. It returns bytes."""
    samples = []
    moved = 0
    begin = time.perf_counter()
    at = begin
    while at - begin < ROUND_S or len(samples) < 3:
        moved += operate()
        now = time.perf_counter()
        samples.append(now - at)
        at = now
    return figures(samples, moved, at - begin)


async def timed_async(operate):
    """The same of a coroutine function."""
    samples = []
    moved = 0
    begin = time.perf_counter()
    at = begin
    while at - begin < ROUND_S or len(samples) < 3:
        moved += await operate()
        now = time.perf_counter()
        samples.append(now - at)
        at = now
    return figures(samples, moved, at - begin)


def figures(samples, moved, seconds):
    samples.sort()
    n = len(samples)
    p50 = nearest_rank(samples, 50)
    result = {
        "ops": n,
        "p50_us": p50 * 1e6,
        "p99_us": nearest_rank(samples, 99) * 1e6,
        "avg_us": seconds / n * 1e6,
        "gb_s": moved / seconds / 1e9,
        "p50_gb_s": moved / n / p50 / 1e9,
    }
    return {name: round(value, 4) for name, value in result.items()}


def serve(measure_round):
    """Print what measure_round() returns, a dictionary, for each line until the end."""
    for _ in sys.stdin:
        print(json.dumps(measure_round()), flush=True)
