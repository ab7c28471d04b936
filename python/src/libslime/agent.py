# SPDX-License-Identifier: Apache-2.0
"""A named agent in this process: links, regions and calls by name, through nanoctrl."""

from __future__ import annotations

import dataclasses
import errno
import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from libslime._core import Handle, Invalid, SlimeError, check, error, ffi, lib, milliseconds, wait_sliced
from libslime.context import READ, WRITE, Context, Endpoint, Memory, MemoryRegion, Pending, RemoteRegion, set_transports

_LEAVE_MS = 6000
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


def method(function: Callable[..., Any] | None = None, *, name: str = "", raw: bool = False) -> Any:
    """Marks a function or a method of a class as a method of peers' calls. raw: it takes and returns bytes. Else its
    arguments and its result are JSON; an argument whose annotation is a dataclass is made one."""

    def mark(f: Callable[..., Any]) -> Callable[..., Any]:
        f._slime_method = (name or f.__name__, raw)  # type: ignore[attr-defined]
        return f

    return mark(function) if function is not None else mark


def _to_json(value: Any) -> Any:
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value


def _typed(function: Callable[..., Any]) -> Callable[[memoryview], bytes]:
    hints = {k: v for k, v in getattr(function, "__annotations__", {}).items() if isinstance(v, type)}

    def handle(request: memoryview) -> bytes:
        given = json.loads(bytes(request) or b"{}")
        arguments = {
            k: hints[k](**v) if dataclasses.is_dataclass(hints.get(k)) and isinstance(v, dict) else v
            for k, v in given.items()
        }
        return json.dumps(_to_json(function(**arguments))).encode()

    return handle


