# SPDX-License-Identifier: Apache-2.0
"""Engines of Mooncake's, as a metadata server sees them: owners.py URL URL, of two replicas, and the
socket of their Redis. An owner is a socket of its own."""
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

PERIOD = 5


def call(url, method, key, body=None, path="/metadata"):
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=60)
    query = "" if key is None else "?key=" + urllib.parse.quote(key, safe="")
    connection.request(method, path + query, body=body, headers={"Content-Type": "application/json"} if body else {})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, text


class Owner:
    """Listens, and counts who connects."""

    def __init__(self, port=0, backlog=16):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", port))
        self.socket.listen(backlog)
        self.port = self.socket.getsockname()[1]
        self.n = 0

    def serve(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def _accept(self):
        try:
            while True:
                self.socket.accept()[0].close()
                self.n += 1
        except OSError:
            pass

    def kill(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def meta(self):
        return json.dumps({"ip_or_host_name": "192.0.2.1", "rpc_port": self.port})


def rpc(name):
    return "mooncake/rpc_meta/" + name


def ram(name):
    return "mooncake/ram/" + name


def redis(*words):
    return subprocess.run(["redis-cli", "-s", sys.argv[3], *words], capture_output=True, check=True).stdout.strip()


def is_seen(name):
    return redis("hget", "nanoctrl:mooncake:engine:" + name, "seen") == b"1"


def metric(name, *urls):
    lines = [line for url in urls for line in call(url, "GET", None, path="/metrics")[1].decode().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"nanoctrl_mooncake_{name}_total "))


def probes(*urls):
    return metric("probes", *urls)


def expect(what, got, want):
    if got != want:
        sys.exit(f"{what}: {got!r}, and not {want!r}")


def wait_until(what, seconds, condition):
    end = time.monotonic() + 6 * seconds
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"{what}: not after {6 * seconds} s")
        time.sleep(0.05)


def publish(url, name, owner, memory):
    """As an engine does when it begins."""
    expect(f"{name}: PUT of rpc_meta", call(url, "PUT", rpc(name), owner.meta())[0], 200)
    expect(f"{name}: PUT of ram", call(url, "PUT", ram(name), memory)[0], 200)


def values_are_kept(one, two):
    value = b'{ "b":[1,  2.50], "a":"\xc3\xa4" }'
    expect("a key that is not there", call(one, "GET", ram("v"))[0], 404)
    expect("PUT", call(one, "PUT", ram("v"), value)[0], 200)
    expect("its bytes from the other replica", call(two, "GET", ram("v")), (200, value))
    expect("the same key in a cluster", call(two, "GET", "mooncake/prod/ram/v")[0], 404)
    expect("DELETE", call(two, "DELETE", ram("v"))[0], 200)
    expect("DELETE again", call(one, "DELETE", ram("v"))[0], 404)
    expect("no key", call(one, "GET", None)[0], 400)
    expect("another key", call(one, "PUT", "mooncake/else/v", "{}")[0], 400)
    expect("no JSON", call(one, "PUT", ram("v"), "{")[0], 400)
    expect("no body", call(one, "PUT", ram("v"))[0], 400)
    for port in ('"1"', "0", "65536", "null", "1.5"):
        expect(f"rpc_port {port}", call(one, "PUT", rpc("v"), '{"rpc_port":%s}' % port)[0], 400)
    expect("POST", call(one, "POST", ram("v"), "{}")[0], 405)


def dead_owner_loses_its_keys(one, two):
    """And each owner is probed once in a period, although there are two replicas."""
    owner = Owner().serve()
    publish(one, "killed", owner, "{}")
    began = time.monotonic()
    wait_until("a second probe", PERIOD + 2, lambda: owner.n > 1)
    periods = (time.monotonic() - began) / PERIOD
    if owner.n > periods + 1:
        sys.exit(f"{owner.n} probes in {periods:.2f} periods")
    expect("a living owner's value", call(two, "GET", ram("killed")), (200, b"{}"))
    owner.kill()
    wait_until("ram is removed", PERIOD, lambda: call(two, "GET", ram("killed"))[0] == 404)
    expect("rpc_meta is removed", call(one, "GET", rpc("killed"))[0], 404)


