# SPDX-License-Identifier: Apache-2.0
"""Two agents of the NIXL wheel over our back end, each in a process of its own; the peer does what it is told over a pipe."""
import ctypes
import multiprocessing
import os
import random
import signal
import sys
import time

from nixl_cu12._api import nixl_agent, nixl_agent_config, nixlBind

PATIENCE = 60
DEATH = 2.5  # seconds until a dead peer is noticed
LENGTH = 2 << 20
PIECES, PIECE = 128, 4096


class Memory:
    def __init__(self, seed):
        self.bytes = (ctypes.c_uint8 * LENGTH)()
        self.addr = ctypes.addressof(self.bytes)
        self.fill(seed)

    def fill(self, seed):
        ctypes.memmove(self.addr, random.Random(seed).randbytes(LENGTH), LENGTH)

    def piece(self, i):
        return ctypes.string_at(self.addr + i, PIECE)


def make_agent(name, transport):
    agent = nixl_agent(name, nixl_agent_config(backends=[]))
    agent.create_backend("SLIME", {"transports": transport})
    return agent


def until(what, condition):
    end = time.monotonic() + PATIENCE
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < end, what


def await_notif(agent, sender):
    """One message; others stay out of it."""
    return until(f"no notification of {sender}", lambda: agent.get_new_notifs().get(sender))


def run_peer(pipe, transport, seed):
    agent = make_agent("peer", transport)
    memory = Memory(seed)
    agent.register_memory([(memory.addr, LENGTH, 0, "")], "DRAM")
    pipe.send((agent.get_agent_metadata(), memory.addr))
    while True:
        command, argument = pipe.recv()
        if command == "load":
            pipe.send(agent.add_remote_agent(argument))
        elif command == "tell":
            agent.send_notif("us", argument)
            pipe.send(None)
        elif command == "await":
            pipe.send(await_notif(agent, "us"))
        elif command == "await and look":
            # The bytes are there when the notification is.
            messages = await_notif(agent, "us")
            pipe.send((messages, [memory.piece(i) for i in argument]))
        elif command == "fill":
            memory.fill(argument)
            pipe.send(None)


class Peer:
    def __init__(self, transport, seed):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=run_peer, args=(theirs, transport, seed), daemon=True)
        self.process.start()
        theirs.close()
        self.metadata, self.addr = self.hear()

    def hear(self):
        assert self.pipe.poll(PATIENCE), "the peer says nothing"
        return self.pipe.recv()

    def do(self, command, argument=None):
        self.pipe.send((command, argument))
        return self.hear()

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()


def places():
    """Every other piece, so that nothing is merged."""
    return [2 * i * PIECE for i in range(PIECES)]


def make_transfer(agent, operation, here, there, name, message=b""):
    local = agent.get_xfer_descs([(here + i, PIECE, 0) for i in places()], "DRAM")
    remote = agent.get_xfer_descs([(there + i, PIECE, 0) for i in places()], "DRAM")
    return agent.initialize_xfer(operation, local, remote, name, message)


def move(agent, handle):
    state = agent.transfer(handle)
    end = time.monotonic() + PATIENCE
    while state == "PROC":
        assert time.monotonic() < end, "a transfer does not end"
        state = agent.check_xfer_state(handle)
    assert state == "DONE", state


def case_read(us, memory, peer):
    memory.fill(1)
    handle = make_transfer(us, "READ", memory.addr, peer.addr, "peer", b"bytes were read")
    move(us, handle)
    theirs = random.Random(2).randbytes(LENGTH)
    for i in places():
        assert memory.piece(i) == theirs[i : i + PIECE]
    assert peer.do("await") == [b"bytes were read"]
    us.release_xfer_handle(handle)


def case_write_and_its_notification(us, memory, peer):
    handle = make_transfer(us, "WRITE", memory.addr, peer.addr, "peer", b"bytes\0are there")
    for seed in range(20):
        memory.fill(100 + seed)
        peer.pipe.send(("await and look", places()))
        move(us, handle)
        messages, seen = peer.hear()
        assert messages == [b"bytes\0are there"]
        assert seen == [memory.piece(i) for i in places()]
    us.release_xfer_handle(handle)


