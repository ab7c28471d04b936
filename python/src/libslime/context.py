# SPDX-License-Identifier: Apache-2.0
"""Contexts, memory, regions, endpoints and operations: libslime without a control plane."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import itertools
import math
import time
import weakref
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from typing import Any, Self

from libslime._core import Handle, Invalid, Readable, check, error, ffi, lib, milliseconds, n_forks, refuse_fork, wait_readable, wait_sliced

READ = 1
WRITE = 2

# With so many pending, those that have ended and that nobody waits for are released.
_SWEEP_AT = 1024

_POLLING = {"adaptive": 0, "busy": 1, "event": 2}
_TRANSPORTS = {"shm": "SLIME_TRANSPORT_SHM", "tcp": "SLIME_TRANSPORT_TCP", "rdma": "SLIME_TRANSPORT_RDMA"}


def set_transports(array: Any, names: Sequence[str]) -> None:
    if len(names) > 3:
        raise Invalid(errno.EINVAL, "at most three transports")
    for i, name in enumerate(names):
        if name not in _TRANSPORTS:
            raise Invalid(errno.EINVAL, f"a transport is one of shm, tcp, rdma, not {name!r}")
        array[i] = getattr(lib, _TRANSPORTS[name])


class Context(Handle):
    """The root of everything. Settings are those of struct slime_context_attr by their names there; polling is
    "adaptive", "busy" or "event"."""

    def __init__(self, *, polling: str = "adaptive", **settings: Any) -> None:
        attr = ffi.new("struct slime_context_attr *")
        lib.slime_context_attr_init(attr)
        attr.polling = _POLLING[polling]
        keep = fill_attr(attr, settings)
        out = ffi.new("struct slime_context **")
        check(lib.slime_context_create(attr, out))
        del keep
        super().__init__(out[0])
        self._owned = True
        self._init_queue()

    @classmethod
    def _borrow(cls, pointer: Any, parent: Handle) -> Context:
        """The context of an agent, which the agent destroys."""
        self = cls.__new__(cls)
        Handle.__init__(self, pointer, parent)
        self._owned = False
        self._init_queue()
        return self

    def _init_queue(self) -> None:
        self._queue = lib.py_queue_create()
        if self._queue == ffi.NULL:
            raise error(-errno.EMFILE)
        self._pending: dict[int, Pending] = {}
        self._keys = itertools.count(1)
        self._loop: asyncio.AbstractEventLoop | None = None

    def _destroy(self, pointer: Any) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(lib.py_queue_fd(self._queue))
        self._loop = None
        self._forget_ended()
        if self._owned:
            check(lib.slime_context_destroy(pointer))
        lib.py_queue_destroy(self._queue)

    def _close_children(self) -> None:
        # The end of links ends their operations, which use regions.
        for kind in (Listener, Endpoint):
            for child in list(self._children):
                if isinstance(child, kind):
                    child.close()
        self._forget_ended()
        super()._close_children()

    def allocate(self, size: int, *, huge_pages: str = "auto", numa_node: int = -1) -> Memory:
        """Memory that peers on this host map: the fastest there is between processes of one host."""
        return Memory(self, size, huge_pages=huge_pages, numa_node=numa_node)

    def register(self, buffer: Any, access: int = 0) -> MemoryRegion:
        """A region over any writable, contiguous buffer, as bytearray, mmap, array or numpy, or over a tensor with DLPack,
        as of torch; it is kept alive. Memory of a GPU is for transfers over rdma alone. access is READ, WRITE, both, or 0
        for local use."""
        try:
            view = memoryview(buffer)
        except TypeError:
            if not hasattr(buffer, "__dlpack__"):
                raise
            return self._register_tensor(buffer, access)
        if not view.c_contiguous:
            raise Invalid(errno.EINVAL, "the buffer is not contiguous")
        if view.readonly:
            raise Invalid(errno.EINVAL, "the buffer is read-only")
        return MemoryRegion(self, ffi.from_buffer("char[]", view), view.nbytes, access, keep=view)

    def _register_tensor(self, tensor: Any, access: int) -> MemoryRegion:
        address, size, is_host, keep = _memory_of(tensor)
        return MemoryRegion(self, ffi.cast("char *", address), size, access, keep=keep, is_device=not is_host)

    def listen(self, **settings: Any) -> Listener:
        """Settings are those of Listener."""
        return Listener(self, **settings)

    def dial(self, descriptor: bytes, *, transports: Sequence[str] = (), name: str = "", timeout: float = 5.0) -> Endpoint:
        """A connected endpoint to a listener, of which this is the descriptor. Waits until then, at most for timeout, of
        which 5 s count; Ctrl-C ends the wait once the listener has answered."""
        endpoint = self.endpoint(transports=transports, name=name)
        try:
            op = Op(self, None)
            ms = milliseconds(timeout)
            op._begun(lib.slime_endpoint_dial(endpoint.pointer, descriptor, len(descriptor), ms, op._pointer), "dial").wait()
        except BaseException:
            endpoint.close()
            raise
        return endpoint

    def endpoint(self, *, transports: Sequence[str] = (), name: str = "") -> Endpoint:
        return Endpoint._create(self, transports, name)

    # What is pending is kept alive here, with its memory, until it is waited for or known to have ended.

    def _keep(self, pending: Pending) -> None:
        if len(self._pending) >= _SWEEP_AT and len(self._pending) % _SWEEP_AT == 0:
            self._forget_ended()
        self._pending[pending.key] = pending

    def _forget_ended(self) -> None:
        for pending in [p for p in list(self._pending.values()) if p.done() and p.future is None]:
            pending.release()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is loop:
            return
        if self._loop is not None and not self._loop.is_closed():
            raise Invalid(errno.EINVAL, "another event loop awaits operations of this context")
        self._loop = loop
        loop.add_reader(lib.py_queue_fd(self._queue), self._resolve_ended)

    def _resolve_ended(self) -> None:
        future = lib.py_queue_take(self._queue)
        while future != ffi.NULL:
            pending, future = self._pending.get(future.key), future.next
            if pending is not None:
                pending.resolve()


# Of DLPack: memory that a CPU reads and writes.
_HOST = {1: "CPU", 3: "CUDA host", 11: "ROCm host", 13: "CUDA managed"}


def _memory_of(tensor: Any) -> tuple[int, int, bool, object]:
    """Address, bytes, whether a CPU can touch it, and what keeps it alive."""
    capsule = tensor.__dlpack__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    dl = ffi.cast("struct py_dltensor *", get(capsule, b"dltensor"))
    shape = [dl.shape[i] for i in range(dl.ndim)]
    expected = [math.prod(shape[i + 1 :]) for i in range(dl.ndim)]
    if dl.strides and any(shape[i] > 1 and dl.strides[i] != expected[i] for i in range(dl.ndim)):
        raise Invalid(errno.EINVAL, "the tensor is not contiguous")
    size = math.prod(shape) * dl.bits * dl.lanes // 8
    return int(ffi.cast("uintptr_t", dl.data)) + dl.byte_offset, size, dl.device_type in _HOST, (tensor, capsule)


def fill_attr(attr: Any, settings: dict[str, Any]) -> list[Any]:
    """Set members by name; what must live as long as the call is returned."""
    keep = []
    for name, value in settings.items():
        if not hasattr(attr, name):
            raise TypeError(f"there is no setting {name}")
        if isinstance(value, str):
            value = ffi.new("char[]", value.encode())
            keep.append(value)
        setattr(attr, name, value)
    return keep


class MemoryRegion(Handle):
    """Memory that operations use, and that peers may reach as access says. As a buffer: region.view."""

    def __init__(self, context: Context, address: Any, size: int, access: int, keep: object, parent: Handle | None = None, is_device: bool = False):
        out = ffi.new("struct slime_mr **")
        attr = ffi.new("struct slime_mr_attr *")
        lib.slime_mr_attr_init(attr)
        attr.access, attr.device_memory = access, is_device
        check(lib.slime_mr_create_attr(context.pointer, address, size, attr, out))
        super().__init__(out[0], parent or context)
        self.context = context
        self._address = address
        self._keep = keep
        self._withdrawals: list[Callable[[], object]] = []  # from the directories of agents
        self.size = size
        self.access = access
        self._is_device = is_device

    def _destroy(self, pointer: Any) -> None:
        while self._withdrawals:
            self._withdrawals.pop()()
        check(lib.slime_mr_destroy(pointer))

    @property
    def view(self) -> memoryview:
        self.pointer  # raises when it is closed
        if self._is_device:
            raise Invalid(errno.EINVAL, "memory of a device has no view")
        if isinstance(self._parent, Memory):
            return self._parent.view_of(self._address, self.size)
        return memoryview(ffi.buffer(self._address, self.size)).cast("B")

    def __buffer__(self, _: int) -> memoryview:  # of Python 3.12
        return self.view

    def export(self) -> bytes:
        """What a peer needs to reach it: a secret for those that may."""
        buffer = ffi.new(f"unsigned char[{lib.SLIME_MR_DESC_MAX}]")
        n = check(lib.slime_mr_export(self.pointer, buffer, lib.SLIME_MR_DESC_MAX))
        return bytes(ffi.buffer(buffer, n))

    def __len__(self) -> int:
        return self.size


class Memory(Handle):
    """Zeroed memory of the library's, with a region over all of it: memory.region(READ | WRITE)."""

    def __init__(self, context: Context, size: int, *, huge_pages: str = "auto", numa_node: int = -1) -> None:
        attr = ffi.new("struct slime_mem_attr *")
        lib.slime_mem_attr_init(attr)
        attr.huge = {"auto": 0, "off": 1, "2MiB": 2, "1GiB": 3}[huge_pages]
        attr.numa_node = numa_node
        attr.cancelled = lib.py_interrupted
        out = ffi.new("struct slime_mem **")
        check(lib.slime_mem_alloc(context.pointer, size, attr, out))
        super().__init__(out[0], context)
        self.context = context
        self.size = size
        self._views: list[weakref.ref[Any]] = []

    def _destroy(self, pointer: Any) -> None:
        self._views = [view for view in self._views if view() is not None]
        if self._views:
            raise error(-errno.EBUSY, "a view of the memory is in use")
        check(lib.slime_mem_destroy(pointer))

    @property
    def view(self) -> memoryview:
        """The memory as a buffer. It keeps the memory; while there is one, close() raises Busy."""
        return self.view_of(lib.slime_mem_addr(self.pointer), self.size)

    def __buffer__(self, _: int) -> memoryview:  # of Python 3.12
        return self.view

    def view_of(self, address: Any, size: int) -> memoryview:
        """A part of the memory as a buffer."""
        part = ffi.gc(ffi.cast("char *", address), lambda _, memory=self: None)
        self._views = [view for view in self._views if view() is not None] + [weakref.ref(part)]
        return memoryview(ffi.buffer(part, size)).cast("B")

    def region(self, access: int = 0, offset: int = 0, size: int | None = None) -> MemoryRegion:
        length = self.size - offset if size is None else size
        if offset < 0 or length < 1 or offset + length > self.size:
            raise Invalid(errno.EINVAL, "the region leaves its memory")
        address = ffi.cast("char *", lib.slime_mem_addr(self.pointer)) + offset
        return MemoryRegion(self.context, address, length, access, keep=None, parent=self)


