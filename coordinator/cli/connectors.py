"""How commands connect, and what they load for it.

A command loads the library of a server, and what reads manifests, when it asks for it: most do without Redis or without
manifests, and would wait longer for these imports than for their answer.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from firn.coordinator.config import LogSettings, Settings
from firn.coordinator.store_addresses import connect_files
from firn.storage.files import FileStore
from firn.storage.intent_streams import IntentStreams
from firn.storage.log import log_errors_only
from firn.storage.sessions import Session

if TYPE_CHECKING:
    from firn.coordinator.client.async_client import AsyncClient
    from firn.coordinator.tables.followed_tables import FollowedTables
    from firn.coordinator.tables.metadata_reader import MetadataReader
    from firn.coordinator.tables.table_reader import TableReader

CONNECT_TIMEOUT_S: Final = 5.0
"""How long a command waits for a server that does not answer."""

_HERE: Final = "firn.coordinator"


def _connect_session(settings: Settings) -> AbstractAsyncContextManager[Session]:
    module = importlib.import_module(f"{_HERE}.zookeeper_connection")
    session: AbstractAsyncContextManager[Session] = module.connect_session(settings, timeout_s=CONNECT_TIMEOUT_S)
    return session


def _connect_streams(settings: Settings) -> IntentStreams:
    streams: IntentStreams = importlib.import_module(f"{_HERE}.redis_connection").connect_streams(settings)
    return streams


class Connectors(msgspec.Struct, frozen=True, kw_only=True):
    """How to get at each kind of server, and how to run what needs an event loop."""

    session: Callable[[Settings], AbstractAsyncContextManager[Session]] = _connect_session
    streams: Callable[[Settings], IntentStreams] = _connect_streams
    files: Callable[[Settings], FileStore] = connect_files
    run: Callable[[Coroutine[Any, Any, Any]], Any] = asyncio.run


def naming_redis(settings: Settings) -> AbstractAsyncContextManager[None]:
    """Return `firn.coordinator.redis_address.naming_redis` for the Redis of these settings."""
    module = importlib.import_module(f"{_HERE}.redis_address")
    naming: AbstractAsyncContextManager[None] = module.naming_redis(settings.redis.url)
    return naming


def async_client(streams: IntentStreams, settings: Settings) -> AsyncClient:
    """Return a client that submits to these streams."""
    module = importlib.import_module(f"{_HERE}.client.async_client")
    client: AsyncClient = module.AsyncClient(connect=lambda: streams, prefix=settings.redis.prefix)
    return client


def metadata_reader(files: FileStore, settings: Settings) -> MetadataReader:
    """Return what reads metadata files."""
    module = importlib.import_module(f"{_HERE}.tables.metadata_reader")
    reader: MetadataReader = module.MetadataReader(files, limits=settings.limits)
    return reader


def table_reader(files: FileStore, settings: Settings) -> TableReader:
    """Return what reads metadata, manifest lists and manifests."""
    module = importlib.import_module(f"{_HERE}.tables.table_reader")
    reader: TableReader = module.TableReader(files, limits=settings.limits)
    return reader


def followed_tables(files: FileStore, settings: Settings, session: Session) -> FollowedTables:
    """Return what finds file-system tables where they are now."""
    module = importlib.import_module(f"{_HERE}.tables.followed_tables")
    tables: FollowedTables = module.FollowedTables(files, settings.limits, session)
    return tables


def quiet_logs() -> None:
    """Let only errors be logged: what a command has to say it prints."""
    root = logging.getLogger()
    root.handlers = [logging.StreamHandler(sys.stderr)]
    root.setLevel(logging.ERROR)
    log_errors_only(_configure_structlog)


def _configure_structlog() -> None:
    importlib.import_module(f"{_HERE}.logs").configure_logs(LogSettings(level="error", format="console"))