@ffi.def_extern()  # type: ignore[untyped-decorator, unused-ignore]
def py_handle(arg: Any, req: Any) -> None:
    """On a worker of the library."""
    handler = ffi.from_handle(arg)
    try:
        data = ffi.buffer(lib.slime_rpc_request_data(req), lib.slime_rpc_request_len(req))
        reply = handler(memoryview(data))
        lib.slime_rpc_reply(req, ffi.from_buffer(reply), len(reply))
    except BaseException as failure:  # the caller must have an answer
        if not isinstance(failure, Exception):
            traceback.print_exc()
        text = f"{type(failure).__name__}: {failure}"
        lib.slime_rpc_reply_error(req, 1, text.encode()[: lib.SLIME_RPC_MESSAGE_MAX])


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
        import weakref

        attr = ffi.new("struct slime_agent_attr *")
        lib.py_agent_attr(attr)
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
        attr.on_state, attr.arg = lib.py_agent_state, self._self
        out = ffi.new("struct slime_agent **")
        check(lib.slime_agent_create(attr, out), name)
        super().__init__(out[0])
        self.name, self.scope = name, scope
        self._handlers: list[Any] = []
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
        lib.slime_agent_stop(self._pointer, _LEAVE_MS)
        self.context.close()

    def _destroy(self, pointer: Any) -> None:
        check(lib.slime_agent_destroy(pointer))

    def serve(self, function: Callable[..., Any], *, name: str = "", raw: bool | None = None) -> None:
        """Offer a function to peers' calls, or each method of an object that is marked with @method; before start()."""
        marked = [getattr(function, n) for n in dir(function) if hasattr(getattr(function, n, None), "_slime_method")]
        if not callable(function) or (marked and not hasattr(function, "_slime_method")):
            for one in marked:
                self.serve(one)
            return
        own_name, own_raw = getattr(function, "_slime_method", (getattr(function, "__name__", ""), False))
        handler = function if (own_raw if raw is None else raw) else _typed(function)
        handle = ffi.new_handle(handler)
        self._handlers.append((handle, handler))
        attr = ffi.new("struct slime_rpc_method_attr *")
        lib.py_method_attr(attr)
        attr.fn, attr.arg = lib.py_handle, handle
        check(lib.slime_agent_method_add(self.pointer, (name or own_name).encode(), attr), name or own_name)

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

    def peers(self, timeout: float = 5.0) -> list[str]:
        """The names of the other agents that are registered."""
        names: list[str] = []
        after = ffi.NULL
        while True:
            out = ffi.new("struct slime_agent_peers **")
            check(lib.slime_agent_peers(self.pointer, ffi.NULL, after, milliseconds(timeout), out))
            page = ffi.gc(out[0], lib.slime_agent_peers_free)
            names += [ffi.string(page.peers[i].name).decode() for i in range(page.n)]
            if not page.next:
                return names
            after = ffi.new("char[]", ffi.string(page.next))

    def providers(self, service: str, timeout: float = 5.0) -> list[str]:
        """The agents that offer a service, this one included."""
        names = ffi.new(f"char[256][{lib.SLIME_AGENT_NAME_MAX + 1}]")
        n = check(lib.slime_agent_providers(self.pointer, service.encode(), names, 256, milliseconds(timeout)))
        return [ffi.string(names[i]).decode() for i in range(n)]

    # ---- regions ----

    def offer(self, name: str, region: MemoryRegion, *, allow: Sequence[str] | None = None) -> None:
        """Offer a region to peers under a name: to those that a selector of allow matches, or to all."""
        if not region.access:
            raise Invalid(errno.EINVAL, "a region without access: READ, WRITE or both")
        texts = [ffi.new("char[]", a.encode()) for a in allow or ()]
        pointers = ffi.new("const char *[]", texts) if texts else ffi.NULL
        check(
            lib.slime_agent_region_offer(self.pointer, name.encode(), region.pointer, region.access, pointers, len(texts)),
            name,
        )
        region._withdrawals.append(lambda: self._withdraw(name))

    def _withdraw(self, name: str) -> None:
        if self._pointer is not None:
            lib.slime_agent_region_withdraw(self._pointer, name.encode())

    def withdraw(self, name: str) -> None:
        check(lib.slime_agent_region_withdraw(self.pointer, name.encode()), name)

    def share(self, name: str, size: int, access: int = READ | WRITE, *, allow: Sequence[str] | None = None) -> Memory:
        """Allocate memory and offer all of it under a name. memory.view is the bytes."""
        memory = Memory(self.context, size)
        memory.offered = memory.region(access)  # type: ignore[attr-defined]
        self.offer(name, memory.offered, allow=allow)  # type: ignore[attr-defined]
        return memory

    def region(self, peer: str, name: str, timeout: float | None = 5.0) -> RemoteRegion:
        remote = RemoteRegion()
        ms = milliseconds(timeout)
        check(lib.slime_agent_region_remote(self.pointer, peer.encode(), name.encode(), ms, remote.value), f"{peer}/{name}")
        return remote

    # ---- calls ----

    def proxy(self, peer: str, service: type | None = None, *, timeout: float | None = 30.0) -> Proxy:
        """Methods of a peer as methods here: agent.proxy("node-b").add(a=1, b=2)."""
        return Proxy(self, peer, service, timeout)


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
        wire, raw = name, False
        if self._service is not None:
            declared = getattr(self._service, name, None)
            if declared is None:
                raise AttributeError(f"{self._service.__name__} has no method {name}")
            wire, raw = getattr(declared, "_slime_method", (name, False))
        if raw:
            return lambda request=b"", **options: self.call(wire, request, **options)

        def typed(**arguments: Any) -> Any:
            request = json.dumps({k: _to_json(v) for k, v in arguments.items()}).encode()
            return json.loads(self.call(wire, request))

        return typed


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
        self._reply = bytearray(reply_size)
        room = ffi.from_buffer("char[]", self._reply)
        args = ffi.new("struct slime_call_args *")
        lib.py_call_args(args)
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
        return bytes(memoryview(self._reply)[: lib.slime_call_reply_len(pointer)])


def call(endpoint: Endpoint, name: str, request: Any = b"", *, reply_size: int = 1 << 20, timeout: float | None = 30.0) -> Call:
    """Begin a call: call(link, "echo", b"hello").wait(), or await it."""
    return Call(endpoint, name, request, reply_size, timeout)
