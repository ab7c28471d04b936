# SPDX-License-Identifier: Apache-2.0
"""SGLang's HiCache back end "dynamic" over the store of pages: module_path "libslime.adapters.sglang", class_name
"HiCache". Its settings are those of --hicache-storage-backend-extra-config beside the three names; docs/python.md has
them. Pages go between SGLang's host pool, which is registered once, and the owners, without a copy in between.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any

from sglang.srt.mem_cache.hicache_storage import HiCacheStorage  # type: ignore[import-not-found, unused-ignore]

from libslime._core import Invalid, ffi, lib
from libslime.adapters.store import Store, store_key
from libslime.context import READ, MemoryRegion

# Of the extra config, beside what SGLang itself looks at.
_SETTINGS = {"url", "scope", "tenant", "owners", "timeout"}
_THEIRS = {"backend_name", "module_path", "class_name", "interface_v1"}


class HiCache(HiCacheStorage):  # type: ignore[misc, unused-ignore]
    """One process of SGLang. url names nanoctrl, and is required."""

    def __init__(self, storage_config: Any, kwargs: dict[str, Any] | None = None) -> None:
        given = dict(storage_config.extra_config or {})
        unknown = set(given) - _SETTINGS - _THEIRS
        if unknown:
            raise Invalid(errno.EINVAL, f"unknown settings: {', '.join(sorted(unknown))}")
        if "url" not in given:
            raise Invalid(errno.EINVAL, "the setting url is missing: where nanoctrl serves")
        self._is_mla = bool(storage_config.is_mla_model)
        self._by_pool = bool(given.get("interface_v1"))
        rank = f"{storage_config.model_name}_{storage_config.pp_size}_{storage_config.pp_rank}"
        # Ranks of tensor parallelism have the same bytes where attention is MLA.
        if not self._is_mla:
            rank += f"_{storage_config.tp_size}_{storage_config.tp_rank}"
        self._suffix = f"@{rank}"
        self._store = Store(
            given["url"],
            "sglang",
            scope=given.get("scope", "default"),
            tenant=given.get("tenant", "default"),
            owners=int(given.get("owners", 1)),
            timeout=float(given.get("timeout", 15)),
        )
        self._region: MemoryRegion | None = None

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        super().register_mem_pool_host(mem_pool_host)
        self._pool = mem_pool_host
        buffer = mem_pool_host.kv_buffer
        self._base = int(buffer.data_ptr())
        size = int(buffer.numel()) * int(buffer.element_size())
        address = ffi.cast("char *", self._base)
        self._region = MemoryRegion(self._store.agent.context, address, size, READ, keep=buffer)

    # ---- pages of the pool ----

    def batch_exists(self, keys: Sequence[str], extra_info: Any = None) -> int:
        """How many keys from the first on have all of their pages."""
        names = self._names(keys, self._parts())
        return self._store.pages.prefix(names) // self._parts()

    def batch_get_v1(self, keys: Sequence[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        names, slots, parts = self._places(keys, host_indices)
        return _by_key(self._store.pages.get(names, self._pool_region(), slots), parts)

    def batch_set_v1(self, keys: Sequence[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        names, slots, parts = self._places(keys, host_indices)
        return _by_key(self._put(names, self._pool_region(), slots), parts)

    # ---- tensors of the caller ----

    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        found = self.batch_get([key], [target_location], target_sizes)
        return found[0] if found else None

    def batch_get(self, keys: Sequence[str], target_locations: Any = None, target_sizes: Any = None) -> list[Any] | None:
        """Into flat tensors on the CPU; None for a key that is not there."""
        if target_locations is None or any(t is None for t in target_locations):
            return None
        names = self._names(keys, 1)
        return [t if self._one(names[i], t, get=True) else None for i, t in enumerate(target_locations)]

    def set(self, key: str, value: Any = None, target_location: Any = None, target_sizes: Any = None) -> bool:
        return self.batch_set([key], [value if value is not None else target_location])

    def batch_set(self, keys: Sequence[str], values: Any = None, target_locations: Any = None, target_sizes: Any = None) -> bool:
        tensors = values if values is not None else target_locations
        names = self._names(keys, 1)
        return all(self._one(names[i], t, get=False) for i, t in enumerate(tensors))

    def exists(self, key: str) -> bool:
        return self.batch_exists([key]) == 1

    def clear(self) -> None:
        self._store.pages.clear()

    def get_stats(self) -> None:
        return None

    def close(self) -> None:
        if self._region is not None:
            self._region.close()
        self._store.close()

    # ---- names and places ----

    def _parts(self) -> int:
        """Pages of the store for one of SGLang's: in the host pool keys and values stand apart, but those of MLA."""
        return 2 if self._by_pool and not self._is_mla else 1

    def _names(self, keys: Sequence[str], parts: int) -> list[bytes]:
        kinds = ("",) if parts == 1 else tuple(f"_{i}" for i in range(parts))
        return [store_key(key + self._suffix + kind) for key in keys for kind in kinds]

    def _pool_region(self) -> MemoryRegion:
        if self._region is None:
            raise Invalid(errno.EINVAL, "register_mem_pool_host() comes before pages of the pool")
        return self._region

    def _places(self, keys: Sequence[str], host_indices: Any) -> tuple[list[bytes], list[tuple[int, int]], int]:
        addresses, sizes = self._pool.get_page_buffer_meta(host_indices)
        if not keys or len(addresses) % len(keys):
            raise Invalid(errno.EINVAL, f"{len(addresses)} buffers for {len(keys)} keys")
        parts = len(addresses) // len(keys)
        if parts != self._parts():
            raise Invalid(errno.EINVAL, f"{parts} buffers of a page: use --hicache-mem-layout page_first")
        slots = [(int(at) - self._base, int(size)) for at, size in zip(addresses, sizes)]
        return self._names(keys, parts), slots, parts

    def _put(self, names: list[bytes], region: MemoryRegion, slots: list[tuple[int, int]]) -> list[bool]:
        """A page that is there already is as good as put."""
        statuses = self._store.pages.put_statuses(names, region, slots)
        return [s in (0, -errno.EEXIST) for s in statuses]

    def _one(self, name: bytes, tensor: Any, *, get: bool) -> bool:
        size = int(tensor.numel()) * int(tensor.element_size())
        address = ffi.cast("char *", int(tensor.data_ptr()))
        region = MemoryRegion(self._store.agent.context, address, size, READ, keep=tensor)
        try:
            slots = [(0, size)]
            return (self._store.pages.get([name], region, slots) if get else self._put([name], region, slots))[0]
        finally:
            region.close()


def _by_key(results: list[bool], parts: int) -> list[bool]:
    return [all(results[i : i + parts]) for i in range(0, len(results), parts)]
