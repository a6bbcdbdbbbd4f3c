"""The daemon's HTTP side: metrics and health, on loopback unless told otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from firn.coordinator.metrics import Metrics
from firn.model.errors import Misconfigured


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the daemon lives and can work; `reasons` say what is missing when it cannot."""

    ready: bool
    reasons: tuple[str, ...] = ()
    details: dict[str, Any] = {}


class HttpServer:
    """Serves ``/metrics``, ``/healthz`` (the process lives) and ``/readyz`` (it can take and commit intents)."""

    def __init__(self, *, host: str, port: int, metrics: Metrics, health: Callable[[], Health]) -> None:
        self._host = host
        self._port = port
        self._metrics = metrics
        self._health = health
        self._runner: web.AppRunner | None = None

    async def start(self) -> str:
        """Listen; the URL. Raises Misconfigured when the address cannot be taken."""
        app = web.Application()
        app.router.add_get("/metrics", self._serve_metrics)
        app.router.add_get("/healthz", self._serve_alive)
        app.router.add_get("/readyz", self._serve_ready)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        try:
            await site.start()
        except OSError as error:
            raise Misconfigured(
                f"http: cannot listen on {self._host}:{self._port}: {error.strerror or error}"
            ) from error
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _serve_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _serve_alive(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "alive"})

    async def _serve_ready(self, _request: web.Request) -> web.Response:
        health = self._health()
        body = {"status": "ready" if health.ready else "not ready", "reasons": health.reasons, **health.details}
        return web.json_response(body, status=200 if health.ready else 503)
