"""Where Redis is, from a URL: one server, whichever Sentinel names as master, or a cluster.

- ``redis://user:password@host:6379/0``, ``rediss://`` with TLS, ``unix:///path``
- ``redis+sentinel://user:password@host:26379,host2:26379/service/0``, ``rediss+sentinel://``
- ``redis+cluster://user:password@host:6379,host2:6379``, ``rediss+cluster://``

Options behind the ``?`` are redis-py's, and firn's: ``password_file`` and ``url_file`` name files whose secret is read
for every connection, so that it can be renewed; ``sentinel_username``, ``sentinel_password`` and
``sentinel_password_file`` are for the Sentinels.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode

import msgspec
from redis.asyncio.connection import parse_url

from firn.storage.redis_schemes import KINDS, SCHEMES, Kind

SENTINEL_PORT: Final = 26379
REDIS_PORT: Final = 6379
SERVICE: Final = "mymaster"

_OURS: Final = ("password_file", "url_file", "sentinel_username", "sentinel_password", "sentinel_password_file")


class RedisPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where Redis is and how it lets in. `options` are redis-py's for a connection, host and port among them.

    `addresses` are those of the Sentinels or of the cluster's first nodes.
    """

    kind: Kind
    options: dict[str, Any]
    addresses: tuple[tuple[str, int], ...] = ()
    service: str = SERVICE
    password_file: str | None = None
    url_file: str | None = None
    sentinel_username: str | None = None
    sentinel_password: str | None = None
    sentinel_password_file: str | None = None

    def __repr__(self) -> str:
        return f"RedisPlace(kind={self.kind!r}, addresses={self.addresses!r}, service={self.service!r})"


def place_of(url: str) -> RedisPlace:
    """The place that a URL names. Raises ValueError, which may quote a part of the password."""
    scheme, _, rest = url.partition("://")
    if scheme not in KINDS:
        raise ValueError(f"must begin with {', '.join(f'{one}://' for one in SCHEMES)}")
    kind, plain = KINDS[scheme]
    before, question, query = rest.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    ours: dict[str, Any] = {name: value for name, value in pairs if name in _OURS}
    theirs = urlencode([(name, value) for name, value in pairs if name not in _OURS])
    query = f"{question}{theirs}" if theirs else ""
    if kind == "server":
        return RedisPlace(kind=kind, options=dict(parse_url(f"{plain}://{before}{query}")), **ours)
    named, _, path = before.partition("/")
    user, at, hosts = named.rpartition("@")
    port = SENTINEL_PORT if kind == "sentinel" else REDIS_PORT
    addresses = tuple(_address(host, port=port) for host in hosts.split(",") if host)
    if not addresses:
        raise ValueError("names no host")
    parts = [unquote(part) for part in path.split("/") if part]
    service = parts.pop(0) if kind == "sentinel" and parts else SERVICE
    database = "/" + "/".join(parts)
    if kind == "cluster" and database not in ("/", "/0"):
        raise ValueError("a cluster has one database only: /0")
    options: dict[str, Any] = dict(parse_url(f"{plain}://{user}{at}placeholder{database}{query}"))
    del options["host"]
    return RedisPlace(kind=kind, options=options, addresses=addresses, service=service, **ours)


def _address(text: str, *, port: int) -> tuple[str, int]:
    host, colon, digits = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text.strip("[]"), port
    return host.strip("[]"), int(digits)