class RemoteRegion:
    """A peer's region: a plain value."""

    def __init__(self, descriptor: bytes | None = None) -> None:
        self.value = ffi.new("struct slime_remote_mr *")
        if descriptor is not None:
            check(lib.slime_remote_mr_import(descriptor, len(descriptor), self.value))

    @property
    def size(self) -> int:
        return int(self.value.len)

    def __len__(self) -> int:
        return self.size


class Pending:
    """Something that was begun: wait for it, or await it, once. It is kept alive until it has ended, with its memory."""

    def __init__(self, context: Context, keep: Any) -> None:
        self.context = context
        self.key = next(context._keys)
        self.future: asyncio.Future[Any] | None = None
        self._keep = keep
        self._ended = lib.py_future_create(context._queue, self.key)
        if self._ended == ffi.NULL:
            raise error(-errno.ENOMEM)
        self._pointer: Any = None
        self._is_begun = False
        self._born = n_forks()

    def __del__(self) -> None:
        # One that was never begun is nobody's: its arguments were refused.
        if getattr(self, "_pointer", None) is not None and not self._is_begun and self._born == n_forks():
            self.release()

    # What the kinds have of their own.
    _test: Any
    _wait: Any
    _destroy: Any

    def _take_result(self, pointer: Any) -> Any:
        raise NotImplementedError

    def _begun(self, ret: int, what: str) -> Self:
        if ret < 0:
            failure = error(ret, what)
            self.release()
            raise failure
        self._is_begun = True
        self.context._keep(self)
        return self

    def release(self) -> None:
        """It has ended, or never began."""
        self.context._pending.pop(self.key, None)
        if self._pointer is not None:
            type(self)._destroy(self._pointer)
            lib.py_future_destroy(self._ended)
        self._pointer = self._keep = None

    def done(self) -> bool:
        refuse_fork(self)
        return self._pointer is None or bool(type(self)._test(self._pointer))

    def _unused(self) -> None:
        refuse_fork(self)
        if self._pointer is None or self.future is not None:
            raise Invalid(errno.EINVAL, "it was waited for already")

    def wait(self, timeout: float | None = None) -> Any:
        """The result. Raises what became of it; Timeout has only stopped the waiting."""
        self._unused()
        wait_sliced(type(self)._wait, self._pointer, timeout)
        return self._end()

    def _end(self) -> Any:
        try:
            return self._take_result(self._pointer)
        finally:
            self.release()

    def resolve(self) -> None:
        # Its callback is about to return, on another thread: until then the library has it.
        wait_sliced(type(self)._wait, self._pointer, None)
        try:
            result = self._end()
        except OSError as failure:
            if self.future is not None and not self.future.done():
                self.future.set_exception(failure)
        else:
            if self.future is not None and not self.future.done():
                self.future.set_result(result)

    def __await__(self) -> Generator[Any, None, Any]:
        self._unused()
        loop = asyncio.get_running_loop()
        self.context._watch(loop)
        self.future = loop.create_future()
        if not lib.py_future_await(self._ended):
            self.resolve()
        return (yield from self.future)


