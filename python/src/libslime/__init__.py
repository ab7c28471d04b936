# SPDX-License-Identifier: Apache-2.0
"""Memory of other processes and machines, read and written by RDMA, shared memory or TCP."""

from libslime._core import (
    Busy,
    Cancelled,
    ConnectionLost,
    Invalid,
    NotConnected,
    NotFound,
    Refused,
    SlimeError,
    Stale,
    Timeout,
    Unsupported,
    log_level,
)
from libslime.agent import Agent, AsyncProxy, Call, Proxy, RemoteRpcError, RpcError, RpcTimeoutError, call, method
from libslime.context import READ, WRITE, Batch, Context, Endpoint, Listener, Memory, MemoryRegion, Op, RemoteRegion, wait_all
from libslime.pages import Pages, PagesOwner
from libslime.peers import Link, Peer, PeerEnd, PeerEvents, Region
from libslime.target import Target

__all__ = [
    "READ",
    "WRITE",
    "Agent",
    "AsyncProxy",
    "Batch",
    "Busy",
    "Call",
    "Cancelled",
    "ConnectionLost",
    "Context",
    "Endpoint",
    "Invalid",
    "Link",
    "Listener",
    "Memory",
    "MemoryRegion",
    "NotConnected",
    "NotFound",
    "Op",
    "Pages",
    "PagesOwner",
    "Peer",
    "PeerEnd",
    "PeerEvents",
    "Proxy",
    "Refused",
    "Region",
    "RemoteRegion",
    "RemoteRpcError",
    "RpcError",
    "RpcTimeoutError",
    "SlimeError",
    "Stale",
    "Target",
    "Timeout",
    "Unsupported",
    "call",
    "log_level",
    "method",
    "wait_all",
]
