# SPDX-License-Identifier: Apache-2.0
"""The names and calls of DLSlime's Python package over our links and agents: a program changes its import. Both ends have
to: nothing here talks to DLSlime's own. docs/python.md says where the meaning differs.

Handles are numbers; an assignment of an endpoint is (local handle, remote handle, remote offset, local offset, length), one
of a PeerAgent (region, local offset, remote offset, length) or (local region, remote region, local offset, remote offset,
length), by names or numbers.
"""

from __future__ import annotations

import base64
import errno
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from libslime._core import Invalid, SlimeError, check, ffi, lib
from libslime.agent import Agent
from libslime.compat import slimerpc
from libslime.compat.slimerpc import RemoteRpcError, RpcError, RpcTimeoutError, method, proxy, serve, serve_once, wait_all
from libslime.context import READ, WRITE, Context, Endpoint, MemoryRegion, Op, RemoteRegion

__all__ = [
    "PeerAgent",
    "PeerConnection",
    "RDMAContext",
    "RDMAEndpoint",
    "RDMAMemoryPool",
    "RemoteRpcError",
    "RpcError",
    "RpcTimeoutError",
    "available_nic",
    "method",
    "proxy",
    "serve",
    "serve_once",
    "start_peer_agent",
    "wait_all",
]

CONNECT_S = 30.0
Assignments = Sequence[tuple[Any, ...]]


def available_nic() -> list[str]:
    """The RDMA devices of this host."""
    out = ffi.new("struct slime_topo_devices **")
    check(lib.slime_topo_devices_create(ffi.NULL, out))
    try:
        return [ffi.string(out[0].devices[i].name).decode() for i in range(out[0].n_devices)]
    finally:
        lib.slime_topo_devices_destroy(out[0])


# ---- futures ----


class Future:
    """wait() is 0, or raises RuntimeError."""

    def __init__(self, op: Op) -> None:
        self._op = op
        self._failure: SlimeError | None = None
        self._done = False

    def wait(self, timeout: float | None = None) -> int:
        if not self._done:
            try:
                self._op.wait(timeout)
            except SlimeError as failure:
                if self._op._pointer is not None:  # it goes on
                    raise
                self._failure = failure
            self._done = True
        if self._failure is not None:
            raise RuntimeError(str(self._failure)) from self._failure
        return 0


class ImmRecvFuture(Future):
    def imm_data(self) -> int:
        self.wait()
        value = self._op.imm
        return value - (1 << 32) if value >> 31 else value


# ---- endpoints ----


class RDMAContext:
    """A device, or with "" our choice of a transport."""

    def __init__(self, context: Context | None = None) -> None:
        self.context = context

    def init(self, device_name: str = "", ib_port: int = 1, link_type: str = "auto") -> int:
        settings: dict[str, Any] = {"rdma_devices": f"{device_name}:{ib_port}"} if device_name else {}
        # Memory is the program's: where shm cannot reach it, links take tcp.
        self.context = Context(foreign_memory=lib.SLIME_FOREIGN_REQUIRE, **settings)
        return 0


class RDMAMemoryPool:
    """Regions by handle, and by name."""

    def __init__(self, context: RDMAContext) -> None:
        if context.context is None:
            raise Invalid(errno.EINVAL, "the context was not initialised: init() comes first")
        self.context = context.context
        self.regions: list[MemoryRegion | None] = []
        self.handles: dict[str, int] = {}

    def register_memory_region(self, data_ptr: int, length: int, name: object = None) -> int:
        region = MemoryRegion(self.context, ffi.cast("char *", data_ptr), length, READ | WRITE, keep=None)
        key = str(name) if name is not None else f"mr_{len(self.regions)}"
        old = self.handles.get(key)
        if old is not None:
            self.unregister_memory_region(key)
        self.handles[key] = len(self.regions) if old is None else old
        if old is None:
            self.regions.append(region)
        else:
            self.regions[old] = region
        return self.handles[key]

    def unregister_memory_region(self, key: object) -> int:
        handle = self.handles.get(str(key)) if not isinstance(key, int) else key
        if handle is None or not 0 <= handle < len(self.regions):
            return -1
        region, self.regions[handle] = self.regions[handle], None
        if region is not None:
            region.close()
        return 0

    def get_handle(self, name: str) -> int:
        return self.handles.get(name, -1)

    def region(self, handle: Any) -> MemoryRegion:
        number = self.handles.get(handle, -1) if isinstance(handle, str) else int(handle)
        region = self.regions[number] if 0 <= number < len(self.regions) else None
        if region is None:
            raise RuntimeError(f"there is no local memory region {handle!r}")
        return region

    def mr_info(self) -> dict[str, dict[str, Any]]:
        return {name: describe(region) for name, handle in self.handles.items() if (region := self.regions[handle]) is not None}


