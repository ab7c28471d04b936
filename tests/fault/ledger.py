# SPDX-License-Identifier: Apache-2.0
"""Regions written under load, and a ledger of what was said of each: ledger.py URL. Each has its own name, so that one
that was said not to be written and is there all the same shows. Ends on SIGTERM, after a look at what is there."""
import http.client
import json
import signal
import sys
import threading
import time
import urllib.parse

AGENT = "/v1/agents/writer"
QUERY = "?scope=load"
KEY = "00112233445566778899001122334455667788990011223344556677889900aa"
N_WRITERS = 4
PAUSE_S = 0.05  # of a writer, so that the agent owns no more than it may
BEAT_S = 1
PATIENCE_S = 60  # the machine may be busy


class Ledger:
    def __init__(self, url):
        self.place = urllib.parse.urlsplit(url).netloc
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.lease = ""
        self.said = {}  # of each region: "acknowledged", "unknown" or "not_executed"
        self.since = 0  # how many were written under former leases
        self.wrong = []

    def call(self, connection, method, path, body=None):
        fields = {"Slime-Lease": self.lease} if self.lease else {}
        fields["Content-Type"] = "application/json"
        query = QUERY + f"&order={time.time_ns() // 1000}" if method == "PUT" and not path else QUERY
        connection.request(method, AGENT + path + query, json.dumps(body) if body else None, fields)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or "{}")

    def connect(self):
        return http.client.HTTPConnection(self.place, timeout=PATIENCE_S)

    def note_wrong(self, *words):
        with self.lock:
            self.wrong.append(" ".join(map(str, words)))

    def outcome_of(self, status, answer):
        """What is said of a write that was not acknowledged; a 503 has to say it."""
        outcome = answer.get("outcome")
        if status == 503 and outcome not in ("unknown", "not_executed"):
            self.note_wrong(503, answer)
        if status not in (410, 503):
            self.note_wrong(status, answer)
        return outcome

    def register(self, connection):
        """Again, where the failover lost it or it may have been: what was written before may be gone."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            self.lease = ""
            status, answer = self.call(connection, "PUT", "", {"incarnation": "one", "owner_key": KEY})
            if status in (200, 201):
                with self.lock:
                    self.lease = answer["lease"]
                    self.since = len(self.said)
                return answer["epoch"]
            self.outcome_of(status, answer)
            time.sleep(PAUSE_S)
        self.note_wrong("nobody registers it")
        return 0

    def beat(self):
        connection = self.connect()
        epoch = self.register(connection)
        while not self.over.wait(BEAT_S):
            status, answer = self.call(connection, "POST", "/heartbeat")
            if status == 410 or (status == 200 and answer["epoch"] != epoch):
                epoch = self.register(connection)
            elif status != 200:
                self.outcome_of(status, answer)

    def write(self, who):
        connection = self.connect()
        region = {"revision": 1, "size": 1, "access": ["read"], "descriptor": "QUJD"}
        for i in range(900):
            if self.over.wait(PAUSE_S):
                return
            if not self.lease:
                continue
            name = f"of-{who}-{i}"
            status, answer = self.call(connection, "PUT", "/regions/" + name, region)
            said = "acknowledged" if status in (200, 201) else self.outcome_of(status, answer)
            with self.lock:
                self.said[name] = said

    def check(self):
        """What was acknowledged last is there, and nothing is that was not executed."""
        connection = self.connect()
        status, answer = self.call(connection, "GET", "/regions")
        if status != 200:
            self.note_wrong("what it owns is not to be read:", status, answer)
            return
        there = {region["name"] for region in answer["regions"]}
        for i, (name, said) in enumerate(self.said.items()):
            if said == "acknowledged" and i >= self.since + N_WRITERS and name not in there:
                self.note_wrong(name, "was acknowledged and is not there")
            if said == "not_executed" and name in there:
                self.note_wrong(name, "is there, and was not executed")

    def count(self, said):
        return sum(1 for one in self.said.values() if one == said)


def main():
    ledger = Ledger(sys.argv[1])
    # A thread that ends so writes nothing more, which the others would hide.
    threading.excepthook = lambda e: ledger.note_wrong(e.thread.name, repr(e.exc_value))
    signal.signal(signal.SIGTERM, lambda *_: ledger.over.set())
    threads = [threading.Thread(target=ledger.beat)]
    threads += [threading.Thread(target=ledger.write, args=(who,)) for who in range(N_WRITERS)]
    for thread in threads:
        thread.start()
    ledger.over.wait()
    for thread in threads:
        thread.join()
    ledger.check()
    counts = {said: ledger.count(said) for said in ("acknowledged", "unknown", "not_executed")}
    print(" ".join(f"{said}={n}" for said, n in counts.items()), flush=True)
    for wrong in ledger.wrong[:20]:
        print(wrong, file=sys.stderr)
    return bool(ledger.wrong)


sys.exit(main())
