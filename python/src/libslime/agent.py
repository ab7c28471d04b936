# SPDX-License-Identifier: Apache-2.0
"""A named agent in this process: links, regions and calls by name, through nanoctrl."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import inspect
import json
import threading
import time
import traceback
import typing
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, overload

from libslime._core import Handle, Invalid, SlimeError, Timeout, check, error, ffi, lib, milliseconds, wait_readable, wait_sliced
from libslime.context import READ, WRITE, Context, Endpoint, Memory, MemoryRegion, Pending, RemoteRegion, set_transports
from libslime.peers import Link, Peer, PeerEvents, Region, links_of, peers_of, regions_of
from libslime.target import Target

_LEAVE_S = 6.0
_AT_ONCE = 64  # requests that one turn of an event loop answers
_T = TypeVar("_T")
_uncleared = ffi.new_allocator(should_clear_after_alloc=False)
_STATES = ("starting", "ready", "detached", "refused", "ended")


class RpcError(SlimeError):
    """A call failed."""


class RpcTimeoutError(RpcError, TimeoutError):
    """The deadline of a call passed; whether it was executed is unknown."""


class RemoteRpcError(RpcError):
    """The method of the peer answered with an error: code and message are its own."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(errno.EREMOTEIO, f"{message} (code {code})")
        self.code = code
        self.message = message


def _failure(status: int, call: Any) -> RpcError:
    if status == -errno.EREMOTEIO:
        text = ffi.new("const char **")
        code = int(lib.slime_call_error(call, text))
        return RemoteRpcError(code, ffi.string(text[0]).decode(errors="replace"))
    cause = error(status)
    kind = RpcTimeoutError if status == -errno.ETIMEDOUT else RpcError
    return kind(-status, cause.strerror)


def method(function: Callable[..., Any] | None = None, *, name: str = "", raw: bool = False, in_place: bool = False) -> Any:
    """Marks a function or a method of a class as a method of peers' calls. Its arguments and its result are JSON; those
    that are annotated as dataclasses are made such. raw: it takes a memoryview, which is good until it returns, and returns
    bytes. raw and in_place: it takes a second, writable memoryview, the caller's room, and returns how many bytes of that it
    wrote. A coroutine function is served by Agent.aserve() alone."""
    if in_place and not raw:
        raise Invalid(errno.EINVAL, "in_place is of raw methods")

    def mark(f: Callable[..., Any]) -> Callable[..., Any]:
        f._slime_method = (name or f.__name__, raw, in_place)  # type: ignore[attr-defined]
        return f

    return mark(function) if function is not None else mark


def _to_json(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_to_json(v) for v in value]
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value


