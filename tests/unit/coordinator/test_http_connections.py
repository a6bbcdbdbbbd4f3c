"""The HTTP side under crowds, silence and nonsense: bounded, answered, and logged at most once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from firn.coordinator.http_connections import ConnectionLimits
from firn.coordinator.http_server import Health, HttpServer
from firn.coordinator.metrics import Metrics
from firn.coordinator.pages.site import Site
from firn.storage.memory_streams import MemoryRedis
from tests.unit.coordinator.test_http_server import NoSurvey
from tests.unit.coordinator.workbench import Workbench, create

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
LIMITS = ConnectionLimits(connections_max=20, peer_connections_max=10, head_s=60, idle_s=60)
LONG = b"a" * 5_000


class Server:
    """A server of its own, by raw connections."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname, parts.port
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(
        self, sent: bytes = b"", *, source: str = "127.0.0.1"
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection from one of loopback's addresses on which this much was sent."""
        reader, writer = await asyncio.open_connection(self.host, self.port, local_addr=(source, 0))
        self._writers.append(writer)
        writer.write(sent)
        return reader, writer

    async def status(self, sent: bytes, *, source: str = "127.0.0.1") -> int:
        """The status of what is answered."""
        reader, _ = await self.connect(sent, source=source)
        line = await asyncio.wait_for(reader.readline(), 10)
        return int(line.split()[1])

    def close(self) -> None:
        """End all connections."""
        for writer in self._writers:
            writer.close()


@asynccontextmanager
async def serving(limits: ConnectionLimits = LIMITS, *, token: str | None = "t0ken") -> AsyncIterator[Server]:
    streams = MemoryRedis().connect()
    http = HttpServer(
        host="127.0.0.1", port=0, metrics=Metrics(version="1", daemon="d"), health=lambda: Health(ready=True),
        site=Site(NoSurvey(), streams, daemon="d"), token=token, limits=limits,
    )  # fmt: skip
    server = Server(await http.start())
    try:
        yield server
    finally:
        server.close()
        await http.stop()


async def is_ended(reader: asyncio.StreamReader) -> bool:
    try:
        return not await asyncio.wait_for(reader.read(), 10)
    except ConnectionError:
        return True


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /healthz HT",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n",
        b"POST /sign-in HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\ntok",
    ],
)
async def test_half_open_connections_are_bounded_and_keep_nobody_out(sent: bytes) -> None:
    with capture_logs() as logs:
        async with serving() as server:
            crowd = [await server.connect(sent) for _ in range(100)]
            assert await server.status(REQUEST) == 200
            assert await server.status(REQUEST, source="127.0.0.2") == 200
            ended = [await is_ended(reader) for reader, _ in crowd[: -LIMITS.peer_connections_max]]
    assert all(ended)
    assert [log["event"] for log in logs] == ["http connections ended"]


async def test_peers_together_are_bounded_too() -> None:
    async with serving() as server:
        crowd = [await server.connect(source=f"127.0.0.{n}") for n in range(2, 12) for _ in range(5)]
        assert await server.status(REQUEST, source="127.0.1.1") == 200
        assert all([await is_ended(reader) for reader, _ in crowd[: -LIMITS.connections_max]])


@pytest.mark.parametrize(
    ("limits", "sent"),
    [
        ({"head_s": 0.05}, b""),
        ({"head_s": 0.05}, b"GET /healthz HTTP/1.1\r\n"),
        ({"head_s": 0.05}, b"POST /sign-in HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\ntok"),
        ({"idle_s": 0.05}, REQUEST),
        ({"idle_s": 0.05}, REQUEST + b"GET /healthz HTTP/1.1\r\n"),
    ],
)
async def test_a_connection_that_sends_no_request_in_time_is_ended(limits: dict[str, float], sent: bytes) -> None:
    async with serving(ConnectionLimits(**limits)) as server:  # type: ignore[arg-type]
        reader, _ = await server.connect(sent)
        if sent.startswith(REQUEST):
            assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
        assert await is_ended(reader)
        assert await server.status(REQUEST) == 200


