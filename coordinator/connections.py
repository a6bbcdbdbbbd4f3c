"""From settings to connections: the ZooKeeper session, the streams in Redis, the file stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from firn.coordinator.config import Settings
from firn.coordinator.redis_address import naming_redis
from firn.model.errors import Misconfigured
from firn.storage.file_stores import open_files
from firn.storage.files import FileStore
from firn.storage.intent_streams import IntentStreams, StreamNames
from firn.storage.locations import scheme_of
from firn.storage.redis_streams import RedisStreams
from firn.storage.sessions import Session
from firn.storage.zookeeper import ZooKeeperOptions, ZooKeeperSession
from firn.storage.zookeeper_place import place_of

HTTP_OPTIONS: Final = frozenset(
    {
        *("allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only"),
        *("http2_only", "pool_idle_timeout", "pool_max_idle_per_host", "proxy_url", "proxy_ca_certificate"),
        *("proxy_excludes", "timeout", "user_agent"),
    }
)
"""Options of an object store that are about the HTTP client, whatever the store."""

STORE_TIMEOUT: Final = "30s"

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
        async with naming_redis(settings.redis.url):
            await streams.epoch()
        async with connect_session(settings, timeout_s=timeout_s) as session:
            yield Connections(session=session, streams=streams, files=files)
    finally:
        await streams.close()


@asynccontextmanager
async def connect_session(settings: Settings, *, timeout_s: float = CONNECT_TIMEOUT_S) -> AsyncIterator[Session]:
    """A ZooKeeper session, closed at the end. Raises Unavailable when no server answers within `timeout_s`."""
    session = ZooKeeperSession(zookeeper_options(settings))
    try:
        await session.start(timeout_s=timeout_s)
        yield session
    finally:
        await session.close()


def zookeeper_options(settings: Settings) -> ZooKeeperOptions:
    """How the settings reach ZooKeeper: hosts with the root, password and certificates."""
    return ZooKeeperOptions(
        hosts=place_of(settings.zookeeper.hosts, settings.zookeeper.root),
        session_timeout_s=settings.zookeeper.session_timeout_s,
        digest=settings.zookeeper.auth,
        digest_file=settings.zookeeper.auth_file,
        tls=settings.zookeeper.tls,
        tls_ca=settings.zookeeper.tls_ca,
        tls_certificate=settings.zookeeper.tls_certificate,
        tls_key=settings.zookeeper.tls_key,
        tls_key_password=settings.zookeeper.tls_key_password,
        tls_key_password_file=settings.zookeeper.tls_key_password_file,
    )


def connect_files(settings: Settings) -> FileStore:
    """The file stores of the warehouse and of every place that tables are allowed in."""
    return open_files(file_options(settings))


def file_options(settings: Settings) -> dict[str, dict[str, Any]]:
    """Options of those file stores by scheme, as `open_files` takes them."""
    options: dict[str, dict[str, Any]] = {scheme_of(location): {} for location in settings.allowed_locations}
    return options | {scheme: _store_options(given) for scheme, given in settings.warehouse.options.items()}


def _store_options(given: Mapping[str, str]) -> dict[str, Any]:
    """Options as the file store's library names them, from the settings' spelling; those of HTTP in their place."""
    named = {name.replace("-", "_"): value for name, value in given.items()}
    of_http = {name: value for name, value in named.items() if name in HTTP_OPTIONS}
    options: dict[str, Any] = {name: value for name, value in named.items() if name not in HTTP_OPTIONS}
    return options | {"client_options": {"timeout": STORE_TIMEOUT, **of_http}} if of_http else options


def connect_streams(settings: Settings) -> IntentStreams:
    """The streams in Redis; connects when they are first used. Raises Misconfigured for a URL that is none."""
    try:
        return RedisStreams(
            settings.redis.renewed_url,
            names=StreamNames(settings.redis.prefix),
            payload_bytes_max=settings.limits.intent_bytes_max,
        )
    except (ValueError, TypeError):  # whose message may quote a part of the password
        raise Misconfigured(
            "redis.url: cannot be read: in a password every / ? # @ : and % must be percent-encoded, "
            "the port must be a number, and the options those of redis-py"
        ) from None
