"""Making connections to Redis, and leaving those that are not what they were made for any more.

A connection is made for a master, with a secret, under certificates. Each of these may change while it lives: the
server becomes a replica behind the same address, Sentinel promotes another, the secret or a certificate is renewed. So
the master's address, secrets and TLS files are read whenever a connection is made, a replica is not accepted, and
`Dialler.redial` makes every connection that there is stale: it is made anew before it is used again.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import redis.exceptions as rx
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import Connection, ConnectionPool, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from firn.storage.redis_faults import TlsFilesError
from firn.storage.redis_place import RedisPlace
from firn.storage.redis_secrets import RenewedCredentials
from firn.storage.secret_files import read_secret
from firn.storage.store_faults import StoreFaults

CONNECT_TIMEOUT_S: Final = 5.0

SENTINEL_ANSWER_S: Final = 2.0
"""How long one Sentinel is waited for before the next is asked."""

_REPLICA: Final = (b"slave", "slave", b"replica", "replica")

_MADE_IN: Final = "made_in"

_TLS_FILES: Final = ("keyfile", "certfile", "ca_certs", "ca_path")


class Dialler:
    """How connections to one place are made. `generation` rises when those that there are must be left."""

    def __init__(self, place: RedisPlace, faults: StoreFaults) -> None:
        self.place = place
        self.generation = 0
        self.let_in = False
        """Whether Redis has ever taken the credentials: then a refusal may be a secret that is being renewed."""
        self.owner: Callable[[Any], Awaitable[None]] | None = None
        """Refuses a connection to a Redis of another deployment (`firn.storage.redis_owner`)."""
        files = place.password_file is not None or place.url_file is not None
        self.credentials = RenewedCredentials(place, on_fault=faults.saw) if files else None
        self._tls: tuple[Sequence[object], ssl.SSLContext] | None = None

    def redial(self, error: BaseException | None = None) -> None:
        """Have every connection made anew before it is used again.

        Not for an `error` of a connection that was stale before (`made_in`): many commands may be refused on one.
        """
        if getattr(error, _MADE_IN, self.generation) == self.generation:
            self.generation += 1

    def redial_if_renewed(self, error: BaseException | None = None) -> None:
        """As `redial`, if the secret was renewed since the last connection was made."""
        if self.credentials is not None and self.credentials.renewed:
            self.redial(error)

    async def prepare(self, connection: Any) -> None:
        """Before a connection is made: read again what it is made with. Raises what the client library raises."""
        tls = getattr(connection, "ssl_context", None)
        if tls is not None:
            tls.context = self._tls_context(tls)
        if self.place.kind == "sentinel":
            connection.host, connection.port = await self._master()

    async def check(self, connection: Any) -> None:
        """After it was made: raises ReadOnlyError for a replica. A server that hides its role is taken."""
        if self.place.kind != "cluster":  # whose slots say where to go
            await self._check_role(connection)
            if self.owner is not None:
                await self.owner(connection)
        self.let_in = True

    async def _check_role(self, connection: Any) -> None:
        await connection.send_command("ROLE", check_health=False)
        try:
            role = await connection.read_response()
        except rx.ResponseError:
            return
        if role[0] in _REPLICA:
            raise rx.ReadOnlyError(f"the server is a replica of {_text(role[1])}:{role[2]}")

    def _tls_context(self, tls: Any) -> ssl.SSLContext:
        """A context from the files as they are now."""
        try:
            state = [_state_of(getattr(tls, name)) for name in _TLS_FILES]
            if self._tls is None or self._tls[0] != state:
                tls.context = None  # which the library keeps otherwise
                self._tls = (state, tls.get())
        except (OSError, ValueError) as error:  # ssl.SSLError is the first, too
            files = ", ".join(path for name in _TLS_FILES if (path := getattr(tls, name)))
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise TlsFilesError(f"cannot use {files}: {why}") from error
        return self._tls[1]

    async def _master(self) -> tuple[str, int]:
        """The master's address, by the first Sentinel that knows it."""
        said = []
        for host, port in self.place.addresses:
            try:
                found = await self._asked(host, port)
            except (rx.RedisError, OSError, UnicodeDecodeError) as error:
                said.append(f"{host}:{port}: {error}")
            else:
                if found:
                    return _text(found[0]), int(found[1])
                said.append(f"{host}:{port}: does not know {self.place.service!r}")
        raise rx.ConnectionError(f"no Sentinel names the master of {self.place.service!r} ({'; '.join(said)})")

    async def _asked(self, host: str, port: int) -> Any:
        place, options = self.place, self.place.options
        password = place.sentinel_password
        if place.sentinel_password_file is not None:
            password = read_secret(place.sentinel_password_file)
        kind = options.get("connection_class", Connection)
        tls = {name: value for name, value in options.items() if name.startswith("ssl_")}
        sentinel = kind(
            host=host, port=port, username=place.sentinel_username, password=password, protocol=2,
            socket_connect_timeout=SENTINEL_ANSWER_S, socket_timeout=SENTINEL_ANSWER_S, retry=Retry(NoBackoff(), 0),
            **tls,
        )  # fmt: skip
        try:
            await sentinel.connect()
            await sentinel.send_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", place.service)
            return await sentinel.read_response()
        finally:
            await sentinel.disconnect(nowait=True)


