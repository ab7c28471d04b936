# SPDX-License-Identifier: Apache-2.0
"""LMCache's L2 adapter "native_plugin" over the store of pages: module_path "libslime.adapters.lmcache", class_name
"Connector", and the arguments of Connector as adapter_params. docs/python.md shows the setting.

A batch is copied between LMCache's memory and memory of the library, which is registered once: LMCache's may go at any
time. So long as that is full, batches wait; nothing here blocks a caller of submit.
"""

from __future__ import annotations

import errno
import itertools
import os
import select
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from libslime._core import Invalid, check, error, ffi, lib
from libslime.adapters.space import Space
from libslime.adapters.store import Store, store_key
from libslime.context import READ

_SET, _GET, _EXISTS, _DELETE = range(4)


class _Batch:
    """What LMCache submitted, or one part of it that has room in the library's memory at a time."""

    def __init__(self, number: int, kind: int, keys: Sequence[str], views: Sequence[memoryview]) -> None:
        self.number, self.kind, self.views = number, kind, views
        self.keys = [store_key(key) for key in keys]
        self.statuses: list[int] = []
        self.begun = 0  # items that are done or under way
        self.failure = ""
        # Of the part that is under way.
        self.request: Any = None
        self.future: Any = None
        self.items: Any = None
        self.keep: Any = None
        self.at = self.room = self.n = 0