def wait_all(pending: Sequence[Pending], timeout: float | None = None) -> list[Any]:
    """The results of all, in their order. Raises Timeout when one has not ended in that time, else the first failure, once
    all have ended."""
    deadline = None if timeout is None else time.monotonic() + timeout
    failure: OSError | None = None
    results = []
    for one in pending:
        try:
            results.append(one.wait(None if deadline is None else max(0.0, deadline - time.monotonic())))
        except OSError as e:
            if one._pointer is not None:  # it goes on
                raise
            failure = failure or e
    if failure is not None:
        raise failure
    return results


class Op(Pending):
    """A transfer, a message or a connect: its result is the number of bytes that were moved."""

    _test = lib.slime_op_test
    _wait = lib.slime_op_wait
    _destroy = lib.slime_op_destroy

    def __init__(self, context: Context, keep: Any) -> None:
        super().__init__(context, keep)
        out = ffi.new("struct slime_op **")
        check(lib.py_op_create(context.pointer, self._ended, out))
        self._pointer = out[0]

    def _take_result(self, pointer: Any) -> int:
        self.bytes = int(lib.slime_op_bytes(pointer))
        self.imm = int(lib.slime_op_imm(pointer))
        self.tag = int(lib.slime_op_tag(pointer))
        check(lib.slime_op_status(pointer))
        return self.bytes


