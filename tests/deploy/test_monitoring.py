"""Dashboards and alerts: as generated, about metrics that there are, tried on recorded series and on a live daemon."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
import yaml
from playwright.sync_api import Browser, Page, expect
from prometheus_client import generate_latest

from firn import ContentFile, RejectedError
from firn.coordinator.embedded import RedisServer, ZooKeeperServer
from firn.coordinator.embedded.server import free_port
from firn.coordinator.metrics import Metrics, TableSize
from firn.coordinator.pages.dashboard_files import NAMES
from firn.model.trouble import Trouble
from grafana import generate
from grafana.dashboard import built
from grafana.queries import happened
from tests.acceptance.browser import check_readable, chromium
from tests.acceptance.stack import SCHEMA, Stack
from tests.deploy.programs import needed
from tests.deploy.prometheus import RULES, ask, samples, shipped_prometheus
from tests.deploy.servers import DEPLOY, wait_until
from tests.unit.coordinator.test_metrics import rows as metric_rows

DASHBOARDS = sorted(generate.FOLDER.glob("*.json"))
RUNBOOKS = DEPLOY.parent / "docs" / "runbooks"

OF_PROMETHEUS = frozenset({"job", "instance", "cluster", "le", "__name__"})
"""Labels that every scraped series has, and the buckets of histograms."""

RUNBOOK_BASE = "http://127.0.0.1:8080/"
"""Where compose publishes a daemon, which serves the runbooks; the chart and operators put another address there."""

SILENT_WHEN_WELL = {"firn_table_trouble", "firn_table_queued_intents", "firn_redis_memory_max_bytes"}
"""Metrics of what does not happen in a test that hurts nothing, on a Redis without a limit."""


def panels() -> list[tuple[str, str, str]]:
    """Every query of every panel: dashboard, panel, PromQL."""
    return [
        (path.stem, panel["title"], target["expr"])
        for path in DASHBOARDS
        for row in json.loads(path.read_text())["panels"]
        for panel in [row, *row.get("panels", [])]
        for target in panel.get("targets", [])
    ]


def legends() -> list[tuple[str, str, str]]:
    """Every query of every panel with what its series are called: dashboard and panel, PromQL, legend."""
    return [
        (f"{path.stem}, {panel['title']}", target["expr"], target["legendFormat"])
        for path in DASHBOARDS
        for row in json.loads(path.read_text())["panels"]
        for panel in [row, *row.get("panels", [])]
        for target in panel.get("targets", [])
    ]


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def metric_names() -> set[str]:
    """Every name that a daemon can expose, with the process's own."""
    metrics = Metrics(version="1", daemon="d")
    metrics.watch_tables(
        lambda: [TableSize(table="t", snapshots=1, manifests=1, metadata_bytes=1, streaming_writers=1, oldest_ms=1)],
        writers_max=10,
    )
    metrics.watch_troubles(lambda: [Trouble(table="t", state="stalled", why="no room")])

    class Counts:
        hits = misses = 1

    metrics.watch_cache(Counts())
    metrics.watch_lanes(lambda: {"t": 1_000})
    metrics.watch_shards(lambda: [0], configured=1)
    metrics.watch_publishing(lambda: 1)
    metrics.watch_stores(tuple)
    text = generate_latest(metrics.registry).decode()
    names = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    return names | {f"{name}_{part}" for name in names for part in ("bucket", "sum", "count")}


@pytest.mark.parametrize("described", generate.DASHBOARDS, ids=lambda function: function.__name__)
def test_the_dashboards_are_what_the_code_makes(described: Any) -> None:
    """`make dashboards` after every change of a module in grafana/."""
    assert (generate.FOLDER / f"{described.__name__}.json").read_text() == built(described())


def test_dashboards_and_rules_ask_for_metrics_that_there_are() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    known = metric_names() | recorded
    for place, _, expression in [*panels(), *((r.get("alert", r.get("record")), "", r["expr"]) for r in rules())]:
        for name in re.findall(r"firn[_:][a-z0-9_:]+", expression):
            assert name in known, f"{place}: {name}"


def test_dashboards_and_rules_ask_by_labels_that_there_are() -> None:
    """A label that a metric does not have gives an empty panel, or an alert that never fires, and no error."""
    labels = {name: set(filter(None, told.split(", "))) for name, _, told, _ in metric_rows()}
    described = [*legends(), *((rule.get("alert", rule.get("record")), rule["expr"], "") for rule in rules())]
    for place, expression, legend in described:
        known = set(OF_PROMETHEUS)
        for name, matchers in re.findall(r"\b(firn_[a-z0-9_]+)(?:\{([^}]*)\})?", expression):
            family = name if name in labels else re.sub(r"_(?:bucket|sum|count)$", "", name)
            of_metric = labels[family] | OF_PROMETHEUS
            assert set(re.findall(r"(\w+)\s*[!=]~?\"", matchers)) <= of_metric, f"{place}: {name}"
            known |= of_metric
        grouped = {label for by in re.findall(r"\bby \(([^)]*)\)", expression) for label in by.split(", ")}
        assert grouped <= known, f"{place}: {expression}"
        if "firn:" not in expression:
            assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= known, f"{place}: {legend}"


