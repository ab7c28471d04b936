# SPDX-License-Identifier: Apache-2.0
"""A look into Redis, without a package."""
import socket


class Redis:
    """As much of a client as it takes to look into a store: PORT, or PORT:FILE with the password of a private one's owner."""

    def __init__(self, port):
        port, _, key_file = str(port).partition(":")
        self.stream = socket.create_connection(("127.0.0.1", int(port))).makefile("rwb")
        if key_file:
            with open(key_file, encoding="ascii") as key:
                self("AUTH", "nanoctrl", key.read().strip())

    def __call__(self, *args):
        self.send(*args)
        return self.read()

    def send(self, *args):
        words = [a if isinstance(a, bytes) else str(a).encode() for a in args]
        self.stream.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        self.stream.flush()

    def read(self):
        line = self.stream.readline()[:-2]
        if line[:1] == b"$":
            return None if line == b"$-1" else self.stream.read(int(line[1:]) + 2)[:-2]
        if line[:1] == b"*":
            return [self.read() for _ in range(int(line[1:]))]
        return int(line[1:]) if line[:1] == b":" else line[1:]
