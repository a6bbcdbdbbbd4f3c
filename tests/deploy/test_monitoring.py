"""Dashboards and alerts: as generated, about metrics that there are, tried on recorded series and on a live daemon."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest

from firn import RejectedError
from firn.coordinator.embedded import RedisServer, ZooKeeperServer
from firn.coordinator.embedded.server import free_port
from firn.coordinator.metrics import Metrics, TableSize
from grafana import generate
from tests.acceptance.stack import SCHEMA, DaemonProcess, Stack
from tests.deploy.servers import DEPLOY, running, wait_until

DASHBOARDS = sorted(generate.FOLDER.glob("*.json"))
RULES = DEPLOY / "prometheus" / "rules" / "firn.yml"
RUNBOOKS = DEPLOY.parent / "docs" / "runbooks"

SILENT_WHEN_WELL = {"firn_table_queued_intents"}
"""Metrics of what does not happen in a test that hurts nothing."""


def needed(program: str) -> str:
    """A program of Prometheus; CI must have it."""
    found = shutil.which(program)
    if found is None:
        if "CI" in os.environ:
            pytest.fail(f"CI must try the rules: install {program}")
        pytest.skip(f"{program} is not installed")
    return found


def panels() -> list[tuple[str, str, str]]:
    """Every query of every panel: dashboard, panel, PromQL."""
    return [
        (path.stem, panel["title"], target["expr"])
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
    metrics.watch_tables(lambda: [TableSize(table="t", snapshots=1, manifests=1, metadata_bytes=1)])

    class Counts:
        hits = misses = 1

    metrics.watch_cache(Counts())
    metrics.watch_lanes(lambda: {"t": 1_000})
    metrics.watch_publishing(lambda: 1)
    text = generate_latest(metrics.registry).decode()
    names = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    return names | {f"{name}_{part}" for name in names for part in ("bucket", "sum", "count")}


@pytest.mark.parametrize("described", generate.DASHBOARDS, ids=lambda function: function.__name__)
def test_the_dashboards_are_what_the_code_makes(described: Any) -> None:
    """`make dashboards` after every change of grafana/generate.py."""
    assert (generate.FOLDER / f"{described.__name__}.json").read_text() == generate.built(described())


def test_dashboards_and_rules_ask_for_metrics_that_there_are() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    known = metric_names() | recorded
    for place, _, expression in [*panels(), *((r.get("alert", r.get("record")), "", r["expr"]) for r in rules())]:
        for name in re.findall(r"firn[_:][a-z0-9_:]+", expression):
            assert name in known, f"{place}: {name}"


def test_every_alert_has_a_runbook_that_says_what_to_do() -> None:
    for alert in alerts():
        path, _, anchor = alert["annotations"]["runbook"].partition("#")
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


@pytest.fixture(scope="module")
def watched(
    tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer, zookeeper_server: ZooKeeperServer
) -> Iterator[str]:
    """A Prometheus that has watched a daemon at work, with the shipped rules; its URL."""
    program = needed("prometheus")
    folder = tmp_path_factory.mktemp("watched")
    with Stack(folder, redis_server=redis_server, zookeeper_server=zookeeper_server) as stack:
        daemon = stack.daemon()
        stop = threading.Event()
        work = threading.Thread(target=_work, args=(stack, stop))
        work.start()
        try:
            with _prometheus(program, folder, daemon) as url:
                wait_until(lambda: _samples(url, "rate(firn_intents_total[15s])") > 0, what="rates")
                wait_until(lambda: _samples(url, "firn:intent_seconds:p99_5m") > 0, what="recorded rules", timeout_s=60)
                time.sleep(3)
                yield url
        finally:
            stop.set()
            work.join()


@contextmanager
def _prometheus(program: str, folder: Path, daemon: DaemonProcess) -> Iterator[str]:
    """Prometheus on the shipped configuration; only the address, the token and the pace are a test's. Its URL."""
    shipped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    (job,) = [job for job in shipped["scrape_configs"] if job["job_name"] == "firn"]
    del job["authorization"]
    job["static_configs"] = [{"targets": [daemon.http.removeprefix("http://")]}]
    shipped |= {"scrape_configs": [job], "rule_files": [str(RULES)]}
    shipped["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(shipped))
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
        f"--web.listen-address={url.removeprefix('http://')}",
    ]  # fmt: skip
    with running(command, environment=dict(os.environ), log=folder / "prometheus.log"):
        yield url


def _work(stack: Stack, stop: threading.Event) -> None:
    """Something of everything: commits, conflicts, repeats, maintenance, and what is no intent at all."""
    with stack.client() as client:
        client.create_table("db.watched", SCHEMA).committed(30)
        turn = 0
        while not stop.is_set():
            turn += 1
            client.update_properties("db.watched", {"turn": str(turn)}, priority="maintenance").committed(30)
            try:
                client.delete_files("db.watched", [f"/nowhere-{turn}.parquet"]).committed(30)
            except RejectedError:
                stack.redis.xadd(stack.names.intents(0), {"intent": "no intent"})
            time.sleep(0.1)


def _ask(url: str, expression: str) -> list[Any]:
    query = urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(f"{url}/api/v1/query?{query}", timeout=10) as answer:
            told = json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
            raise  # it is starting
        pytest.fail(f"{expression}: {error.read().decode()}")
    result: list[Any] = told["data"]["result"]
    return result


def _samples(url: str, expression: str) -> int:
    try:
        return len(_ask(url, expression))
    except OSError:
        return 0


@pytest.mark.acceptance
def test_every_panel_shows_something_of_a_daemon_at_work(watched: str) -> None:
    empty = []
    for place, title, expression in panels():
        asked = expression.replace("$__rate_interval", "10s").replace("$table", ".*")
        if not _ask(watched, asked) and not any(name in expression for name in SILENT_WHEN_WELL):
            empty.append(f"{place} / {title}: {asked}")
    assert empty == []


@pytest.mark.acceptance
def test_every_rule_is_evaluated_on_a_daemon_at_work(watched: str) -> None:
    """No rule fails, recorded series are there, and an alert's condition without its bound has a value."""
    with urllib.request.urlopen(f"{watched}/api/v1/rules", timeout=10) as answer:
        groups = json.load(answer)["data"]["groups"]
    evaluated = [rule for group in groups for rule in group["rules"]]
    assert len(evaluated) == len(rules())
    assert [rule["name"] for rule in evaluated if rule["health"] != "ok"] == []
    for rule in rules():
        if "record" in rule:
            assert _ask(watched, rule["record"]), rule["record"]
            continue
        bare = re.split(r" (?:>|<|==) [\d.e]+(?: and |\)?$)| < max_over_time", rule["expr"])[0].removeprefix("absent(")
        assert _ask(watched, bare), f"{rule['alert']}: {bare}"
