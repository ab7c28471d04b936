# SPDX-License-Identifier: Apache-2.0
"""A peer's echo calls by size, one in flight, for `slime-bench rpc --baseline`: CSV on standard output."""

import argparse
import os
import signal
import sys

NOT_INSTALLED = 77
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
PLACE = os.environ.get("SLIME_BASELINES") or os.path.join(SOURCE, "build", "baselines")


def absent(what):
    print(f"{os.path.basename(sys.argv[0])}: {what}", file=sys.stderr)
    sys.exit(NOT_INSTALLED)


def enter_environment():
    """Go on as a program of the virtual environment that setup.sh made."""
    if os.path.realpath(sys.prefix) == os.path.realpath(PLACE):
        return
    python = os.path.join(PLACE, "bin", "python")
    if not os.access(python, os.X_OK):
        absent(f"there is no {python}: bench/baselines/setup.sh")
    os.execv(python, [python, "-B", *sys.argv])


def end_in_order():
    """SIGTERM unwinds, so that what was started is stopped."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def size_and_calls(text):
    size, calls = (int(word) for word in text.split(":"))
    if size < 1 or calls < 1:
        raise ValueError
    return size, calls


def parse_arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--sweep",
        type=lambda text: [size_and_calls(part) for part in text.split(",")],
        default=[(1024, 500)],
        metavar="SIZE:CALLS,...",
        help="bytes each way, and how many calls of them are measured",
    )
    parser.add_argument("--warmup", type=int, default=20, help="calls of each size before that")
    return parser.parse_args()


def payload(size):
    return os.urandom(min(size, 4096)) * (size // 4096 + 1)


def nearest_rank(ordered, percent):
    """The least of them that this share is not above, as slime-bench counts."""
    return ordered[(len(ordered) * percent + 99) // 100 - 1]


def print_head(text):
    print(f"# {text}\nsize,avg_us,p50_us,p99_us,bw_gb_s", flush=True)


def print_row(size, times_ns):
    """Of as many calls as there are times."""
    times = sorted(times_ns)
    average = sum(times) / len(times)
    p50, p99 = (nearest_rank(times, percent) for percent in (50, 99))
    print(f"{size},{average / 1e3:.2f},{p50 / 1e3:.2f},{p99 / 1e3:.2f},{size / average:.4g}", flush=True)