def _from_json(hint: Any, value: Any) -> Any:
    """As the annotation wants it: a dataclass, also in lists, and one that may be None."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and isinstance(value, dict):
        hints = _hints(hint)
        return hint(**{k: _from_json(hints.get(k), v) for k, v in value.items()})
    parts = typing.get_args(hint)
    if typing.get_origin(hint) is list and isinstance(value, list):
        return [_from_json(parts[0], v) for v in value]
    if type(None) in parts and value is not None:
        return _from_json(next(p for p in parts if p is not type(None)), value)
    return value


def _hints(annotated: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(annotated)
    except (NameError, TypeError):  # of types that are not known where it was written
        return {}


def _typed(function: Callable[..., Any]) -> tuple[Callable[[memoryview], Any], Callable[[Any], bytes]]:
    """What makes a call of it from the request, and the reply from its result."""
    hints = _hints(function)

    def begin(request: memoryview) -> Any:
        given = json.loads(bytes(request) or b"{}")
        return function(**{k: _from_json(hints.get(k), v) for k, v in given.items()})

    return begin, lambda result: json.dumps(_to_json(result)).encode()


class _Method:
    """What answers requests for one method."""

    def __init__(self, function: Callable[..., Any], raw: bool, in_place: bool) -> None:
        self.is_async = inspect.iscoroutinefunction(function)
        self._in_place = in_place
        self._begin: Callable[..., Any]
        self._reply: Callable[[Any], bytes] | None
        self._begin, self._reply = (function, None) if raw else _typed(function)

    def answer(self, req: Any) -> None:
        with _Request(req) as request:
            if self._in_place:
                self._commit(req, request)
            else:
                self._send(req, self._begin(request))

    async def answer_later(self, req: Any) -> None:
        with _Request(req) as request:
            self._send(req, await self._begin(request))

    def _send(self, req: Any, result: Any) -> None:
        reply = self._reply(result) if self._reply is not None else result
        data = ffi.from_buffer("char[]", reply)
        lib.slime_rpc_reply(req, data, len(data))

    def _commit(self, req: Any, request: memoryview) -> None:
        room = lib.slime_rpc_request_reply_cap(req)
        buffer = lib.slime_rpc_reply_buffer(req, room)
        if buffer == ffi.NULL:
            raise error(-errno.ENOBUFS, "the caller gave up, or memory is short")
        with memoryview(ffi.buffer(buffer, room)).cast("B") as view:
            n = self._begin(request, view)
        lib.slime_rpc_reply_commit(req, n)


class _Request:
    """Its bytes, until it is answered; a failure answers it."""

    def __init__(self, req: Any) -> None:
        self._req = req
        self._view = memoryview(ffi.buffer(lib.slime_rpc_request_data(req), lib.slime_rpc_request_len(req))).cast("B")

    def __enter__(self) -> memoryview:
        return self._view

    def __exit__(self, kind: Any, failure: Any, trace: Any) -> bool:
        try:
            self._view.release()
        except BufferError:  # something was made of it that outlives the call
            pass
        if failure is None:
            return False
        _answer_error(self._req, f"{kind.__name__}: {failure}")
        return isinstance(failure, Exception)


def _answer_error(req: Any, text: str) -> None:
    lib.slime_rpc_reply_error(req, 1, text.encode()[: lib.SLIME_RPC_MESSAGE_MAX])


@ffi.def_extern()  # type: ignore[untyped-decorator, unused-ignore]
def py_handle(arg: Any, req: Any) -> None:
    """On a worker of the library."""
    try:
        ffi.from_handle(arg).answer(req)
    except BaseException:
        traceback.print_exc()


@ffi.def_extern()  # type: ignore[untyped-decorator, unused-ignore]
def py_agent_state(arg: Any, agent: Any, state: int, cause: int, text: Any) -> None:
    owner = ffi.from_handle(arg)()
    if owner is not None:
        owner.state_text = ffi.string(text).decode(errors="replace")


class Agent(Handle):
    """An agent: as a context manager it is started, and leaves in order at the end.

        with Agent("http://127.0.0.1:3000", name="reader") as agent:
            link = agent.link("node-b")
            kv = agent.region("node-b", "kv")
            mine = agent.context.allocate(kv.size).region()
            link.read(mine, kv).wait()

    Methods are answered by threads of the library, so many as workers says; with workers=0 by who calls serve_once(),
    serve_forever() or aserve(), and there is no such thread.
    """

    state_text = ""

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        name: str,
        scope: str = "default",
        labels: Mapping[str, str] | None = None,
        services: Sequence[str] = (),
        methods: Sequence[Callable[..., Any]] = (),
        transports: Sequence[str] = (),
        workers: int = 2,
        state_dir: str | None = None,
        token: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        attr = ffi.new("struct slime_agent_attr *")
        lib.slime_agent_attr_init(attr)
        keep: list[Any] = []

        def text(value: str) -> Any:
            keep.append(ffi.new("char[]", value.encode()))
            return keep[-1]

        urls = [text(u) for u in ([url] if isinstance(url, str) else url)]
        keep.append(ffi.new("const char *[]", urls))
        attr.urls, attr.n_urls = keep[-1], len(urls)
        attr.name, attr.scope = text(name), text(scope)
        if token is not None:
            attr.token = text(token)
        if state_dir is not None:
            attr.state_dir = text(state_dir)
        pairs = ffi.new("struct slime_label[]", len(labels or {}))
        for pair, (key, value) in zip(pairs, (labels or {}).items()):
            pair.key, pair.value = text(key), text(value)
        attr.topology.labels, attr.topology.n_labels = pairs, len(pairs)
        set_transports(attr.transports, transports)
        attr.data.rpc_workers = workers
        for key, value in (settings or {}).items():
            if not hasattr(attr.data, key):
                raise TypeError(f"there is no setting {key}")
            setattr(attr.data, key, text(value) if isinstance(value, str) else value)
        self._self = ffi.new_handle(weakref.ref(self))
        self._spin_us = int(attr.data.spin_us) if attr.data.polling == lib.SLIME_POLLING_ADAPTIVE else 0
        attr.on_state, attr.arg = lib.py_agent_state, self._self
        attr.interrupted = lib.py_interrupted
        out = ffi.new("struct slime_agent **")
        check(lib.slime_agent_create(attr, out), name)
        super().__init__(out[0])
        self.name, self.scope = name, scope
        self._handlers: list[Any] = []
        self._offered: dict[str, MemoryRegion] = {}
        self._is_queued = workers == 0
        self._taking = threading.Lock()
        self._is_leaving = False
        self.context = Context._borrow(lib.slime_agent_context(out[0]), self)
        for service in services:
            check(lib.slime_agent_service_add(self.pointer, service.encode()), service)
        for function in methods:
            self.serve(function)

    def _close_children(self) -> None:
        # Links are put back, the agent leaves, and only then its memory goes: peers see it as long as they may.
        for child in list(self._children):
            if child is not self.context:
                child.close()
        self._leave()
        with self._taking:
            self._is_leaving = True
            while (req := self._take()) is not None:
                _answer_error(req, "the agent leaves")
            self.context.close()

    def _leave(self) -> None:
        try:
            wait_sliced(lib.slime_agent_stop, self.pointer, _LEAVE_S)
        except Timeout:
            pass  # its lease ends by itself

    def _destroy(self, pointer: Any) -> None:
        check(lib.slime_agent_destroy(pointer))

    def serve(self, function: Any, *, name: str = "", raw: bool | None = None, in_place: bool | None = None) -> None:
        """Offer a function to peers' calls, or each method of an object that is marked with @method; before start()."""
        marked = [getattr(function, n) for n in dir(function) if hasattr(getattr(function, n, None), "_slime_method")]
        if not callable(function) or (marked and not hasattr(function, "_slime_method")):
            for one in marked:
                self.serve(one)
            return
        said = getattr(function, "_slime_method", (getattr(function, "__name__", ""), False, False))
        handler = _Method(function, said[1] if raw is None else raw, said[2] if in_place is None else in_place)
        if handler.is_async and not self._is_queued:
            raise Invalid(errno.EINVAL, f"{name or said[0]} is a coroutine function: make the agent with workers=0")
        handle = ffi.new_handle(handler)
        self._handlers.append((handle, handler))
        attr = ffi.new("struct slime_rpc_method_attr *")
        lib.slime_rpc_method_attr_init(attr)
        attr.arg = handle
        if self._is_queued:
            attr.flags = lib.SLIME_RPC_QUEUED
        else:
            attr.fn = lib.py_handle
        check(lib.slime_agent_method_add(self.pointer, (name or said[0]).encode(), attr), name or said[0])

    def serve_once(self, timeout: float | None = None) -> bool:
        """Answer the next request of a peer; False: none came in that time."""
        req = self.next_request(timeout)
        if req is None:
            return False
        handler = ffi.from_handle(lib.slime_rpc_request_arg(req))
        if handler.is_async:
            asyncio.run(handler.answer_later(req))
        else:
            handler.answer(req)
        return True

    def serve_forever(self) -> None:
        """Answer requests of peers until the thread is interrupted."""
        while self.serve_once():
            pass

    async def aserve(self) -> None:
        """Answer requests of peers until the task is cancelled. Coroutine functions run beside each other."""
        self._must_be_queued()
        loop = asyncio.get_running_loop()
        tasks: set[asyncio.Task[None]] = set()

        def answer_some() -> None:
            # More of them leave the descriptor readable.
            for _ in range(_AT_ONCE):
                req = self._next_request()
                if req is None:
                    return
                handler = ffi.from_handle(lib.slime_rpc_request_arg(req))
                if handler.is_async:
                    task = loop.create_task(handler.answer_later(req))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                else:
                    handler.answer(req)

        descriptor = lib.slime_context_fd(self.context.pointer)
        loop.add_reader(descriptor, answer_some)
        try:
            answer_some()
            await loop.create_future()
        finally:
            loop.remove_reader(descriptor)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _must_be_queued(self) -> None:
        if not self._is_queued:
            raise Invalid(errno.EINVAL, "threads of the library answer requests: make the agent with workers=0")

    def next_request(self, timeout: float | None = None) -> Any:
        """The next request as the C library has it, to be answered by its functions; None: none came in that time."""
        self._must_be_queued()
        deadline = None if timeout is None else time.monotonic() + timeout
        spin_us = self._spin_us if timeout is None else min(self._spin_us, round(timeout * 1e6))
        while (req := self._next_request(spin_us)) is None:
            if not wait_readable(self, lib.slime_context_fd(self.context.pointer), deadline):
                return None
        return req

    def _next_request(self, spin_us: int = 0) -> Any:
        # Another thread may close the agent.
        with self._taking:
            if self._is_leaving:
                raise Invalid(errno.EINVAL, "Agent is closed")
            return self._take(spin_us)

    def _take(self, spin_us: int = 0) -> Any:
        return lib.py_next_request(self.context.pointer, spin_us) or None

    def start(self, timeout: float | None = 30.0) -> Agent:
        """Register, and wait until that is done. Raises Timeout with what is in the way."""
        check(lib.slime_agent_start(self.pointer))
        try:
            wait_sliced(lib.slime_agent_wait_ready, self.pointer, timeout)
        except SlimeError as failure:
            said = ffi.new("char[512]")
            lib.py_log_of_control(said, 512)
            why = self.state_text or ffi.string(said).decode(errors="replace") or "no answer"
            raise type(failure)(failure.errno, f"{failure.strerror}: {why}") from None
        return self

    def __enter__(self) -> Agent:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    @property
    def state(self) -> str:
        return _STATES[lib.slime_agent_state(self.pointer)]

    # ---- links ----

    def want(self, peer: str, *, profile: str = "default", transports: Sequence[str] = ()) -> None:
        """Keep a link to a peer up from now on. Wanting it twice is harmless."""
        link = ffi.new("struct slime_agent_link *")
        to, named = ffi.new("char[]", peer.encode()), ffi.new("char[]", profile.encode())
        link.to, link.profile = to, named
        set_transports(link.transports, transports)
        ret = lib.slime_agent_link_add(self.pointer, link)
        if ret != -errno.EEXIST:
            check(ret, peer)

    def link(self, peer: str, *, profile: str = "default", timeout: float | None = 10.0, transports: Sequence[str] = ()) -> Endpoint:
        """The endpoint of a link that is connected. When it breaks, close it and ask for it again."""
        self.want(peer, profile=profile, transports=transports)
        out = ffi.new("struct slime_endpoint **")

        def get(_: Any, slice_ms: int) -> int:
            return int(lib.slime_agent_endpoint_get(self.pointer, peer.encode(), profile.encode(), slice_ms, out))

        wait_sliced(get, None, timeout)
        return Endpoint(out[0], self.context, self, self._put_endpoint)

    def _put_endpoint(self, endpoint: Any) -> None:
        if self._pointer is not None:
            lib.slime_agent_endpoint_put(self._pointer, endpoint)

    def links(self) -> list[Link]:
        """The links as they are, also those that are being connected."""
        return links_of(self.pointer)

    def peers(self, selector: str = "", timeout: float = 5.0) -> list[Peer]:
        """The other agents that are registered: all, or those whose labels a selector ("role=decode,zone=a") matches."""
        return peers_of(self.pointer, selector, timeout)

    def events(self) -> PeerEvents:
        """The end of each agent to which there is, or was, a link: `async for event in agent.events()`, or without async."""
        return PeerEvents(self.pointer, self)

    def providers(self, service: str, timeout: float = 5.0) -> list[str]:
        """The agents that offer a service, this one included."""
        names = ffi.new(f"char[256][{lib.SLIME_AGENT_NAME_MAX + 1}]")
        n = check(lib.slime_agent_providers(self.pointer, service.encode(), names, 256, milliseconds(timeout)))
        return [ffi.string(names[i]).decode() for i in range(n)]

    # ---- regions ----

    def offer(self, name: str, region: MemoryRegion, *, allow: Sequence[str] | None = None) -> None:
        """Offer a region to peers under a name: to those that a selector of allow matches, or to all. The agent keeps the
        region until it is withdrawn or closed."""
        if not region.access:
            raise Invalid(errno.EINVAL, "a region without access: READ, WRITE or both")
        texts = [ffi.new("char[]", a.encode()) for a in allow or ()]
        pointers = ffi.new("const char *[]", texts) if texts else ffi.NULL
        check(
            lib.slime_agent_region_offer(self.pointer, name.encode(), region.pointer, region.access, pointers, len(texts)),
            name,
        )
        self._offered[name] = region
        agent, pointer = weakref.ref(self), region.pointer
        region._withdrawals.append(lambda: Agent._take_back(agent(), name, pointer))

    @staticmethod
    def _take_back(agent: Agent | None, name: str, pointer: Any) -> None:
        offered = agent._offered.get(name) if agent is not None else None
        if agent is not None and offered is not None and offered._pointer == pointer:
            del agent._offered[name]
            if agent._pointer is not None:
                lib.slime_agent_region_withdraw(agent._pointer, name.encode())

    def withdraw(self, name: str) -> None:
        """Take a region out of the directory. Its memory stays that of the caller."""
        check(lib.slime_agent_region_withdraw(self.pointer, name.encode()), name)
        self._offered.pop(name, None)

    def share(self, name: str, size: int, access: int = READ | WRITE, *, allow: Sequence[str] | None = None) -> Memory:
        """Allocate memory and offer all of it under a name. memory.view is the bytes. It is offered until memory.close(),
        withdraw(name) or the end of the agent, whether or not the caller keeps it."""
        memory = Memory(self.context, size)
        try:
            self.offer(name, memory.region(access), allow=allow)
        except BaseException:
            memory.close()
            raise
        return memory

    def target(self, peer: str, region: str, timeout: float | None = 10.0) -> Target:
        """A region of a peer together with the link to it, by names: it follows both when they come again. Waits until it can
        be used; None for messages alone. The link is wanted by want(), or by the peer."""
        return Target(self.pointer, self, peer, region, timeout)

    def regions(self, peer: str, timeout: float = 5.0) -> list[Region]:
        """The regions of a peer, also those that do not allow this agent."""
        return regions_of(self.pointer, peer, timeout)

    def region(self, peer: str, name: str, timeout: float | None = 5.0) -> RemoteRegion:
        """A region of a peer, by name."""
        remote = RemoteRegion()
        ms = milliseconds(timeout)
        check(lib.slime_agent_region_remote(self.pointer, peer.encode(), name.encode(), ms, remote.value), f"{peer}/{name}")
        return remote

    # ---- calls ----

    @overload
    def proxy(self, peer: str, service: type[_T], *, timeout: float | None = 30.0) -> _T: ...

    @overload
    def proxy(self, peer: str, service: None = None, *, timeout: float | None = 30.0) -> Proxy: ...

    def proxy(self, peer: str, service: type | None = None, *, timeout: float | None = 30.0) -> Any:
        """Methods of a peer as methods here: agent.proxy("node-b", Service).add(1, b=2)."""
        return Proxy(self, peer, service, timeout)

    def async_proxy(self, peer: str, service: type | None = None, *, timeout: float | None = 30.0) -> Proxy:
        """The same, with coroutine functions: await agent.async_proxy("node-b", Service).add(1, b=2)."""
        return AsyncProxy(self, peer, service, timeout)


