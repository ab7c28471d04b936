# SPDX-License-Identifier: Apache-2.0
"""What all objects have in common: the C library, its errors, and the order in which things are released."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

# Shared libraries of the system, and the packages that have them.
_PACKAGES = {
    "libibverbs": "libibverbs1 ibverbs-providers",
    "libcrypto": "libssl3",
    "libevent": "libevent-2.1-7",
    "libjansson": "libjansson4",
    "libxxhash": "libxxhash0",
}

try:
    from libslime._libslime import ffi as ffi
    from libslime._libslime import lib as lib
except ImportError as missing:
    for library, package in _PACKAGES.items():
        if library in str(missing):
            raise ImportError(f"{missing}; on Debian: apt-get install {package}") from None
    raise

# A wait looks for Ctrl-C so often.
_SLICE_MS = 50
# A wait for a descriptor, which Ctrl-C ends at once, looks so often whether its object was closed.
_LOOK_S = 0.5


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
    for part in (what, said):
        if part:
            text += f" ({part})"
    return _CLASSES.get(number, SlimeError)(number, text)


def check(code: int, what: str = "") -> int:
    if code < 0:
        if _interruptions and code in (-errno.EINTR, -errno.ECANCELED):
            raise _interruptions.pop()
        raise error(code, what)
    return int(code)


# Exceptions of signal handlers that ran inside a wait of the library, to be raised when that has ended.
_interruptions: list[BaseException] = []


def _keep_interruption(kind: Any, interruption: BaseException, trace: Any) -> None:
    _interruptions.append(interruption)


@ffi.def_extern(error=True, onerror=_keep_interruption)  # type: ignore[untyped-decorator, unused-ignore]
def py_interrupted(_: Any) -> bool:
    """The library asks on the thread that waits. Signal handlers of Python run here, and may raise."""
    return False


# How many forks this process is away from the one that loaded the module.
_n_forks = 0


def _count_fork() -> None:
    global _n_forks
    _n_forks += 1


os.register_at_fork(after_in_child=_count_fork)
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
        self._born = _n_forks
        if parent is not None:
            parent._children.add(self)

    @property
    def pointer(self) -> Any:
        if self._pointer is None:
            raise Invalid(errno.EINVAL, f"{type(self).__name__} is closed")
        refuse_fork(self)
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
        if self._born != _n_forks:  # the parent's, with threads and locks that a child does not have
            self._pointer = None
            return
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


def refuse_fork(made: Any) -> None:
    if made._born != _n_forks:
        raise Refused(errno.EPERM, f"{type(made).__name__} was made before fork(): a child process makes its own objects")


def n_forks() -> int:
    return _n_forks


def wait_readable(made: Handle, descriptor: int, deadline: float | None) -> bool:
    """Until the descriptor is readable; False: the deadline is past, or the object was closed."""
    while not made.closed:
        left = _LOOK_S if deadline is None else min(_LOOK_S, max(0.0, deadline - time.monotonic()))
        if select.select([descriptor], [], [], left)[0]:
            return True
        if deadline is not None and time.monotonic() >= deadline:
            break
    return False


class Readable:
    """What a task of an event loop waits for: that a descriptor is readable, or that its object is closed, by any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._wake: Callable[[], object] | None = None
        self._ended = False

    async def wait(self, descriptor: int) -> bool:
        """False: the object is closed."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        with self._lock:
            if self._ended:
                return False
            if self._wake is not None:
                raise Invalid(errno.EINVAL, "another task waits already")
            # The loop has a descriptor of its own, which stays open when another thread closes the object.
            own = os.dup(descriptor)
            self._wake = lambda: loop.call_soon_threadsafe(wake)
        try:
            loop.add_reader(own, wake)
            await future
        finally:
            with self._lock:
                self._wake = None
            loop.remove_reader(own)
            os.close(own)
        return not self._ended

    def end(self) -> None:
        with self._lock:
            self._ended = True
            if self._wake is not None:
                with contextlib.suppress(RuntimeError):  # the loop is closed, and the task with it
                    self._wake()


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
