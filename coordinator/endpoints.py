"""Where a daemon on embedded servers can be reached: a small file in its data folder, while it runs.

It lets `firn` commands started in the same folder find the daemon without any setting.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from firn.coordinator.config import Settings
from firn.model.errors import Misconfigured

ENDPOINTS_FILE: Final = "endpoints.json"

DATA_DEFAULT: Final = Path("data")
"""The folder of `firn serve --embedded`, and where commands and clients that are told nothing look for it."""


class Endpoints(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Addresses of a running daemon and its servers; `pid` is the daemon's."""

    pid: int
    redis_url: str
    redis_prefix: str
    zookeeper_hosts: str
    zookeeper_root: str
    warehouse: str
    http: str | None = None

    @classmethod
    def of(cls, settings: Settings, *, http: str | None) -> Endpoints:
        """What this process serves under these settings."""
        return cls(
            pid=os.getpid(),
            redis_url=settings.redis.url,
            redis_prefix=settings.redis.prefix,
            zookeeper_hosts=settings.zookeeper.hosts,
            zookeeper_root=settings.zookeeper.root,
            warehouse=settings.warehouse.location,
            http=http,
        )

    def applied_to(self, settings: Settings) -> Settings:
        """The settings with these addresses."""
        replace = msgspec.structs.replace
        return replace(
            settings,
            redis=replace(settings.redis, url=self.redis_url, prefix=self.redis_prefix),
            zookeeper=replace(settings.zookeeper, hosts=self.zookeeper_hosts, root=self.zookeeper_root),
            warehouse=replace(settings.warehouse, location=self.warehouse),
        )


def write_endpoints(data: Path, endpoints: Endpoints) -> None:
    """Leave the file for others; readable by its owner only, since a URL may carry a password."""
    path = data / ENDPOINTS_FILE
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.format(msgspec.json.encode(endpoints)) + b"\n")
    fresh.chmod(0o600)
    fresh.replace(path)


def read_endpoints(data: Path) -> Endpoints | None:
    """The endpoints of the daemon that runs on this folder; None when none does. Raises Misconfigured."""
    path = data / ENDPOINTS_FILE
    try:
        endpoints = msgspec.json.decode(path.read_bytes(), type=Endpoints)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise Misconfigured(f"{path}: {error}") from error
    return endpoints if _is_running(endpoints.pid) else None


def forget_endpoints(data: Path) -> None:
    """Remove the file when the daemon ends."""
    (data / ENDPOINTS_FILE).unlink(missing_ok=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
