"""The routes of the catalog. Each module of handlers adds its own; clients are sent the list of them.

Handlers are what they need and no more: a class with what it reads or submits by, and a method ``add_to(routes)``.
"""

from __future__ import annotations

from typing import Final, Protocol

from aiohttp import web

from firn.coordinator.catalog.errors import Handler

VERSION: Final = "/v1"

PREFIX: Final = "/{prefix}"
"""Stands in the names of endpoints between version and path. Clients leave it out: there is one catalog."""


class Handlers(Protocol):
    """Requests of one kind."""

    def add_to(self, routes: Routes) -> None:
        """Add what is handled."""


class Routes:
    """What requests are handled by."""

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._endpoints: list[str] = []

    @property
    def endpoints(self) -> tuple[str, ...]:
        """What ``GET /v1/config`` lists: ``GET /v1/{prefix}/namespaces`` and so on."""
        return tuple(self._endpoints)

    def add(self, method: str, path: str, handler: Handler) -> None:
        """Handle requests of a method and a path below the version: ``/namespaces/{namespace}/tables``."""
        self._app.router.add_route(method, f"{VERSION}{path}", handler)
        self._endpoints.append(f"{method} {VERSION}{PREFIX}{path}")

    def add_plain(self, method: str, path: str, handler: Handler) -> None:
        """Handle requests of a path that is no endpoint of a catalog: its configuration, health checks."""
        self._app.router.add_route(method, path, handler)
