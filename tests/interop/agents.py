# SPDX-License-Identifier: Apache-2.0
"""What DLSlime's unmodified agents live through with a control plane: agents.py PYTHON REDIS_PORT OUT SERVER [-- SERVER].
SERVER is a word, "ours" or "theirs", a port, and a command that runs the server there; two of them share the Redis, and
agents go to one and the other in turn. REDIS_PORT may be PORT:FILE (store.py). It happens in a scope and without one at the same time. Writes what was seen, a line
of JSON for each step: [step, what]."""
import json
import os
import subprocess
import sys
import threading
import time

from nanoctrl import NanoCtrlClient

from store import Redis

LONG = 60  # for what has to happen
SHORT = 3  # for what the original never does
KINDS = "agent", "mr", "spec", "stream", "inbox", "exchange", "obs"  # of keys
BEGAN = time.monotonic()
HERE = os.path.dirname(os.path.abspath(__file__))


def spawn(*command, **how):
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *command], **how)


class Server:
    def __init__(self, whose, port, command):
        self.ours = whose == "ours"
        self.url = f"http://127.0.0.1:{port}"
        self.command = command
        self.process = None

    def start(self):
        self.process = spawn(*self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait_until(self.answers, LONG)

    def answers(self):
        try:
            NanoCtrlClient(self.url).check_connection()
            NanoCtrlClient(self.url).query_peers()
            return True
        except Exception:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()


class Agent:
    """Another process: it can be killed."""

    def __init__(self, python, server, scope, alias):
        self.process = spawn(python, os.path.join(HERE, "agent.py"), server.url, scope, alias, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
        self.name = self.answer()

    def answer(self):
        for line in self.process.stdout:
            if line.startswith("= "):
                return json.loads(line[2:])
        return "died"

    def __call__(self, *call):
        self.process.stdin.write(json.dumps(call) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def leave(self):
        self("leave")
        self.end()

    def end(self):
        self.process.kill()
        self.process.wait()


def wait_until(what, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.05)
    return False


class Scenario(threading.Thread):
    def __init__(self, python, redis_port, servers, scope, meet):
        super().__init__(daemon=True)
        self.python, self.servers, self.scope, self.meet = python, servers, scope, meet
        self.redis = Redis(redis_port)
        self.n_started = 0
        self.prefix = f"{scope}:" if scope else ""
        self.seen = []
        self.ended = False

    def see(self, step, what):
        self.seen.append([f"{self.scope or 'no scope'}: {step}", what])
        print(f"{time.monotonic() - BEGAN:6.1f} s  {self.seen[-1][0]}: {what}", flush=True)

    def start_agent(self, alias):
        """At each server in turn."""
        server = self.servers[self.n_started % len(self.servers)]
        self.n_started += 1
        return Agent(self.python, server, self.scope, alias)

    def client(self, i=0):
        return NanoCtrlClient(self.servers[i % len(self.servers)].url, scope=self.scope or None)

    def happens(self, what, whose=all):
        """What the original may never do: ours does it for agents of its own, or (any) for those of both."""
        return wait_until(what, LONG if whose(s.ours for s in self.servers) else SHORT)

    def run_out(self, name):
        """As after 60 seconds without a heartbeat."""
        self.redis("PEXPIRE", f"{self.prefix}agent:{name}", 1)
        self.redis("ZADD", f"nanoctrl:peers:{self.scope}", "XX", 1, name)

    def restart_control_plane(self, meanwhile):
        if self.meet.wait() == 0:
            for server in self.servers:
                server.kill()
        self.meet.wait()
        meanwhile()
        if self.meet.wait() == 0:
            for server in self.servers:
                server.start()
        self.meet.wait()

    def left(self, *names):
        """Kinds of keys of these agents that would stay for ever."""
        kinds = set()
        for key in self.redis("KEYS", f"{self.prefix}*"):
            kind, _, rest = key.decode().removeprefix(self.prefix).removeprefix(":").partition(":")
            if kind in KINDS and any(name in rest for name in names) and self.redis("TTL", key) == -1:
                kinds.add(kind)
        return sorted(kinds)

    def run(self):
        try:
            self.live()
            self.ended = True
            self.meet.wait()  # what a thread has started dies with it
        except Exception:
            self.meet.abort()
            raise

    def live(self):
        a, b = self.start_agent("node:a"), self.start_agent("node:b")
        self.see("two agents register", [a.name, b.name])
        self.see("an alias that is taken", self.start_agent("node:a").name)
        self.see("agents find each other", a("agents"))
        self.see("they are listed", sorted(p["name"] for p in self.client(1).query_peers()))
        self.see("they connect", a("connect", "node:b"))
        self.see("the other side is connected", wait_until(lambda: b("connected", "node:a"), LONG))
        self.see("they read each other", [a("read", "node:b"), b("read", "node:a")])
        self.restart_control_plane(lambda: self.see("they read without a control plane",
                                                    [a("read", "node:b"), b("read", "node:a")]))
        self.see("they beat after its restart", [self.client(i).heartbeat_peer(n)["status"]
                                                 for i, n in enumerate(("node:a", "node:b"))])
        self.restart_control_plane(lambda: (self.run_out("node:a"), self.run_out("node:b")))
        there = [f"{self.prefix}agent:node:{n}" for n in "ab"]
        self.see("their time ran out during an outage", wait_until(lambda: self.redis("EXISTS", *there) == 2, LONG))
        self.see("they are still connected", [a("connected", "node:b"), b("connected", "node:a")])
        self.see("they still read each other", [a("read", "node:b"), b("read", "node:a")])
        c = self.start_agent("")
        self.see("one with a name that is made up", [c.name, c("connect", "node:a"), c("read", "node:a")])
        c.leave()
        self.see("whom it named sees it leave", self.happens(lambda: not a("connected", c.name)))
        b.end()
        self.run_out("node:b")
        self.see("who named it sees it die", self.happens(lambda: not a("connected", "node:b"), any))
        b = self.start_agent("node:b")
        self.see("it comes back", b.name)
        self.see("they are connected again", self.happens(
            lambda: a("connected", "node:b") is True and b("connected", "node:a") is True, any))
        self.see("it reads who named it", b("read", "node:a"))
        b.end()
        self.redis("PEXPIRE", f"{self.prefix}agent:node:b", 1)
        self.happens(lambda: not self.redis("EXISTS", f"{self.prefix}agent:node:b"), any)
        b = self.start_agent("node:b")
        self.see("it comes back unnoticed", self.happens(
            lambda: a("connected", "node:b") is True and b("connected", "node:a") is True, any) and b("read", "node:a"))
        b.leave()
        self.see("who named it sees it leave", self.happens(lambda: not a("connected", "node:b")))
        a.end()
        self.run_out("node:a")
        mine = "node:a", "node:b", c.name
        self.happens(lambda: not self.left(*mine))
        self.see("left for ever", self.left(*mine))


def main():
    python, redis_port, out, *words = sys.argv[1:]
    servers = []
    while words:
        end = words.index("--") if "--" in words else len(words)
        servers.append(Server(words[0], words[1], words[2:end]))
        words = words[end + 1:]
    for server in servers:
        server.start()
    meet = threading.Barrier(2)
    both = [Scenario(python, redis_port, servers, scope, meet) for scope in ("team", "")]
    for scenario in both:
        scenario.start()
    for scenario in both:
        scenario.join()
    with open(out, "w", encoding="utf-8") as lines:
        for scenario in both:
            for line in scenario.seen:
                print(json.dumps(line), file=lines)
    return not all(scenario.ended for scenario in both)


if __name__ == "__main__":
    sys.exit(main())
