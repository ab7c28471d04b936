# SPDX-License-Identifier: Apache-2.0
"""Agents beside a real nanoctrl."""

import array
import asyncio
import contextlib
import dataclasses
import gc
import itertools
import os
import socket
import subprocess
import sys
import threading
import time

import libslime
import pytest
from libslime import READ, Agent, method

scopes = itertools.count()
HEARD = 0.1 + 0.9  # seconds until Ctrl-C ends a wait, and what a loaded machine may add


@pytest.fixture
def scope():
    return f"py-{next(scopes)}"


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Service:
    @method
    def add(self, a: int, b: int) -> int:
        return a + b

    @method
    def mirror(self, point: Point) -> Point:
        return Point(point.y, point.x)

    @method(raw=True)
    def reverse(self, request):
        return bytes(reversed(bytes(request)))

    @method
    def fail(self) -> None:
        raise KeyError("no such thing")


def test_region__of_a_peer_is_read_by_name(nanoctrl, scope):
    with Agent(nanoctrl, name="b", scope=scope) as b, Agent(nanoctrl, name="a", scope=scope) as a:
        memory = b.share("kv", 4096, READ)
        memory.view[:4] = b"page"
        link = a.link("b")
        kv = a.region("b", "kv")
        mine = a.context.allocate(kv.size).region()
        link.read(mine, kv).wait(10)
        assert bytes(mine.view[:4]) == b"page"
        assert [peer.name for peer in a.peers()] == ["b"]
        with pytest.raises(libslime.NotFound):
            a.region("b", "nothing")


def test_share__lasts_until_it_is_closed_whoever_keeps_it(nanoctrl, scope):
    with Agent(nanoctrl, name="b", scope=scope) as b, Agent(nanoctrl, name="a", scope=scope) as a:
        b.share("dropped", 4096, READ)
        gc.collect()
        assert a.region("b", "dropped").size == 4096
        memory = b.share("closed", 4096, READ)
        assert [(r.name, r.size, r.access) for r in a.regions("b")] == [("closed", 4096, READ), ("dropped", 4096, READ)]
        memory.close()
        b.withdraw("dropped")
        assert b.share("closed", 8192, READ).size == 8192
        deadline = time.monotonic() + 10
        while [(r.name, r.size) for r in a.regions("b")] != [("closed", 8192)]:
            assert time.monotonic() < deadline, a.regions("b")


def test_peers__are_chosen_by_labels(nanoctrl, scope):
    with (
        Agent(nanoctrl, name="b", scope=scope, labels={"role": "decode", "zone": "x"}, services=["cache"]),
        Agent(nanoctrl, name="c", scope=scope, labels={"role": "prefill"}),
        Agent(nanoctrl, name="a", scope=scope) as a,
    ):
        assert [peer.name for peer in a.peers()] == ["b", "c"]
        (b,) = a.peers("role=decode")
        assert (b.name, b.labels, b.services) == ("b", {"role": "decode", "zone": "x"}, ("cache",))
        assert a.providers("cache") == ["b"]
        assert a.peers("role=decode,zone=y") == []


def test_target__reaches_a_region_by_names_also_in_its_second_life(nanoctrl, scope):
    with Agent(nanoctrl, name="a", scope=scope) as a:
        mine = a.context.allocate(64).region(READ)
        a.want("b")
        with Agent(nanoctrl, name="b", scope=scope) as b:
            b.share("kv", 64).view[:3] = b"one"
            target = a.target("b", "kv")
            target.read(mine, length=3).wait(10)
            assert bytes(mine.view[:3]) == b"one"
            mine.view[:3] = b"two"
            eights = array.array("Q", [8])
            target.write_batch(mine, array.array("Q", [0]), eights, eights).wait(10)
            told = a.target("b", None)
            assert [(link.peer, link.state, link.cause) for link in a.links()] == [("b", "connected", "")]
            told.close()
        with Agent(nanoctrl, name="b", scope=scope) as b:
            b.share("kv", 64).view[:3] = b"six"
            deadline = time.monotonic() + 10
            while bytes(mine.view[:3]) != b"six":
                assert time.monotonic() < deadline
                try:
                    target.read(mine, length=3).wait(10)
                except libslime.SlimeError:
                    pass