def test_alerts_speak_of_labels_that_their_series_have() -> None:
    """A label that was summed away is empty in the alert's text."""
    for alert in alerts():
        expression = alert["expr"]
        spoken = set(re.findall(r"\$labels\.(\w+)", json.dumps(alert["annotations"])))
        grouped = {label for by in re.findall(r"\bby \(([^)]*)\)", expression) for label in by.split(", ")}
        if grouped or re.match(r"(sum|max|min|count|vector|absent)\(", expression):
            assert spoken <= grouped, alert["alert"]
        else:
            assert spoken <= {"instance"}, alert["alert"]


def test_every_alert_has_a_runbook_that_says_what_to_do() -> None:
    for alert in alerts():
        notes = alert["annotations"]
        assert notes["runbook_url"] == RUNBOOK_BASE + notes["runbook"], alert["alert"]
        path, _, anchor = notes["runbook"].partition("#")
        text = (DEPLOY.parent / path).read_text()
        heading = re.search(rf"^## {alert['alert']}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        assert heading is not None, f"{path} has nothing on {alert['alert']}"
        assert anchor == alert["alert"].lower()
        assert re.search(r"^1\. ", heading.group(1), re.MULTILINE), f"{alert['alert']}: what to do first"


def test_every_alert_is_tried() -> None:
    """A test that raises it, on series that were written for it."""
    tried = (Path(__file__).parent / "rules" / "alerts_test.yml").read_text()
    untried = {alert["alert"] for alert in alerts() if not re.search(rf"\b{alert['alert']}\b", tried)}
    assert untried <= {"FirnCommitsSlow", "FirnMaintenanceWaits"}, untried


def test_the_rules_do_what_they_say_on_recorded_series() -> None:
    promtool = needed("promtool")
    subprocess.run([promtool, "check", "rules", str(RULES)], check=True, capture_output=True)
    done = subprocess.run(
        [promtool, "test", "rules", "alerts_test.yml"], cwd=Path(__file__).parent / "rules", capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_first_of_its_kind_is_counted_on_a_dashboard(tmp_path: Path) -> None:
    """A counter's label that has just begun, one that goes on, and one of a daemon that was started anew."""
    counted = f"round(sum by (rule) {happened('firn_dead_letters_total', '1h')})"
    expected = {"first": 1, "two": 3, "old": 2, "still": 0, "again": 1}
    tried = {
        "evaluation_interval": "1m",
        "tests": [{
            "interval": "1m",
            "input_series": [
                {"series": f'firn_dead_letters_total{{rule="{rule}"}}', "values": values}
                for rule, values in {
                    "first": "_x100 1x19", "two": "_x100 1x9 3x10", "old": "5x80 7x39", "still": "9x119",
                    "again": "3x80 _x5 1x33",
                }.items()
            ],
            "promql_expr_test": [{
                "expr": counted, "eval_time": "119m",
                "exp_samples": [{"labels": f'{{rule="{rule}"}}', "value": value} for rule, value in expected.items()],
            }],
        }],
    }  # fmt: skip
    (tmp_path / "counted.yml").write_text(yaml.safe_dump(tried))
    done = subprocess.run(
        [needed("promtool"), "test", "rules", str(tmp_path / "counted.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Watched(msgspec.Struct, frozen=True):
    """URLs of a Prometheus and of the daemon that it watches."""

    prometheus: str
    daemon: str


@pytest.fixture(scope="module")
def watched(
    tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer, zookeeper_server: ZooKeeperServer
) -> Iterator[Watched]:
    """A Prometheus that has watched a daemon at work, with the shipped rules."""
    url = f"http://127.0.0.1:{free_port()}"
    folder = tmp_path_factory.mktemp("watched")
    with Stack(folder, redis_server=redis_server, zookeeper_server=zookeeper_server) as stack:
        daemon = stack.daemon(HTTP_PROMETHEUS_URL=url)
        stop = threading.Event()
        work = threading.Thread(target=_work, args=(stack, stop))
        work.start()
        try:
            with shipped_prometheus(folder, url, targets=[daemon.http]):
                wait_until(lambda: samples(url, "rate(firn_intents_total[15s])") > 0, what="rates")
                wait_until(lambda: samples(url, "firn:intent_seconds:p99_5m") > 0, what="recorded rules", timeout_s=60)
                time.sleep(3)
                yield Watched(prometheus=url, daemon=daemon.http)
        finally:
            stop.set()
            work.join()


def _work(stack: Stack, stop: threading.Event) -> None:
    """Something of everything: commits, conflicts, repeats, maintenance, and what is no intent at all."""
    with stack.client() as client:
        client.create_table("db.watched", SCHEMA).committed(30)
        turn = 0
        while not stop.is_set():
            turn += 1
            if turn % 10 == 0:  # a lock that is taken and given up again
                client.create_table(f"db.made_{turn}", SCHEMA).committed(30)
            path = f"{stack.warehouse}/db/watched/data/{turn}.parquet"
            file = ContentFile(
                file_path=path, file_format="parquet", spec_id=0, record_count=10, file_size_in_bytes=1_000
            )  # fmt: skip
            client.append("db.watched", [file], writer="etl", writer_sequence=turn).committed(30)
            client.delete_files("db.watched", [path]).committed(30)
            client.update_properties("db.watched", {"turn": str(turn)}, priority="maintenance").committed(30)
            try:
                client.delete_files("db.watched", [f"/nowhere-{turn}.parquet"]).committed(30)
            except RejectedError:
                stack.redis.xadd(stack.names.intents(0), {"intent": "no intent"})
            time.sleep(0.1)


@pytest.mark.acceptance
def test_every_panel_shows_something_of_a_daemon_at_work(watched: Watched) -> None:
    empty = []
    for place, title, expression in panels():
        asked = expression.replace("$__rate_interval", "10s").replace("$table", ".*").replace("$cluster", ".*")
        if not ask(watched.prometheus, asked) and not any(name in expression for name in SILENT_WHEN_WELL):
            empty.append(f"{place} / {title}: {asked}")
    assert empty == []


@pytest.mark.acceptance
def test_every_rule_is_evaluated_on_a_daemon_at_work(watched: Watched) -> None:
    """No rule fails, recorded series are there, and an alert's condition without its bound has a value."""
    with urllib.request.urlopen(f"{watched.prometheus}/api/v1/rules", timeout=10) as answer:
        groups = json.load(answer)["data"]["groups"]
    evaluated = [rule for group in groups for rule in group["rules"]]
    assert len(evaluated) == len(rules())
    assert [rule["name"] for rule in evaluated if rule["health"] != "ok"] == []
    for rule in rules():
        if "record" in rule:
            assert ask(watched.prometheus, rule["record"]), rule["record"]
            continue
        if 'job="zookeeper"' in rule["expr"]:
            continue  # it is not scraped here: its metrics are in a jar that only its own distribution has
        bare = re.split(r" (?:>=|>|<|==) [\d.e]+(?: and |\)?$)| < max by", rule["expr"])[0]
        if rule["alert"] == "FirnNoDaemon":  # its condition has no value while a daemon is there
            bare = 'group by (cluster) (last_over_time(up{job="firn"}[1d]))'
        assert ask(watched.prometheus, bare), f"{rule['alert']}: {bare}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


def heard_on(page: Page) -> list[str]:
    """What the browser complains of, as it comes."""
    heard: list[str] = []
    page.on("console", lambda message: heard.append(message.text))
    return heard


LOOKS = [("light", 1300), ("dark", 390), ("dark", 1300), ("light", 390)]
"""On a desk and on a phone, by day and by night."""


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("name", "scheme", "width"),
    [
        pytest.param(name, *look, marks=() if LOOKS.index(look) == NAMES.index(name) else pytest.mark.long)
        for name in NAMES
        for look in LOOKS
    ],
)
def test_every_panel_is_drawn_and_can_be_read(
    watched: Watched, browser: Browser, name: str, scheme: Literal["light", "dark"], width: int, tmp_path: Path
) -> None:
    """In the ops page, from the queries of Grafana's dashboards."""
    context = browser.new_context(
        base_url=watched.daemon, viewport={"width": width, "height": 900}, color_scheme=scheme
    )  # fmt: skip
    page = context.new_page()
    complaints = heard_on(page)
    page.goto(f"/dashboards/{name}?range=15m")
    check_readable(page)
    page.screenshot(path=tmp_path / f"{name}-{scheme}-{width}.png", full_page=True)
    shown = page.locator(".panel h3").all_inner_texts()
    assert shown == list(dict.fromkeys(title for place, title, _ in panels() if place == name))
    silent = {title for place, title, query in panels() if any(metric in query for metric in SILENT_WHEN_WELL)}
    assert set(page.locator(".panel:not(:has(svg, table, .value)) h3").all_inner_texts()) <= silent
    assert complaints == []
    context.close()


@pytest.mark.acceptance
def test_a_reader_chooses_a_table_and_a_span_of_time(watched: Watched, browser: Browser) -> None:
    page = browser.new_page(base_url=watched.daemon)
    page.goto("/dashboards")
    page.get_by_role("link", name="Table", exact=True).click()
    page.get_by_label("Table", exact=True).select_option("db.watched")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="15m").click()
    assert page.url.endswith("/dashboards/table?range=15m&table=db.watched")
    expect(page.get_by_label("Table", exact=True)).to_have_value("db.watched")
    expect(page.get_by_role("region", name="Snapshots").get_by_role("cell", name="db.watched")).to_be_visible()
    page.get_by_role("link", name="its page").click()
    expect(page.get_by_role("heading", name="db.watched")).to_be_visible()
    page.close()
