"""Where firn is in ZooKeeper: its servers, and the root that all nodes of a deployment are below.

A path behind the servers is the root: ``host:2181/firn``. Without one the root is `ROOT_DEFAULT`. Settings, clients and
the pipeline read such texts with these functions, so that the same text leads to the same nodes everywhere.
"""

from __future__ import annotations

from typing import Final

import msgspec

from firn.model.errors import Misconfigured

ROOT_DEFAULT: Final = "/firn"

_FORM: Final = "host:port,host:port, and at most one path behind the last of them"


class ZooKeeperOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach ZooKeeper.

    `hosts` is ``host:port,host:port`` with the root behind (``…/firn``). `digest` is ``user:password``: with
    it every node is made for that user alone. `tls_*` are paths to PEM files. `digest_file` and `tls_key_password_file`
    hold the secrets again: they, and all PEM files, are read for every connection. Times are seconds;
    `operation_timeout_s` is how long a read waits for an answer, through a reconnect if need be.
    """

    hosts: str
    session_timeout_s: float = 10.0
    operation_timeout_s: float = 15.0
    digest: str | None = None
    digest_file: str | None = None
    tls: bool = False
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_key_password: str | None = None
    tls_key_password_file: str | None = None
    tls_verify: bool = True

    def __repr__(self) -> str:
        return f"ZooKeeperOptions(hosts={self.hosts!r}, tls={self.tls}, digest={'set' if self.digest else None})"


def servers_and_root(place: str, *, where: str) -> tuple[str, str | None]:
    """Return the servers of a place, and the path behind them; None without one.

    Raises Misconfigured naming `where` the place stands.
    """
    servers, slash, path = place.strip().partition("/")
    if not servers or not all(server.strip() for server in servers.split(",")) or "," in path:
        raise Misconfigured(f"{where}: {place!r} must be {_FORM}")
    return servers, checked_root(slash + path, where=where) if slash else None


def checked_root(root: str, *, where: str) -> str:
    """Return the path without a slash at its end. Raises Misconfigured for what can be no path of a node."""
    if not root.startswith("/"):
        raise Misconfigured(f"{where}: {root!r} must begin with a slash")
    path = root.rstrip("/")
    names = path.split("/")[1:]
    if any(name in {"", ".", ".."} or not name.isprintable() for name in names):
        raise Misconfigured(f"{where}: {root!r} is no path of a ZooKeeper node")
    return path or "/"


def place_of(servers: str, root: str) -> str:
    """Return servers and root as one text; the path is there also for the top of the tree."""
    return f"{servers}{root}"


def place_with_root(place: str, *, where: str) -> str:
    """Return a place that says its root: its own, or `ROOT_DEFAULT`. Raises Misconfigured."""
    servers, root = servers_and_root(place, where=where)
    return place_of(servers, ROOT_DEFAULT if root is None else root)