def describe(region: MemoryRegion) -> dict[str, Any]:
    return {"addr": int(ffi.cast("uintptr_t", region._address)), "length": region.size, "slime": text_of(region.export())}


def text_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


class _Remote:
    """Regions of the peer, by handle and by name."""

    def __init__(self) -> None:
        self.regions: list[RemoteRegion] = []
        self.handles: dict[str, int] = {}

    def add(self, name: str, info: Mapping[str, Any]) -> int:
        if "slime" not in info:
            raise RuntimeError(f"the region {name!r} is not of a peer that uses libslime")
        region = RemoteRegion(base64.b64decode(info["slime"]))
        handle = self.handles.setdefault(name, len(self.regions))
        if handle == len(self.regions):
            self.regions.append(region)
        else:
            self.regions[handle] = region
        return handle

    def region(self, handle: Any) -> RemoteRegion:
        number = self.handles.get(handle, -1) if isinstance(handle, str) else int(handle)
        if not 0 <= number < len(self.regions):
            raise RuntimeError(f"there is no remote memory region {handle!r}")
        return self.regions[number]


class _Transfers:
    """What endpoints and agents have in common: operations over one link."""

    def _submit(self, endpoint: Endpoint, function: Any, pieces: Sequence[tuple[MemoryRegion, RemoteRegion, int, int, int]], *more: Any) -> Op:
        x = ffi.new("struct slime_xfer[]", len(pieces))
        for i, (local, remote, local_offset, remote_offset, length) in enumerate(pieces):
            x[i].local, x[i].remote = local.pointer, remote.value
            x[i].local_offset, x[i].remote_offset, x[i].len = local_offset, remote_offset, length
        op = Op(endpoint.context, (x, pieces, endpoint))
        return op._begun(function(endpoint.pointer, x, len(pieces), 0, *more, op._pointer), "transfer")

    @staticmethod
    def _message(endpoint: Endpoint, chunk: tuple[int, int, int], send: bool) -> Future:
        """The offset is not looked at, as DLSlime's is not."""
        pointer, _, length = chunk
        region = MemoryRegion(endpoint.context, ffi.cast("char *", pointer), length, 0, keep=None)
        return Future(endpoint.send(region) if send else endpoint.recv(region))