class Endpoint(Handle):
    """The local end of a link to one peer."""

    context: Context
    _put: Any

    @classmethod
    def _create(cls, context: Context, transports: Sequence[str], name: str) -> Endpoint:
        attr = ffi.new("struct slime_endpoint_attr *")
        lib.slime_endpoint_attr_init(attr)
        set_transports(attr.transports, transports)
        text = ffi.new("char[]", name.encode())
        if name:
            attr.name = text
        out = ffi.new("struct slime_endpoint **")
        check(lib.slime_endpoint_create(context.pointer, attr, out))
        return cls(out[0], context, context, None)

    def __init__(self, pointer: Any, context: Context, parent: Handle, put: Any) -> None:
        super().__init__(pointer, parent)
        self.context = context
        self._put = put

    def _destroy(self, pointer: Any) -> None:
        if self._put is not None:
            self._put(pointer)
        else:
            check(lib.slime_endpoint_destroy(pointer))

    def export(self) -> bytes:
        """What the peer needs to connect: for it alone, a secret."""
        size = lib.SLIME_ENDPOINT_DESC_MAX
        buffer = ffi.new(f"unsigned char[{size}]")
        n = check(lib.slime_endpoint_export(self.pointer, buffer, size))
        return bytes(ffi.buffer(buffer, n))

    def connect(self, descriptor: bytes, timeout: float = 5.0) -> Op:
        op = Op(self.context, self)
        return op._begun(
            lib.slime_endpoint_connect(self.pointer, descriptor, len(descriptor), milliseconds(timeout), op._pointer),
            "connect",
        )

    # ---- transfers ----

    def _transfer(self, function: Any, local: MemoryRegion, remote: RemoteRegion, lo: int, ro: int, length: int | None, *more: Any) -> Op:
        x = ffi.new("struct slime_xfer *")
        x.local, x.remote = local.pointer, remote.value
        x.local_offset, x.remote_offset = lo, ro
        x.len = min(local.size - lo, remote.size - ro) if length is None else length
        op = Op(self.context, (x, local, remote, self))
        return op._begun(function(self.pointer, x, 1, 0, *more, op._pointer), "transfer")

    def read(self, local: MemoryRegion, remote: RemoteRegion, local_offset: int = 0, remote_offset: int = 0, length: int | None = None) -> Op:
        return self._transfer(lib.slime_read, local, remote, local_offset, remote_offset, length)

    def write(self, local: MemoryRegion, remote: RemoteRegion, local_offset: int = 0, remote_offset: int = 0, length: int | None = None) -> Op:
        return self._transfer(lib.slime_write, local, remote, local_offset, remote_offset, length)

    def write_imm(self, local: MemoryRegion, remote: RemoteRegion, imm: int, local_offset: int = 0, remote_offset: int = 0, length: int | None = None) -> Op:
        return self._transfer(lib.slime_write_imm, local, remote, local_offset, remote_offset, length, imm)

    def imm_recv(self) -> Op:
        """The next immediate of the peer: op.imm when it has ended."""
        op = Op(self.context, self)
        return op._begun(lib.slime_imm_recv(self.pointer, op._pointer), "imm_recv")

    def _batch(self, function: Any, local: MemoryRegion, remote: RemoteRegion, arrays: tuple[Any, Any, Any]) -> Op:
        x, n = fill_xfers(local, remote, arrays)
        op = Op(self.context, (x, local, remote, self))
        return op._begun(function(self.pointer, x, n, 0, op._pointer), "batch")

    def read_batch(self, local: MemoryRegion, remote: RemoteRegion, local_offsets: Any, remote_offsets: Any, lengths: Any) -> Op:
        """n pieces in one operation: three arrays of 64-bit unsigned numbers, as numpy's or array('Q')."""
        return self._batch(lib.slime_read, local, remote, (local_offsets, remote_offsets, lengths))

    def write_batch(self, local: MemoryRegion, remote: RemoteRegion, local_offsets: Any, remote_offsets: Any, lengths: Any) -> Op:
        return self._batch(lib.slime_write, local, remote, (local_offsets, remote_offsets, lengths))

    def prepare_read(self, local: MemoryRegion, remote: RemoteRegion, local_offsets: Any, remote_offsets: Any, lengths: Any) -> Batch:
        """A read_batch() that is checked once and submitted many times."""
        return Batch(self, lib.SLIME_BATCH_READ, local, remote, (local_offsets, remote_offsets, lengths))

    def prepare_write(self, local: MemoryRegion, remote: RemoteRegion, local_offsets: Any, remote_offsets: Any, lengths: Any) -> Batch:
        return Batch(self, lib.SLIME_BATCH_WRITE, local, remote, (local_offsets, remote_offsets, lengths))

    # ---- messages ----

    def send(self, region: MemoryRegion, offset: int = 0, length: int | None = None, tag: int = 0) -> Op:
        op = Op(self.context, (region, self))
        n = region.size - offset if length is None else length
        return op._begun(lib.slime_send(self.pointer, region.pointer, offset, n, tag, op._pointer), "send")

    def recv(self, region: MemoryRegion, offset: int = 0, length: int | None = None, tag: int = 0, mask: int = 0) -> Op:
        """Of any tag unless mask says which bits count."""
        op = Op(self.context, (region, self))
        n = region.size - offset if length is None else length
        return op._begun(lib.slime_recv(self.pointer, region.pointer, offset, n, tag, mask, op._pointer), "recv")

    @property
    def connected(self) -> bool:
        info = ffi.new("struct slime_endpoint_info *")
        lib.slime_endpoint_info(self.pointer, info)
        return bool(info.state == lib.SLIME_ENDPOINT_CONNECTED)

    @property
    def transport(self) -> str:
        info = ffi.new("struct slime_endpoint_info *")
        lib.slime_endpoint_info(self.pointer, info)
        return str(ffi.string(lib.slime_transport_name(info.transport)).decode())


