#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coverage.py TREE: which share of our lines the programs of a build tree have executed, by part and for the files with
the most lines that nobody executed. A line counts once, whatever number of programs it is in."""

import json
import os
import subprocess
import sys

PARTS = ("libslime/base", "libslime/src", "nanoctrl/src", "nanoctrl/client", "peeragent/lib", "peeragent/src", "bench", "cli")
SHOWN = 15


def counters(tree):
    return [os.path.join(folder, name) for folder, _, names in os.walk(tree) for name in names if name.endswith(".gcda")]


def reports(tree):
    """What gcov says of each object, as it compiled."""
    files = counters(tree)
    for i in range(0, len(files), 50):
        said = subprocess.run(["gcov", "--json-format", "--stdout", *files[i:i + 50]], cwd=tree, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        yield from (json.loads(line) for line in said.splitlines() if line.startswith("{"))


def executed_lines(tree, source):
    """{file: {line: whether it was executed}}"""
    lines = {}
    for report in reports(tree):
        for of in report["files"]:
            path = os.path.normpath(os.path.join(report["current_working_directory"], of["file"]))
            name = os.path.relpath(path, source)
            if not name.startswith(PARTS):
                continue
            seen = lines.setdefault(name, {})
            for line in of["lines"]:
                number = line["line_number"]
                seen[number] = seen.get(number, False) or line["count"] > 0
    return lines


def row(name, lines):
    n = len(lines)
    hit = sum(lines)
    print(f"{name:40} {hit:7} of {n:7} lines {100 * hit / n:6.1f} %")


def main():
    tree = os.path.abspath(sys.argv[1])
    lines = executed_lines(tree, os.getcwd())
    if not lines:
        sys.exit(f"coverage.py: nothing was executed in {tree}")
    missed = sorted(lines, key=lambda name: sum(not hit for hit in lines[name].values()), reverse=True)
    for name in missed[:SHOWN]:
        row(name, list(lines[name].values()))
    print()
    for part in PARTS:
        of_part = [hit for name in lines if name.startswith(part + "/") for hit in lines[name].values()]
        if of_part:
            row(part, of_part)
    row("all", [hit for seen in lines.values() for hit in seen.values()])


if len(sys.argv) != 2:
    sys.exit(__doc__)
main()
