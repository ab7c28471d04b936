# SPDX-License-Identifier: Apache-2.0
"""Programs of ours that make the same calls as DLSlime's documented ones: but for the import they would run with either."""

import ctypes
import itertools
import threading

import pytest
from libslime.compat import dlslime
from libslime.compat.dlslime import PeerAgent, RDMAEndpoint, available_nic, method, proxy, serve, serve_once, wait_all

names = itertools.count()


def buffer(size, byte=0):
    memory = (ctypes.c_ubyte * size)(*([byte] * size))
    return memory, ctypes.addressof(memory)


def test_available_nic__is_a_list_of_names():
    assert all(isinstance(name, str) for name in available_nic())


@pytest.fixture
def ends():
    """Two endpoints that know each other's regions "kv"."""
    ends = [RDMAEndpoint(device_name="", ib_port=1, link_type="RoCE", num_qp=1) for _ in range(2)]
    memories = [buffer(65536, i + 1) for i in range(2)]
    handles = [end.register_memory_region("kv", memory[1], 0, 65536) for end, memory in zip(ends, memories)]
    ends[0].connect(ends[1].endpoint_info())
    ends[1].connect(ends[0].endpoint_info())
    remotes = [ends[i].register_remote_memory_region("kv", ends[1 - i].mr_info()["kv"]) for i in range(2)]
    yield ends, memories, handles, remotes
    for end in ends:
        end.shutdown()


def test_endpoint__reads_and_writes_by_assignments(ends):
    (a, _), (mine, theirs), handles, remotes = ends
    assert a.read([(handles[0], remotes[0], 100, 0, 50), (handles[0], remotes[0], 0, 60000, 10)]).wait() == 0
    assert bytes(mine[0][:51]) == b"\2" * 50 + b"\1" and bytes(mine[0][60000:60010]) == b"\2" * 10
    assert a.write([(handles[0], remotes[0], 1000, 5000, 20)]).wait() == 0
    assert bytes(theirs[0][999:1021]) == b"\2" + b"\1" * 20 + b"\2"
    assert a.read([]).wait() == 0
    with pytest.raises(RuntimeError):
        a.read([(handles[0] + 7, remotes[0], 0, 0, 1)])


def test_endpoint__write_with_imm_tells_the_peer(ends):
    (a, b), _, handles, remotes = ends
    for imm in (0, 2147483647, -1):
        told = b.imm_recv()
        assert a.write_with_imm([(handles[0], remotes[0], 0, 0, 8)], imm).wait() == 0
        assert told.wait() == 0 and told.imm_data() == imm


def test_endpoint__send_and_recv_are_in_order(ends):
    (a, b), _, _, _ = ends
    into = [buffer(16) for _ in range(3)]
    out = [buffer(16, 10 + i) for i in range(3)]
    receives = [b.recv((at, 0, 16)) for _, at in into]
    sends = [a.send((at, 0, 16)) for _, at in out]
    assert [f.wait() for f in sends + receives] == [0] * 6
    assert [bytes(memory) for memory, _ in into] == [bytes(memory) for memory, _ in out]


@pytest.fixture
def agents(nanoctrl):
    scope = f"dlslime-{next(names)}"
    with PeerAgent(nanoctrl, alias="a", scope=scope) as a, PeerAgent(nanoctrl, alias="b", scope=scope) as b:
        a.connect_to("b", ib_port=1, qp_num=1)
        a.query_connection("b").wait(20)
        b.connect_to("a").wait(20)
        yield a, b


def test_agent__reads_and_writes_by_names(agents):
    a, b = agents
    mine, at = buffer(4096, 1)
    theirs, there = buffer(4096, 2)
    a.register_memory_region("kv", at, 0, 4096)
    b.register_memory_region("kv", there, 0, 4096)
    a.register_memory_region("other", at, 2048, 2048)
    assert a.read("b", [("kv", 0, 100, 10)]).wait() == 0
    assert bytes(mine[:11]) == b"\2" * 10 + b"\1"
    assert a.write("b", [("other", "kv", 0, 50, 5)]).wait() == 0
    assert bytes(theirs[49:56]) == b"\2" + b"\1" * 5 + b"\2"
    told = b.imm_recv("a")
    a.write_with_imm("b", [("kv", 0, 0, 1)], 42).wait()
    assert told.imm_data() == 42
    assert a.list_agents() == ["b"] and a.get_mr_info("b", "kv")["length"] == 4096 and a.get_mr_info("b", "none") is None
    out, into = buffer(8, 9), buffer(8)
    receive = b.recv("a", (into[1], 0, 8))
    assert a.send("b", (out[1], 0, 8)).wait() == 0 and receive.wait() == 0
    assert bytes(into[0]) == bytes(out[0])
    assert a.unregister_memory_region("other")


class Worker:
    @method
    def add(self, a, b):
        return a + b

    @method
    def nothing(self):
        return None

    @method(raw=True)
    def reverse(self, channel, ptr, nbytes):
        return ctypes.string_at(ptr, nbytes)[::-1]

    @method(raw=True, inplace=True)
    def twice(self, req_ptr, req_nbytes, resp_ptr, resp_cap):
        ctypes.memmove(resp_ptr, req_ptr, req_nbytes)
        ctypes.memmove(resp_ptr + req_nbytes, req_ptr, req_nbytes)
        return 2 * req_nbytes

    @method
    def fail(self):
        raise ValueError("not today")


def test_rpc__calls_typed_raw_and_in_place_methods(agents):
    a, b = agents
    thread = threading.Thread(target=serve, args=(b, Worker()))
    thread.start()
    worker = proxy(a, "b", Worker)
    assert worker.add(1, 2).wait() == 3
    assert worker.nothing().wait(10) is None
    assert wait_all([worker.add(i, i) for i in range(50)], timeout=20) == [2 * i for i in range(50)]
    assert worker.reverse(b"abc").wait() == b"cba"

    def write(ptr, room):
        ctypes.memmove(ptr, b"xy", 2)
        return 2

    assert worker.twice(write).wait() == b"xyxy"
    with pytest.raises(dlslime.RemoteRpcError, match="not today") as failure:
        worker.fail().wait()
    assert failure.value.type_name == "ValueError" and "fail" in failure.value.traceback
    with pytest.raises(AttributeError):
        worker.unknown()
    with pytest.raises(TypeError, match="add"):
        worker.add(b"bytes", 1)
    b.shutdown()
    thread.join(20)
    assert not thread.is_alive()


def test_rpc__serve_once_answers_the_named_peer(agents):
    a, b = agents
    future = proxy(a, "b", Worker).add(2, 3)
    serve_once(b, Worker(), "nobody", timeout=0.2)
    assert not future.done()
    serve_once(b, Worker(), "a", timeout=10)
    assert future.wait(10) == 5
    with pytest.raises(dlslime.RpcTimeoutError):
        proxy(a, "b", Worker).add(1, 1).wait(0.05)
