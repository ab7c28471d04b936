# SPDX-License-Identifier: Apache-2.0
"""One side of a comparison: a program that measures a round when it is asked to."""

import json
import os
import select
import signal
import subprocess
import tempfile
import time

NOT_INSTALLED = 77  # a side's status when what it measures is not there

SETUP_S = 120  # until the first round is over
ROUND_S = 60
END_S = 10
SAID_MAX = 2000  # of its standard error, in a message


class Absent(Exception):
    """What the side measures is not installed."""


class Failed(Exception):
    """The side ended, hung, or printed something else than a round."""


class Side:
    """Starts with its first round. While it does not measure, all of its processes stand still."""

    def __init__(self, command, folders):
        self.command = command
        self.folders = folders
        self.process = None
        self.patience_s = SETUP_S
        self.rest = b""

    def start(self):
        name, *options = self.command.split()
        program = find_program(name, self.folders)
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [program, *options, "--step"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            bufsize=0,
            preexec_fn=os.setpgrp,
        )

    def round(self):
        """Ask for a round: what it measured, a dictionary."""
        self.begin()
        return self.end()

    def begin(self):
        if self.process:
            os.killpg(self.process.pid, signal.SIGCONT)
        else:
            self.start()
        try:
            self.process.stdin.write(b"\n")
        except BrokenPipeError:
            pass  # it has ended, and says why in end()

    def end(self):
        line = self.read_line()
        os.killpg(self.process.pid, signal.SIGSTOP)
        self.patience_s = ROUND_S
        try:
            measured = json.loads(line)
        except ValueError as e:
            raise Failed(f"{self.command}: it printed {line!r}") from e
        if not isinstance(measured, dict):
            raise Failed(f"{self.command}: it printed {line!r}")
        return measured

    def read_line(self):
        until = time.monotonic() + self.patience_s
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, until - time.monotonic()))
            if not ready:
                raise Failed(f"{self.command}: no round within {self.patience_s} s")
            some = os.read(self.process.stdout.fileno(), 65536)
            if not some:
                self.explain_end()
            self.rest += some
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def explain_end(self):
        try:
            status = self.process.wait(END_S)
        except subprocess.TimeoutExpired as e:
            raise Failed(f"{self.command}: it closed its output and did not end") from e
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace").strip()
        if status == NOT_INSTALLED:
            raise Absent(said)
        raise Failed(f"{self.command}: it ended with status {status}: {said[-SAID_MAX:]}")

    def close(self):
        if not self.process:
            return
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGCONT)
        self.process.stdin.close()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()


class Crowd:
    """Several at once; their figures are summed."""

    def __init__(self, commands, folders):
        self.sides = [Side(command, folders) for command in commands]
        self.warm = False

    def round(self):
        if not self.warm:
            for side in self.sides:
                side.round()  # a first round has the start in it: they would not be at work together
            self.warm = True
        for side in self.sides:
            side.begin()
        rounds = [side.end() for side in self.sides]
        return {field: sum(r[field] for r in rounds) for field, of in rounds[0].items() if not isinstance(of, str)}

    def close(self):
        for side in self.sides:
            side.close()


def find_program(name, folders):
    for folder in folders:
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    if name.startswith("baseline-"):
        raise Absent(f"{name} was not built: deploy/packages.sh bench, and configure again")
    raise Failed(f"{name} is not in {' or '.join(folders)}: build the release preset")
