# SPDX-License-Identifier: Apache-2.0
import array
import asyncio
import gc
import mmap
import os
import sys
import time
import traceback
import weakref

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
    arrays = [numpy.zeros(3, dtype=numpy.uint64)] * 3
    for wrong, words in (
        (numpy.zeros(3, dtype=numpy.uint32), "64-bit"),
        (numpy.zeros(3, dtype=numpy.int64), "64-bit"),
        (numpy.zeros(6, dtype=numpy.uint64)[::2], "contiguous"),
        (numpy.zeros((3, 1), dtype=numpy.uint64), "one dimension"),
        (numpy.zeros(2, dtype=numpy.uint64), "lengths"),
    ):
        for place in range(3):
            with pytest.raises(libslime.Invalid, match=words):
                pair[0].read_batch(None, None, *arrays[:place], wrong, *arrays[place + 1 :])
    context.register(bytearray(10)).close()
    context.register(mmap.mmap(-1, 4096)).close()


def test_register__keeps_its_buffer_from_being_resized(pair):
    buffer = bytearray(100)
    region = pair[0].context.register(buffer)
    with pytest.raises(BufferError):
        buffer.extend(b"more")
    region.close()


HEARD = 0.1 + 0.9  # seconds until Ctrl-C ends a wait, and what a loaded machine may add


def test_ctrl_c__ends_every_wait(pair, interrupted):
    listener = pair[0].context.listen()
    told = pair[0].imm_recv()
    silent = pair[1].context.endpoint()
    for wait in (
        lambda: told.wait(),
        lambda: told.wait(20),
        lambda: libslime.wait_all([told]),
        lambda: listener.accept(),
        lambda: pair[0].context.endpoint().connect(silent.export(), 20).wait(),
    ):
        assert interrupted(wait) < HEARD
    # What was interrupted goes on.
    _, _, remote = offered(pair[0], 8)
    pair[1].write_imm(pair[1].context.allocate(8).region(), remote, 5).wait(10)
    told.wait(10)
    assert told.imm == 5


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


def in_child(function):
    """Whether it is true in a process that was made by fork()."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if function() else 1)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_use_after_fork__is_refused_with_words(pair):
    memory, region, remote = offered(pair[1], 64)
    mine = pair[0].context.allocate(64).region()
    op = pair[0].imm_recv()
    batch = pair[0].prepare_read(mine, remote, *(array.array("Q", [8]),) * 3)
    listener = pair[0].context.listen()
    uses = (
        lambda: pair[0].context.allocate(4096),
        lambda: pair[0].context.register(bytearray(8)),
        lambda: pair[0].read(mine, remote),
        lambda: batch.submit(),
        lambda: op.wait(1),
        lambda: op.done(),
        lambda: region.export(),
        lambda: listener.accept(0),
    )

    def refused(use):
        try:
            use()
        except libslime.Refused as refusal:
            return "before fork()" in str(refusal)
        return False

    def child():
        for made in (mine, memory, pair[0], listener, pair[0].context):  # harmless there
            made.close()
        libslime.Context().allocate(4096).view[0] = 1  # its own
        return True

    assert in_child(lambda: all(refused(use) for use in uses))
    assert in_child(child)
    pair[0].read(mine, remote).wait(10)


# ---- listeners ----


def test_listener__gives_each_dialer_an_endpoint():
    server, client = libslime.Context(), libslime.Context()
    listener = server.listen(tcp_bind="127.0.0.1")
    memory = server.allocate(4096)
    memory.view[:4] = b"page"
    region = memory.region(READ)
    remote = RemoteRegion(region.export())
    mine = client.allocate(4096).region()
    for transport in ("shm", "tcp"):
        dialled = client.dial(listener.export(), transports=[transport])
        accepted = listener.accept(10)
        assert accepted.transport == dialled.transport == transport
        mine.view[:4] = bytes(4)
        dialled.read(mine, remote).wait(10)
        assert bytes(mine.view[:4]) == b"page"
    assert listener.accept(0) is None
    descriptor = listener.export()
    listener.close()
    with pytest.raises(libslime.NotConnected):
        client.dial(descriptor)
    server.close()
    client.close()


def test_listener__is_iterated_in_an_event_loop_until_it_is_closed():
    server, client = libslime.Context(), libslime.Context()
    listener = server.listen()

    async def run():
        taken = []

        async def take():
            async for endpoint in listener:
                taken.append(endpoint)

        task = asyncio.create_task(take())
        for n in range(3):
            await asyncio.to_thread(client.dial, listener.export())
            while len(taken) == n:
                await asyncio.sleep(0)
        listener.close()
        await asyncio.wait_for(task, 10)
        return len(taken)

    assert asyncio.run(run()) == 3


# ---- tensors ----


class Tensor:
    """Of numpy, with nothing but what tensors of others have."""

    def __init__(self, of):
        self._of = of

    def __dlpack__(self, **options):
        return self._of.__dlpack__(**options)


def test_register__of_a_tensor_uses_its_memory(pair):
    numbers = numpy.arange(100, dtype=numpy.float32).reshape(10, 10)
    region = pair[0].context.register(Tensor(numbers), WRITE)
    assert region.size == 400
    region.view[:4] = b"\0\0\0\0"
    assert bytes(region.view) == numbers.tobytes()
    reference = weakref.ref(numbers)
    del numbers
    gc.collect()
    assert reference() is not None
    region.close()
    del region
    gc.collect()
    assert reference() is None
    with pytest.raises(libslime.Invalid, match="contiguous"):
        pair[0].context.register(Tensor(numpy.zeros((8, 8))[:, ::2]))
    with pytest.raises(TypeError):
        pair[0].context.register(object())


def test_register__of_torch_moves_its_bytes(pair):
    torch = pytest.importorskip("torch")
    memory, _, remote = offered(pair[1], 400)
    memory.view[:] = bytes(i % 251 for i in range(400))
    for kind in (torch.int32, torch.bfloat16):
        tensor = torch.zeros(400, dtype=torch.uint8).view(kind)
        pair[0].read(pair[0].context.register(tensor), remote).wait(10)
        assert bytes(tensor.view(torch.uint8).tolist()) == bytes(memory.view)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="__buffer__ came with Python 3.12")
def test_memory__is_a_buffer():
    memory = libslime.Context().allocate(4096)
    memoryview(memory)[:3] = b"abc"
    assert bytes(memoryview(memory.region())[:3]) == b"abc"
    assert numpy.frombuffer(memory, dtype=numpy.uint8)[0] == ord("a")
