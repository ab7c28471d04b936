# SPDX-License-Identifier: Apache-2.0
"""One agent of the NIXL wheel over our back end outlives its peer again and again: kill -9 in the midst of transfers, then
the next life's metadata. Nothing is left behind."""
import ctypes
import multiprocessing
import os
import random
import sys
import time

from nixl import DEATH, FORGOTTEN, LENGTH, PATIENCE, PIECE, Memory, make_agent, make_transfer, move, places, post_until_it_fails, standard_error
from nixl_cu12._api import nixlBind

WARM = 10


def run_life(pipe, transport, seed):
    ctypes.CDLL(None).prctl(1, 9)  # it dies with us
    agent = make_agent("peer", transport)
    memory = Memory(seed)
    agent.register_memory([(memory.addr, LENGTH, 0, "")], "DRAM")
    pipe.send((agent.get_agent_metadata(), memory.addr))
    pipe.recv()


def move_first(us, handle):
    """A machine with too much to do may not connect in time."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return move(us, handle)
        except nixlBind.nixlRemoteDisconnectError:
            assert time.monotonic() < end, "a living peer cannot be reached"


def left():
    with open("/proc/self/statm", encoding="ascii") as statm:
        resident = int(statm.read().split()[1]) * 4096
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), resident


def main():
    transport, lives = sys.argv[1], int(sys.argv[2])
    multiprocessing.set_start_method("forkserver")
    multiprocessing.set_forkserver_preload(["nixl_cu12._api", "numpy"])
    us = make_agent("us", transport)
    memory = Memory(0)
    registered = us.register_memory([(memory.addr, LENGTH, 0, "")], "DRAM")
    slowest = 0.0
    for life in range(lives):
        if life == WARM:
            before = left()
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.Process(target=run_life, args=(theirs, transport, life), daemon=True)
        process.start()
        theirs.close()
        metadata, addr = ours.recv()
        us.add_remote_agent(metadata)
        handle = make_transfer(us, "READ", memory.addr, addr, "peer", b"read")
        move_first(us, handle)
        expected = random.Random(life).randbytes(LENGTH)
        assert all(memory.piece(i) == expected[i : i + PIECE] for i in (places()[0], places()[-1]))
        state = us.transfer(handle)
        with standard_error():
            process.kill()
            begin = time.monotonic()
            try:
                while state == "PROC":
                    state = us.check_xfer_state(handle)
            except nixlBind.nixlRemoteDisconnectError:
                pass
            post_until_it_fails(us, handle, FORGOTTEN)
            slowest = max(slowest, time.monotonic() - begin)
        process.join()
        ours.close()
        us.release_xfer_handle(handle)
        try:
            us.remove_remote_agent("peer")
        except FORGOTTEN:
            pass
    assert slowest < DEATH, slowest
    after = left()
    print(f"{lives} lives, the slowest death was noticed after {slowest * 1000:.0f} ms; descriptors, threads, bytes: {before}, {after}")
    # A link that has just ended may not be closed yet.
    assert after[0] <= before[0] + 8 and after[1] <= before[1] + 1
    assert after[2] <= before[2] + (32 << 20), "memory grows with each life"
    us.deregister_memory(registered)
    del us


if __name__ == "__main__":
    main()
