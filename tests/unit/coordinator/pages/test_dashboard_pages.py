"""Dashboards in the ops page: Grafana's files are understood, asked for safely, and what is missing is said."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from firn.coordinator.config import load_settings, redacted
from firn.coordinator.pages.dashboard_files import NAMES, Step, read_dashboards
from firn.coordinator.pages.panels import judged_by, moment_of, name_of, pattern_of
from firn.coordinator.pages.prometheus import ANSWER_BYTES_MAX, Prometheus, Span
from firn.model.errors import Misconfigured, Unavailable
from tests.unit.coordinator.workbench import Workbench

SPAN = Span(start=0.0, end=900.0, step=10.0)
HOSTILE = '<img src=x onerror="alert(1)">'
KINDS = {"timeseries", "stat", "table", "bargauge", "heatmap"}
UNITS = {"short", "s", "bytes", "Bps", "ops", "percentunit"}


def test_every_panel_is_of_a_kind_and_unit_that_can_be_drawn() -> None:
    dashboards = read_dashboards()
    assert tuple(dashboards) == NAMES
    for dashboard in dashboards.values():
        for panel in (panel for row in dashboard.rows for panel in row.panels):
            assert panel.kind in KINDS, panel.title
            assert panel.unit in UNITS, panel.title
            assert panel.targets, panel.title
        assert dashboard.question.endswith("?")


def test_the_title_of_a_row_is_unique_and_no_panel_stands_alone() -> None:
    """A row that is not full looks as if something were missing."""
    for dashboard in read_dashboards().values():
        for row in dashboard.rows:
            assert sum(panel.width for panel in row.panels) % 24 == 0, f"{dashboard.title}: {row.title}"


def test_a_name_is_asked_for_as_it_is_whatever_it_contains() -> None:
    """Neither the quotes of PromQL nor a regular expression's signs let a name out of its place."""
    name = 'a.b"} or up{x=~".*\\'
    moment = moment_of(now=1_000.0, length_s=900, scrape_s=5.0, chosen={"table": name})
    asked = moment.query('m{table=~"$table"}')
    quoted = re.fullmatch(r'm\{table=~"((?:[^"\\]|\\.)*)"\}', asked)
    assert quoted is not None, asked
    assert re.fullmatch(re.sub(r"\\(.)", r"\1", quoted[1]), name)
    assert pattern_of("a.b") == "a\\\\.b"


def test_all_is_asked_for_where_nothing_is_chosen() -> None:
    moment = moment_of(now=1_000.0, length_s=900, scrape_s=5.0, chosen={"table": ""})
    assert moment.query('rate(m{table=~"$table"}[$__rate_interval])') == 'rate(m{table=~".*"}[20s])'


@pytest.mark.parametrize(("length_s", "scrape_s", "rate_s"), [(900, 5, 20), (900, 30, 120), (86_400, 15, 735)])
def test_a_rate_looks_back_over_two_points_at_least(length_s: int, scrape_s: float, rate_s: int) -> None:
    moment = moment_of(now=1_000_003.0, length_s=length_s, scrape_s=scrape_s, chosen={})
    assert moment.rate_s == rate_s
    assert moment.rate_s >= 2 * scrape_s
    assert moment.span.end - moment.span.start == length_s


def test_a_legend_says_what_grafana_would() -> None:
    assert name_of({"stage": "swap"}, "{{stage}}") == "swap"
    assert name_of({}, "connected again by {{instance}}") == "connected again by "
    assert name_of({"a": "1", "b": "2"}, "__auto") == "a 1, b 2"


def test_a_number_is_judged_by_the_highest_step_that_it_reaches() -> None:
    steps = (Step(color="green"), Step(color="orange", value=5), Step(color="red", value=60))
    assert [judged_by(steps, value) for value in (0, 5, 59, 60)] == ["good", "warn", "warn", "bad"]
    assert judged_by((Step(color="text"),), 7) == ""


@asynccontextmanager
async def answering(answer: web.Response | dict[str, Any]) -> AsyncIterator[tuple[str, list[Mapping[str, str]]]]:
    """Something at Prometheus's address that always answers the same; its URL, and what it was asked."""
    asked: list[Mapping[str, str]] = []

    async def handle(request: web.Request) -> web.Response:
        authorization = request.headers.get("Authorization", "")
        asked.append({"path": request.path, "authorization": authorization, **request.query})
        if isinstance(answer, dict):
            return web.json_response({"status": "success", "data": answer[request.path.rpartition("/")[2]]})
        return web.Response(body=answer.body, status=answer.status)

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", asked
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (web.Response(status=502, body=b"<html>bad gateway"), "HTTP 502, and no answer of its query API"),
        (web.Response(status=400, body=b'{"status":"error","error":"parse error"}'), "parse error"),
        (web.Response(body=b" " * (ANSWER_BYTES_MAX + 1)), "more than"),
    ],
)
async def test_what_prometheus_does_not_answer_is_said_and_not_guessed(answer: web.Response, said: str) -> None:
    async with answering(answer) as (url, _):
        prometheus = Prometheus(url)
        with pytest.raises(Unavailable, match=said):
            await prometheus.over_time("up", SPAN)
        await prometheus.close()


