# SPDX-License-Identifier: Apache-2.0
"""Random histories of leases, regions, offers and events under faults, and a checker: history.py [--seconds N] [--seed N].

Clients use several nanoctrl on one Redis, while these are stopped, killed and started again. Each attempt of a request is
recorded with when it began, when its answer was there, and what that said. When all is over, the record is compared with
what docs/http-api.md promises:
  - a write that was acknowledged is not undone by an older one,
  - no two leases of a name live at one time, and a lease is not ended by an older registration,
  - events come once, those of an object are in the order of their revisions, and each region that was published has one,
  - nothing of an agent is visible after the end of its lease.
The order in which threads run is not in the seed: the same seed asks for the same things, at other moments."""
import argparse
import collections
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

TTL = 4.0  # seconds of a lease; a replica stands still for less
STOP_MAX = 1.5
PATIENCE = 0.3  # of a client with one replica
SLACK = 0.3  # a clock of milliseconds, and one of another process
N_REPLICAS = 3
NAMES = ("a", "b", "c")
CLIENTS_PER_NAME = 2  # of one owner, and one of another owner besides
REGIONS = ("r0", "r1")
# Each of these was acknowledged before a history ends.
KINDS = ("register", "put", "delete", "offer", "take back", "beat", "regions", "inbox", "poll")


class Attempt:
    """One request, as it was sent once. t1 is infinite where there was no answer."""

    def __init__(self, **facts):
        self.t1, self.status, self.answer = float("inf"), 0, {}
        self.__dict__.update(facts)

    def ok(self):
        return 200 <= self.status < 300

    def __str__(self):
        return " ".join(f"{k}={v}" for k, v in self.__dict__.items() if k not in ("answer", "lease_text"))


