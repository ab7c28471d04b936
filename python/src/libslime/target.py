# SPDX-License-Identifier: Apache-2.0
"""Transfers and messages by names."""

from __future__ import annotations

import errno
from typing import Any

from libslime._core import Handle, check, ffi, lib, milliseconds
from libslime.context import MemoryRegion, Op, fill_xfers

_SLICE_MS = 50
# All other results may change until the time is over: the link may be connected, the region offered.
_FINAL = (0, -errno.ESHUTDOWN, -errno.EDEADLK, -errno.EINTR, -errno.ECANCELED)


class Target(Handle):
    """A region of a peer and the link to it. Its operations are those of Endpoint, without the remote region."""

    def __init__(self, agent: Any, parent: Any, peer: str, region: str | None, timeout: float | None) -> None:
        out = ffi.new("struct slime_target **")
        name: Any = ffi.new("char[]", region.encode()) if region is not None else ffi.NULL
        check(lib.slime_agent_target_get(agent, peer.encode(), name, out), f"{peer}/{region}")
        super().__init__(out[0], parent)
        self.context = parent.context
        try:
            self._wait(f"{peer}/{region}", timeout)
        except BaseException:
            self.close()
            raise

    def _wait(self, what: str, timeout: float | None) -> None:
        left = milliseconds(timeout)
        while True:
            part = _SLICE_MS if left < 0 else min(left, _SLICE_MS)
            ret = lib.slime_agent_target_wait(self.pointer, part)
            if ret in _FINAL or 0 <= left <= part:
                check(ret, what)
                return
            left -= part if left >= 0 else 0

    def _destroy(self, pointer: Any) -> None:
        lib.slime_agent_target_put(pointer)

    def _transfer(self, function: Any, local: MemoryRegion, local_offset: int, remote_offset: int, length: int | None, *more: Any) -> Op:
        x = ffi.new("struct slime_xfer *")
        x.local, x.local_offset, x.remote_offset = local.pointer, local_offset, remote_offset
        x.len = local.size - local_offset if length is None else length
        op = Op(self.context, (x, local, self))
        return op._begun(function(self.pointer, x, 1, 0, *more, op._pointer), "transfer")

    def read(self, local: MemoryRegion, local_offset: int = 0, remote_offset: int = 0, length: int | None = None) -> Op:
        return self._transfer(lib.slime_target_read, local, local_offset, remote_offset, length)

    def write(self, local: MemoryRegion, local_offset: int = 0, remote_offset: int = 0, length: int | None = None) -> Op:
        return self._transfer(lib.slime_target_write, local, local_offset, remote_offset, length)

    def write_imm(self, local: MemoryRegion, imm: int, local_offset: int = 0, remote_offset: int = 0, length: int | None = None) -> Op:
        return self._transfer(lib.slime_target_write_imm, local, local_offset, remote_offset, length, imm)

    def _batch(self, function: Any, local: MemoryRegion, arrays: tuple[Any, Any, Any]) -> Op:
        x, n = fill_xfers(local, None, arrays)
        op = Op(self.context, (x, local, self))
        return op._begun(function(self.pointer, x, n, 0, op._pointer), "batch")

    def read_batch(self, local: MemoryRegion, local_offsets: Any, remote_offsets: Any, lengths: Any) -> Op:
        return self._batch(lib.slime_target_read, local, (local_offsets, remote_offsets, lengths))

    def write_batch(self, local: MemoryRegion, local_offsets: Any, remote_offsets: Any, lengths: Any) -> Op:
        return self._batch(lib.slime_target_write, local, (local_offsets, remote_offsets, lengths))

    def imm_recv(self) -> Op:
        op = Op(self.context, self)
        return op._begun(lib.slime_target_imm_recv(self.pointer, op._pointer), "imm_recv")

    def send(self, region: MemoryRegion, offset: int = 0, length: int | None = None, tag: int = 0) -> Op:
        op = Op(self.context, (region, self))
        n = region.size - offset if length is None else length
        return op._begun(lib.slime_target_send(self.pointer, region.pointer, offset, n, tag, op._pointer), "send")

    def recv(self, region: MemoryRegion, offset: int = 0, length: int | None = None, tag: int = 0, mask: int = 0) -> Op:
        """Of any tag unless mask says which bits count."""
        op = Op(self.context, (region, self))
        n = region.size - offset if length is None else length
        return op._begun(lib.slime_target_recv(self.pointer, region.pointer, offset, n, tag, mask, op._pointer), "recv")
