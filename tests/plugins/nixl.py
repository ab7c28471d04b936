# SPDX-License-Identifier: Apache-2.0
"""Two agents of the NIXL wheel over our back end, each in a process of its own; the peer does what it is told over a pipe."""
import contextlib
import ctypes
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
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


def make_agent(name, transport, config=None, **params):
    agent = nixl_agent(name, config or nixl_agent_config(backends=[]))
    agent.create_backend("SLIME", {"transports": transport, **params})
    return agent


@contextlib.contextmanager
def standard_error():
    """What anyone in this process writes there meanwhile: a function that returns it."""
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile("w+b") as file:
        os.dup2(file.fileno(), 2)

        def said():
            file.seek(0)
            return file.read().decode()

        try:
            yield said
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            text = said()
            sys.stderr.write(text)
            sys.stderr.flush()


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


def run_peer(pipe, transport, seed, name):
    agent = make_agent(name, transport)
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
        elif command == "leave":
            del agent
            return


class Peer:
    alive = []

    def __init__(self, transport, seed, name="peer"):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=run_peer, args=(theirs, transport, seed, name), daemon=True)
        self.process.start()
        Peer.alive.append(self.process.pid)
        theirs.close()
        self.metadata, self.addr = self.hear()

    def hear(self):
        assert self.pipe.poll(PATIENCE), "the peer says nothing"
        return self.pipe.recv()

    def do(self, command, argument=None):
        self.pipe.send((command, argument))
        return self.hear()

    def kill(self):
        Peer.alive.remove(self.process.pid)
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()

    def stop(self):
        """Each of its threads stands still when this returns."""
        os.kill(self.process.pid, signal.SIGSTOP)
        tasks = f"/proc/{self.process.pid}/task"
        until("the peer stops", lambda: all(
            open(f"{tasks}/{t}/stat").read().rpartition(")")[2].split()[0] in "Tt" for t in os.listdir(tasks)))


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
    wrong = {
        "transports": "pigeon",
        "devices": "no-such-device",
        "polling": "often",
        "bind": "localhost",
        "advertise": "nowhere",
        "foreign_memory": "perhaps",
        "op_timeout_ms": "1s",
    }

    def refused(params, expected):
        with standard_error() as said:
            try:
                nixl_agent("refused", nixl_agent_config(backends=[])).create_backend("SLIME", params)
            except nixlBind.nixlBackendError:
                assert expected in said(), f"{params}: {said()}"
                return
        raise AssertionError(f"{params} was not refused")

    refused({"colour": "green"}, "colour")
    for name, value in wrong.items():
        if name == "devices":  # which are looked for by the first link
            continue
        refused({name: value}, value)
        variable = f"SLIME_NIXL_{name.upper()}"
        os.environ[variable] = value
        refused({}, value if name in ("bind", "advertise") else variable)
        # A parameter wins.
        if name not in ("bind", "advertise"):
            make_agent("allowed", "tcp", **{name: "tcp" if name == "transports" else ALLOWED[name]})
        del os.environ[variable]


ALLOWED = {"polling": "event", "foreign_memory": "off", "op_timeout_ms": "100"}


def case_memory_that_is_not_offered(us, memory, peer):
    """Device memory is refused by name, also where a peer offers it."""
    try:
        us.register_memory([(memory.addr, LENGTH, 0, "")], "VRAM")
    except (nixlBind.nixlNotFoundError, nixlBind.nixlNotSupportedError, nixlBind.nixlBackendError):
        return
    raise AssertionError("VRAM was registered")


def case_memory_goes_before_its_handle(us, memory, peer):
    other = Memory(5)
    registered = us.register_memory([(other.addr, LENGTH, 0, "")], "DRAM")
    handle = make_transfer(us, "READ", other.addr, peer.addr, "peer")
    move(us, handle)
    us.deregister_memory(registered)
    try:
        us.transfer(handle)
    except (nixlBind.nixlNotFoundError, nixlBind.nixlInvalidParamError, nixlBind.nixlBackendError):
        us.release_xfer_handle(handle)
        return
    raise AssertionError("a transfer over memory that is gone")


def configs():
    """With and without a progress thread, and each way of NIXL's own locks that this version has."""
    yield nixl_agent_config(backends=[])
    yield nixl_agent_config(backends=[], enable_prog_thread=False)
    try:
        from nixl_cu12._api import nixl_thread_sync_t
    except ImportError:
        return
    for mode in nixl_thread_sync_t:
        yield nixl_agent_config(backends=[], sync_mode=mode)


