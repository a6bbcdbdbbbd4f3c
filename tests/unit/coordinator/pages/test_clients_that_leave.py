"""A client that leaves while it is answered, as a closed tab does, is no error: the log has at most a debug line."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct

import pytest
import structlog
from aiohttp import web

from firn.coordinator.http_server import HttpServer, _Handler
from firn.coordinator.pages import site
from tests.unit.coordinator.lanes.test_pauses import until
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create

INTENT = "0196f1c2-0000-7000-8000-000000000001"
ROUTES = [
    "/", "/tables", f"/tables/{TABLE}", "/conflicts", "/events", f"/intents/{INTENT}", "/dashboards",
    "/dashboards/fleet", "/docs/runbooks/commits.md", "/static/live.js", "/metrics", "/healthz", "/readyz", "/live",
    "/no-such-page",
]  # fmt: skip
MOMENTS = ["before it is answered", "at once", "as the answer begins", "before an event"]


class Client:
    """A connection that asks for one page, and ends with a reset: nothing that was sent is read."""

    def __init__(self, port: int, path: str, *, method: str = "GET", more: str = "") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.socket.sendall(f"{method} {path} HTTP/1.1\r\nHost: firn\r\nAccept: text/html\r\n{more}\r\n".encode())

    async def begins(self) -> None:
        await asyncio.get_running_loop().sock_recv(self.socket, 1)

    def leave(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


@pytest.fixture
def answers_wait(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Nothing is answered before the client has gone, once this is set."""
    wait = asyncio.Event()
    admit = HttpServer._admit

    @web.middleware
    async def late(server: HttpServer, request: web.Request, handler: _Handler) -> web.StreamResponse:
        if wait.is_set():
            await until(lambda: request.transport is None)
        return await admit(server, request, handler)

    monkeypatch.setattr(HttpServer, "_admit", late)
    return wait


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("path", ROUTES)
async def test_a_client_that_leaves_is_no_error(
    path: str,
    moment: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    answers_wait: asyncio.Event,
) -> None:
    monkeypatch.setattr(site, "PING_S", 0.02)
    caplog.set_level(logging.INFO)
    bench = Workbench(http_port=0)
    async with bench.daemon():
        await bench.commit(create())
        if moment == "before it is answered":
            answers_wait.set()
        port = int(str(bench.url).rpartition(":")[2])
        with structlog.testing.capture_logs() as logged:
            for number in range(2):
                client = Client(port, path)
                if moment in {"as the answer begins", "before an event"}:
                    await client.begins()
                elif moment == "before it is answered":
                    await asyncio.sleep(0.01)
                client.leave()
                if moment == "before an event":
                    await bench.commit(append(f"{number}.parquet"))
            await asyncio.sleep(0.05)
    assert [entry for entry in logged if entry["log_level"] in {"warning", "error", "critical"}] == []
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.DEBUG] == []


async def test_a_client_that_leaves_within_a_form_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench = Workbench(http_port=0)
    async with bench.daemon():
        client = Client(
            int(str(bench.url).rpartition(":")[2]), "/sign-in", method="POST", more="Content-Length: 99\r\n\r\ntok"
        )
        await asyncio.sleep(0.05)
        client.leave()
        await asyncio.sleep(0.05)
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.DEBUG] == []