def case_notifications_alone(us, memory, peer):
    us.send_notif("peer", b"hello")
    assert peer.do("await") == [b"hello"]
    long = random.Random(3).randbytes(1 << 20)
    us.send_notif("peer", long)
    assert peer.do("await") == [long]
    peer.do("load", us.get_agent_metadata())
    peer.do("tell", b"hello, too")
    assert await_notif(us, "peer") == [b"hello, too"]


def case_a_handle_is_posted_again_and_again(us, memory, peer):
    handle = make_transfer(us, "READ", memory.addr, peer.addr, "peer")
    for seed in range(50):
        peer.do("fill", seed)
        move(us, handle)
        assert memory.piece(0) == random.Random(seed).randbytes(LENGTH)[:PIECE]
    us.release_xfer_handle(handle)


def case_within_one_agent(us, memory, peer):
    memory.fill(4)
    half = LENGTH // 2
    handle = make_transfer(us, "WRITE", memory.addr, memory.addr + half, "us", b"to myself")
    move(us, handle)
    for i in places():
        assert memory.piece(i) == memory.piece(half + i)
    assert await_notif(us, "us") == [b"to myself"]
    us.release_xfer_handle(handle)


def case_release_in_flight(us, memory, peer):
    for _ in range(20):
        handle = make_transfer(us, "READ", memory.addr, peer.addr, "peer")
        us.transfer(handle)
        us.release_xfer_handle(handle)


def case_settings(us, memory, peer):
    refused = 0
    for params in ({"transports": "pigeon"}, {"polling": "often"}, {"colour": "green"}, {"bind": "localhost"}):
        agent = nixl_agent("refused", nixl_agent_config(backends=[]))
        try:
            agent.create_backend("SLIME", params)
        except nixlBind.nixlBackendError:
            refused += 1
    os.environ["SLIME_NIXL_FOREIGN_MEMORY"] = "perhaps"
    try:
        nixl_agent("refused", nixl_agent_config(backends=[])).create_backend("SLIME", {})
    except nixlBind.nixlBackendError:
        refused += 1
    del os.environ["SLIME_NIXL_FOREIGN_MEMORY"]
    assert refused == 5


# NIXL before 1.5 forgets an agent whose death it heard of, with its handles.
FORGOTTEN = nixlBind.nixlNotFoundError


def post_until_it_fails(us, handle, *expected):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            move(us, handle)
        except (nixlBind.nixlRemoteDisconnectError, *expected):
            return
    raise AssertionError("the peer's death is not noticed")


def case_death_and_a_second_life(us, memory, peer, transport):
    for life in range(3):
        handle = make_transfer(us, "READ", memory.addr, peer.addr, "peer")
        move(us, handle)
        peer.kill()
        begin = time.monotonic()
        post_until_it_fails(us, handle)
        took = time.monotonic() - begin
        print(f"death {life} was noticed after {took * 1000:.1f} ms")
        assert took < DEATH
        # Another post is cheap, and fails.
        begin = time.monotonic()
        post_until_it_fails(us, handle, FORGOTTEN)
        assert time.monotonic() - begin < DEATH
        us.release_xfer_handle(handle)
        try:
            us.remove_remote_agent("peer")
        except FORGOTTEN:
            pass
        peer = Peer(transport, 2)
        us.add_remote_agent(peer.metadata)
        case_read(us, memory, peer)
    peer.kill()


def main():
    transport = sys.argv[1]
    multiprocessing.set_start_method("spawn")
    us = make_agent("us", transport)
    memory = Memory(0)
    registered = us.register_memory([(memory.addr, LENGTH, 0, "")], "DRAM")
    peer = Peer(transport, 2)
    us.add_remote_agent(peer.metadata)
    for case in (case_read, case_write_and_its_notification, case_notifications_alone,
                 case_a_handle_is_posted_again_and_again, case_within_one_agent, case_release_in_flight, case_settings):
        case(us, memory, peer)
        print("ok", case.__name__)
    case_death_and_a_second_life(us, memory, peer, transport)
    print("ok case_death_and_a_second_life")
    us.deregister_memory(registered)
    del us


if __name__ == "__main__":
    main()
