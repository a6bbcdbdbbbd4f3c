"""From an older firn to this one and back, as docs/upgrade.md promises: the older is built from its commit.

There is no tagged release yet, so the older one is a fixed commit. It writes, this one takes over, both run side by
side, and the older one goes on.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from firn.coordinator.embedded.process import GuardedProcess
from firn.coordinator.embedded.server import free_port
from firn.model.identifiers import uuid7
from tests.acceptance.stack import SCHEMA
from tests.installations import OLDER, Built, Installation, wheel_of_commit

READY_S: Final = 60.0
END_S: Final = 30.0
TABLE: Final = "db.upgraded"
ROWS: Final = 3


class Fleet:
    """Daemons and commands of several installations on the same servers and warehouse."""

    def __init__(self, folder: Path, *, redis_url: str, zookeeper: str) -> None:
        self.folder = folder
        self.settings = {
            "FIRN_REDIS_URL": redis_url, "FIRN_ZOOKEEPER": zookeeper, "FIRN_ZOOKEEPER_ROOT": "/firn",
            "FIRN_WAREHOUSE": str(folder / "warehouse"), "FIRN_ZOOKEEPER_SESSION_TIMEOUT_S": "2",
        }  # fmt: skip
        self._running: list[GuardedProcess] = []

    def start(self, firn: Installation, name: str) -> GuardedProcess:
        """Start a daemon, and wait until it is ready."""
        port = free_port()
        environment = firn.environment | self.settings | {"FIRN_HTTP_PORT": str(port), "FIRN_DAEMON_ID": name}
        with (self.folder / f"{name}.log").open("ab") as log:
            process = GuardedProcess(
                [str(firn.bin / "firn"), "serve"], folder=self.folder, log=log, environment=environment
            )
        self._running.append(process)
        ends_at = time.monotonic() + READY_S
        while not answers(f"http://127.0.0.1:{port}/readyz"):
            assert process.running, self.log(name)
            assert time.monotonic() < ends_at, self.log(name)
            time.sleep(0.1)
        return process

    def end(self) -> None:
        for process in self._running:
            process.terminate(grace_seconds=END_S)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-4000:]

    def firn(self, installed: Installation, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [installed.bin / "firn", *arguments], cwd=self.folder, env=installed.environment | self.settings,
            input=given, capture_output=True, text=True, timeout=READY_S, check=False,
        )  # fmt: skip

    def submit(self, installed: Installation, *intents: dict[str, Any]) -> list[dict[str, Any]]:
        """Submit with the installation's own client; the outcomes, in order."""
        lines = "\n".join(map(json.dumps, intents))
        done = self.firn(installed, "submit", "-", "--json", given=lines)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(found) == len(intents), done.stderr
        by_id = {outcome["intent-id"]: outcome for outcome in found}
        return [by_id[intent["intent-id"]] for intent in intents]

    def append(self) -> dict[str, Any]:
        """An append of a new file of `ROWS` rows."""
        path = self.folder / "warehouse" / "db" / "upgraded" / "data" / f"{uuid.uuid4()}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        field = pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"})
        pq.write_table(pa.table({"id": range(ROWS)}, schema=pa.schema([field])), path)
        return self.intent(
            "append",
            **{
                "data-files": [
                    {
                        "file-path": str(path), "file-format": "parquet", "spec-id": 0, "record-count": ROWS,
                        "file-size-in-bytes": path.stat().st_size,
                    }
                ]
            },
        )  # fmt: skip

    def intent(self, operation: str, **members: Any) -> dict[str, Any]:
        return {
            "intent-id": uuid7(now_ms=time.time_ns() // 1_000_000, entropy=os.urandom(10)),
            "operation": operation,
            "table": TABLE,
            **members,
        }


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The older firn, installed from what its commit has."""
    try:
        wheel = wheel_of_commit(OLDER, tmp_path_factory.mktemp("older"))
    except LookupError as error:
        pytest.skip(str(error))
    return Installation(tmp_path_factory.mktemp("older-environment"), wheel)


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    built = Built(tmp_path_factory.mktemp("newer"))
    return Installation(tmp_path_factory.mktemp("newer-environment"), built.wheel, ["server"])


@pytest.fixture
def fleet(tmp_path: Path, redis_url: str, zk_hosts: str) -> Iterator[Fleet]:
    (tmp_path / "warehouse").mkdir()
    fleet = Fleet(tmp_path, redis_url=redis_url, zookeeper=zk_hosts.partition("/")[0])
    fleet.settings["FIRN_ZOOKEEPER_ROOT"] = "/" + zk_hosts.partition("/")[2] + "/firn"
    yield fleet
    fleet.end()


def committed(outcomes: list[dict[str, Any]]) -> list[str]:
    return [outcome["status"] for outcome in outcomes]


def same(outcomes: list[dict[str, Any]], told: list[dict[str, Any]]) -> bool:
    """Whether they decide the same, in what both versions say of it."""
    members = ("status", "snapshot-id", "rule", "metadata-location")
    return all(
        [one.get(member) for member in members] == [two.get(member) for member in members]
        for one, two in zip(outcomes, told, strict=True)
    )


def test_an_older_firn_is_upgraded_and_comes_back(older: Installation, newer: Installation, fleet: Fleet) -> None:
    before = fleet.start(older, "older")
    create = fleet.intent("create-table", schema={**SCHEMA, "fields": SCHEMA["fields"][:1]})
    gone = str(fleet.folder / "warehouse/db/upgraded/data/none.parquet")
    missing = fleet.intent("delete-files", **{"removed-data-files": [gone]})
    first = [create, fleet.append(), fleet.append(), missing]
    told = [fleet.submit(older, intent)[0] for intent in first]
    assert committed(told) == ["committed", "committed", "committed", "rejected"]
    before.terminate(grace_seconds=END_S)
    waiting = fleet.append()
    assert fleet.firn(older, "submit", "-", "--no-wait", given=json.dumps(waiting)).returncode == 0

    after = fleet.start(newer, "newer")  # takes over: the queue, the table, and every decision
    assert committed(fleet.submit(newer, waiting)) == ["committed"]
    assert same(fleet.submit(newer, *first), told)
    assert same(fleet.submit(older, *first), told)
    assert committed(fleet.submit(newer, fleet.append())) == ["committed"]
    assert committed(fleet.submit(older, fleet.append())) == ["committed"]
    assert (done := fleet.firn(newer, "fsck", TABLE)).returncode == 0, done.stdout + done.stderr

    beside = fleet.start(older, "older-beside")
    assert committed([fleet.submit(newer, fleet.append())[0] for _ in range(2)]) == ["committed"] * 2
    after.terminate(grace_seconds=END_S)
    mine = fleet.append()
    again = fleet.submit(older, mine)
    assert committed(again) == ["committed"]
    assert same(fleet.submit(older, mine, *first), [*again, *told])
    beside.terminate(grace_seconds=END_S)

    fleet.start(newer, "newer-again")
    assert same(fleet.submit(newer, mine, *first), [*again, *told])
    (last,) = fleet.submit(newer, fleet.append())
    assert (done := fleet.firn(newer, "fsck", TABLE)).returncode == 0, done.stdout + done.stderr
    assert len(StaticTable.from_metadata(last["metadata-location"]).scan().to_arrow()) == 9 * ROWS