class Proxy:
    def __init__(self, agent: Agent, peer: str, service: type | None, timeout: float | None) -> None:
        self._agent = agent
        self._peer = peer
        self._service = service
        self._timeout = timeout
        self._endpoint: Endpoint | None = None

    def _link(self) -> Endpoint:
        if self._endpoint is None or self._endpoint.closed:
            self._endpoint = self._agent.link(self._peer, timeout=self._timeout)
        return self._endpoint

    def _retire(self) -> None:
        if self._endpoint is not None:
            self._endpoint.close()
        self._endpoint = None

    def begin(self, name: str, request: Any = b"", *, reply_size: int = 1 << 20, timeout: float | None = None) -> Call:
        """A call with bytes, answered with bytes, at most reply_size of them: wait for it, or await it."""
        try:
            return Call(self._link(), name, request, reply_size, timeout or self._timeout)
        except RpcError as failure:
            self._judge(failure)
            raise

    def call(self, name: str, request: Any = b"", **options: Any) -> bytes:
        try:
            return self.begin(name, request, **options).wait()
        except RpcError as failure:
            self._judge(failure)
            raise

    async def acall(self, name: str, request: Any = b"", **options: Any) -> bytes:
        """As call(), for asyncio. The link must be there: agent.link() waits for it."""
        try:
            return bytes(await self.begin(name, request, **options))
        except RpcError as failure:
            self._judge(failure)
            raise

    def _judge(self, failure: RpcError) -> None:
        if failure.errno in (errno.ECONNRESET, errno.ENOTCONN):
            self._retire()  # the next call waits for the next link

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        declared = getattr(self._service, name, None)
        if self._service is not None and declared is None:
            raise AttributeError(f"{self._service.__name__} has no method {name}")
        wire, raw = getattr(declared, "_slime_method", (name, False))[:2]
        return self._raw(wire) if raw else self._typed(wire, declared)

    def _raw(self, wire: str) -> Callable[..., Any]:
        return lambda request=b"", **options: self.call(wire, request, **options)

    def _typed(self, wire: str, declared: Any) -> Callable[..., Any]:
        pack, unpack = _packing(wire, declared)
        return lambda *positional, **named: unpack(self.call(wire, pack(positional, named)))