class Listener(Handle):
    """Makes endpoints for peers that dial it: accept() gives them in their order, or `async for endpoint in listener`.
    tcp_bind is a numeric address; without it only processes of this host reach the listener, by a unix socket."""

    def __init__(
        self,
        context: Context,
        *,
        tcp_bind: str | None = None,
        tcp_port: int = 0,
        tcp_advertise: str | None = None,
        transports: Sequence[str] = (),
        max_endpoints: int = 1024,
    ) -> None:
        attr = ffi.new("struct slime_listener_attr *")
        lib.slime_listener_attr_init(attr)
        keep = fill_attr(attr, {"tcp_port": tcp_port, "max_endpoints": max_endpoints})
        for name, value in (("tcp_bind", tcp_bind), ("tcp_advertise", tcp_advertise)):
            keep += fill_attr(attr, {name: value}) if value is not None else []
        set_transports(attr.endpoint.transports, transports)
        self._arrivals = lib.py_arrivals_create()
        if self._arrivals == ffi.NULL:
            raise error(-errno.EMFILE)
        attr.on_endpoint, attr.arg = lib.py_arrive, self._arrivals
        out = ffi.new("struct slime_listener **")
        ret = lib.slime_listener_create(context.pointer, attr, out)
        del keep
        if ret < 0:
            lib.py_arrivals_destroy(self._arrivals)
        check(ret, "cannot listen")
        super().__init__(out[0], context)
        self.context = context
        self._readable = Readable()

    def _destroy(self, pointer: Any) -> None:
        check(lib.slime_listener_destroy(pointer))
        self._readable.end()
        lib.py_arrivals_destroy(self._arrivals)

    def export(self) -> bytes:
        """What dialers need: always the same bytes, a secret of all that may dial."""
        buffer = ffi.new(f"unsigned char[{lib.SLIME_LISTENER_DESC_MAX}]")
        n = check(lib.slime_listener_export(self.pointer, buffer, lib.SLIME_LISTENER_DESC_MAX))
        return bytes(ffi.buffer(buffer, n))

    def _take(self) -> Endpoint | None:
        self.pointer  # raises when it is closed
        endpoint = lib.py_arrivals_next(self._arrivals)
        return Endpoint(endpoint, self.context, self.context, None) if endpoint else None

    def accept(self, timeout: float | None = None) -> Endpoint | None:
        """The next endpoint; None: no peer dialled in that time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (endpoint := self._take()) is None:
            if not wait_readable(self, lib.py_arrivals_fd(self._arrivals), deadline):
                return None
        return endpoint

    async def __aiter__(self) -> AsyncIterator[Endpoint]:
        while not self.closed:
            endpoint = self._take()
            if endpoint is not None:
                yield endpoint
            elif not await self._readable.wait(lib.py_arrivals_fd(self._arrivals)):
                return


class Batch(Handle):
    """Pieces that were checked once: submit() them as often as wanted. It goes with its local region at the latest."""

    def __init__(self, endpoint: Endpoint, kind: int, local: MemoryRegion, remote: RemoteRegion, arrays: tuple[Any, Any, Any]) -> None:
        x, n = fill_xfers(local, remote, arrays)
        out = ffi.new("struct slime_batch **")
        check(lib.slime_batch_create(endpoint.pointer, kind, x, n, out), "batch")
        super().__init__(out[0], local)
        self.endpoint = endpoint

    def _destroy(self, pointer: Any) -> None:
        check(lib.slime_batch_destroy(pointer), "a batch that is under way")

    def submit(self) -> Op:
        op = Op(self.endpoint.context, self)
        return op._begun(lib.slime_batch_submit(self.endpoint.pointer, self.pointer, 0, op._pointer), "batch")


def fill_xfers(local: MemoryRegion, remote: RemoteRegion | None, arrays: tuple[Any, Any, Any]) -> tuple[Any, int]:
    pointers = [ffi.from_buffer("uint64_t[]", check_offsets(a)) for a in arrays]
    n = len(pointers[0])
    if len(pointers[1]) != n or len(pointers[2]) != n:
        raise Invalid(errno.EINVAL, "arrays of different lengths")
    x = ffi.new("struct slime_xfer[]", n)
    lib.py_fill_xfers(x, n, local.pointer, remote.value if remote is not None else ffi.NULL, *pointers)
    return x, n


def check_offsets(array: Any) -> memoryview:
    view = memoryview(array)
    if view.itemsize != 8 or view.format not in ("Q", "L", "N", "@Q", "@L", "=Q", "<Q"):
        raise Invalid(errno.EINVAL, f"an array of 64-bit unsigned numbers, not of format {view.format!r}")
    if not view.c_contiguous or view.ndim != 1:
        raise Invalid(errno.EINVAL, "a contiguous array of one dimension")
    return view
