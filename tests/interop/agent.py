# SPDX-License-Identifier: Apache-2.0
"""One of DLSlime's agents, unmodified, with 64 KiB of memory that others may read: agent.py URL SCOPE ALIAS, either "" for
none. Each line on standard input is a call in JSON, ["read", "b"]; what it returned is a line that begins with "= "."""
import ctypes
import json
import os
import sys

from dlslime import PeerAgent

LENGTH = 65536
READ_MS = 5000


def pattern(name):
    """What an agent's memory holds: whoever reads it knows whose it is."""
    seed = sum(name.encode()) % 251 + 1
    return bytes(seed * (i % 253 + 1) % 256 for i in range(LENGTH))


class Agent:
    def __init__(self, url, scope, alias):
        self.agent = PeerAgent(ctrl_url=url, alias=alias or None, scope=scope or None)
        self.memory = ctypes.create_string_buffer(pattern(self.agent.alias), LENGTH)
        self.copy = ctypes.create_string_buffer(LENGTH)
        self.agent.register_memory_region("kv", ctypes.addressof(self.memory), 0, LENGTH)
        self.copies = {}  # where an endpoint puts what it reads: it takes a name once

    def name(self):
        return self.agent.alias

    def connect(self, peer):
        self.agent.connect_to(peer, transport="tcp").wait(20)
        return True

    def connected(self, peer):
        connection = self.agent.query_connection(peer)
        return connection is not None and connection.is_connected()

    def read(self, peer):
        """Whether the peer's memory was read, every byte of it."""
        connection = self.agent.query_connection(peer)
        endpoint = connection.endpoint
        if endpoint not in self.copies:
            self.copies[endpoint] = endpoint.register_memory_region("copy", ctypes.addressof(self.copy), 0, LENGTH)
        remote = endpoint.register_remote_memory_region("kv", connection.peer_endpoint_info["mr_info"]["kv"])
        ctypes.memset(self.copy, 0, LENGTH)
        endpoint.read([(self.copies[endpoint], remote, 0, 0, LENGTH)], timeout_ms=READ_MS).wait()
        return self.copy.raw == pattern(peer)

    def agents(self):
        return self.agent.list_agents()

    def leave(self):
        self.agent.shutdown()
        return True


def answer(value):
    print("= " + json.dumps(value), flush=True)


def main():
    try:
        agent = Agent(*sys.argv[1:])
    except RuntimeError as error:
        answer("conflict" if "registration conflict" in str(error) else f"{error}")
        os._exit(0)  # its destructor would clean up the agent that has the name
    answer(agent.name())
    for line in sys.stdin:
        call, *args = json.loads(line)
        try:
            answer(getattr(agent, call)(*args))
        except Exception as error:  # whatever it is, it is what the other side is told
            print(f"{call} {args}: {error!r}", file=sys.stderr)
            answer(type(error).__name__)


main()
