# SPDX-License-Identifier: Apache-2.0
"""What all objects have in common: the C library, its errors, and the order in which things are released."""

from __future__ import annotations

import errno
import os
import threading
import weakref
from typing import Any

try:
    from libslime._libslime import ffi as ffi
    from libslime._libslime import lib as lib
except ImportError as missing:  # pragma: no cover
    if "libibverbs" in str(missing) or "libcrypto" in str(missing):
        raise ImportError(f"{missing}; on Debian: apt-get install libibverbs1 ibverbs-providers libssl3") from None
    raise

# A wait looks for Ctrl-C so often.
_SLICE_MS = 50


class SlimeError(OSError):
    """Something failed; errno says what, the text why."""


class ConnectionLost(SlimeError, ConnectionResetError):
    """The link broke; what was under way may have happened."""


class NotConnected(SlimeError):
    """There is no link: nothing was sent."""


class Stale(SlimeError):
    """The peer has withdrawn the region: look it up again."""


class Busy(SlimeError):
    """It is in use, or too much is under way: try again later."""


class NotFound(SlimeError, LookupError):
    """There is no such agent, region, link or page."""


class Refused(SlimeError, PermissionError):
    """Not allowed."""


class Timeout(SlimeError, TimeoutError):
    """It took longer than was allowed; it may go on."""


class Cancelled(SlimeError):
    """Cancelled, or closed on our side."""


class Invalid(SlimeError, ValueError):
    """A value that makes no sense."""


class Unsupported(SlimeError):
    """The transport cannot do this."""


_CLASSES: dict[int, type[SlimeError]] = {
    errno.ECONNRESET: ConnectionLost,
    errno.ENOTCONN: NotConnected,
    errno.ESHUTDOWN: NotConnected,
    errno.ECONNREFUSED: NotConnected,
    errno.ESTALE: Stale,
    errno.EBUSY: Busy,
    errno.EAGAIN: Busy,
    errno.ENOENT: NotFound,
    errno.EACCES: Refused,
    errno.EPERM: Refused,
    errno.ETIMEDOUT: Timeout,
    errno.ECANCELED: Cancelled,
    errno.EINVAL: Invalid,
    errno.ERANGE: Invalid,
    errno.EMSGSIZE: Invalid,
    errno.EOPNOTSUPP: Unsupported,
}


def error(code: int, what: str = "") -> SlimeError:
    """The exception for a negative errno of the library, with the words that it logged on this thread."""
    number = -code
    said = ffi.string(lib.py_log_said()).decode(errors="replace")
    lib.py_log_forget()
    text = os.strerror(number)
    if number == errno.EPERM and os.getpid() != _pid:
        text = "the library was used before fork(): a child makes its own objects"
    for part in (what, said):
        if part:
            text += f" ({part})"
    return _CLASSES.get(number, SlimeError)(number, text)


def check(code: int, what: str = "") -> int:
    if code < 0:
        raise error(code, what)
    return int(code)


_pid = os.getpid()
lib.py_log_to_stderr(lib.SLIME_LOG_ERROR)


def log_level(level: str) -> None:
    """Which lines of the library go to standard error: "error" (the default), "warn", "info" or "debug"."""
    lib.py_log_to_stderr({"error": 0, "warn": 1, "info": 2, "debug": 3}[level])


def milliseconds(seconds: float | None) -> int:
    """-1 for None: as long as it takes."""
    return -1 if seconds is None else max(0, round(seconds * 1000))


class Handle:
    """An object of the library. It keeps its parent alive; closing it closes its children first. Closing twice is
    harmless, and so is any order of releasing."""

    def __init__(self, pointer: Any, parent: Handle | None = None) -> None:
        self._pointer = pointer
        self._parent = parent
        self._children: weakref.WeakSet[Handle] = weakref.WeakSet()
        self._orphans: list[Handle] = []  # children that were dropped while the library still used them
        self._closing = threading.RLock()
        if parent is not None:
            parent._children.add(self)

    @property
    def pointer(self) -> Any:
        if self._pointer is None:
            raise Invalid(errno.EINVAL, f"{type(self).__name__} is closed")
        return self._pointer

    @property
    def closed(self) -> bool:
        return self._pointer is None

    def _destroy(self, pointer: Any) -> None:
        raise NotImplementedError(type(self).__name__)

    def _close_children(self) -> None:
        for child in list(self._children) + self._orphans:
            child.close()
        self._orphans.clear()

    def close(self) -> None:
        with self._closing:
            if self._pointer is None:
                return
            self._close_children()
            self._destroy(self._pointer)
            self._pointer = None

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) is not None:
            try:
                self.close()
            except SlimeError:
                if self._parent is not None:  # tried again when that is closed
                    self._parent._orphans.append(self)


def wait_sliced(wait: Any, pointer: Any, timeout: float | None) -> None:
    """Wait in slices, so that Ctrl-C comes through. Raises Timeout."""
    left = milliseconds(timeout)
    while True:
        slice_ms = _SLICE_MS if left < 0 else min(left, _SLICE_MS)
        ret = wait(pointer, slice_ms)
        if ret != -errno.ETIMEDOUT:
            check(ret)
            return
        if left >= 0:
            left -= slice_ms
            if left <= 0:
                raise error(ret)