FORM = b"POST /sign-in HTTP/1.1\r\nHost: a\r\nContent-Type: "
BAD_REQUESTS = {
    "bytes": b"\x00\xff\xfe garbage\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xff" * 200 + b"\r\n\r\n",
    "a large header": b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: a\r\n" * 20_000 + b"\r\n",
    "percent signs": b"GET /tables/%zz HTTP/1.1\r\nHost: a\r\n\r\n",
    "percent signs that are no UTF-8": b"GET /tables/%ff%fe HTTP/1.1\r\nHost: a\r\n\r\n",
    "no UTF-8": b"GET /tables/\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
    "NUL": b"GET /tables/a%00b HTTP/1.1\r\nHost: a\r\n\r\n",
    "NUL as it is": b"GET /tables/a\x00b HTTP/1.1\r\nHost: a\r\n\r\n",
    "a long table": b"GET /tables/" + LONG + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "a longer one": b"GET /tables/" + 10 * LONG + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "a long intent": b"GET /intents/%00" + LONG + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "a long dashboard": b"GET /dashboards/" + LONG + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "another method": b"DELETE / HTTP/1.1\r\nHost: a\r\n\r\n",
    "no method": b"FOO /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT": b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "a broken address": b"GET http://[::1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "an impossible port": b"GET http://a:99999999/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "a negative length": b"POST /sign-in HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    "two lengths": b"POST /sign-in HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a chunk without size": FORM + b"a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a form without boundary": FORM + b"multipart/form-data\r\nContent-Length: 3\r\n\r\nabc",
    "a form of another charset": FORM + b"a/b; charset=nope\r\nContent-Length: 3\r\n\r\na=b",
    "a form that is no UTF-8": FORM + b"a/b\r\nContent-Length: 8\r\n\r\ntoken=\xff\xfe",
    "a form of many fields": FORM + b"a/b\r\nContent-Length: 100\r\n\r\n" + b"a=b&" * 25,
    "a large form": FORM + b"a/b\r\nContent-Length: 200000\r\n\r\n" + b"a" * 200_000,
    "a form that is not compressed": FORM + b"a/b\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nabcde",
    "a file elsewhere": b"GET /static/%2e%2e%2fsite.py HTTP/1.1\r\nHost: a\r\n\r\n",
    "another version": b"GET / HTTP/9.9\r\n\r\n",
}  # fmt: skip


async def test_bad_requests_are_answered_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    bench = Workbench(http_port=0)
    async with bench.daemon():
        assert bench.url is not None
        server = Server(bench.url)
        with caplog.at_level(logging.WARNING), capture_logs() as logs:
            answers = {name: await server.status(sent) for name, sent in BAD_REQUESTS.items()}
        server.close()
    assert {name: status for name, status in answers.items() if not 400 <= status < 500} == {}
    assert [log for log in logs if log["log_level"] != "info"] == []
    assert caplog.records == []


@pytest.mark.parametrize(
    "header", [b"Authorization: Bearer \xed\xa0\x80", b"Authorization: \xff", b'Cookie: firn-token="\xff\\"; =;']
)
async def test_a_token_of_any_bytes_is_a_wrong_one(header: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as server:
        status = await server.status(b"GET /metrics HTTP/1.1\r\nHost: a\r\n" + header + b"\r\n\r\n")
    assert status in {400, 401}
    assert caplog.records == []


@pytest.mark.parametrize("hard", [True, False])
async def test_a_page_that_is_closed_is_no_error(caplog: pytest.LogCaptureFixture, *, hard: bool) -> None:
    bench = Workbench(http_port=0)
    async with bench.daemon():
        assert bench.url is not None
        server = Server(bench.url)
        with caplog.at_level(logging.WARNING), capture_logs() as logs:
            reader, writer = await server.connect(b"GET /live HTTP/1.1\r\nHost: a\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            if hard:
                writer.transport.abort()
            else:
                writer.close()
            for n in range(10):  # the first event after the close is answered with a reset, which the next one meets
                await bench.commit(create(f"db.t{n}"))
                await asyncio.sleep(0.02)
    assert [log for log in logs if log["log_level"] in {"warning", "error"}] == []
    assert caplog.records == []
