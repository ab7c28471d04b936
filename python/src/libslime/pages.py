# SPDX-License-Identifier: Apache-2.0
"""The store of pages: put, and read one-sided by key."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any

from libslime._core import Handle, Invalid, check, ffi, lib, milliseconds, wait_sliced
from libslime.agent import Agent
from libslime.context import MemoryRegion

_VERIFY = {"always": 0, "sample": 1, "never": 2}


class PagesOwner(Handle):
    """Makes an owner of an agent: before the agent is started; start() when it is ready."""

    def __init__(self, agent: Agent, size: int, *, tenant: str = "default", page_sizes: Sequence[int] = ()) -> None:
        attr = ffi.new("struct slime_pages_owner_attr *")
        lib.slime_pages_owner_attr_init(attr)
        one = ffi.new("struct slime_pages_tenant *")
        name = ffi.new("char[]", tenant.encode())
        one.name, one.size = name, size
        classes = ffi.new("uint32_t[]", sorted(page_sizes)) if page_sizes else ffi.NULL
        attr.tenants, attr.n_tenants = one, 1
        attr.classes, attr.n_classes = classes, len(page_sizes)
        out = ffi.new("struct slime_pages_owner **")
        check(lib.slime_pages_owner_create(agent.pointer, attr, out))
        super().__init__(out[0], agent)
        self._agent = agent

    def start(self) -> None:
        check(lib.slime_pages_owner_start(self.pointer))

    def _destroy(self, pointer: Any) -> None:
        lib.slime_pages_owner_stop(pointer)
        self._agent._leave()
        check(lib.slime_pages_owner_destroy(pointer))


class Pages(Handle):
    """Reads and writes pages through an agent that was started."""

    def __init__(
        self,
        agent: Agent,
        *,
        tenant: str = "default",
        verify: str = "always",
        dir_cache_ttl: float = 1.0,
        replicas: int = 1,
        owners: int = 1,
        timeout: float | None = 15.0,
    ) -> None:
        attr = ffi.new("struct slime_pages_attr *")
        lib.slime_pages_attr_init(attr)
        name = ffi.new("char[]", tenant.encode())
        attr.tenant, attr.verify, attr.replicas = name, _VERIFY[verify], replicas
        attr.dir_cache_ttl_ms = milliseconds(dir_cache_ttl)
        out = ffi.new("struct slime_pages **")
        check(lib.slime_pages_create(agent.pointer, attr, out))
        super().__init__(out[0], agent)
        self.agent = agent

        def ready(_: Any, slice_ms: int) -> int:
            return int(lib.slime_pages_wait_ready(out[0], owners, slice_ms))

        wait_sliced(ready, None, timeout)

    def _destroy(self, pointer: Any) -> None:
        check(lib.slime_pages_destroy(pointer))

    def _run(self, begin: Any, keys: Sequence[bytes | str], region: MemoryRegion | None, slots: Sequence[tuple[int, int]] | None, *more: int) -> list[int]:
        n = len(keys)
        items = ffi.new("struct slime_pages_item[]", n)
        bufs = ffi.new("struct slime_pages_buf[]", n)
        texts = [ffi.from_buffer(k if isinstance(k, bytes) else k.encode()) for k in keys]
        if slots is not None and len(slots) != n:
            raise Invalid(errno.EINVAL, "as many slots as keys are needed")
        for i in range(n):
            items[i].key, items[i].key_len = texts[i], len(texts[i])
            if region is not None and slots is not None:
                bufs[i].mr = region.pointer
                bufs[i].offset, bufs[i].len = slots[i]
                items[i].bufs, items[i].n_bufs = bufs + i, 1
        out = ffi.new("struct slime_pages_request **")
        check(lib.slime_pages_request_create(self.pointer, ffi.NULL, out))
        try:
            check(begin(out[0], items, n, *more))
            wait_sliced(lib.slime_pages_wait, out[0], None)
            return [items[i].status for i in range(n)]
        finally:
            lib.slime_pages_request_destroy(out[0])

    def get(self, keys: Sequence[bytes | str], region: MemoryRegion, slots: Sequence[tuple[int, int]]) -> list[bool]:
        """Read pages into a region: slot i is the offset and length that key i may have. False is a miss."""
        return [s == 0 for s in self._run(lib.slime_pages_get, keys, region, slots)]

    def put(self, keys: Sequence[bytes | str], region: MemoryRegion, slots: Sequence[tuple[int, int]], *, replace: bool = False) -> list[bool]:
        """Store pages; the region grants READ. False: the key is there already, or there is no room."""
        return [s == 0 for s in self.put_statuses(keys, region, slots, replace=replace)]

    def put_statuses(
        self, keys: Sequence[bytes | str], region: MemoryRegion, slots: Sequence[tuple[int, int]], *, replace: bool = False
    ) -> list[int]:
        """As put(): for each key 0 or a negative errno, -EEXIST of one that is there already."""
        return self._run(lib.slime_pages_put, keys, region, slots, int(replace))

    def exists(self, keys: Sequence[bytes | str]) -> list[bool]:
        return [s == 0 for s in self._run(lib.slime_pages_exists, keys, None, None)]

    def prefix(self, keys: Sequence[bytes | str]) -> int:
        """How many keys from the first on are there without a gap."""
        there = self.exists(keys)
        return there.index(False) if False in there else len(there)

    def delete(self, keys: Sequence[bytes | str]) -> list[bool]:
        return [s == 0 for s in self._run(lib.slime_pages_delete, keys, None, None)]

    def clear(self) -> None:
        """Delete every page of the tenant, at every owner."""
        out = ffi.new("struct slime_pages_request **")
        check(lib.slime_pages_request_create(self.pointer, ffi.NULL, out))
        try:
            check(lib.slime_pages_clear(out[0]))
            wait_sliced(lib.slime_pages_wait, out[0], None)
        finally:
            lib.slime_pages_request_destroy(out[0])