class Cluster:
    def __init__(self, program, work):
        self.program, self.work = program, work
        self.processes, self.ports, self.holders = {}, {}, []
        self.start_redis()
        for i in range(N_REPLICAS):
            # Bound and not listening: nobody else gets the port while the replica is dead.
            holder = socket.socket()
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(("127.0.0.1", 0))
            self.holders.append(holder)
            self.ports[i] = holder.getsockname()[1]
            self.start_replica(i)
        for i in range(N_REPLICAS):
            self.wait_until_ready(i)

    def spawn(self, name, *command):
        with open(f"{self.work}/{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *command], stdout=log, stderr=log)

    def start_redis(self):
        self.spawn("redis", "redis-server", "--port", "0", "--unixsocket", f"{self.work}/redis.sock", "--dir", self.work,
                   "--save", "", "--appendonly", "yes", "--appendfsync", "always")

    def start_replica(self, i):
        self.spawn(i, self.program, "server", "--port", str(self.ports[i]), "--runtime-dir", f"{self.work}/run{i}",
                   "--redis-url", f"unix://{self.work}/redis.sock", "--set", f"lease.ttl={TTL:.0f}s", "--set", "lease.beat=1s",
                   "--set", "lease.grace=1s", "--set", "server.drain_accept=0s")

    def wait_until_ready(self, i):
        until = time.monotonic() + 60
        while self.call(i, "GET", "/readyz", timeout=5)[0] != 200:
            if time.monotonic() > until:
                sys.exit(f"nanoctrl {i} does not serve: {open(f'{self.work}/{i}.log').read()[-2000:]}")
            time.sleep(0.05)

    def call(self, i, method, target, body=None, lease=None, timeout=PATIENCE):
        """Status and answer; 0 without one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[i], timeout=timeout)
        fields = {"Content-Type": "application/json"}
        if lease:
            fields["Slime-Lease"] = lease
        try:
            connection.request(method, target, json.dumps(body) if body is not None else None, fields)
            response = connection.getresponse()
            text = response.read()
            return response.status, json.loads(text) if text[:1] == b"{" else {}
        except (OSError, http.client.HTTPException):
            return 0, {}
        finally:
            connection.close()

    def kill(self, name, how=signal.SIGKILL):
        self.processes[name].send_signal(how)
        if how == signal.SIGKILL:
            self.processes[name].wait()

    def end(self):
        for process in self.processes.values():
            process.kill()
            process.wait()


class Run:
    def __init__(self, cluster, seed, seconds):
        self.cluster, self.seed = cluster, seed
        self.until = time.monotonic() + seconds
        self.done = set()  # kinds
        self.record = []  # list.append() is atomic
        self.polls = collections.defaultdict(list)  # of each follower: (when, events, reset)
        self.faults = collections.Counter()
        self.failed = []

    def is_over(self):
        late = time.monotonic() - self.until
        return late > 0 and self.done.issuperset(KINDS) or late > 60  # the machine may be busy

    def ask(self, random_, kind, method, path, body=None, proof=None, query="", timeout=PATIENCE, **facts):
        replica = random_.randrange(N_REPLICAS)
        a = Attempt(kind=kind, replica=replica, t0=time.monotonic(), **facts)
        self.record.append(a)
        a.status, a.answer = self.cluster.call(replica, method, f"/v1{path}?scope=s{query}", body, proof, timeout)
        if a.status and a.answer.get("outcome") != "unknown":
            a.t1 = time.monotonic()
        if a.ok():
            self.done.add(kind)
        return a

    def make_faults(self):
        random_ = random.Random(f"{self.seed} faults")
        while not self.is_over():
            time.sleep(random_.uniform(0.05, 0.4))
            what = random_.choices(("stop", "kill", "redis stands still", "redis is killed"), (12, 3, 2, 1))[0]
            self.faults[what] += 1
            if what == "stop":
                those = random_.sample(range(N_REPLICAS), random_.choice((1, 1, 2)))
                for i in those:
                    self.cluster.kill(i, signal.SIGSTOP)
                time.sleep(random_.uniform(0.1, STOP_MAX))
                for i in those:
                    self.cluster.kill(i, signal.SIGCONT)
            elif what == "kill":
                i = random_.randrange(N_REPLICAS)
                self.cluster.kill(i)
                self.cluster.start_replica(i)
            elif what == "redis stands still":
                self.cluster.kill("redis", signal.SIGSTOP)
                time.sleep(random_.uniform(0.1, 0.5))
                self.cluster.kill("redis", signal.SIGCONT)
            else:
                self.cluster.kill("redis")
                self.cluster.start_redis()

    def read(self, number):
        random_ = random.Random(f"{self.seed} reader {number}")
        while not self.is_over():
            name = random_.choice(NAMES)
            self.ask(random_, "agent", "GET", f"/agents/{name}", name=name)
            self.ask(random_, "regions", "GET", f"/agents/{name}/regions", name=name)
            time.sleep(0.01)

    def follow(self, number):
        random_ = random.Random(f"{self.seed} follower {number}")
        cursor = ""
        while not self.is_over():
            a = self.ask(random_, "poll", "GET", "/events", query=f"&wait_ms=200{cursor}", timeout=1)
            if a.ok():
                self.polls[number].append((a.t1, a.answer["events"], a.answer["reset"]))
                cursor = "&cursor=" + a.answer["cursor"]

    def start(self):
        jobs = [(self.read, (i,)) for i in range(2)] + [(self.follow, (i,)) for i in range(2)]
        for name in NAMES:
            jobs += [(Client(self, name, f"{i}{name}", "0" if i < CLIENTS_PER_NAME else "1").run, ())
                     for i in range(CLIENTS_PER_NAME + 1)]
        threading.excepthook = lambda e: self.failed.append(repr(e.exc_value))
        threads = [threading.Thread(target=job, args=args) for job, args in jobs]
        for thread in threads:
            thread.start()
        self.make_faults()  # here: what is started is killed when the thread ends that did it
        for thread in threads:
            thread.join()
        # What is on its way comes to its end, and the last events are read.
        for i in range(N_REPLICAS):
            self.cluster.wait_until_ready(i)
        time.sleep(STOP_MAX)
        followers = [threading.Thread(target=self.follow_to_the_end, args=(i,)) for i in list(self.polls)]
        for thread in followers:
            thread.start()
            thread.join()

    def follow_to_the_end(self, number):
        events = [e for _, batch, _ in self.polls[number] for e in batch]
        cursor = f"&cursor={events[-1]['cursor']}" if events else ""
        while cursor:
            status, answer = self.cluster.call(0, "GET", f"/v1/events?scope=s&wait_ms=0{cursor}", timeout=10)
            if status == 200:
                self.polls[number].append((time.monotonic(), answer["events"], answer["reset"]))
                cursor = f"&cursor={answer['cursor']}" if answer["events"] else ""


class Client:
    """One process after the other of an agent. What gets no answer is repeated elsewhere, or given up."""

    def __init__(self, run, name, who, owner):
        self.run_, self.name, self.who = run, name, who
        self.owner = owner * 63 + "a"
        self.random = random.Random(f"{run.seed} client {who}")
        self.last_order = 0
        self.lease = None

    def order(self):
        self.last_order = max(self.last_order + 1, time.time_ns() // 1000)
        return self.last_order

    def ask(self, kind, method, path, body=None, query="", **facts):
        """As often as it needs, or until it is given up."""
        for _ in range(4):
            a = self.run_.ask(self.random, kind, method, f"/agents/{self.name}{path}", body, self.lease, query, name=self.name,
                              lease=self.lease_id, generation=self.generation, **facts)
            if a.t1 < float("inf") and a.status not in (408, 503) or self.random.random() < 0.2 or self.run_.is_over():
                return a
        return a

    def register(self, incarnation):
        self.lease, self.lease_id, self.generation = None, None, None
        while not self.run_.is_over():
            order = self.order()
            a = self.run_.ask(self.random, "register", "PUT", f"/agents/{self.name}", {
                "incarnation": incarnation, "owner_key": self.owner}, None, f"&order={order}", name=self.name, owner=self.owner,
                incarnation=incarnation, order=order)
            if a.ok():
                self.lease, self.generation = a.answer["lease"], a.answer["generation"]
                self.lease_id = int(self.lease.split("/")[1])
                return True
            if a.status == 409 and a.answer["code"] == "superseded":
                return False
            if a.status == 409 and a.answer.get("order"):
                self.last_order = max(self.last_order, a.answer["order"])
            if self.random.random() < 0.05:
                return False  # it dies, and never hears an answer
            time.sleep(self.random.uniform(0, 0.1))
        return False

    def act(self, revision):
        what = self.random.choices(("put", "delete", "offer", "take back", "inbox", "beat", "patch", "leave", "die"),
                                   (20, 10, 12, 6, 12, 20, 4, 1.5, 0.5))[0]
        region, peer = self.random.choice(REGIONS), self.random.choice([n for n in NAMES if n != self.name])
        if what == "put":
            return self.ask("put", "PUT", f"/regions/{region}", {"revision": revision, "size": 1, "access": ["read"],
                            "descriptor": "QUJD"}, object=region, revision=revision)
        if what == "delete":
            return self.ask("delete", "DELETE", f"/regions/{region}", None, f"&revision={revision}", object=region,
                            revision=revision)
        if what == "offer":
            return self.ask("offer", "PUT", f"/exchange/{peer}/default", {"connection_epoch": revision, "descriptor": "QUJD"},
                            object=peer, revision=revision)
        if what == "take back":
            return self.ask("take back", "DELETE", f"/exchange/{peer}/default", None, f"&connection_epoch={revision}",
                            object=peer, revision=revision)
        if what == "inbox":
            return self.ask("inbox", "GET", "/exchange")
        if what == "beat":
            return self.ask("beat", "POST", "/heartbeat")
        if what == "patch":
            return self.ask("patch", "PATCH", "", {"revision": revision, "address": str(revision)}, revision=revision)
        if what == "leave":
            return self.ask("leave", "DELETE", "")
        return None

    def run(self):
        life = 0
        while not self.run_.is_over():
            life += 1
            revision = 0
            if not self.register(f"{self.who}-{life}"):
                time.sleep(self.random.uniform(0, 0.3))
                continue
            while not self.run_.is_over():
                revision += 1
                a = self.act(revision)
                if a is None or a.kind == "leave" or a.status == 409 and a.answer.get("code") == "superseded":
                    break
                if a.status == 410 and not self.register(f"{self.who}-{life}"):
                    break
                time.sleep(self.random.uniform(0, 0.01))
            time.sleep(self.random.uniform(0, 0.5))


class Checker:
    def __init__(self, run):
        self.run_ = run
        self.record = run.record
        self.wrong = []
        by_kind = collections.defaultdict(list)
        for a in self.record:
            by_kind[a.kind].append(a)
        self.by_kind = by_kind
        self.grants = collections.defaultdict(list)  # of each name, acknowledged
        for a in by_kind["register"]:
            if a.ok():
                a.lease, a.generation = int(a.answer["lease"].split("/")[1]), a.answer["generation"]
                self.grants[a.name].append(a)
        # Each lease is renewed by its grant and by beats.
        self.renewals = collections.defaultdict(list)
        for a in by_kind["register"] + by_kind["beat"]:
            if a.ok():
                self.renewals[a.name, a.lease].append(a.t0)
        self.leases_of = collections.defaultdict(set)
        for grants in self.grants.values():
            for a in grants:
                self.leases_of[a.name, a.generation].add(a.lease)
        self.grant_of = {(a.name, a.lease): a for grants in self.grants.values() for a in grants}
        self.writes = collections.defaultdict(list)  # of each object of a generation
        for kind in ("put", "delete", "offer", "take back"):
            for a in by_kind[kind]:
                scope = "region" if kind in ("put", "delete") else "offer"
                self.writes[scope, a.name, a.generation, a.object].append(a)
        self.keys = collections.defaultdict(list)  # of these, by kind and agent
        for key in self.writes:
            self.keys[key[:2]].append(key)

    def note(self, what, *attempts):
        self.wrong.append(what + "".join(f"\n    {a}" for a in attempts))

    def lives_until(self, name, leases, before):
        """A moment until which one of these leases, renewed before that moment, cannot have ended by itself."""
        renewed = [t for lease in leases for t in self.renewals[name, lease] if t <= before]
        return max(renewed, default=float("-inf")) + TTL - SLACK

    def may_have_ended(self, name, generation, at, since):
        """Whether a generation may be over at this moment: it left, another one took over, or nobody renewed it."""
        if any(a.t0 < at for a in self.by_kind["leave"] if (a.name, a.generation) == (name, generation)):
            return True
        grant = min((a for a in self.grants[name] if a.generation == generation), key=lambda a: a.t0)
        if any(a.t0 < at and a.owner == grant.owner and a.incarnation != grant.incarnation and a.order > grant.order
               for a in self.by_kind["register"] if a.name == name):
            return True
        return at >= self.lives_until(name, self.leases_of[name, generation], since)

    def newest(self, name, before):
        """The greatest generation that was granted by then: those before it are over."""
        return max((a.generation for a in self.grants[name] if a.t1 < before), default=0)

    @staticmethod
    def rank(a):
        return a.revision, a.kind in ("delete", "take back")

    def last_acknowledged(self, key, before):
        return max((a for a in self.writes.get(key, ()) if a.ok() and a.t1 < before), key=self.rank, default=None)

    def check_shown(self, key, revision, read):
        last = self.last_acknowledged(key, read.t0)
        if last and (last.revision > revision or last.kind in ("delete", "take back") and last.revision >= revision):
            self.note(f"{key} is there with {revision}, and a later write was acknowledged", last, read)

    def check_missing(self, key, read):
        last = self.last_acknowledged(key, read.t0)
        if not last or last.kind in ("delete", "take back"):
            return
        if any(self.rank(a) > self.rank(last) and a.kind != last.kind and a.t0 < read.t1 for a in self.writes[key]):
            return
        if not self.may_have_ended(key[1], key[2], read.t1, read.t0):
            self.note(f"{key} is not there, and was acknowledged", last, read)

    def check_regions(self):
        for read in self.by_kind["regions"]:
            if not read.ok() and read.status != 404:
                continue
            shown = {(r["generation"], r["name"]): r["revision"] for r in read.answer.get("regions", ())}
            for (generation, region), revision in shown.items():
                self.check_shown(("region", read.name, generation, region), revision, read)
            newest = self.newest(read.name, read.t0)
            for key in self.keys["region", read.name]:
                if key[2] >= newest and key[2:] not in shown:
                    self.check_missing(key, read)

    def check_offers(self):
        for read in self.by_kind["inbox"]:
            if not read.ok():
                continue
            shown = {(o["from"], o["generation"]): o["connection_epoch"] for o in read.answer["offers"]}
            for (name, generation), epoch in shown.items():
                self.check_shown(("offer", name, generation, read.name), epoch, read)
            for name in NAMES:
                newest = self.newest(name, read.t0)
                for key in self.keys["offer", name]:
                    if key[2] < newest or key[3] != read.name or key[1:3] in shown:
                        continue
                    last = self.last_acknowledged(key, read.t0)
                    if last and last.answer.get("peer_generation") == read.generation:
                        self.check_missing(key, read)

    def check_leases(self):
        for name, grants in self.grants.items():
            uses = [a for a in self.record if getattr(a, "name", "") == name and getattr(a, "lease", None)
                    and a.kind not in ("register", "agent", "regions")]
            for use in uses:
                grant = self.grant_of[name, use.lease]
                for newer in grants:
                    if use.ok() and newer.lease > use.lease and newer.t1 < use.t0 and use.kind != "leave":
                        self.note("a lease is used after the next one was given", newer, use)
                        break
                if use.status == 410 or use.status == 409 and use.answer.get("code") == "superseded":
                    if use.t1 < self.lives_until(name, {use.lease}, use.t0) and not any(
                            a.t0 < use.t1 and (a.kind == "leave" and a.lease == use.lease or a.kind == "register"
                                               and a.owner == grant.owner and a.order > grant.order)
                            for a in self.by_kind["leave"] + self.by_kind["register"] if a.name == name):
                        self.note("a lease ended before its time", grant, use)
            for a in grants:
                for b in grants:
                    if a.owner != b.owner and a.lease < b.lease and b.t1 < self.lives_until(name, {a.lease}, b.t0) and not any(
                            c.t0 < b.t1 for c in self.by_kind["leave"] if c.name == name and c.lease == a.lease) and not any(
                            c.owner == a.owner and c.order > a.order and c.t0 < b.t1
                            for c in self.by_kind["register"] if c.name == name):
                        self.note("a name was given away while its lease lived", a, b)

    def check_ends(self):
        for read in self.by_kind["agent"]:
            if not read.ok():
                continue
            there = read.answer["agent"]
            for grant in self.grants[read.name]:
                if grant.t1 < read.t0 and there["generation"] < grant.generation:
                    self.note("a generation is there after a later one was granted", grant, read)
            for leave in self.by_kind["leave"]:
                if leave.name != read.name or not leave.ok() or leave.t1 >= read.t0:
                    continue
                left = self.grant_of[read.name, leave.lease]
                if there["generation"] <= leave.generation:
                    self.note("an agent is there that has left", leave, read)
                elif not any(a.incarnation == there["incarnation"] and (a.owner != left.owner or a.order > left.order)
                             for a in self.by_kind["register"] if a.name == read.name and a.t0 < read.t1):
                    self.note("an agent is there again by a registration older than the one that left", left, leave, read)

    def check_events(self):
        for polls in self.run_.polls.values():
            last_id, ended, last = None, set(), {}
            seen, was_reset = set(), False
            for _, events, reset in polls:
                was_reset |= reset
                if reset:
                    last_id = None
                for e in events:
                    epoch, number = e["cursor"].split(":")
                    if last_id and (last_id[0] != epoch or last_id[1] >= int(number)):
                        self.note(f"an event comes twice, or in another epoch: {last_id} and then {e}")
                    last_id = epoch, int(number)
                    self.check_event(e, ended, last)
                    seen.add((e["agent"] if "agent" in e else "", e["generation"], e.get("region"), e.get("revision")))
            for a in self.by_kind["put"]:
                if a.ok() and not was_reset and a.t0 > polls[0][0] and (
                        a.name, a.generation, a.object, a.revision) not in seen:
                    self.note("a region was published without an event", a)

    def check_event(self, e, ended, last):
        who = e.get("agent"), e["generation"]
        if e["type"] in ("left", "expired"):
            ended.add(who)
        elif e["type"] == "registered":
            ended.update(w for w in list(last) if w[0] == who[0] and w[1] < who[1])
        elif who in ended:
            self.note(f"an event after the end of its generation: {e}")
        if e["type"] in ("region", "region_gone"):
            revisions = last.setdefault(who, {})
            rank = e["revision"], e["type"] == "region_gone"
            if rank <= revisions.get(e["region"], (0, False)):
                self.note(f"an event that is older than the one before, {revisions[e['region']]}: {e}")
            revisions[e["region"]] = rank

    def check(self):
        self.check_regions()
        self.check_offers()
        self.check_leases()
        self.check_ends()
        self.check_events()
        return self.wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    if not shutil.which("redis-server"):
        print("skipped: redis-server is not installed")
        return 77
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as work:
        cluster = None
        try:
            cluster = Cluster(os.environ["SLIME_BIN"] + "/nanoctrl", work)
            run = Run(cluster, options.seed, options.seconds)
            run.start()
        finally:
            if cluster:
                cluster.end()
    wrong = run.failed + Checker(run).check()
    done = collections.Counter(f"{a.kind}" for a in run.record if a.ok())
    print(f"{len(run.record)} attempts, {sum(a.t1 == float('inf') for a in run.record)} without an answer")
    print("done:", dict(done))
    print("refused as stale:", sum(a.answer.get("code") == "stale" for a in run.record), "faults:", dict(run.faults))
    if not run.done.issuperset(KINDS):
        wrong.append("not everything was done")
    for text in wrong[:20]:
        print("WRONG:", text)
    return bool(wrong)


sys.exit(main())