class Connector:
    """Keys and values of LMCache as pages. url names nanoctrl; size is the library's memory for batches under way, which
    has room for the largest value; owners are waited for until timeout has passed."""

    def __init__(
        self,
        url: str,
        *,
        name: str = "",
        scope: str = "default",
        tenant: str = "default",
        size: int = 256 << 20,
        owners: int = 1,
        timeout: float = 15.0,
        **settings: Any,
    ) -> None:
        self._queue = lib.py_queue_create()
        if self._queue == ffi.NULL:
            raise error(-errno.EMFILE)
        try:
            self._store = Store(url, name or "lmcache", scope=scope, tenant=tenant, owners=owners, timeout=timeout, **settings)
        except BaseException:
            lib.py_queue_destroy(self._queue)
            raise
        self._memory = self._store.agent.context.allocate(size)
        self._region = self._memory.region(READ)
        self._view = self._memory.view
        self._space = Space(size)
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._under_way: dict[int, _Batch] = {}
        self._waiting: deque[_Batch] = deque()
        self._ended: list[_Batch] = []
        self._closed = False

    def event_fd(self) -> int:
        return int(lib.py_queue_fd(self._queue))

    def submit_batch_set(self, keys: Sequence[str], views: Sequence[memoryview]) -> int:
        return self._submit(_SET, keys, views)

    def submit_batch_get(self, keys: Sequence[str], views: Sequence[memoryview]) -> int:
        return self._submit(_GET, keys, views)

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        return self._submit(_EXISTS, keys, ())

    def submit_batch_delete(self, keys: Sequence[str]) -> int:
        return self._submit(_DELETE, keys, ())

    def drain_completions(self) -> list[tuple[int, bool, str, list[bool] | None]]:
        """What ended since the last call: (number, ok, error, a bool for each key)."""
        done: list[tuple[int, bool, str, list[bool] | None]] = []
        with self._lock:
            future = lib.py_queue_take(self._queue)
            while future != ffi.NULL:
                batch = self._under_way.pop(future.key)
                future = future.next
                self._finish_part(batch)
            while self._waiting and self._begin(self._waiting[0]):
                self._waiting.popleft()
            for batch in self._ended:
                done.append(self._verdict(batch))
            self._ended.clear()
        return done

    def close(self) -> None:
        """What is under way is waited for: as long as the store waits for owners."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._waiting.clear()
            while self._under_way:
                select.select([self.event_fd()], [], [], 1)
                future = lib.py_queue_take(self._queue)
                while future != ffi.NULL:
                    batch, future = self._under_way.pop(future.key), future.next
                    self._release_part(batch)
        del self._view
        self._region.close()
        self._memory.close()
        self._store.close()
        lib.py_queue_destroy(self._queue)

    # ---- one batch ----

    def _submit(self, kind: int, keys: Sequence[str], views: Sequence[memoryview]) -> int:
        if kind in (_SET, _GET) and len(views) != len(keys):
            raise Invalid(errno.EINVAL, "as many views as keys are needed")
        for view in views:
            if view.nbytes > self._space.size:
                raise Invalid(errno.EINVAL, f"a value of {view.nbytes} bytes: the connector has {self._space.size} (size)")
        with self._lock:
            if self._closed:
                raise Invalid(errno.EINVAL, "the connector is closed")
            batch = _Batch(next(self._numbers), kind, keys, [view.cast("B") for view in views])
            if self._waiting or not self._begin(batch):
                self._waiting.append(batch)
        return batch.number

    def _begin(self, batch: _Batch) -> bool:
        """Begin the next part, with as many items as there is room for; False: there is none now."""
        first, total = batch.begun, 0
        last = first
        while last < len(batch.keys) and (not batch.views or total + batch.views[last].nbytes <= self._space.size // 2 or last == first):
            total += batch.views[last].nbytes if batch.views else 0
            last += 1
        at = self._space.take(total)
        if at is None:
            return False
        batch.at, batch.room, batch.n, batch.begun = at, total, last - first, last
        try:
            self._start(batch, first, last)
        except OSError as failure:
            self._release_part(batch)
            batch.failure = str(failure)
            self._end(batch)
        return True

    def _start(self, batch: _Batch, first: int, last: int) -> None:
        n = last - first
        batch.items = ffi.new("struct slime_pages_item[]", n)
        bufs = ffi.new("struct slime_pages_buf[]", n)
        texts = [ffi.from_buffer(key) for key in batch.keys[first:last]]
        at = batch.at
        for i in range(n):
            batch.items[i].key, batch.items[i].key_len = texts[i], len(texts[i])
            if not batch.views:
                continue
            view = batch.views[first + i]
            bufs[i].mr, bufs[i].offset, bufs[i].len = self._region.pointer, at, view.nbytes
            batch.items[i].bufs, batch.items[i].n_bufs = bufs + i, 1
            if batch.kind == _SET:
                self._view[at : at + view.nbytes] = view
            at += view.nbytes
        batch.keep = (bufs, texts)
        batch.future = lib.py_future_create(self._queue, batch.number)
        out = ffi.new("struct slime_pages_request **")
        check(lib.py_pages_request_create(self._store.pages.pointer, batch.future, out))
        batch.request = out[0]
        self._under_way[batch.number] = batch
        try:
            if batch.kind == _SET:
                check(lib.slime_pages_put(batch.request, batch.items, n, lib.SLIME_PAGES_REPLACE))
            else:
                begin = (None, lib.slime_pages_get, lib.slime_pages_exists, lib.slime_pages_delete)[batch.kind]
                check(begin(batch.request, batch.items, n))  # type: ignore[misc]
        except OSError:
            del self._under_way[batch.number]
            raise

    def _finish_part(self, batch: _Batch) -> None:
        at = batch.at
        for i in range(batch.n):
            status, length = batch.items[i].status, batch.items[i].len
            if batch.views:
                view = batch.views[len(batch.statuses)]
                if batch.kind == _GET and not status:
                    if length == view.nbytes:
                        view[:] = self._view[at : at + length]
                    else:
                        status = -errno.EMSGSIZE
                at += view.nbytes
            batch.statuses.append(status)
        self._release_part(batch)
        if batch.begun == len(batch.keys):
            self._end(batch)
        elif self._waiting or not self._begin(batch):
            self._waiting.append(batch)

    def _release_part(self, batch: _Batch) -> None:
        if batch.request is not None:
            # Its callback may be about to return, on another thread.
            while lib.slime_pages_request_destroy(batch.request) == -errno.EBUSY:
                os.sched_yield()
        if batch.future is not None:
            lib.py_future_destroy(batch.future)
        self._space.give(batch.at, batch.room)
        batch.request = batch.future = batch.items = batch.keep = None
        batch.room = 0

    def _end(self, batch: _Batch) -> None:
        self._ended.append(batch)
        lib.py_queue_ring(self._queue)

    @staticmethod
    def _verdict(batch: _Batch) -> tuple[int, bool, str, list[bool] | None]:
        if batch.failure:
            return batch.number, False, batch.failure, None
        results = [status == 0 for status in batch.statuses]
        if batch.kind != _SET:
            return batch.number, True, "", results
        failed = next((status for status in batch.statuses if status), 0)
        return batch.number, not failed, str(error(failed, "put")) if failed else "", results
