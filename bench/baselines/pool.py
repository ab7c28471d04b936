# SPDX-License-Identifier: Apache-2.0
"""Two processes for a peer that moves blocks: the server's pool of 512 MiB, and batches of the client's that walk it."""

import argparse
import json
import os
import signal
import socket
import sys
from ctypes import CDLL

from stepped import CLIENT_CPU, SERVER_CPU, pin, serve, timed

POOL = 512 << 20
PR_SET_PDEATHSIG = 1
MESSAGE_MAX = 65536


def parse_arguments(doc, add_arguments):
    parser = argparse.ArgumentParser(description=doc)
    if add_arguments:
        add_arguments(parser)
    parser.add_argument("--op", choices=("read", "write"), default="read")
    parser.add_argument("--block", type=int, default=128 << 10, help="bytes of a block")
    parser.add_argument("--batch", type=int, default=32, help="blocks of a batch")
    parser.set_defaults(measure=None)
    parser.add_argument("--step", action="store_true", required=True)
    return parser.parse_args()


class Walk:
    """Which blocks of the pool are next."""

    def __init__(self, args):
        self.block, self.batch = args.block, args.batch
        self.n_places = POOL // (args.block * args.batch)
        self.at = 0

    def next_place(self):
        self.at = (self.at + 1) % self.n_places
        return self.at * self.batch


def memory(length):
    """The number of each word: what a read must find. It begins at a page, as the pool of an engine does."""
    import mmap

    import numpy

    words = numpy.frombuffer(mmap.mmap(-1, length, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), dtype=numpy.uint64)
    words[:] = numpy.arange(len(words), dtype=numpy.uint64)
    return words


def stay(channel, turn):
    """Until the client has ended; turn() is what the server does over and over."""
    channel.setblocking(turn is None)
    while True:
        try:
            channel.recv(1)
            return
        except BlockingIOError:
            turn()


def run_server(args, open_server, channel):
    CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    pin(SERVER_CPU)
    pool = memory(POOL)
    engine, facts, *turn = open_server(args, pool)
    channel.send(json.dumps(facts).encode())
    stay(channel, *turn or [None])
    del engine
    os._exit(0)  # the engines' threads end with the process


def check(args, walk, local):
    first = walk.at * walk.batch * args.block // 8
    if args.op == "read" and (local[0] != first or local[-1] != first + len(local) - 1):
        sys.exit("the bytes are wrong")


def run_client(args, open_client, facts):
    pin(CLIENT_CPU)
    walk = Walk(args)
    local = memory(args.block * args.batch)
    move = open_client(args, local, facts)
    if args.measure:
        move()
        serve(move)
        return

    def batch():
        move(walk.next_place())
        return args.block * args.batch

    batch()
    check(args, walk, local)
    timed(batch)
    serve(lambda: timed(batch))


def main(doc, open_server, open_client, add_arguments=None):
    """open_server(args, pool) -> engine, facts for the client[, what the server does over and over];
    open_client(args, local, facts) -> move(first block), or with args.measure what measures a round."""
    args = parse_arguments(doc, add_arguments)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        run_server(args, open_server, theirs)
    theirs.close()
    facts = ours.recv(MESSAGE_MAX)
    if not facts:
        sys.exit("the server failed")
    run_client(args, open_client, json.loads(facts))
    ours.close()
    sys.stdout.flush()
    os._exit(0)
