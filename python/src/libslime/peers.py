# SPDX-License-Identifier: Apache-2.0
"""What an agent knows of others: who is registered, with which regions, its links to them, and their end."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from libslime._core import Handle, Readable, check, ffi, lib, milliseconds, wait_readable


def _text(pointer: Any) -> str:
    return str(ffi.string(pointer).decode(errors="replace"))


@dataclass(frozen=True)
class Peer:
    """An agent of the scope, as it said of itself when it registered."""

    name: str
    address: str
    labels: dict[str, str]
    services: tuple[str, ...]
    attributes: dict[str, str]
    generation: int


@dataclass(frozen=True)
class Region:
    """A region that an agent offers."""

    name: str
    size: int
    access: int  # READ, WRITE or both
    generation: int
    revision: int


@dataclass(frozen=True)
class Link:
    """A link of the agent: its state is "connecting", "connected" or "broken", and cause says why it is not connected."""

    peer: str
    profile: str
    state: str
    transport: str
    cause: str
    age: float  # seconds since it is in this state
    n_connects: int


@dataclass(frozen=True)
class PeerEnd:
    """The end of a peer. reason is "left", "expired" (of its lease), "reset" (its last connection broke) or "superseded"."""

    peer: str
    reason: str
    silent: float  # seconds that nothing was heard of it before, at most
    text: str
    n_lost: int  # events before this one that had no place


def peers_of(agent: Any, selector: str, timeout: float) -> list[Peer]:
    found: list[Peer] = []
    chosen: Any = ffi.new("char[]", selector.encode()) if selector else ffi.NULL
    after: Any = ffi.NULL
    while True:
        out = ffi.new("struct slime_agent_peers **")
        check(lib.slime_agent_peers(agent, chosen, after, milliseconds(timeout), out))
        page = ffi.gc(out[0], lib.slime_agent_peers_free)
        for i in range(page.n):
            p = page.peers[i]
            found.append(
                Peer(
                    _text(p.name),
                    _text(p.address),
                    {_text(p.labels[k].key): _text(p.labels[k].value) for k in range(p.n_labels)},
                    tuple(_text(p.services[k]) for k in range(p.n_services)),
                    {_text(p.attributes[k].key): _text(p.attributes[k].value) for k in range(p.n_attributes)},
                    int(p.generation),
                )
            )
        if not page.next:
            return found
        after = ffi.new("char[]", ffi.string(page.next))


def regions_of(agent: Any, peer: str, timeout: float) -> list[Region]:
    out = ffi.new("struct slime_agent_regions **")
    check(lib.slime_agent_regions(agent, peer.encode(), milliseconds(timeout), out), peer)
    page = ffi.gc(out[0], lib.slime_agent_regions_free)
    return [
        Region(_text(r.name), int(r.size), int(r.access), int(r.generation), int(r.revision))
        for r in (page.regions[i] for i in range(page.n))
    ]


def links_of(agent: Any) -> list[Link]:
    room = 64
    while True:
        infos = ffi.new("struct slime_agent_link_info[]", room)
        n = check(lib.slime_agent_links(agent, infos, room))
        if n <= room:
            break
        room = n + 16
    return [
        Link(
            _text(i.peer),
            _text(i.profile),
            _text(lib.slime_link_state_name(i.state)),
            _text(lib.slime_transport_name(i.transport)),
            _text(i.cause),
            i.age_ms / 1000,
            int(i.n_connects),
        )
        for i in (infos[k] for k in range(n))
    ]


class PeerEvents(Handle):
    """Events since it was made, at most 256 that were not taken. Iteration ends when it, or its agent, is closed."""

    def __init__(self, agent: Any, parent: Handle) -> None:
        out = ffi.new("struct slime_agent_watch **")
        check(lib.slime_agent_watch_create(agent, ffi.NULL, ffi.NULL, out))
        super().__init__(out[0], parent)
        self._readable = Readable()

    def _destroy(self, pointer: Any) -> None:
        self._readable.end()
        lib.slime_agent_watch_destroy(pointer)

    def _take(self) -> PeerEnd | None:
        end = ffi.new("struct slime_peer_end *")
        if lib.slime_agent_watch_next(self.pointer, end):
            return None
        reason = _text(lib.slime_peer_end_name(end.reason))
        return PeerEnd(_text(end.peer), reason, end.silent_ms / 1000, _text(end.text), int(end.n_lost))

    def next(self, timeout: float | None = None) -> PeerEnd | None:
        """The next event; None: there was none in that time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (end := self._take()) is None:
            if not wait_readable(self, lib.slime_agent_watch_fd(self.pointer), deadline):
                return None
        return end

    def __iter__(self) -> Iterator[PeerEnd]:
        while not self.closed:
            end = self.next()
            if end is not None:
                yield end

    async def __aiter__(self) -> AsyncIterator[PeerEnd]:
        while not self.closed:
            end = self._take()
            if end is not None:
                yield end
            elif not await self._readable.wait(lib.slime_agent_watch_fd(self.pointer)):
                return
