# SPDX-License-Identifier: Apache-2.0
"""SlimeRPC's decorators and functions over our calls: @method, proxy(), serve(), serve_once(), wait_all(). Arguments and
results of methods that are not raw are JSON, not pickle: what JSON does not have is refused by name.

A request is the caller's name, the method's name, and bytes: each name with its length before it (2, little-endian). A
reply is a byte, 0, and bytes; or 1, and a JSON object with type, message and traceback.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from libslime._core import SlimeError, ffi, lib
from libslime.agent import Call
from libslime.agent import RpcTimeoutError as CallTimeout

if TYPE_CHECKING:
    from libslime.compat.dlslime import PeerAgent

METHOD = "slimerpc"
_MARK = "_slime_rpc"


class RpcError(Exception):
    """A call failed."""


class RpcTimeoutError(RpcError, TimeoutError):
    """wait(timeout) ended before the reply came."""


class RemoteRpcError(RpcError):
    """The method raised an exception there."""

    def __init__(self, message: str, *, type_name: str | None = None, traceback: str | None = None) -> None:
        super().__init__(f"{type_name}: {message}" if type_name else message)
        self.type_name = type_name
        self.traceback = traceback

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}\n--- remote traceback ---\n{self.traceback}" if self.traceback else text


def method(fn: Any = None, *, streaming: bool = False, raw: bool = False, parallel: bool = False, inplace: bool = False) -> Any:
    """raw: the method takes (channel, ptr, nbytes) and returns bytes; and inplace: it takes (req_ptr, req_nbytes, resp_ptr,
    resp_cap) and returns how many bytes it wrote. parallel: several of them may run at once."""
    if inplace and not raw:
        raise ValueError("@method(inplace=True) requires raw=True")
    if streaming:
        raise ValueError("@method(streaming=True) is not implemented")

    def mark(f: Any) -> Any:
        setattr(f, _MARK, {"raw": raw, "parallel": parallel, "inplace": inplace})
        return f

    return mark(fn) if fn is not None else mark


def _pack(values: Any, what: str) -> bytes:
    try:
        return json.dumps(values).encode()
    except TypeError as failure:
        raise TypeError(f"{what}: {failure}; use @method(raw=True) for bytes") from None


# ---- callers ----


class Future:
    """The result of one call: wait() for it."""

    def __init__(self, call: Call, unpack: Callable[[bytes], Any]) -> None:
        self._call = call
        self._unpack = unpack

    def done(self) -> bool:
        return self._call.done()

    def wait(self, timeout: float | None = None) -> Any:
        try:
            reply = self._call.wait(timeout)
        except (CallTimeout, TimeoutError) as failure:
            raise RpcTimeoutError(str(failure)) from failure
        except SlimeError as failure:
            raise RpcError(str(failure)) from failure
        if reply[:1] == b"\0":
            return self._unpack(reply[1:])
        said = json.loads(reply[1:])
        raise RemoteRpcError(said["message"], type_name=said["type"], traceback=said["traceback"])


class _Proxy:
    def __init__(self, agent: PeerAgent, peer: str, service: type) -> None:
        self._agent = agent
        self._peer = peer
        self._service = service

    def __getattr__(self, name: str) -> Callable[..., Future]:
        mark = getattr(getattr(self._service, name, None), _MARK, None)
        if mark is None:
            raise AttributeError(f"{self._service.__name__} has no RPC method {name!r}")
        if not mark["raw"]:
            return lambda *args: self._begin(name, _pack(list(args), f"an argument of {name}"), json.loads)
        if not mark["inplace"]:
            return lambda data: self._begin(name, bytes(data), bytes)

        def by_writer(writer: Callable[[int, int], int]) -> Future:
            room = ffi.new("char[]", self._agent.rpc_buffer_size)
            n = writer(int(ffi.cast("uintptr_t", room)), len(room))
            return self._begin(name, bytes(ffi.buffer(room, n)), bytes)

        return by_writer

    def _begin(self, name: str, payload: bytes, unpack: Callable[[bytes], Any]) -> Future:
        head = b"".join(len(t).to_bytes(2, "little") + t for t in (self._agent.alias.encode(), name.encode()))
        link = self._agent._link(self._peer, 30.0)
        return Future(Call(link, METHOD, head + payload, self._agent.rpc_buffer_size, None), unpack)


def proxy(agent: PeerAgent, peer_alias: str, service_cls: type) -> Any:
    return _Proxy(agent, peer_alias, service_cls)


def wait_all(futures: Sequence[Future], timeout: float | None = None) -> list[Any]:
    return [f.wait(timeout) for f in futures]


# ---- services ----


class Channel:
    """What a raw method is told of its caller."""

    def __init__(self, peer: str) -> None:
        self.peer_alias = peer


class _Arrived:
    """A request that waits for its service."""

    def __init__(self, req: Any, data: memoryview) -> None:
        texts = []
        at = 0
        for _ in range(2):
            n = int.from_bytes(data[at : at + 2], "little")
            if at + 2 + n > len(data):
                raise ValueError("a malformed request")
            texts.append(bytes(data[at + 2 : at + 2 + n]).decode())
            at += 2 + n
        self.req = req
        self.peer, self.name = texts
        self.ptr = int(ffi.cast("uintptr_t", lib.slime_rpc_request_data(req))) + at
        self.payload = data[at:]

    def answer(self, service: Any, lock: Any) -> None:
        function = getattr(service, self.name, None)
        mark = getattr(function, _MARK, None)
        try:
            if mark is None:
                raise LookupError(f"{type(service).__name__} has no RPC method {self.name!r}")
            with contextlib.nullcontext() if mark["parallel"] else lock:
                self._run(function, mark)
        except Exception as failure:
            said = {"type": type(failure).__name__, "message": str(failure), "traceback": traceback.format_exc()}
            self._send(b"\1" + json.dumps(said).encode())

    def _run(self, function: Any, mark: dict[str, bool]) -> None:
        if mark["inplace"]:
            room = lib.slime_rpc_request_reply_cap(self.req)
            reply = ffi.new("char[]", room)
            n = function(self.ptr, len(self.payload), int(ffi.cast("uintptr_t", reply)) + 1, room - 1)
            self._send(ffi.buffer(reply, n + 1))
        elif mark["raw"]:
            self._send(b"\0" + bytes(function(Channel(self.peer), self.ptr, len(self.payload)) or b""))
        else:
            result = function(*json.loads(bytes(self.payload)))
            self._send(b"\0" + _pack(result, f"the result of {self.name}"))

    def _send(self, reply: Any) -> None:
        data = ffi.from_buffer("char[]", reply)
        lib.slime_rpc_reply(self.req, data, len(data))


class Requests:
    """Those of an agent that no serve() has taken yet, by their callers."""

    def __init__(self) -> None:
        self._by_peer: dict[str, deque[_Arrived]] = {}

    def arrived(self, request: memoryview) -> bytes:
        raise NotImplementedError  # they are taken from the agent by next_of()

    def next_of(self, agent: PeerAgent, peer: str | None, timeout: float | None) -> _Arrived | None:
        """The next request, of this peer if one is named."""
        while True:
            for name, waiting in self._by_peer.items():
                if waiting and peer in (None, name):
                    return waiting.popleft()
            req = agent.agent.next_request(timeout)
            if req is None:
                return None
            data = memoryview(ffi.buffer(lib.slime_rpc_request_data(req), lib.slime_rpc_request_len(req))).cast("B")
            try:
                one = _Arrived(req, data)
            except ValueError as failure:
                lib.slime_rpc_reply_error(req, 1, str(failure).encode())
                continue
            self._by_peer.setdefault(one.peer, deque()).append(one)


def serve_once(agent: PeerAgent, service_instance: Any, peer: str | None = None, *, channel: Channel | None = None, timeout: float | None = None) -> None:
    """Answer one request; timeout is ours."""
    one = agent.requests.next_of(agent, channel.peer_alias if channel else peer, timeout)
    if one is not None:
        one.answer(service_instance, contextlib.nullcontext())


def serve(
    agent: PeerAgent, service_instance: Any, peer: str | None = None, *, channel: Channel | None = None, max_workers: int | None = None
) -> None:
    """Answer requests until the agent is shut down."""
    workers = max(1, max_workers or int(os.environ.get("SLIME_RPC_SERVER_WORKERS", "1")))
    lock = threading.Lock()
    whose = channel.peer_alias if channel else peer
    with ThreadPoolExecutor(workers) if workers > 1 else contextlib.nullcontext() as pool:
        while True:
            try:
                one = agent.requests.next_of(agent, whose, 0.1)
            except SlimeError:
                if agent.agent._is_leaving:
                    return
                raise
            if one is None:
                continue
            if pool is None:
                one.answer(service_instance, lock)
            else:
                pool.submit(one.answer, service_instance, lock)