class AsyncProxy(Proxy):
    """Its methods are coroutine functions."""

    def _raw(self, wire: str) -> Callable[..., Any]:
        return lambda request=b"", **options: self.acall(wire, request, **options)

    def _typed(self, wire: str, declared: Any) -> Callable[..., Any]:
        pack, unpack = _packing(wire, declared)

        async def call(*positional: Any, **named: Any) -> Any:
            return unpack(await self.acall(wire, pack(positional, named)))

        return call


def _packing(wire: str, declared: Any) -> tuple[Callable[[Any, Any], bytes], Callable[[bytes], Any]]:
    """The request from arguments as of the declared method, and its result from the reply."""
    signature = inspect.signature(declared) if declared is not None else None
    result = _hints(declared).get("return") if declared is not None else None

    def pack(positional: Any, named: Any) -> bytes:
        if signature is not None:
            bound = signature.bind(None, *positional, **named).arguments  # None stands for self
            given = dict(list(bound.items())[1:])
        elif positional:
            raise TypeError(f"{wire}() takes arguments by name where the service is not declared")
        else:
            given = named
        return json.dumps({k: _to_json(v) for k, v in given.items()}).encode()

    return pack, lambda reply: _from_json(result, json.loads(reply))


class Call(Pending):
    """One call over a link: wait for it, or await it; its result is the reply. Raises RpcTimeoutError, RemoteRpcError
    or RpcError."""

    _test = lib.slime_call_test
    _wait = lib.slime_call_wait
    _destroy = lib.slime_call_destroy

    def __init__(self, endpoint: Endpoint, name: str, request: Any, reply_size: int, timeout: float | None) -> None:
        super().__init__(endpoint.context, endpoint)
        out = ffi.new("struct slime_call **")
        check(lib.py_call_create(endpoint.context.pointer, self._ended, out))
        self._pointer = out[0]
        data = ffi.from_buffer("char[]", request)
        self._reply = room = _uncleared("char[]", reply_size)
        args = ffi.new("struct slime_call_args *")
        lib.slime_call_args_init(args)
        args.method = lib.slime_rpc_method_id(name.encode())
        args.request, args.request_len = data, len(data)
        args.reply, args.reply_cap = room, reply_size
        args.timeout_ms = milliseconds(timeout)
        self._keep = (endpoint, request, data, room)
        ret = lib.slime_call_start(endpoint.pointer, args, self._pointer)
        if ret < 0:
            failure = _failure(ret, None)
            self.release()
            raise failure
        self._is_begun = True
        self.context._keep(self)

    def cancel(self) -> None:
        if self._pointer is not None:
            lib.slime_call_cancel(self._pointer)

    def wait(self, timeout: float | None = None) -> bytes:
        """The reply. A call that is interrupted is cancelled; its memory is kept until it has ended."""
        try:
            return bytes(super().wait(timeout))
        except BaseException:
            self.cancel()
            raise

    def _take_result(self, pointer: Any) -> bytes:
        status = int(lib.slime_call_status(pointer))
        if status:
            raise _failure(status, pointer)
        return bytes(ffi.buffer(self._reply, lib.slime_call_reply_len(pointer)))


def call(endpoint: Endpoint, name: str, request: Any = b"", *, reply_size: int = 1 << 20, timeout: float | None = 30.0) -> Call:
    """Begin a call: call(link, "echo", b"hello").wait(), or await it."""
    return Call(endpoint, name, request, reply_size, timeout)
