"""The daemon's HTTP side: pages, metrics and health, on loopback unless told otherwise."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from firn.coordinator.metrics import Metrics
from firn.coordinator.pages.site import Site
from firn.model.errors import Misconfigured

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", "/sign-in", "/static/style.css"})
"""What is served without a token: to orchestrators, whose answer then names no table, and to browsers to sign in."""

COOKIE: Final = "firn-token"

SHUTDOWN_S: Final = 2.0
"""How long answers under way may take when the daemon ends."""


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
    ) -> None:
        self._host = host
        self._port = port
        self._metrics = metrics
        self._health = health
        self._site = site
        self._token = token
        self._runner: web.AppRunner | None = None

    async def start(self) -> str:
        """Listen; the URL. Raises Misconfigured when the address cannot be taken."""
        app = web.Application(middlewares=[self._admit])
        app.router.add_get("/metrics", self._serve_metrics)
        app.router.add_get("/healthz", self._serve_alive)
        app.router.add_get("/readyz", self._serve_ready)
        app.router.add_post("/sign-in", self._sign_in)
        self._site.add_to(app)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_S)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        try:
            await site.start()
        except OSError as error:
            raise Misconfigured(
                f"http: cannot listen on {self._host}:{self._port}: {error.strerror or error} (FIRN_HTTP_PORT or "
                "http.port says which port; 0 takes a free one)"
            ) from error
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _admit(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
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
        shown = request.headers.get("Authorization", f"Bearer {request.cookies.get(COOKIE, '')}").encode()
        return hmac.compare_digest(shown, f"Bearer {self._token}".encode())

    async def _sign_in(self, request: web.Request) -> web.Response:
        """Take the token from a form and give it back as a cookie: a browser sends no Authorization of its own."""
        given = str((await request.post()).get("token", ""))
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
