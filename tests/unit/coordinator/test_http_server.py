"""The daemon's HTTP side: health for orchestrators, everything else for those who have the token."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from firn.coordinator.http_server import Health, HttpServer
from firn.coordinator.metrics import Metrics
from firn.coordinator.pages.site import Site
from firn.coordinator.pages.survey import Survey
from firn.storage.memory_streams import MemoryRedis

TOKEN = "t0ken"


class NoSurvey(Survey):
    """For pages that are never reached."""

    def __init__(self) -> None:
        pass

    async def close(self) -> None:
        pass


@asynccontextmanager
async def serving(*, token: str | None, ready: bool = True) -> AsyncIterator[aiohttp.ClientSession]:
    health = Health(ready=ready, reasons=() if ready else ("Redis does not answer",), details={"tables": ["secret.t"]})
    streams = MemoryRedis().connect()
    site = Site(NoSurvey(), streams, daemon="d")
    server = HttpServer(
        host="127.0.0.1",
        port=0,
        metrics=Metrics(version="1", daemon="d"),
        health=lambda: health,
        site=site,
        token=token,
    )
    url = await server.start()
    try:
        async with aiohttp.ClientSession(url) as session:
            yield session
    finally:
        await server.stop()


@pytest.mark.parametrize("shown", [None, "Bearer wrong", f"Basic {TOKEN}", TOKEN])
async def test_metrics_are_not_served_without_the_token(shown: str | None) -> None:
    headers = {} if shown is None else {"Authorization": shown}
    async with serving(token=TOKEN) as session, session.get("/metrics", headers=headers) as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert "firn" not in (await answer.text()).replace("http.token", "")


async def test_metrics_are_served_with_the_token() -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with serving(token=TOKEN) as session, session.get("/metrics", headers=headers) as answer:
        assert answer.status == 200
        assert "firn_" in await answer.text()


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_health_is_told_without_a_token_and_names_no_table(path: str) -> None:
    async with serving(token=TOKEN) as session, session.get(path) as answer:
        assert answer.status == 200
        assert "secret.t" not in await answer.text()


async def test_who_is_trusted_sees_the_details() -> None:
    async with serving(token=None) as session, session.get("/readyz") as answer:
        assert (await answer.json())["tables"] == ["secret.t"]


async def test_a_daemon_that_is_not_ready_says_why() -> None:
    async with serving(token=None, ready=False) as session, session.get("/readyz") as answer:
        assert answer.status == 503
        assert (await answer.json())["reasons"] == ["Redis does not answer"]


@pytest.mark.parametrize("path", ["/", "/tables", "/tables/a.b", "/conflicts", "/events", "/live", "/static/live.js"])
async def test_no_page_is_shown_without_the_token(path: str) -> None:
    async with serving(token=TOKEN) as session, session.get(path) as answer:
        assert answer.status == 401


async def test_a_browser_signs_in_with_the_token() -> None:
    """It gets a form, and after the right token a cookie that no script can read and no other site can send."""
    async with serving(token=TOKEN) as session:
        async with session.get("/", headers={"Accept": "text/html"}) as answer:
            assert answer.status == 401
            assert 'type="password"' in await answer.text()
        async with session.post("/sign-in", data={"token": "guess"}, allow_redirects=False) as answer:
            assert answer.status == 401
            assert "Set-Cookie" not in answer.headers
        async with session.post("/sign-in", data={"token": TOKEN}, allow_redirects=False) as answer:
            assert answer.status == 303
            cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        name, _, value = cookie.partition(";")[0].partition("=")
        async with session.get("/metrics", headers={"Cookie": f"{name}={value}"}) as answer:
            assert answer.status == 200