class _Dialled:
    """What is added to the library's connections."""

    def __init__(self, *, dialler: Dialler, **options: Any) -> None:
        self._dialler = dialler
        self._generation = dialler.generation
        super().__init__(**options)

    @property
    def generation(self) -> int:
        """The dialler's when it was made."""
        return self._generation

    @property
    def is_stale(self) -> bool:
        """Whether it has to be made anew before it is used again."""
        return self._generation != self._dialler.generation

    async def connect(self) -> None:
        """Connect, if it is not connected or stale."""
        if self.is_stale:
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
        await super().connect()  # type: ignore[misc]

    async def connect_check_health(self, *arguments: Any, **named: Any) -> None:
        if not self.is_connected:  # type: ignore[attr-defined]
            self._generation = self._dialler.generation
            await self._dialler.prepare(self)
        await super().connect_check_health(*arguments, **named)  # type: ignore[misc]

    async def on_connect_check_health(self, *arguments: Any, **named: Any) -> None:
        await super().on_connect_check_health(*arguments, **named)  # type: ignore[misc]
        await self._dialler.check(self)


class DialledConnection(_Dialled, Connection):
    """Over TCP."""


class DialledTlsConnection(_Dialled, SSLConnection):
    """Over TLS."""


class DialledUnixConnection(_Dialled, UnixDomainSocketConnection):
    """Over a socket of this machine."""


_KINDS: Final[dict[Any, type[_Dialled]]] = {
    Connection: DialledConnection,
    SSLConnection: DialledTlsConnection,
    UnixDomainSocketConnection: DialledUnixConnection,
}


def made_in(connection: Any, error: rx.ResponseError) -> rx.ResponseError:
    """The error, which remembers the generation of the connection that it came on."""
    setattr(error, _MADE_IN, connection.generation)
    return error


def client_of(dialler: Dialler, **connection_options: Any) -> Any:
    """A client of redis-py whose connections are the dialler's; connects to nothing.

    Commands are never repeated by it. Raises TypeError and ValueError for options that there are not.
    """
    place = dialler.place
    options = {**connection_options, **place.options}
    if dialler.credentials is not None:
        options = {name: value for name, value in options.items() if name not in ("username", "password")}
        options["credential_provider"] = dialler.credentials
    library = options.pop("connection_class", Connection)
    retry = Retry(NoBackoff(), 0)
    if place.kind == "cluster":
        return _cluster_of(dialler, options, tls=library is SSLConnection, retry=retry)
    kind: Any = _KINDS[library]
    pool: Any = ConnectionPool(connection_class=kind, dialler=dialler, retry=retry, **options)
    pool.make_connection()  # refuses options that there are not
    return Redis.from_pool(pool)


def _cluster_of(dialler: Dialler, options: dict[str, Any], *, tls: bool, retry: Retry) -> Any:
    nodes = [ClusterNode(host, port) for host, port in dialler.place.addresses]
    cluster: Any = RedisCluster(startup_nodes=nodes, ssl=tls, retry=retry, **options)
    # One dictionary, which the nodes that it hears of are made with, too.
    of_nodes: dict[str, Any] = cluster.connection_kwargs
    of_nodes["connection_class"] = _KINDS[SSLConnection if tls else Connection]
    of_nodes["dialler"] = dialler
    for node in cluster.startup_nodes:
        node.connection_class = of_nodes["connection_class"]
        node.connection_kwargs["dialler"] = dialler
    return cluster


def _state_of(path: str | None) -> object:
    if path is None:
        return None
    found = Path(path).stat()
    return path, found.st_mtime_ns, found.st_ino, found.st_size


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