class RDMAEndpoint(_Transfers):
    """One end of a link, over rdma where there is a device, else over shm or tcp."""

    def __init__(self, *place: Any, **named: Any) -> None:
        """RDMAEndpoint(pool), RDMAEndpoint(context) or RDMAEndpoint(device_name, ib_port, link_type), and then num_qp and
        worker, which mean nothing here."""
        first = place[0] if place else named.pop("pool", named.pop("context", None))
        if isinstance(first, RDMAMemoryPool):
            self._pool = first
        elif isinstance(first, RDMAContext):
            self._pool = RDMAMemoryPool(first)
        else:
            words = ("device_name", "ib_port", "link_type", "num_qp", "worker")
            named = dict(zip(words, place)) | named
            unknown = set(named) - set(words)
            if unknown:
                raise TypeError(f"unknown arguments: {', '.join(sorted(unknown))}")
            context = RDMAContext()
            context.init(named.get("device_name", ""), named.get("ib_port", 1))
            self._pool = RDMAMemoryPool(context)
        self._remote = _Remote()
        self._endpoint = self._pool.context.endpoint()
        self._connecting: Op | None = None

    def get_pool(self) -> RDMAMemoryPool:
        return self._pool

    def register_memory_region(self, mr_key: Any, data_ptr: int, offset: int, length: int) -> int:
        return self._pool.register_memory_region(data_ptr + offset, length, mr_key if isinstance(mr_key, str) else f"mr_{mr_key}")

    def register_remote_memory_region(self, name: str, info: Mapping[str, Any]) -> int:
        return self._remote.add(name, info)

    def mr_info(self) -> dict[str, dict[str, Any]]:
        return self._pool.mr_info()

    def endpoint_info(self) -> dict[str, Any]:
        """What the peer's connect() takes: a secret for it alone."""
        return {"slime": text_of(self._endpoint.export()), "mr_info": self.mr_info()}

    def connect(self, info: Mapping[str, Any]) -> None:
        """Begins: the first operation waits until the peer has called it, too."""
        if "slime" not in info:
            raise RuntimeError("the endpoint is not of a peer that uses libslime")
        for name, region in info.get("mr_info", {}).items():
            self._remote.add(name, region)
        self._connecting = self._endpoint.connect(base64.b64decode(info["slime"]), CONNECT_S)

    def _connected(self) -> Endpoint:
        if self._connecting is not None:
            self._connecting.wait()
            self._connecting = None
        return self._endpoint

    def _pieces(self, assign: Assignments) -> list[tuple[MemoryRegion, RemoteRegion, int, int, int]]:
        return [(self._pool.region(lo), self._remote.region(re), local, remote, n) for lo, re, remote, local, n in assign]

    def read(self, assign: Assignments, stream: Any = None) -> Future:
        return Future(self._submit(self._connected(), lib.slime_read, self._pieces(assign)))

    def write(self, assign: Assignments, stream: Any = None) -> Future:
        return Future(self._submit(self._connected(), lib.slime_write, self._pieces(assign)))

    def write_with_imm(self, assign: Assignments, imm_data: int = 0, stream: Any = None) -> Future:
        return Future(self._submit(self._connected(), lib.slime_write_imm, self._pieces(assign), imm_data & 0xFFFFFFFF))

    def imm_recv(self, stream: Any = None) -> ImmRecvFuture:
        return ImmRecvFuture(self._connected().imm_recv())

    def send(self, chunk: tuple[int, int, int], stream_handler: Any = None) -> Future:
        return self._message(self._connected(), chunk, True)

    def recv(self, chunk: tuple[int, int, int], stream_handler: Any = None) -> Future:
        return self._message(self._connected(), chunk, False)

    def shutdown(self) -> None:
        self._endpoint.close()


# ---- agents ----


class PeerConnection:
    """A wanted link to a peer."""

    def __init__(self, agent: PeerAgent, peer_alias: str) -> None:
        self._agent = agent
        self.peer_alias = peer_alias

    def wait(self, timeout: float = 60.0) -> PeerConnection:
        self._agent._link(self.peer_alias, timeout)
        return self

    def is_connected(self) -> bool:
        try:
            self._agent._link(self.peer_alias, 0)
        except SlimeError:
            return False
        return True

    @property
    def state(self) -> str:
        return "connected" if self.is_connected() else "connecting"

    @property
    def transport(self) -> str:
        return self._agent._link(self.peer_alias, CONNECT_S).transport

    @property
    def endpoint(self) -> Endpoint:
        return self._agent._link(self.peer_alias, CONNECT_S)


