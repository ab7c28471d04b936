# SPDX-License-Identifier: Apache-2.0
"""Which bytes of a memory are taken."""

from __future__ import annotations

import bisect


class Space:
    """Ranges of a memory of so many bytes: the first that is long enough is taken."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._free = [(0, size)] if size else []  # by place: (at, length), no two of which meet

    def take(self, length: int) -> int | None:
        """Where it begins; None: there is no room."""
        if not length:
            return 0
        for i, (at, free) in enumerate(self._free):
            if free < length:
                continue
            if free == length:
                del self._free[i]
            else:
                self._free[i] = (at + length, free - length)
            return at
        return None

    def give(self, at: int, length: int) -> None:
        if not length:
            return
        i = bisect.bisect(self._free, (at, 0))
        if i < len(self._free) and at + length == self._free[i][0]:
            length += self._free.pop(i)[1]
        if i and sum(self._free[i - 1]) == at:
            at, before = self._free.pop(i - 1)
            length += before
            i -= 1
        self._free.insert(i, (at, length))
