"""Where the servers are and how they let in, as firn's settings say it to daemons and commands: for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from firn.coordinator.config import Settings, load_settings
from firn.coordinator.store_addresses import file_options, zookeeper_options
from firn.storage.zookeeper_place import ZooKeeperOptions


class Servers(msgspec.Struct, frozen=True, kw_only=True):
    """Redis's URL and the prefix of its keys, ZooKeeper with password and certificates, file stores by scheme."""

    redis: str
    prefix: str
    zookeeper: ZooKeeperOptions
    files: dict[str, dict[str, Any]]

    @classmethod
    def of_settings(cls, settings: Settings) -> Servers:
        """The servers of a daemon with these settings."""
        return cls(
            redis=settings.redis.renewed_url,
            prefix=settings.redis.prefix,
            zookeeper=zookeeper_options(settings),
            files=file_options(settings),
        )

    @classmethod
    def of_file(cls, path: Path) -> Servers:
        """Those of a settings file and of ``FIRN_…`` variables, which go over it. Raises Misconfigured."""
        return cls.of_settings(load_settings(path))