class PeerAgent(_Transfers):
    """A named agent, which is started."""

    rpc_buffer_size = 1 << 20  # bytes of the longest reply

    def __init__(
        self,
        ctrl_url: str = "http://127.0.0.1:4479",
        alias: str | None = None,
        device: str | None = None,
        scope: str | None = None,
        *,
        nanoctrl_url: str | None = None,
    ) -> None:
        name = alias or f"agent-{socket.gethostname().split('.')[0]}-{os.getpid()}-{os.urandom(3).hex()}"
        settings: dict[str, Any] = {"rdma_devices": device} if device else {}
        settings["foreign_memory"] = lib.SLIME_FOREIGN_REQUIRE
        self.requests = slimerpc.Requests()
        self.agent = Agent(nanoctrl_url or ctrl_url, name=name, scope=scope or "default", workers=0, settings=settings)
        self.agent.serve(self.requests.arrived, name=slimerpc.METHOD, raw=True)
        self.alias = name
        self._pool = RDMAMemoryPool(RDMAContext(self.agent.context))
        self._links: dict[str, Endpoint] = {}
        self._remotes: dict[tuple[str, str], RemoteRegion] = {}
        try:
            self.agent.start()
        except BaseException:
            self.agent.close()
            raise

    def __enter__(self) -> PeerAgent:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    # ---- peers ----

    def list_agents(self) -> list[str]:
        return [peer.name for peer in self.agent.peers()]

    def connect_to(
        self,
        peer_alias: str,
        local_device: str | None = None,
        peer_device: str | None = None,
        ib_port: int | None = 1,
        qp_num: int | None = 1,
        min_bw: str | None = None,
        transport: str = "rdma",
        local_host: str | None = None,
        local_port: int = 0,
    ) -> PeerConnection:
        """Want a link; devices are those of this agent. transport "rdma" is our usual order, "tcp" that alone."""
        if peer_alias == self.alias:
            raise ValueError(f"connect_to() of this agent's own name {peer_alias!r}")
        self.agent.want(peer_alias, transports=("tcp",) if transport.lower() == "tcp" else ())
        return PeerConnection(self, peer_alias)

    def get_connections(self) -> dict[str, PeerConnection]:
        return {peer: PeerConnection(self, peer) for peer in self._links}

    def query_connection(self, peer_alias: str) -> PeerConnection:
        return PeerConnection(self, peer_alias)

    def _link(self, peer: str, timeout: float) -> Endpoint:
        link = self._links.get(peer)
        if link is None or link.closed or not link.connected:
            if link is not None:
                link.close()
            self._links[peer] = link = self.agent.link(peer, timeout=timeout)
        return link

    # ---- memory ----

    def register_memory_region(self, mr_name: str, ptr: int, offset: int, length: int) -> int:
        """Offered to peers under its name."""
        handle = self._pool.register_memory_region(ptr + offset, length, mr_name)
        self.agent.offer(mr_name, self._pool.region(handle))
        return handle

    def unregister_memory_region(self, mr_name: str) -> bool:
        return self._pool.unregister_memory_region(mr_name) == 0

    def get_handle(self, mr_name: str) -> int:
        return self._pool.get_handle(mr_name)

    def get_mr_info(self, peer_alias: str, mr_name: str) -> dict[str, Any] | None:
        try:
            region = self.agent.region(peer_alias, mr_name)
        except SlimeError as failure:
            if failure.errno != errno.ENOENT:
                raise
            return None
        return {"name": mr_name, "addr": int(region.value.addr), "length": region.size}

    def _remote(self, peer: str, name: str, *, again: bool = False) -> RemoteRegion:
        key = (peer, name)
        if again or key not in self._remotes:
            self._remotes[key] = self.agent.region(peer, name)
        return self._remotes[key]

    def _named(self, peer: str, assign: Assignments, again: bool) -> list[tuple[MemoryRegion, RemoteRegion, int, int, int]]:
        pieces = []
        for one in assign:
            mine, theirs, local, remote, length = one if len(one) == 5 else (one[0], *one)
            pieces.append((self._pool.region(mine), self._remote(peer, theirs, again=again), local, remote, length))
        return pieces

    def _begin(self, peer: str, function: Any, assign: Assignments, *more: Any) -> Future:
        link = self._link(peer, CONNECT_S)
        try:
            return Future(self._submit(link, function, self._named(peer, assign, False), *more))
        except SlimeError as failure:
            if failure.errno not in (errno.ESTALE, errno.EINVAL):  # of an earlier life of the peer
                raise
            return Future(self._submit(link, function, self._named(peer, assign, True), *more))

    # ---- operations ----

    def read(self, peer_alias: str, assign: Assignments, stream: Any = None, **_: Any) -> Future:
        return self._begin(peer_alias, lib.slime_read, assign)

    def write(self, peer_alias: str, assign: Assignments, stream: Any = None, **_: Any) -> Future:
        return self._begin(peer_alias, lib.slime_write, assign)

    def write_with_imm(self, peer_alias: str, assign: Assignments, imm_data: int = 0, stream: Any = None, **_: Any) -> Future:
        return self._begin(peer_alias, lib.slime_write_imm, assign, imm_data & 0xFFFFFFFF)

    def imm_recv(self, peer_alias: str, stream: Any = None, **_: Any) -> ImmRecvFuture:
        return ImmRecvFuture(self._link(peer_alias, CONNECT_S).imm_recv())

    def send(self, peer_alias: str, chunk: tuple[int, int, int], stream: Any = None, **_: Any) -> Future:
        return self._message(self._link(peer_alias, CONNECT_S), chunk, True)

    def recv(self, peer_alias: str, chunk: tuple[int, int, int], stream: Any = None, **_: Any) -> Future:
        return self._message(self._link(peer_alias, CONNECT_S), chunk, False)

    def shutdown(self) -> None:
        self.agent.close()


def start_peer_agent(
    ctrl_url: str = "http://127.0.0.1:4479",
    alias: str | None = None,
    device: str | None = None,
    scope: str | None = None,
    **more: Any,
) -> PeerAgent:
    return PeerAgent(ctrl_url, alias, device, scope, **more)
