"""All connections of a daemon: the ZooKeeper session, the streams in Redis, the file stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from firn.coordinator.config import Settings
from firn.coordinator.redis_address import naming_redis
from firn.coordinator.redis_connection import connect_streams
from firn.coordinator.store_addresses import connect_files
from firn.coordinator.zookeeper_connection import CONNECT_TIMEOUT_S, connect_session
from firn.storage.files import FileStore
from firn.storage.intent_streams import IntentStreams
from firn.storage.sessions import Session


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
        async with naming_redis(settings.redis.url):
            await streams.epoch()
        async with connect_session(settings, timeout_s=timeout_s) as session:
            yield Connections(session=session, streams=streams, files=files)
    finally:
        await streams.close()
