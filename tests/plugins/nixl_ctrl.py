# SPDX-License-Identifier: Apache-2.0
"""Agents of the NIXL wheel that are registered with nanoctrl: what it knows of them, and the death of a peer before a post."""
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import nixl

BIN = os.path.join(os.environ["SLIME_BUILD"], "bin")


@contextlib.contextmanager
def nanoctrl():
    """A real one, with a Redis of its own: its URL."""
    with tempfile.TemporaryDirectory() as work:
        command = ["setpriv", "--pdeathsig", "KILL", "--", f"{BIN}/nanoctrl", "server", "--port", "0"]
        command += ["--set", "lease.ttl=4s", "--set", "lease.beat=1s"]
        command += ["--runtime-dir", f"{work}/run", "--data-dir", f"{work}/data"]
        with open(f"{work}/out", "w+", encoding="utf-8") as out:
            server = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
            try:

                def url():
                    assert server.poll() is None, open(out.name, encoding="utf-8").read()
                    return re.search(r"serves at (\S+)", open(out.name, encoding="utf-8").read())

                yield nixl.until("nanoctrl starts", url)[1]
            finally:
                server.terminate()
                server.wait(20)


def agents(url):
    """The labels of those that are registered, by name."""
    listed = subprocess.run(
        [f"{BIN}/nanoctrl", "get", "agents", "--address", url, "--scope", "nixl", "-o", "json"], check=True, capture_output=True
    ).stdout
    return {agent["name"]: agent["labels"] for agent in json.loads(listed)}


def case_registered_by_name(us, memory, peer, url):
    listed = agents(url)
    assert sorted(labels["nixl"] for labels in listed.values()) == ["peer", "us"], listed
    assert all(name.startswith(labels["nixl"] + ".") for name, labels in listed.items()), listed


def case_metadata_that_is_loaded_again(us, memory, peer, url):
    """The link stays, also when a handle of the time before goes."""
    handle = nixl.make_transfer(us, "READ", memory.addr, peer.addr, "peer")
    nixl.move(us, handle)
    us.add_remote_agent(peer.metadata)
    nixl.move(us, handle)
    us.remove_remote_agent("peer")
    us.add_remote_agent(peer.metadata)
    later = nixl.make_transfer(us, "READ", memory.addr, peer.addr, "peer")
    nixl.move(us, later)
    us.release_xfer_handle(handle)
    nixl.move(us, later)
    us.release_xfer_handle(later)


def case_lease_that_ends_before_a_post(us, memory, peer, url):
    """The peer stands still so long, and is reached when it goes on."""
    os.kill(peer.process.pid, nixl.signal.SIGSTOP)
    nixl.until("the lease ends", lambda: "peer" not in [labels["nixl"] for labels in agents(url).values()])
    os.kill(peer.process.pid, nixl.signal.SIGCONT)
    handle = nixl.make_transfer(us, "READ", memory.addr, peer.addr, "peer")

    def reached():
        with contextlib.suppress(nixl.nixlBind.nixlRemoteDisconnectError):
            nixl.move(us, handle)
            return True

    nixl.until("a post reaches it", reached)
    us.release_xfer_handle(handle)


def case_end_while_notifications_arrive(us, memory, peer, url):
    """What arrives until the links are closed does no harm."""
    short = nixl.make_agent("short", sys.argv[1])
    us.add_remote_agent(short.get_agent_metadata())
    us.send_notif("short", b"first")
    nixl.await_notif(short, "us")
    for _ in range(500):
        us.send_notif("short", bytes(10000))
    del short
    us.remove_remote_agent("short")


def case_death_before_a_post(us, memory, peer, url):
    handle = nixl.make_transfer(us, "READ", memory.addr, peer.addr, "peer")
    nixl.move(us, handle)
    with nixl.standard_error() as said:
        peer.kill()
        begin = time.monotonic()
        nixl.until("the log has it", lambda: "peer" in said())
        assert time.monotonic() - begin < nixl.DEATH
        # The first post that follows fails, and waits for nothing.
        begin = time.monotonic()
        assert nixl.post_until_it_fails(us, handle) < 0.5
    us.release_xfer_handle(handle)
    with contextlib.suppress(nixl.FORGOTTEN):
        us.remove_remote_agent("peer")


def case_one_that_leaves(us, memory, peer, url):
    peer.pipe.send(("leave", None))
    peer.process.join()
    nixl.Peer.alive.remove(peer.process.pid)
    handle = nixl.make_transfer(us, "READ", memory.addr, peer.addr, "peer")
    with nixl.standard_error() as said:
        assert nixl.post_until_it_fails(us, handle) < 0.5
        nixl.until("a line about it", lambda: nixl.post_until_it_fails(us, handle, nixl.FORGOTTEN) and "peer" in said())
    us.release_xfer_handle(handle)
    with contextlib.suppress(nixl.FORGOTTEN):
        us.remove_remote_agent("peer")


def case_with_and_without_nanoctrl(us, memory, peer, url):
    """They refuse each other with words."""
    with nixl.standard_error() as said:
        other = nixl.make_agent("other", sys.argv[1], ctrl="")
        try:
            us.add_remote_agent(other.get_agent_metadata())
        except nixl.nixlBind.nixlMismatchError:
            assert "agent other is without nanoctrl" in said(), said()
            return
    raise AssertionError("an agent without nanoctrl was loaded")


def case_no_nanoctrl(us, memory, peer, url):
    with nixl.standard_error() as said:
        try:
            nixl.make_agent("lost", sys.argv[1], ctrl="nonsense")
        except nixl.nixlBind.nixlBackendError:
            assert "no registration with nanoctrl at nonsense" in said(), said()
            return
    raise AssertionError("it was created")


def main():
    transport = sys.argv[1]
    nixl.multiprocessing.set_start_method("spawn")
    with nanoctrl() as url:
        os.environ.update(SLIME_NIXL_CTRL=url, SLIME_NIXL_SCOPE="nixl")
        us = nixl.make_agent("us", transport)
        memory = nixl.Memory(0)
        registered = us.register_memory([(memory.addr, nixl.LENGTH, 0, "")], "DRAM")
        peer = nixl.Peer(transport, 2)
        for case in (case_registered_by_name, case_with_and_without_nanoctrl, case_no_nanoctrl):
            case(us, memory, peer, url)
            print("ok", case.__name__)
        us.add_remote_agent(peer.metadata)
        for case in (
            case_end_while_notifications_arrive,
            case_lease_that_ends_before_a_post,
            case_metadata_that_is_loaded_again,
        ):
            case(us, memory, peer, url)
            print("ok", case.__name__)
        for case in (nixl.case_read, nixl.case_write_and_its_notification, nixl.case_notifications_alone):
            case(us, memory, peer)
            print("ok", case.__name__)
        for case in (case_death_before_a_post, case_one_that_leaves):
            case(us, memory, peer, url)
            print("ok", case.__name__)
            peer = nixl.Peer(transport, 2)
            us.add_remote_agent(peer.metadata)
            nixl.case_read(us, memory, peer)
        us.remove_remote_agent("peer")
        peer.kill()
        us.deregister_memory(registered)
        del us


if __name__ == "__main__":
    try:
        main()
    finally:
        for pid in nixl.Peer.alive:
            os.kill(pid, nixl.signal.SIGKILL)
