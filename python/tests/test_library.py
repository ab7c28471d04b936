# SPDX-License-Identifier: Apache-2.0
import array
import asyncio
import gc
import mmap
import os
import signal
import threading
import time

import libslime
import numpy
import pytest
from libslime import READ, WRITE, RemoteRegion


def offered(end, size, access=READ | WRITE):
    memory = end.context.allocate(size)
    region = memory.region(access)
    return memory, region, RemoteRegion(region.export())


def test_read__brings_the_bytes_of_the_peer(pair):
    memory, _, remote = offered(pair[1], 4096)
    memory.view[:5] = b"hello"
    mine = pair[0].context.allocate(4096).region()
    assert pair[0].read(mine, remote).wait(10) == 4096
    assert bytes(mine.view[:5]) == b"hello"


def test_write__of_a_numpy_array_arrives(pair):
    memory, _, remote = offered(pair[1], 8000)
    numbers = numpy.arange(1000, dtype=numpy.uint64)
    mine = pair[0].context.register(numbers, access=READ | WRITE)
    if pair[0].transport == "shm":
        mine = pair[0].context.allocate(8000).region()
        mine.view[:] = numbers.tobytes()
    pair[0].write(mine, remote).wait(10)
    assert (numpy.frombuffer(memory.view, dtype=numpy.uint64) == numbers).all()


def test_read_batch__of_arrays_moves_each_piece_to_its_place(pair):
    memory, _, remote = offered(pair[1], 64 * 100)
    memory.view[:] = bytes(i % 251 for i in range(6400))
    mine = pair[0].context.allocate(6400).region()
    there = numpy.arange(100, dtype=numpy.uint64) * 64
    here = there[::-1].copy()
    lengths = array.array("Q", [64] * 100)
    assert pair[0].read_batch(mine, remote, here, there, lengths).wait(10) == 6400
    for a, b in zip(here.tolist(), there.tolist()):
        assert bytes(mine.view[a : a + 64]) == bytes(memory.view[b : b + 64])


def test_prepare_read__is_submitted_again_and_again(pair):
    memory, _, remote = offered(pair[1], 6400)
    mine = pair[0].context.allocate(6400).region()
    there = numpy.arange(50, dtype=numpy.uint64) * 128
    here = numpy.arange(50, dtype=numpy.uint64) * 64
    lengths = numpy.full(50, 64, dtype=numpy.uint64)
    batch = pair[0].prepare_read(mine, remote, here, there, lengths)
    del there, here, lengths
    for round in range(20):
        memory.view[:] = bytes((i + round) % 251 for i in range(6400))
        assert batch.submit().wait(10) == 3200
        for i in range(50):
            assert mine.view[64 * i : 64 * i + 64] == memory.view[128 * i : 128 * i + 64]
    with pytest.raises(libslime.Invalid):
        pair[0].prepare_write(mine, remote, *(numpy.full(1, 1 << 40, dtype=numpy.uint64),) * 3)
    mine.close()
    with pytest.raises(libslime.Invalid, match="closed"):
        batch.submit()


def test_write_imm__tells_the_peer(pair):
    _, _, remote = offered(pair[1], 64)
    mine = pair[0].context.allocate(64).region()
    told = pair[1].imm_recv()
    pair[0].write_imm(mine, remote, 77).wait(10)
    told.wait(10)
    assert told.imm == 77


def test_send__matches_the_receive_of_its_tag(pair):
    out = pair[0].context.allocate(4096).region(READ)
    into = pair[1].context.allocate(4096).region()
    out.view[:3] = b"abc"
    second = pair[1].recv(into, 100, 10, tag=2, mask=-1 & (2**64 - 1))
    first = pair[1].recv(into, 0, 10, tag=1, mask=2**64 - 1)
    pair[0].send(out, 0, 3, tag=1).wait(10)
    pair[0].send(out, 1, 2, tag=2).wait(10)
    assert first.wait(10) == 3 and second.wait(10) == 2
    assert bytes(into.view[:3]) == b"abc" and bytes(into.view[100:102]) == b"bc"


def test_await__of_operations_runs_beside_other_tasks(pair):
    _, _, remote = offered(pair[1], 1 << 20)
    mine = pair[0].context.allocate(1 << 20).region()

    async def many():
        ops = [pair[0].read(mine, remote, 0, 0, 4096 + i) for i in range(50)]
        return await asyncio.gather(*ops)

    assert asyncio.run(many()) == [4096 + i for i in range(50)]


