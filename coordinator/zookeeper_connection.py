"""From settings to a session in ZooKeeper."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from firn.coordinator.config import Settings
from firn.coordinator.store_addresses import zookeeper_options
from firn.storage.sessions import Session
from firn.storage.zookeeper import ZooKeeperSession

CONNECT_TIMEOUT_S: Final = 15.0
"""How long a start waits for servers that do not answer."""


@asynccontextmanager
async def connect_session(settings: Settings, *, timeout_s: float = CONNECT_TIMEOUT_S) -> AsyncIterator[Session]:
    """A ZooKeeper session, closed at the end. Raises Unavailable when no server answers within `timeout_s`."""
    session = ZooKeeperSession(zookeeper_options(settings))
    try:
        await session.start(timeout_s=timeout_s)
        yield session
    finally:
        await session.close()