def case_threads_and_sync_modes(us, memory, peer, transport):
    """Four threads, each with handles of its own, of one agent and towards one peer."""
    theirs = random.Random(2).randbytes(LENGTH)
    peer.do("fill", 2)
    failures = []

    def work(agent, number):
        try:
            mine = Memory(number)
            with registering:
                agent.register_memory([(mine.addr, LENGTH, 0, "")], "DRAM")
                handle = make_transfer(agent, "READ", mine.addr, peer.addr, "peer")
            for _ in range(30):
                mine.fill(number)
                move(agent, handle)
                assert all(mine.piece(i) == theirs[i : i + PIECE] for i in places())
            agent.release_xfer_handle(handle)
        except BaseException as failure:
            failures.append(failure)

    for number, config in enumerate(configs()):
        agent = make_agent(f"threads-{number}", transport, config)
        agent.add_remote_agent(peer.metadata)
        registering = threading.Lock()
        threads = [threading.Thread(target=work, args=(agent, i)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures
        del agent


def case_many_agents(us, memory, peer, transport):
    others = [Peer(transport, 10 + i, f"peer-{i}") for i in range(3)]
    for other in others:
        us.add_remote_agent(other.metadata)
        other.do("load", us.get_agent_metadata())
    for i, other in enumerate(others):
        handle = make_transfer(us, "READ", memory.addr, other.addr, f"peer-{i}", b"from us")
        move(us, handle)
        assert memory.piece(0) == random.Random(10 + i).randbytes(LENGTH)[:PIECE]
        assert other.do("await") == [b"from us"]
        us.release_xfer_handle(handle)
    for i, other in enumerate(others):
        us.remove_remote_agent(f"peer-{i}")
        other.kill()


def case_a_stopped_peer(us, memory, peer, transport):
    """It is not dead: over shm a transfer completes; over tcp it waits, or ends after op_timeout_ms."""
    agent = make_agent("impatient", transport, op_timeout_ms="700")
    other = Memory(6)
    agent.register_memory([(other.addr, LENGTH, 0, "")], "DRAM")
    stopped = Peer(transport, 2, "stopped")
    us.add_remote_agent(stopped.metadata)
    agent.add_remote_agent(stopped.metadata)
    ours = make_transfer(us, "READ", memory.addr, stopped.addr, "stopped")
    its = make_transfer(agent, "READ", other.addr, stopped.addr, "stopped")
    move(us, ours)
    move(agent, its)
    stopped.stop()
    if transport == "shm":
        move(us, ours)
        move(agent, its)
    else:
        with standard_error() as said:
            state = us.transfer(ours)
            begin = time.monotonic()
            post_until_it_fails(agent, its)
            assert 0.6 < time.monotonic() - begin < 0.7 + DEATH
            assert said().count("op_timeout_ms") == 1, said()
        assert state == "PROC" and us.check_xfer_state(ours) == "PROC"
        os.kill(stopped.process.pid, signal.SIGCONT)
        until("a transfer goes on", lambda: us.check_xfer_state(ours) == "DONE")
    os.kill(stopped.process.pid, signal.SIGCONT)
    us.release_xfer_handle(ours)
    us.remove_remote_agent("stopped")
    stopped.kill()


# NIXL before 1.5 forgets an agent whose death it heard of, with its handles.
FORGOTTEN = nixlBind.nixlNotFoundError


def lines_about(said, agent):
    """Of the library and of the back end, not of NIXL."""
    return [line for line in said.splitlines() if agent in line and line.startswith(("warn ", "error ", "nixl slime:"))]


def post_until_it_fails(us, handle, *expected):
    """How many seconds that took."""
    begin = time.monotonic()
    while time.monotonic() < begin + PATIENCE:
        try:
            move(us, handle)
        except (nixlBind.nixlRemoteDisconnectError, *expected):
            return time.monotonic() - begin
    raise AssertionError("the peer's death is not noticed")


def case_death_and_a_second_life(us, memory, peer, transport):
    for life in range(3):
        handle = make_transfer(us, "READ", memory.addr, peer.addr, "peer")
        move(us, handle)
        with standard_error() as said:
            peer.kill()
            begin = time.monotonic()
            post_until_it_fails(us, handle)
            took = time.monotonic() - begin
            until("a line about it", lambda: lines_about(said(), "peer"))
            post_until_it_fails(us, handle, FORGOTTEN)
            assert len(lines_about(said(), "peer")) == 1, said()
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
    for case in (
        case_read,
        case_write_and_its_notification,
        case_notifications_alone,
        case_a_handle_is_posted_again_and_again,
        case_within_one_agent,
        case_release_in_flight,
        case_memory_goes_before_its_handle,
        case_memory_that_is_not_offered,
        case_settings,
    ):
        case(us, memory, peer)
        print("ok", case.__name__)
    for case in (case_threads_and_sync_modes, case_many_agents, case_a_stopped_peer):
        case(us, memory, peer, transport)
        print("ok", case.__name__)
    case_death_and_a_second_life(us, memory, peer, transport)
    print("ok case_death_and_a_second_life")
    us.deregister_memory(registered)
    del us


if __name__ == "__main__":
    try:
        main()
    finally:  # a peer that stands still would hold us up
        for pid in Peer.alive:
            os.kill(pid, signal.SIGKILL)
