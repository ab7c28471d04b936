# SPDX-License-Identifier: Apache-2.0
"""What the adapters have in common: an agent of their own, and its use of the store."""

from __future__ import annotations

import hashlib
import os
import socket
from typing import Any

from libslime._core import lib
from libslime.agent import Agent
from libslime.pages import Pages


def store_key(key: str) -> bytes:
    """Keys that are too long for the store are hashed."""
    data = key.encode()
    return data if len(data) <= lib.SLIME_PAGES_KEY_MAX else hashlib.sha256(data).hexdigest().encode()


class Store:
    """An agent "NAME-HOST-PID" that uses pages."""

    def __init__(self, url: str, name: str, *, scope: str, tenant: str, owners: int, timeout: float, **settings: Any) -> None:
        host = "".join(c if c.isalnum() or c == "-" else "-" for c in socket.gethostname().split(".")[0])
        self.agent = Agent(url, name=f"{name}-{host}-{os.getpid()}-{os.urandom(2).hex()}", scope=scope, settings=settings)
        try:
            self.agent.start(timeout)
            self.pages = Pages(self.agent, tenant=tenant, owners=owners, timeout=timeout)
        except BaseException:
            self.agent.close()
            raise

    def close(self) -> None:
        self.agent.close()
