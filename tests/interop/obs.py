# SPDX-License-Identifier: Apache-2.0
"""What agents say of what they do, as both command lines show it: obs.py PYTHON THEIRS OURS URL REDIS_PORT PID... Two agents
of ours, these processes, are there and linked; two of DLSlime's come. All of them are stopped then, so that each look sees
the same."""
import json
import os
import signal
import subprocess
import sys
import types

from agents import LONG, Agent, wait_until
from store import Redis

SCOPE = "test"
TOTALS = ("assign_total batch_total submitted_bytes_total completed_bytes_total failed_bytes_total pending_ops "
          "error_total").split()
# Of a NIC, of which DLSlime's agents have none where there is no RDMA.
NIC = {name: 0 for name in TOTALS + "post_batch_total post_wr_total post_bytes_total post_failures_total cq_errors_total".split()}
NIC |= {"nic": "", "nic_bdf": "", "ewma_bandwidth_bps": 0.0}
LASTS_S = 180  # a snapshot
LATER_S = 30
UNKNOWN_OF_LINKS = 4  # the last columns of theirs, always

n_wrong = 0


def expect(condition, *what):
    global n_wrong
    if not condition:
        n_wrong += 1
        print("obs.py:", *what, file=sys.stderr)


def lacks(model, value, path=""):
    """What of the model is not there, or of another type; a number may have a fraction or not."""
    if isinstance(model, dict) and isinstance(value, dict):
        missing = [f"{path}.{name}" for name in model if name not in value]
        return sum((lacks(model[name], value[name], f"{path}.{name}") for name in model if name in value), missing)
    if isinstance(model, list) and isinstance(value, list):
        return lacks(model[0], value[0], f"{path}[0]") if model and value else []
    numbers = isinstance(model, (int, float)) and isinstance(value, (int, float))
    return [] if numbers or type(model) is type(value) else [f"{path} is {value!r}"]


def end_of(link):
    return tuple(link[name] for name in ("src_peer", "peer", "local_nic", "remote_nic", "state"))


class Tool:
    """A command line that looks at the Redis."""

    def __init__(self, program, redis_url):
        self.program, self.options = program, ["--redis-url", redis_url, "--scope", SCOPE]
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("NANOCTRL_", "DLSLIME_"))}

    def show(self, view, *options):
        return subprocess.run([self.program, "obs", view, *self.options, *options], env=self.environment, check=True,
                              stdout=subprocess.PIPE, text=True, timeout=60).stdout

    def rows(self, view):
        """Without their age: each tool asked at another time."""
        return [{k: v for k, v in row.items() if k != "age_ms"} for row in json.loads(self.show(view, "--json"))]

    def ends(self):
        return sorted(end_of(link) for link in self.rows("links"))

    def are_connected(self, names):
        connected = {end[0] for end in self.ends() if end[4] == "connected"}
        return connected == names == {row["peer_id"] for row in self.rows("peers")}


def cells(table):
    """Theirs draws lines between cells; ours has blanks there."""
    drawn = [line.replace("\u2506", "\u2502").strip("\u2502").split("\u2502") for line in table.splitlines() if "\u2502" in line]
    plain = [line.split() for line in table.splitlines() if not set(line) <= set(" -\u2500")]
    return [[cell.strip() for cell in row] for row in drawn] or plain


def expect_filled(tool, view, n_rows, n_unknown=0):
    """Every cell says something but for those of the last columns. The titles."""
    titles, *body = cells(tool.show(view))
    expect(len(body) == n_rows, tool.program, view, "has", len(body), "rows and not", n_rows)
    for row in body:
        known = row[:len(titles) - n_unknown]
        expect(len(row) == len(titles) and not {"", "-", "?"} & set(known), tool.program, view, "has empty cells:", titles, row)
    return titles


def check_snapshots(redis, theirs, ours):
    """Ours has all that theirs has, of the same types, and is kept as long."""
    for snapshot in ours:
        expect(not lacks(theirs[0], snapshot), "a snapshot of ours lacks", lacks(theirs[0], snapshot))
        expect(snapshot["nics"] and snapshot["connections"], "a snapshot of ours has no NIC or connection:", snapshot)
        for nic in snapshot["nics"]:
            expect(not lacks(NIC, nic), "a NIC of ours lacks", lacks(NIC, nic))
    for snapshot in theirs + ours:
        left = redis("PTTL", f"{SCOPE}:obs:peer:{snapshot['peer_id']}") / 1000
        expect(LASTS_S - LATER_S <= left <= LASTS_S, snapshot["peer_id"], "has a snapshot for", left, "s")


def main():
    python, their_program, our_program, url, port, *pids = sys.argv[1:]
    theirs, ours = (Tool(program, f"redis://127.0.0.1:{port}") for program in (their_program, our_program))
    server = types.SimpleNamespace(url=url)
    os.environ |= {"DLSLIME_OBS": "1", "DLSLIME_OBS_TIME_STEP_MS": "200"}
    c, d = (Agent(python, server, SCOPE, name) for name in ("node:c", "node:d"))
    expect(c("connect", "node:d") is True and c("read", "node:d") is True, "DLSlime's agents do not connect")

    names = {"node-a", "node-b", "node:c", "node:d"}
    for tool in theirs, ours:
        expect(wait_until(lambda: tool.are_connected(names), LONG), tool.program, "never shows all:", tool.ends())
    stopped = [int(pid) for pid in pids] + [agent.process.pid for agent in (c, d)]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)

    peers = theirs.rows("peers")
    expect(peers == ours.rows("peers"), "peers:", peers, ours.rows("peers"))
    expect(theirs.rows("nics") == ours.rows("nics"), "nics:", theirs.rows("nics"), ours.rows("nics"))
    model = next(link for link in theirs.rows("links") if ":" in link["src_peer"])
    for link in ours.rows("links"):
        expect(not lacks(model, link), "of a link ours does not say", lacks(model, link))
    expect(theirs.ends() == ours.ends() and len(ours.ends()) == 4, "links:", theirs.ends(), ours.ends())
    totals = [json.loads(tool.show("status", "--json")) for tool in (theirs, ours)]
    expect(totals[0] == totals[1] and totals[1]["alive"] == 4, "status:", totals)
    check_snapshots(Redis(int(port)), [p for p in peers if ":" in p["peer_id"]], [p for p in peers if "-" in p["peer_id"]])

    for view, n_rows in (("peers", 4), ("nics", len(ours.rows("nics")))):
        titles = [expect_filled(tool, view, n_rows) for tool in (theirs, ours)]
        expect(titles[0] == titles[1], view, "has other columns:", titles)
    expect_filled(theirs, "links", 4, UNKNOWN_OF_LINKS)
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    for agent in c, d:
        agent.end()
    print(f"{len(peers)} agents, {len(ours.rows('nics'))} NICs, {len(ours.ends())} ends of links, {n_wrong} differences")
    return n_wrong != 0


sys.exit(main())
