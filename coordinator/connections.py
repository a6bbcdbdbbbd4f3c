"""From settings to connections: the ZooKeeper session, the streams in Redis, the file stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from firn.coordinator.config import Settings
from firn.model.errors import Misconfigured
from firn.storage.file_stores import open_files
from firn.storage.files import FileStore
from firn.storage.intent_streams import IntentStreams, StreamNames
from firn.storage.locations import scheme_of
from firn.storage.redis_streams import RedisStreams
from firn.storage.sessions import Session
from firn.storage.zookeeper import ZooKeeperOptions, ZooKeeperSession

CONNECT_TIMEOUT_S: Final = 15.0
"""How long a start waits for servers that do not answer."""


class Connections(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Everything outside the process that firn works with."""

    session: Session
    streams: IntentStreams
    files: FileStore


@asynccontextmanager
async def connect(settings: Settings, *, timeout_s: float = CONNECT_TIMEOUT_S) -> AsyncIterator[Connections]:
    """Connect to everything that the settings name, and close it at the end.

    Raises Unavailable naming the server that does not answer within `timeout_s`, Misconfigured for settings that
    cannot work.
    """
    files = connect_files(settings)
    streams = connect_streams(settings)
    try:
        await streams.epoch()
        async with connect_session(settings, timeout_s=timeout_s) as session:
            yield Connections(session=session, streams=streams, files=files)
    finally:
        await streams.close()


@asynccontextmanager
async def connect_session(settings: Settings, *, timeout_s: float = CONNECT_TIMEOUT_S) -> AsyncIterator[Session]:
    """A ZooKeeper session, closed at the end. Raises Unavailable when no server answers within `timeout_s`."""
    session = ZooKeeperSession(
        ZooKeeperOptions(
            hosts=settings.zookeeper.hosts + settings.zookeeper.root.rstrip("/"),
            session_timeout_s=settings.zookeeper.session_timeout_s,
            digest=settings.zookeeper.auth,
            tls=settings.zookeeper.tls,
            tls_ca=settings.zookeeper.tls_ca,
            tls_certificate=settings.zookeeper.tls_certificate,
            tls_key=settings.zookeeper.tls_key,
        )
    )
    try:
        await session.start(timeout_s=timeout_s)
        yield session
    finally:
        await session.close()


def connect_files(settings: Settings) -> FileStore:
    """The file stores of the warehouse and of every place that tables are allowed in."""
    options: dict[str, dict[str, Any]] = {scheme_of(location): {} for location in settings.allowed_locations}
    options.update(settings.warehouse.options)
    return open_files(options)


def connect_streams(settings: Settings) -> IntentStreams:
    """The streams in Redis; connects when they are first used. Raises Misconfigured for a URL that is none."""
    try:
        return RedisStreams(
            settings.redis.url,
            names=StreamNames(settings.redis.prefix),
            payload_bytes_max=settings.limits.intent_bytes_max,
        )
    except ValueError as error:
        raise Misconfigured(f"redis.url: {error}") from error
