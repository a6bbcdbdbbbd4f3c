"""The catalog's HTTP server: bounded in connections, bytes and time; errors and the token are dealt with here."""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import Sequence
from typing import Final

import msgspec
from aiohttp import web
from isal import igzip

from firn.coordinator.catalog.errors import NOT_AUTHORIZED, Handler, answer_errors, error_answer
from firn.coordinator.catalog.routes import Handlers, Routes
from firn.coordinator.http_connections import ConnectionLimits, HttpConnections
from firn.coordinator.http_server import LINGERING_S, client_mistakes_aside
from firn.model.errors import Misconfigured

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""What is served without a token: to orchestrators."""

SHUTDOWN_S: Final = 5.0
"""How long answers under way may take when the catalog ends: a commit is awaited, so that its client learns of it."""

LINE_BYTES_MAX: Final = 16 * 1024
"""Bytes of the request line and of each header: a path holds a namespace and a name, percent-encoded."""


GZIP_BYTES_MIN: Final = 4 * 1024
"""Bytes of an answer from which on it is compressed for clients that take it."""

GZIP_LEVEL: Final = 1
"""ISA-L's, which takes a fraction of zlib's time."""


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How large a request may be, and what connections may take."""

    body_bytes_max: int = 32 * 1024 * 1024
    connections: ConnectionLimits = ConnectionLimits(answer_s=120.0, idle_s=60.0)


class CatalogServer:
    """Serves what `handlers` add. With a `token`, all but the health checks need ``Authorization: Bearer <token>``."""

    def __init__(
        self, handlers: Sequence[Handlers], *, token: str | None = None, limits: ServerLimits | None = None
    ) -> None:
        self._limits = limits or ServerLimits()
        self._token = token
        self._connections = HttpConnections(self._limits.connections)
        self.app = web.Application(
            middlewares=[compress, answer_errors, self._admit, self._bound], client_max_size=self._limits.body_bytes_max
        )
        routes = Routes(self.app)
        for each in handlers:
            each.add_to(routes)
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None

    async def start(self, listening: socket.socket) -> str:
        """Serve the connections of a socket (`listen`); the URL."""
        self._runner = web.AppRunner(
            self.app, access_log=None, shutdown_timeout=SHUTDOWN_S, lingering_time=LINGERING_S,
            keepalive_timeout=self._limits.connections.idle_s, logger=client_mistakes_aside(),
            max_line_size=LINE_BYTES_MAX, max_field_size=LINE_BYTES_MAX,
        )  # fmt: skip
        await self._runner.setup()
        serve = self._runner.server
        assert serve is not None
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._connections.listener(serve), sock=listening)
        return url_of(listening)

    async def stop(self) -> None:
        """Stop listening, and end what is under way in a bounded time."""
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _bound(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Read the body of an admitted request before anything is done, and give the answer a bounded time from there.

        Until the body is there the request has not been sent as a whole, and the connection is one that waits.
        """
        if request.body_exists:
            await request.read()
        with self._connections.serving(request.transport):
            return await handler(request)

    @web.middleware
    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in OPEN_PATHS or self._trusts(request):
            return await handler(request)
        return error_answer(NOT_AUTHORIZED, "the token is missing or wrong: send Authorization: Bearer <catalog.token>")

    def _trusts(self, request: web.Request) -> bool:
        """Whether a request has the token; compared in constant time."""
        if self._token is None:
            return True
        shown = request.headers.get("Authorization", "")
        return hmac.compare_digest(shown.encode("utf-8", "surrogateescape"), f"Bearer {self._token}".encode())


@web.middleware
async def compress(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Compress a long answer where the client takes that."""
    answer = await handler(request)
    if not isinstance(answer, web.Response) or not isinstance(answer.body, bytes):
        return answer
    if len(answer.body) >= GZIP_BYTES_MIN:
        answer.headers["Vary"] = "Accept-Encoding"
        if accepts_gzip(request.headers.get("Accept-Encoding", "")):
            answer.body = await asyncio.to_thread(igzip.compress, answer.body, GZIP_LEVEL)
            answer.headers["Content-Encoding"] = "gzip"
    return answer


def accepts_gzip(header: str) -> bool:
    """Whether a client takes gzip, by its ``Accept-Encoding``."""
    for one in header.lower().split(","):
        coding, _, parameters = one.partition(";")
        if coding.strip() in {"gzip", "x-gzip"}:
            return parameters.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes a free one. Raises Misconfigured when the address cannot be taken."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _cannot_listen(host, port, error) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(socket.SOMAXCONN)
        listening.settimeout(0)
    except OSError as error:
        listening.close()
        raise _cannot_listen(host, port, error) from error
    return listening


def url_of(listening: socket.socket) -> str:
    """Return where a socket listens, as a URL."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _cannot_listen(host: str, port: int, error: OSError) -> Misconfigured:
    return Misconfigured(
        f"catalog: cannot listen on {host}:{port}: {error.strerror or error} (FIRN_CATALOG_PORT or catalog.port says "
        "which port; 0 takes a free one, -1 serves no catalog)"
    )
