"""The daemon's HTTP side: pages, metrics and health, on loopback unless told otherwise."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from firn.coordinator.http_connections import ConnectionLimits, HttpConnections
from firn.coordinator.metrics import Metrics
from firn.coordinator.pages.site import LIVE_PATH, Site
from firn.model.errors import Misconfigured

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", "/sign-in", "/static/style.css"})
"""What is served without a token: to orchestrators, whose answer then names no table, and to browsers to sign in."""

COOKIE: Final = "firn-token"

BODY_BYTES_MAX: Final = 64 * 1024
"""Bytes of a request's body: only the sign-in form has one."""

FORM_FIELDS_MAX: Final = 10

CLIENT_LEFT: Final = 499
"""The status that proxies log for a client that ended the connection before its answer."""

LINGERING_S: Final = 2.0
"""How long the rest of a body is taken that no handler wanted."""

SHUTDOWN_S: Final = 2.0
"""How long answers under way may take when the daemon ends."""


_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the daemon lives and can work; `reasons` say what is missing when it cannot."""

    ready: bool
    reasons: tuple[str, ...] = ()
    details: dict[str, Any] = {}


class HttpServer:
    """Serves pages, ``/metrics``, ``/healthz`` (the process lives) and ``/readyz`` (it can take and commit intents).

    With a `token`, all but the health checks, which orchestrators ask, need ``Authorization: Bearer <token>``.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        metrics: Metrics,
        health: Callable[[], Health],
        site: Site,
        token: str | None = None,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._metrics = metrics
        self._health = health
        self._site = site
        self._token = token
        self._limits = limits or ConnectionLimits()
        self._connections = HttpConnections(self._limits)
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None

    async def start(self) -> str:
        """Listen; the URL. Raises Misconfigured when the address cannot be taken."""
        app = web.Application(middlewares=[_forgive_who_left, self._bound, self._admit], client_max_size=BODY_BYTES_MAX)
        app.router.add_get("/metrics", self._serve_metrics)
        app.router.add_get("/healthz", self._serve_alive)
        app.router.add_get("/readyz", self._serve_ready)
        app.router.add_post("/sign-in", self._sign_in)
        self._site.add_to(app)
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=SHUTDOWN_S, keepalive_timeout=self._limits.idle_s,
            lingering_time=LINGERING_S, auto_decompress=False, logger=client_mistakes_aside(),
        )  # fmt: skip
        await self._runner.setup()
        serve = self._runner.server
        assert serve is not None
        loop = asyncio.get_running_loop()
        try:
            self._listener = await loop.create_server(self._connections.listener(serve), self._host, self._port)
        except OSError as error:
            raise Misconfigured(
                f"http: cannot listen on {self._host}:{self._port}: {error.strerror or error} (FIRN_HTTP_PORT or "
                "http.port says which port; 0 takes a free one)"
            ) from error
        host, port = self._listener.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    async def stop(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _bound(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Give the answer a bounded time, but for the stream of events that an open page follows.

        A request with a body has not been sent as a whole yet.
        """
        if request.body_exists:
            return await handler(request)
        with self._connections.serving(request.transport, endless=request.path == LIVE_PATH):
            return await handler(request)

    @web.middleware
    async def _admit(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Let in whoever has the token; compared in constant time, so that it cannot be guessed piece by piece."""
        if request.path in OPEN_PATHS or self._trusts(request):
            return await handler(request)
        if "text/html" in request.headers.get("Accept", ""):
            return self._site.sign_in_page(wrong=False)
        return web.json_response(
            {"error": "the token is missing or wrong: send Authorization: Bearer <http.token>"},
            status=401, headers={"WWW-Authenticate": "Bearer"},
        )  # fmt: skip

    def _trusts(self, request: web.Request) -> bool:
        if self._token is None:
            return True
        shown = request.headers.get("Authorization", f"Bearer {request.cookies.get(COOKIE, '')}")
        return hmac.compare_digest(shown.encode("utf-8", "surrogateescape"), f"Bearer {self._token}".encode())

    async def _sign_in(self, request: web.Request) -> web.Response:
        """Take the token from a form and give it back as a cookie: a browser sends no Authorization of its own."""
        try:
            form = parse_qs((await request.read()).decode("utf-8", "replace"), max_num_fields=FORM_FIELDS_MAX)
        except (ValueError, web.RequestPayloadError) as error:
            raise web.HTTPBadRequest(text="this is no sign-in form") from error
        given = form.get("token", [""])[0]
        if self._token is None or not hmac.compare_digest(given.encode(), self._token.encode()):
            return self._site.sign_in_page(wrong=True)
        answer = web.Response(status=303, headers={"Location": "/"})
        answer.set_cookie(COOKIE, given, httponly=True, samesite="Strict", secure=request.secure)
        return answer

    async def _serve_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _serve_alive(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "alive"})

    async def _serve_ready(self, request: web.Request) -> web.Response:
        health = self._health()
        details = health.details if self._trusts(request) else {}
        body = {"status": "ready" if health.ready else "not ready", "reasons": health.reasons, **details}
        return web.json_response(body, status=200 if health.ready else 503)


@web.middleware
async def _forgive_who_left(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Answer a client that has left with a status that nobody reads: a closed tab is no error."""
    try:
        return await handler(request)
    except OSError:
        if request.transport is not None and not request.transport.is_closing():
            raise
        return web.Response(status=CLIENT_LEFT)


def client_mistakes_aside() -> logging.Logger:
    """A logger for aiohttp that leaves out requests that are no HTTP: they are answered with 400."""
    logger = logging.getLogger("firn.http")
    logger.addFilter(_is_ours)
    return logger


def _is_ours(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | web.RequestPayloadError)
