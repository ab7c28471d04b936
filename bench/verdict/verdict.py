# SPDX-License-Identifier: Apache-2.0
"""Rounds of two sides that take turns, until their ratio is known to be on one side of its target."""

import statistics
from typing import NamedTuple, Optional

from verdict.side import Absent, Crowd, Failed, Side

ROUNDS_MIN = 5
ROUNDS_MAX = 15

MET = "ok"
MISSED = "MISS"
UNSETTLED = "unsettled"
FAILED = "FAILED"
NOT_INSTALLED = "not installed"
NO_DEVICE = "no rdma device"
EMULATED = "emulated"


class Outcome(NamedTuple):
    row: tuple
    verdict: str
    reference: Optional[float] = None  # medians
    ours: Optional[float] = None
    ratio: Optional[float] = None
    quartiles: Optional[tuple] = None
    rounds: int = 0
    why: str = ""

    def is_good(self):
        return self.verdict in (MET, NOT_INSTALLED, NO_DEVICE, EMULATED)


def quartiles(values):
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def decide(target, ratios, least=ROUNDS_MIN):
    """The verdict that these ratios allow; None when it takes more of them."""
    if len(ratios) < least:
        return None
    low, high = quartiles(ratios)
    if target.met(low) == target.met(high):
        return MET if target.met(low) else MISSED
    return UNSETTLED if len(ratios) >= ROUNDS_MAX else None


def take_turns(row, reference, ours):
    theirs, own, ratios = [], [], []
    verdict = None
    while verdict is None:
        if reference:
            theirs.append(reference.round()[row.figure.field])
        own.append(ours.round()[row.figure.field])
        ratios.append(row.target.ratio(theirs[-1] if reference else None, own[-1]))
        verdict = decide(row.target, ratios, row.least)
    return Outcome(
        row,
        verdict,
        statistics.median(theirs) if reference else None,
        statistics.median(own),
        statistics.median(ratios),
        quartiles(ratios),
        len(ratios),
    )


def on_devices(command, pairs):
    """The command, with all of these pairs of RDMA devices for one link."""
    clients, servers = zip(*pairs)
    return f"{command} --device {','.join(clients)} --server-device {','.join(servers)}"


def commands_of(row, pairs):
    """What the reference runs at the same time, and what we do. Of rails the reference is a link on each. Without enough
    devices these are the commands without any."""
    if not row.rdma or len(pairs) < row.rails:
        return [row.reference] if row.reference else [], [row.ours] * row.at_once
    pairs = pairs[: row.rails]
    return [on_devices(row.reference, [pair]) for pair in pairs], [on_devices(row.ours, pairs)]


def side_of(commands, folders):
    if not commands:
        return None
    return Side(commands[0], folders) if len(commands) == 1 else Crowd(commands, folders)


def judge(row, folders, devices=(), emulated=False):
    """devices are pairs of a client's and a server's, of which a row of RDMA takes as many as it has rails. On emulated
    processors the ratio says nothing about the target: the verdict is that word."""
    if row.rdma and len(devices) < row.rails:
        return Outcome(row, NO_DEVICE)
    reference, ours = (side_of(commands, folders) for commands in commands_of(row, devices))
    try:
        outcome = take_turns(row, reference, ours)
        return outcome._replace(verdict=EMULATED) if emulated else outcome
    except Absent as e:
        return Outcome(row, NOT_INSTALLED, why=str(e))
    except (Failed, OSError, KeyError, ZeroDivisionError) as e:
        return Outcome(row, FAILED, why=str(e))
    finally:
        for side in (reference, ours):
            if side:
                side.close()