def test_await__of_a_failed_operation_raises_it(pair):
    told = pair[0].imm_recv()

    async def wait():
        asyncio.get_running_loop().call_later(0.05, pair[1].close)
        await told

    with pytest.raises(libslime.ConnectionLost):
        asyncio.run(wait())


def test_errors__are_of_their_kind_and_have_words(pair):
    _, region, remote = offered(pair[1], 64, READ)
    mine = pair[0].context.allocate(128).region()
    with pytest.raises(libslime.Invalid):
        pair[0].read(mine, remote, 0, 0, 65)
    with pytest.raises(libslime.Refused):
        pair[0].write(mine, remote, 0, 0, 1)
    region.close()
    deadline = time.monotonic() + 10
    with pytest.raises(libslime.Stale):
        while time.monotonic() < deadline:
            pair[0].read(mine, remote, 0, 0, 1).wait(10)
    with pytest.raises(libslime.Invalid):
        RemoteRegion(b"nonsense")


def test_register__refuses_buffers_that_cannot_be_used(pair):
    context = pair[0].context
    with pytest.raises(libslime.Invalid, match="read-only"):
        context.register(b"bytes")
    with pytest.raises(libslime.Invalid, match="contiguous"):
        context.register(numpy.zeros((8, 8))[:, ::2])
    with pytest.raises(libslime.Invalid, match="64-bit"):
        pair[0].read_batch(None, None, numpy.zeros(3, dtype=numpy.uint32), None, None)
    context.register(bytearray(10)).close()
    context.register(mmap.mmap(-1, 4096)).close()


def test_register__keeps_its_buffer_from_being_resized(pair):
    buffer = bytearray(100)
    region = pair[0].context.register(buffer)
    with pytest.raises(BufferError):
        buffer.extend(b"more")
    region.close()


def test_wait__ends_with_ctrl_c(pair):
    told = pair[0].imm_recv()
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        told.wait(20)
    assert time.monotonic() - begin < 2


def test_wait__that_times_out_leaves_the_operation_alone(pair):
    told = pair[0].imm_recv()
    with pytest.raises(libslime.Timeout):
        told.wait(0.05)
    _, _, remote = offered(pair[0], 8)
    pair[1].write_imm(pair[1].context.allocate(8).region(), remote, 5).wait(10)
    told.wait(10)
    assert told.imm == 5


def test_close__in_any_order_is_safe():
    for order in range(6):
        context = libslime.Context()
        memory = context.allocate(4096)
        region = memory.region(READ)
        objects = [context, memory, region]
        for i in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))[order]:
            objects[i].close()
        with pytest.raises(libslime.Invalid, match="closed"):
            region.export()


def test_view__keeps_its_memory():
    view = libslime.Context().allocate(4096).region().view
    gc.collect()
    view[4095] = 7
    assert view[4095] == 7


def test_close__of_memory_with_a_view_is_refused():
    memory = libslime.Context().allocate(4096)
    view = memory.view
    with pytest.raises(libslime.Busy, match="a view of the memory is in use"):
        memory.close()
    view[0] = 1
    del view
    memory.close()
    assert memory.closed


def test_close__after_refused_operations_leaves_nothing(pair):
    memory, _, remote = offered(pair[1], 64)
    mine = pair[0].context.allocate(64).region()
    closed = pair[0].context.allocate(64).region()
    closed.close()
    for refused in (
        lambda: pair[0].read(closed, remote),
        lambda: pair[0].read(mine, remote, 0, 0, 65),
        lambda: pair[0].send(closed),
    ):
        with pytest.raises(libslime.Invalid):
            refused()
    end = pair[0]
    end.close()
    for refused in (lambda: end.read(mine, remote), end.imm_recv, lambda: end.send(mine), lambda: libslime.call(end, "m")):
        with pytest.raises(libslime.SlimeError):
            refused()
    end.context.close()


def test_lives__leave_no_descriptor_or_thread_behind():
    def life():
        context = libslime.Context()
        context.endpoint().export()
        context.allocate(4096).region(READ)

    life()
    gc.collect()
    descriptors, threads = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    for _ in range(100):
        life()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert len(os.listdir("/proc/self/task")) == threads


def test_use_after_fork__is_refused(pair):
    pid = os.fork()
    if pid == 0:
        try:
            pair[0].context.allocate(4096)
            os._exit(1)
        except libslime.SlimeError:
            os._exit(0)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
