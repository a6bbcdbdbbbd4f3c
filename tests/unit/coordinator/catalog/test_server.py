"""The server answers in the specification's form whatever happens, asks for the token, and is bounded."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession, web
from yarl import URL

from firn.coordinator.catalog.identifiers import table_of
from firn.coordinator.catalog.routes import Routes
from firn.coordinator.catalog.server import CatalogServer, ServerLimits, listen
from firn.coordinator.catalog.statuses import STATE_UNKNOWN, CatalogError
from firn.model.errors import (
    AlreadyExists,
    CorruptFile,
    InvalidInput,
    Misconfigured,
    NotFound,
    Unavailable,
    UnknownOutcome,
)


class Raising:
    """Handlers that raise what they are given, and one that shows the table it was asked for."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.routes: Routes | None = None

    def add_to(self, routes: Routes) -> None:
        routes.add("GET", "/namespaces/{namespace}/tables/{table}", self._shown)
        routes.add("POST", "/namespaces", self._raised)
        routes.add_plain("GET", "/healthz", self._raised)
        self.routes = routes

    async def _shown(self, request: web.Request) -> web.Response:
        return web.json_response({"table": table_of(request)})

    async def _raised(self, _request: web.Request) -> web.Response:
        if self._error is not None:
            raise self._error
        return web.Response(status=204)


@asynccontextmanager
async def serving(handlers: Raising, **how: Any) -> AsyncIterator[tuple[ClientSession, str]]:
    server = CatalogServer([handlers], **how)
    url = await server.start(listen("127.0.0.1", 0))
    try:
        async with ClientSession() as session:
            yield session, url
    finally:
        await server.stop()


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InvalidInput("wrong"), 400, "BadRequestException"),
        (NotFound("not there"), 404, "NotFoundException"),
        (AlreadyExists("taken"), 409, "AlreadyExistsException"),
        (Unavailable("away"), 503, "ServiceUnavailableException"),
        (UnknownOutcome("lost"), 504, "CommitStateUnknownException"),
        (CatalogError(STATE_UNKNOWN, "no outcome"), 504, "CommitStateUnknownException"),
        (CorruptFile("file", "broken"), 500, "InternalServerError"),
        (ZeroDivisionError("secret"), 500, "InternalServerError"),
        (OSError("secret"), 500, "InternalServerError"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else str(one),
)
async def test_errors_are_answered_as_the_specification_has_them(error, status, kind):
    async with serving(Raising(error)) as (session, url), session.post(f"{url}/v1/namespaces") as answer:
        body = msgspec.json.decode(await answer.read())
        assert answer.status == status
        assert answer.content_type == "application/json"
        assert set(body["error"]) == {"message", "type", "code"}
        assert (body["error"]["type"], body["error"]["code"]) == (kind, status)
        assert "secret" not in body["error"]["message"]
        assert ("Retry-After" in answer.headers) == (status == 503)


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v1/nothing", 404), ("PATCH", "/v1/namespaces", 405), ("GET", "/", 404)]
)
async def test_what_there_is_not_is_answered_in_the_same_form(method, path, status):
    async with serving(Raising()) as (session, url), session.request(method, f"{url}{path}") as answer:
        body = msgspec.json.decode(await answer.read())
        assert (answer.status, body["error"]["code"]) == (status, status)


async def test_a_body_that_is_too_large_is_refused():
    limits = ServerLimits(body_bytes_max=1000)
    async with serving(Raising(), limits=limits) as (session, url):
        async with session.post(f"{url}/v1/namespaces", data=b"x" * 1000) as answer:
            assert answer.status == 204
        async with session.post(f"{url}/v1/namespaces", data=b"x" * 1001) as answer:
            assert answer.status == 413
            assert b"1000 bytes" in await answer.read()


async def test_the_body_of_a_request_without_the_token_is_not_waited_for():
    async with serving(Raising(), token="s3cret") as (_, url):
        where = URL(url)
        reader, writer = await asyncio.open_connection(where.host, where.port)
        writer.write(b"POST /v1/namespaces HTTP/1.1\r\nHost: h\r\nContent-Length: 30000000\r\n\r\n")
        async with asyncio.timeout(5):
            assert b" 401 " in await reader.readline()
        writer.close()


async def test_a_token_is_asked_of_everybody_but_the_health_checks():
    async with serving(Raising(), token="s3cret") as (session, url):
        async with session.get(f"{url}/healthz") as answer:
            assert answer.status == 204
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "s3cret"}):
            async with session.post(f"{url}/v1/namespaces", headers=headers) as answer:
                assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
                assert msgspec.json.decode(await answer.read())["error"]["type"] == "NotAuthorizedException"
        async with session.post(f"{url}/v1/namespaces", headers={"Authorization": "Bearer s3cret"}) as answer:
            assert answer.status == 204


@pytest.mark.parametrize(
    ("path", "status", "table"),
    [("a%1Fb/tables/t", 200, "a.b.t"), ("a%2Fb/tables/x%20y", 200, "a/b.x y"), ("a.b/tables/t", 400, None)],
)
async def test_names_in_paths_are_decoded_once(path, status, table):
    async with serving(Raising()) as (session, url):
        asked = URL(f"{url}/v1/namespaces/{path}", encoded=True)
        async with session.get(asked) as answer:
            assert answer.status == status
            assert msgspec.json.decode(await answer.read()).get("table") == table


def test_endpoints_are_listed_as_clients_know_them():
    handlers = Raising()
    CatalogServer([handlers])
    assert handlers.routes is not None
    assert handlers.routes.endpoints == (
        "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
        "POST /v1/{prefix}/namespaces",
    )


def test_an_address_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Misconfigured, match=f"cannot listen on 127.0.0.1:{port}"):
            listen("127.0.0.1", port)