def test_target__waits_for_a_region_that_is_offered_later(nanoctrl, scope):
    with Agent(nanoctrl, name="b", scope=scope) as b, Agent(nanoctrl, name="a", scope=scope) as a:
        a.link("b")
        begin = time.monotonic()
        with pytest.raises(libslime.NotFound):
            a.target("b", "kv", timeout=0.3)
        assert time.monotonic() - begin >= 0.3
        offer = threading.Timer(0.3, b.share, ("kv", 64))
        offer.start()
        a.target("b", "kv", timeout=10).close()
        offer.join()


PEER = """
import sys, libslime
agent = libslime.Agent(sys.argv[1], name="b", scope=sys.argv[2]).start()
print("ready", flush=True)
sys.stdin.read()
agent.close()
"""


@contextlib.contextmanager
def peer_process(nanoctrl, scope):
    process = subprocess.Popen([sys.executable, "-c", PEER, nanoctrl, scope], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_events__tell_of_a_peer_that_is_killed(nanoctrl, scope):
    with Agent(nanoctrl, name="a", scope=scope) as a, peer_process(nanoctrl, scope) as b:
        events = a.events()
        a.link("b")
        assert events.next(0) is None
        b.kill()
        begin = time.monotonic()
        event = events.next(10)
        assert (event.peer, event.reason, event.n_lost) == ("b", "reset", 0) and event.text
        assert time.monotonic() - begin < 2.5


def test_events__of_an_event_loop_end_with_the_agent(nanoctrl, scope):
    async def watch(a, seen):
        async for event in a.events():
            seen.append((event.peer, event.reason))

    async def run(a, b):
        seen = []
        task = asyncio.create_task(watch(a, seen))
        await asyncio.sleep(0)
        b.stdin.close()
        while not seen:
            await asyncio.sleep(0.01)
        a.close()
        await asyncio.wait_for(task, 10)
        return seen[0]

    with Agent(nanoctrl, name="a", scope=scope) as a, peer_process(nanoctrl, scope) as b:
        a.link("b")
        assert asyncio.run(run(a, b)) in (("b", "left"), ("b", "reset"))


def test_events__of_an_event_loop_end_when_another_thread_closes_them(nanoctrl, scope):
    async def watch(events):
        async for event in events:
            raise AssertionError(event)

    async def run(events):
        task = asyncio.create_task(watch(events))
        closing = threading.Timer(0.1, events.close)  # the loop sleeps by then
        closing.start()
        begin = time.monotonic()
        await asyncio.wait_for(task, 20)
        assert time.monotonic() - begin < 10
        closing.join()

    with Agent(nanoctrl, name="a", scope=scope) as a:
        asyncio.run(run(a.events()))


def test_ctrl_c__ends_every_wait_of_an_agent(nanoctrl, scope, interrupted):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        lost = Agent(f"http://127.0.0.1:{silent.getsockname()[1]}", name="a", scope=scope)
        assert interrupted(lost.start) < HEARD
        # It has no session: each of these waits for one.
        for wait in (
            lambda: lost.region("b", "kv", timeout=None),
            lambda: lost.regions("b", 20),
            lambda: lost.peers(timeout=20),
            lambda: lost.providers("cache", 20),
            lambda: lost.link("b", timeout=None),
            lambda: lost.target("b", "kv", timeout=None),
            lambda: lost.events().next(),
            lambda: next(iter(lost.events())),
        ):
            assert interrupted(wait) < HEARD
        lost.close()
    with Agent(nanoctrl, name="b", scope=scope, workers=0, methods=[Typed()]) as b, Agent(nanoctrl, name="a", scope=scope) as a:
        proxy = a.proxy("b")
        for wait in (b.serve_once, b.serve_forever, lambda: proxy.call("double", b"x")):
            assert interrupted(wait) < HEARD


def test_proxy__calls_typed_and_raw_methods(nanoctrl, scope):
    with Agent(nanoctrl, name="b", scope=scope, methods=[Service()]), Agent(nanoctrl, name="a", scope=scope) as a:
        b = a.proxy("b", Service)
        assert b.add(a=2, b=3) == 5
        assert b.add(1, 2) == 3
        assert b.mirror(point=Point(1, 2)) == Point(2, 1)
        assert b.reverse(b"x" * 100000 + b"y")[:1] == b"y"
        with pytest.raises(libslime.RemoteRpcError, match="no such thing"):
            b.fail()
        with pytest.raises(AttributeError):
            b.nothing()
        with pytest.raises(TypeError):
            b.add(1, 2, 3)
        with pytest.raises(libslime.RpcError):
            a.proxy("b").call("nothing")

        async def both():
            return await asyncio.gather(*(b.acall("reverse", bytes([i, 0])) for i in range(8)))

        assert asyncio.run(both()) == [bytes([0, i]) for i in range(8)]


def test_call__past_its_deadline_is_a_timeout(nanoctrl, scope):
    import threading

    release = threading.Event()

    @method(raw=True)
    def slow(request):
        release.wait(10)
        return b""

    with Agent(nanoctrl, name="b", scope=scope, methods=[slow]), Agent(nanoctrl, name="a", scope=scope) as a:
        with pytest.raises(libslime.RpcTimeoutError):
            a.proxy("b").call("slow", timeout=0.2)
        release.set()


def test_start__without_nanoctrl_says_what_is_in_the_way():
    with pytest.raises(libslime.Timeout, match="127.0.0.1"):
        Agent("http://127.0.0.1:9", name="a").start(timeout=1)


def test_pages__are_put_and_got_in_batches(nanoctrl, scope):
    owner = Agent(nanoctrl, name="owner", scope=scope)
    pages_owner = libslime.PagesOwner(owner, 16 << 20, page_sizes=[65536])
    with owner, Agent(nanoctrl, name="a", scope=scope) as a:
        pages_owner.start()
        pages = libslime.Pages(a)
        memory = a.context.allocate(8 * 65536)
        region = memory.region(READ)
        keys = [f"page-{i}" for i in range(8)]
        slots = [(i * 65536, 65536) for i in range(8)]
        for i in range(8):
            memory.view[i * 65536] = i + 1
        assert pages.get(keys, region, slots) == [False] * 8
        assert pages.put(keys[:6], region, slots[:6]) == [True] * 6
        assert pages.put(keys[:1], region, slots[:1]) == [False]
        memory.view[:] = bytes(len(memory.view))
        assert pages.get(keys, region, slots) == [True] * 6 + [False] * 2
        assert [memory.view[i * 65536] for i in range(8)] == [1, 2, 3, 4, 5, 6, 0, 0]
        assert pages.prefix(keys) == 6
        assert pages.delete(keys[:1]) == [True]
        assert pages.prefix(keys) == 0
        pages.close()
        pages_owner.close()


# ---- served without a thread of the library ----


@dataclasses.dataclass
class Line:
    ends: list[Point]
    name: str | None = None


class Typed:
    @method
    def move(self, line: Line, by: int = 1) -> Line:
        return Line([Point(p.x + by, p.y + by) for p in line.ends], line.name)

    @method(raw=True, in_place=True)
    def double(self, request, room):
        n = len(request)
        room[:n] = room[n : 2 * n] = request
        return 2 * n

    @method
    async def meet(self, n: int) -> int:
        """Ends when so many of them run at once."""
        self.n_met = getattr(self, "n_met", 0) + 1
        if self.n_met == 1:
            self.all_met = asyncio.Event()
        if self.n_met == n:
            self.all_met.set()
        await self.all_met.wait()
        return self.n_met

    @method
    def fail(self) -> None:
        raise KeyError("no such thing")


@pytest.fixture
def typed():
    return Typed()


@pytest.fixture
def queued(nanoctrl, scope, typed):
    with Agent(nanoctrl, name="b", scope=scope, methods=[typed], workers=0) as b:
        with Agent(nanoctrl, name="a", scope=scope) as a:
            a.link("b")
            yield a, b


def test_serve_once__answers_one_request(queued):
    a, b = queued
    assert b.serve_once(0.05) is False
    call = a.proxy("b").begin("double", b"ab")
    assert b.serve_once(10) is True
    assert call.wait(10) == b"abab"
    failing = a.proxy("b").begin("fail", b"{}")
    assert b.serve_once(10)
    with pytest.raises(libslime.RemoteRpcError, match="no such thing"):
        failing.wait(10)
    assert b.serve_once(0) is False
    threads = {open(f"/proc/self/task/{t}/comm").read() for t in os.listdir("/proc/self/task")}
    assert not any("worker" in t for t in threads)


def test_aserve__runs_coroutine_functions_beside_each_other(queued, typed):
    a, b = queued

    async def run():
        serving = asyncio.create_task(b.aserve())
        proxy = a.async_proxy("b", Typed)
        assert await asyncio.gather(*(proxy.meet(8) for _ in range(8))) == [8] * 8
        moved = await proxy.move(Line([Point(1, 2)], "l"), by=10)
        assert moved == Line([Point(11, 12)], "l")
        assert await proxy.double(b"x" * 1000) == b"x" * 2000
        typed.n_met = 0
        left = asyncio.ensure_future(proxy.meet(2))
        while typed.n_met == 0:
            await asyncio.sleep(0)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        with pytest.raises(libslime.RemoteRpcError):
            await left

    asyncio.run(run())


def test_requests__that_nobody_took_are_answered_when_the_agent_leaves(nanoctrl, scope):
    b = Agent(nanoctrl, name="b", scope=scope, methods=[Typed()], workers=0)
    with Agent(nanoctrl, name="a", scope=scope) as a:
        with b:
            calls = [a.proxy("b").begin("double", b"x") for _ in range(100)]
        for call in calls:
            with pytest.raises(libslime.RpcError):
                call.wait(10)


def test_workers__and_queue_do_not_mix(nanoctrl, scope):
    with pytest.raises(libslime.Invalid, match="workers=0"):
        Agent(nanoctrl, name="b", scope=scope, methods=[Typed()])
    with Agent(nanoctrl, name="b", scope=scope, methods=[Service()]) as b:
        with pytest.raises(libslime.Invalid, match="workers=0"):
            b.serve_once()
    with pytest.raises(libslime.Invalid, match="in_place"):
        method(in_place=True)(print)


def test_wait_all__gives_results_in_order_and_the_first_failure(nanoctrl, scope):
    with Agent(nanoctrl, name="b", scope=scope, methods=[Service()]) as b, Agent(nanoctrl, name="a", scope=scope) as a:
        proxy = a.proxy("b")
        assert b.state == "ready"
        assert libslime.wait_all([proxy.begin("reverse", bytes([i, 0])) for i in range(20)]) == [bytes([0, i]) for i in range(20)]
        calls = [proxy.begin("reverse", b"ab"), proxy.begin("nothing"), proxy.begin("reverse", b"cd")]
        with pytest.raises(libslime.RpcError):
            libslime.wait_all(calls, timeout=10)
        assert all(call.done() for call in calls)


LIVES = int(os.environ.get("SLIME_LIVES", 40))


def test_lives__of_an_agent_leave_nothing_behind(nanoctrl, scope):
    """Agents of one interpreter, each with memory, a link, a call and a watch."""

    def left():
        gc.collect()
        with open("/proc/self/statm") as statm:
            resident = int(statm.read().split()[1]) * 4096
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), resident

    with Agent(nanoctrl, name="b", scope=scope, methods=[Service()]) as b:
        memory = b.share("kv", 4096, READ)
        for life in range(LIVES):
            if life == 10:
                before = left()
            with Agent(nanoctrl, name=f"a{life}", scope=scope, methods=[Typed()], workers=0) as a:
                remote = a.region("b", "kv")
                a.link("b").read(a.context.allocate(4096).region(), remote).wait(10)
                assert a.proxy("b").call("reverse", b"ab") == b"ba"
                assert a.events().next(0) is None
        after = left()
        memory.close()
    assert after[0] <= before[0] + 4 and after[1] <= before[1] + 1, (before, after)
    assert after[2] <= before[2] + (32 << 20), (before, after)
    print(f"{LIVES} lives; descriptors, threads, bytes: {before}, {after}")