async def test_the_password_is_sent_and_not_as_part_of_the_address() -> None:
    async with answering({"alerts": {"alerts": []}}) as (url, asked):
        prometheus = Prometheus(url.replace("//", "//reader:canary-83@"))
        assert await prometheus.alerts() == []
        await prometheus.close()
    (question,) = asked
    assert question["authorization"] == "Basic cmVhZGVyOmNhbmFyeS04Mw=="


async def test_nobody_at_the_address_is_said_without_the_password() -> None:
    prometheus = Prometheus("http://someone:canary-81@127.0.0.1:9/prometheus")
    with pytest.raises(Unavailable, match=r"http://127\.0\.0\.1:9/prometheus") as raised:
        await prometheus.alerts()
    assert "canary" not in str(raised.value)
    await prometheus.close()


async def test_what_is_not_a_number_is_left_out() -> None:
    values = [[0, "1"], [10, "NaN"], [20, "+Inf"], [30, "2.5"]]
    found = {"resultType": "matrix", "result": [{"metric": {"__name__": "m", "a": "b"}, "values": values}]}
    async with answering({"query_range": found}) as (url, _):
        prometheus = Prometheus(url)
        (series,) = await prometheus.over_time("m", SPAN)
        await prometheus.close()
    assert series.points == ((0.0, 1.0), (30.0, 2.5))
    assert series.labels == {"a": "b"}


HOSTILE_ANSWERS = {
    "query_range": {
        "resultType": "matrix",
        "result": [{"metric": {"le": "1", "table": HOSTILE, "instance": HOSTILE}, "values": [[0, "1"]]}],
    },
    "query": {"resultType": "vector", "result": [{"metric": {"rule": HOSTILE, "table": HOSTILE}, "value": [0, "1"]}]},
    "values": [HOSTILE],
    "alerts": {
        "alerts": [
            {"state": "firing", "labels": {"alertname": HOSTILE}, "annotations": {"summary": HOSTILE}}
        ]
    },
    "targets": {"activeTargets": [{"labels": {"job": "firn"}, "scrapeInterval": "1m30s"}]},
}  # fmt: skip


@pytest.mark.parametrize("path", ["/dashboards", *(f"/dashboards/{name}" for name in NAMES)])
async def test_markup_in_labels_and_alerts_is_text(path: str) -> None:
    async with answering(HOSTILE_ANSWERS) as (url, asked):
        bench = Workbench(http_port=0, prometheus_url=url)
        async with bench.daemon(), aiohttp.ClientSession(bench.url) as browser, browser.get(path) as answer:
            page = await answer.text()
            assert answer.status == 200, page
            assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert "<img" not in page
    assert "&lt;img" in page
    assert " style=" not in page
    assert any(one["path"].endswith("alerts") for one in asked)


async def test_a_panel_without_anything_says_so() -> None:
    nothing = {"query_range": {"result": []}, "query": {"result": [], "resultType": "vector"}}
    async with answering({**HOSTILE_ANSWERS, **nothing}) as (url, _):
        bench = Workbench(http_port=0, prometheus_url=url)
        async with bench.daemon(), aiohttp.ClientSession(bench.url) as browser:
            page = await (await browser.get("/dashboards/fleet?range=nonsense")).text()
    panels = [panel for row in read_dashboards()["fleet"].rows for panel in row.panels]
    assert page.count("nothing in this span of time") == len(panels)


async def test_a_prometheus_that_is_away_is_told_of_once() -> None:
    bench = Workbench(http_port=0, prometheus_url="http://127.0.0.1:9")
    async with bench.daemon(), aiohttp.ClientSession(bench.url) as browser:
        async with browser.get("/dashboards/fleet") as answer:
            page = await answer.text()
            assert answer.status == 200
        assert page.count("Prometheus at http://127.0.0.1:9") == 1
        async with browser.get("/dashboards/nonsense") as answer:
            assert answer.status == 404


async def test_without_a_prometheus_the_page_says_what_to_set() -> None:
    bench = Workbench(http_port=0)
    async with bench.daemon(), aiohttp.ClientSession(bench.url) as browser:
        for path in ("/dashboards", "/dashboards/table"):
            async with browser.get(path) as answer:
                assert "http.prometheus-url" in await answer.text()


def test_the_address_is_checked_and_its_password_is_not_shown() -> None:
    with pytest.raises(Misconfigured, match=r"http\.prometheus-url"):
        load_settings(environment={"FIRN_HTTP_PROMETHEUS_URL": "prometheus:9090"})
    settings = load_settings(environment={"FIRN_HTTP_PROMETHEUS_URL": "https://u:canary-82@prometheus/x"})
    assert b"canary" not in msgspec.json.encode(redacted(settings))