def second_life_does_not_read_the_first(one, two):
    first = Owner().serve()
    publish(one, "again", first, '{"buffers":["dead"]}')
    wait_until("the first life is seen", PERIOD, lambda: is_seen("again"))
    first.kill()
    second = Owner().serve()
    status, text = call(two, "PUT", rpc("again"), second.meta())
    expect(f"PUT of a second life: {text}", status, 200)
    expect("what the first life said", call(one, "GET", ram("again"))[0], 404)
    expect("rpc_meta of the second", call(one, "GET", rpc("again"))[1].decode(), second.meta())
    expect("PUT of the second", call(one, "PUT", ram("again"), '{"buffers":["new"]}')[0], 200)
    # On the same port: the first cannot live.
    second.kill()
    third = Owner(second.port).serve()
    expect("PUT of a third life", call(one, "PUT", rpc("again"), third.meta())[0], 200)
    expect("what the second life said", call(two, "GET", ram("again"))[0], 404)


def living_owner_keeps_its_name(one, two):
    owner, other = Owner().serve(), Owner().serve()
    publish(one, "lives", owner, '{"a":1}')
    status, text = call(two, "PUT", rpc("lives"), other.meta())
    expect("PUT of another", (status, b"it lives" in text), (409, True))
    status, text = call(one, "PUT", rpc("lives"), other.meta())
    expect("PUT of another at once", (status, b"less than 5 s ago" in text), (409, True))
    expect("its ram", call(one, "GET", ram("lives")), (200, b'{"a":1}'))
    expect("DELETE of rpc_meta", call(one, "DELETE", rpc("lives"))[0], 200)
    expect("PUT after DELETE", call(one, "PUT", rpc("lives"), other.meta())[0], 200)
    expect("ram of the owner before", call(one, "GET", ram("lives"))[0], 404)


def silent_owner_keeps_its_keys(one, two):
    """The kernel drops connections to a listener whose queue is full."""
    owner, other = Owner(backlog=0), Owner().serve()
    filler = socket.create_connection(("127.0.0.1", owner.port))
    publish(one, "silent", owner, "{}")
    status, text = call(two, "PUT", rpc("silent"), other.meta())
    expect("PUT of another", (status, b"does not answer" in text), (409, True))
    expect("its ram", call(one, "GET", ram("silent"))[0], 200)
    filler.close()
    owner.kill()


def owner_that_was_never_reached_keeps_its_keys(one, two):
    """It may be behind an address that is not its own. A put that comes from there knows that it is not."""
    owner, other = Owner(), Owner().serve()
    owner.kill()
    publish(one, "elsewhere", owner, "{}")
    wait_until("it is probed", 2, lambda: probes(one, two) > 0)
    expect("its ram", call(one, "GET", ram("elsewhere"))[0], 200)
    expect("its ram is still there", call(two, "GET", ram("elsewhere"))[0], 200)
    redis("hset", "nanoctrl:mooncake:engine:elsewhere", "address", "127.0.0.2")
    status, text = call(two, "PUT", rpc("elsewhere"), other.meta())
    expect("PUT from another address", (status, b"may be elsewhere" in text), (409, True))
    redis("hset", "nanoctrl:mooncake:engine:elsewhere", "address", "127.0.0.1", "asked", "0")
    expect("PUT from the same address", call(two, "PUT", rpc("elsewhere"), other.meta())[0], 200)
    expect("ram of the one before", call(one, "GET", ram("elsewhere"))[0], 404)


def deaths_are_counted(one, two):
    expect("deaths", metric("deaths", one, two), 3)


URLS = sys.argv[1:3]
CASES = [values_are_kept, owner_that_was_never_reached_keeps_its_keys, living_owner_keeps_its_name,
         silent_owner_keeps_its_keys, second_life_does_not_read_the_first, dead_owner_loses_its_keys, deaths_are_counted]
for case in CASES:
    case(*URLS)
    print("ok", case.__name__, flush=True)
