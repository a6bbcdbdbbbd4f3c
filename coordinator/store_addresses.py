"""Where the settings have ZooKeeper and table files, as their libraries take it. Loads no library of a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from firn.coordinator.config import Settings
from firn.storage.file_stores import open_files
from firn.storage.files import FileStore
from firn.storage.locations import scheme_of
from firn.storage.zookeeper_place import ZooKeeperOptions, place_of

HTTP_OPTIONS: Final = frozenset(
    {
        *("allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only"),
        *("http2_only", "pool_idle_timeout", "pool_max_idle_per_host", "proxy_url", "proxy_ca_certificate"),
        *("proxy_excludes", "timeout", "user_agent"),
    }
)
"""Options of an object store of its HTTP client, the same for every store."""

STORE_TIMEOUT: Final = "30s"


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
