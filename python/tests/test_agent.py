# SPDX-License-Identifier: Apache-2.0
"""Agents beside a real nanoctrl."""

import asyncio
import dataclasses
import itertools

import libslime
import pytest
from libslime import READ, Agent, method

scopes = itertools.count()


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
        assert a.peers() == ["b"]
        with pytest.raises(libslime.NotFound):
            a.region("b", "nothing")


def test_proxy__calls_typed_and_raw_methods(nanoctrl, scope):
    with Agent(nanoctrl, name="b", scope=scope, methods=[Service()]), Agent(nanoctrl, name="a", scope=scope) as a:
        b = a.proxy("b", Service)
        assert b.add(a=2, b=3) == 5
        assert b.mirror(point=Point(1, 2)) == {"x": 2, "y": 1}
        assert b.reverse(b"x" * 100000 + b"y")[:1] == b"y"
        with pytest.raises(libslime.RemoteRpcError, match="no such thing"):
            b.fail()
        with pytest.raises(AttributeError):
            b.nothing()
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
