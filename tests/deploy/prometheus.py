"""Prometheus as it is shipped, as a process on loopback: only addresses, the token's file and the pace are a test's."""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.deploy.programs import needed
from tests.deploy.servers import DEPLOY, running, wait_until

RULES: Final = DEPLOY / "prometheus" / "rules" / "firn.yml"

SHORT_FOR: Final = "2s"
SHORT_RANGE: Final = "20s"
"""What `hurried` makes of every `for:` and of every range that an alert looks back over."""


@contextmanager
def shipped_prometheus(
    folder: Path, url: str, *, targets: Sequence[str], rules: Path = RULES, token: Path | None = None,
    interval: str = "1s",
) -> Iterator[str]:  # fmt: skip
    """Prometheus at `url`, asking daemons at `targets` (URLs) every `interval`; its URL again, when it is ready."""
    shipped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    (job,) = [job for job in shipped["scrape_configs"] if job["job_name"] == "firn"]
    if token is None:
        del job["authorization"]
    else:
        job["authorization"]["credentials_file"] = str(token)
    job["static_configs"] = [{"targets": [target.removeprefix("http://") for target in targets]}]
    shipped |= {"scrape_configs": [job], "rule_files": [str(rules)]}
    shipped["global"] = {"scrape_interval": interval, "evaluation_interval": interval}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(shipped))
    command = [
        needed("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
        f"--web.listen-address={url.removeprefix('http://')}",
    ]  # fmt: skip
    with running(command, environment=dict(os.environ), log=folder / "prometheus.log"):
        wait_until(lambda: samples(url, "vector(1)") == 1, what="Prometheus answers")
        yield url


def hurried(folder: Path) -> Path:
    """The shipped rules for a test that cannot wait for minutes: every ``for:`` is 2 s, every range 20 s.

    Conditions, labels and texts are the shipped ones. What a rule compares with an hour ago it still does.
    """
    loaded = yaml.safe_load(RULES.read_text())
    for group in loaded["groups"]:
        group["interval"] = "1s"
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = SHORT_FOR
            rule["expr"] = re.sub(r"\[(?:5|10|15|30)m\]", f"[{SHORT_RANGE}]", rule["expr"]).replace(
                "offset 15m", f"offset {SHORT_RANGE}"
            )
    path = folder / "hurried.yml"
    path.write_text(yaml.safe_dump(loaded))
    return path


def ask(url: str, expression: str) -> list[Any]:
    """What Prometheus answers to an expression now."""
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


def samples(url: str, expression: str) -> int:
    """How many series an expression has now; none while Prometheus does not answer."""
    try:
        return len(ask(url, expression))
    except OSError:
        return 0


def firing(url: str) -> set[str]:
    """Names of the alerts that are firing, but for the one that always is."""
    try:
        found = ask(url, 'ALERTS{alertstate="firing", severity!="none"}')
    except OSError:
        return set()
    return {series["metric"]["alertname"] for series in found}
