"""Maintenance as it is run: what the plan says is done, one run a table at a time, and writers go first."""

from __future__ import annotations

import json
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from firn import data_files_from_parquet
from firn.coordinator.cli.main import run as run_command
from firn.coordinator.client.intents import new_intent_id
from firn.model.content_file import content_file_of
from firn.model.deletion_vector import DeletionVector
from firn.model.errors import Unavailable
from firn.model.outcome import Hint, Rejected
from firn.pipeline import maintenance_run
from firn.pipeline.maintenance_plan import Action
from firn.pipeline.maintenance_run import Status, TableRun, maintain, plan_table
from firn.pipeline.orphan_files import HOUR_MS
from firn.pipeline.upkeep import Upkeep
from firn.storage.data_files import NewFile
from firn.storage.journal import JOURNAL_FOLDER, OLD_JOURNAL_FOLDER
from firn.storage.leases import Lease, Leases
from firn.storage.position_deletes import encode_position_deletes
from tests.acceptance.stack import Stack
from tests.integration.maintenance.kept_tables import SCHEMA, WAIT_S, check, delete, written
from tests.strategies.table_histories import live_files


class Spark:
    """In the place of Spark's work: tells what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def compact(self, table: str, *, go_on: Callable[[], bool]) -> tuple[Status, str]:
        self.asked.append("compact")
        return ("done" if go_on() else "yielded"), "compacted"

    def rewrite_deletes(self, table: str) -> tuple[None, str]:
        self.asked.append("rewrite-deletes")
        return None, ""

    def distinct_values(self, table: str) -> None:
        self.asked.append("distinct-values")


def needy(upkeep: Upkeep) -> str:
    """A table that needs everything."""
    client, table = upkeep.client, f"db.n{uuid.uuid4().hex[:8]}"
    spec = {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "id", "transform": "identity"}]}
    properties = {"firn.maintain.manifests-min": "3", "firn.maintain.statistics": "all"}
    client.create_table(table, SCHEMA, partition_spec=spec, properties=properties).committed(WAIT_S)
    for _ in range(6):
        path = written(client, table, ids=[1])
        client.append(table, data_files_from_parquet([path], client.table(table))).committed(WAIT_S)
    written(client, table, ids=[1])
    return table


def test_a_run_does_what_the_plan_says_and_then_nothing_is_left(upkeep: Upkeep) -> None:
    table, spark = needy(upkeep), Spark()
    now_ms = round(time.time() * 1000) + 20 * 24 * HOUR_MS
    plan = plan_table(upkeep, table, now_ms=now_ms)
    assert list(plan.wanted) == [
        "compact", "rewrite-manifests", "partition-statistics", "distinct-values", "expire", "remove-orphans",
    ]  # fmt: skip
    run = maintain(upkeep, table, spark=spark, now_ms=now_ms)
    assert [(one.action, one.status) for one in run.actions] == [
        (action, "nothing" if action == "distinct-values" else "done") for action in plan.wanted
    ]
    assert spark.asked == ["compact", "distinct-values"]
    messages = {one.action: one.message for one in run.actions}
    assert messages["rewrite-manifests"] == "6 manifests of 6 files became 1"
    assert messages["partition-statistics"] == "1 partition counted"
    # The daemon's clock is today's, so nothing is old enough for it to expire.
    assert messages["remove-orphans"].startswith("1 of ")
    check(upkeep, table)
    left = plan_table(upkeep, table, now_ms=now_ms).wanted
    assert set(left) <= {"compact", "distinct-values", "expire"}  # which the stand-in, and the clock, did not do
    without = maintain(upkeep, table, spark=spark, now_ms=now_ms, leave_out={"compact", "distinct-values", "expire"})
    assert without.actions == ()


def test_a_run_copies_old_journal_segments_to_where_other_engines_leave_them_alone(upkeep: Upkeep) -> None:
    table, others = needy(upkeep), set(get_args(Action))
    home = Path(upkeep.table(table).metadata.location)
    new, old = home / JOURNAL_FOLDER, home / OLD_JOURNAL_FOLDER
    new.rename(old)  # as an earlier version has them
    names = sorted(one.name for one in old.iterdir())
    client = upkeep.client
    client.update_properties(table, {"firn.maintain.enabled": "false"}).committed(WAIT_S)
    assert maintain(upkeep, table, spark=Spark(), leave_out=others).journal_copied == 0
    client.update_properties(table, {"firn.maintain.enabled": "true"}).committed(WAIT_S)
    run = maintain(upkeep, table, spark=Spark(), leave_out=others)
    assert (run.journal_copied, run.actions) == (len(names), ())
    shutil.rmtree(old)
    assert {one.name for one in new.iterdir()} > set(names)
    check(upkeep, table)
    assert maintain(upkeep, table, spark=Spark(), leave_out=others).journal_copied == 0


def delete_first_rows(upkeep: Upkeep, table: str, *paths: str) -> str:
    """One file of positions for several data files, of the partition where `id` is 1."""
    view = upkeep.client.table(table)
    new = NewFile(location=f"{view.location}/data/{uuid.uuid4()}-deletes.parquet", spec=view.spec, partition=(1,))
    data, entry = encode_position_deletes({path: DeletionVector.of([0]) for path in paths}, new)
    upkeep.files.create(entry.file_path, data)
    upkeep.client.row_delta(
        table,
        base_snapshot_id=view.snapshot_id,
        deletes=[content_file_of(entry, view.metadata)],
        isolation="snapshot",
    ).committed(WAIT_S)
    return entry.file_path


def test_deletes_that_reach_nothing_any_more_go_without_spark(upkeep: Upkeep) -> None:
    table, spark, client = needy(upkeep), Spark(), upkeep.client
    others: set[Action] = {
        "compact",
        "rewrite-manifests",
        "partition-statistics",
        "distinct-values",
        "expire",
        "remove-orphans",
    }
    in_first = [file.file_path for file in live_files(upkeep.table(table).metadata, upkeep.files)]
    path = written(client, table, ids=[2])
    client.append(table, data_files_from_parquet([path], client.table(table))).committed(WAIT_S)
    dangling = delete_first_rows(upkeep, table, *in_first)
    assert maintain(upkeep, table, spark=spark, leave_out=others).actions == ()
    delete(client, table, *in_first)
    (told,) = (one for one in plan_table(upkeep, table).decisions if one.action == "remove-dangling-deletes")
    assert (told.wanted, told.reason) == (True, "1 of 1 delete file dangling")
    (done,) = maintain(upkeep, table, spark=spark, leave_out=others).actions
    assert (done.status, done.message) == ("done", "1 delete file removed that reached nothing")
    assert spark.asked == []
    assert dangling not in [file.file_path for file in live_files(upkeep.table(table).metadata, upkeep.files)]
    assert maintain(upkeep, table, spark=spark, leave_out=others).actions == ()
    check(upkeep, table)


class Away(Spark):
    """In the place of Spark's work, when a server goes away in the middle of it."""

    def compact(self, table: str, *, go_on: Callable[[], bool]) -> tuple[Status, str]:
        raise Unavailable("Redis does not answer")


def test_an_action_whose_server_goes_away_has_no_known_end_and_the_others_go_on(upkeep: Upkeep) -> None:
    run = maintain(upkeep, needy(upkeep), spark=Away())
    ends = {one.action: (one.status, one.message) for one in run.actions}
    assert not run.ok
    assert ends["compact"] == ("unknown", "Redis does not answer")
    assert ends["rewrite-manifests"][0] == "done"


def test_one_run_a_table_at_a_time(upkeep: Upkeep) -> None:
    table = needy(upkeep)
    second: list[TableRun] = []

    class Meanwhile(Spark):
        def compact(self, table: str, *, go_on: Callable[[], bool]) -> tuple[Status, str]:
            runner = threading.Thread(target=lambda: second.append(maintain(upkeep, table, spark=Spark())))
            runner.start()
            runner.join()
            return super().compact(table, go_on=go_on)

    first = maintain(upkeep, table, spark=Meanwhile(), leave_out={"remove-orphans"})
    assert first.ok
    assert [one.skipped for one in second] == ["another run is at it"]
    assert maintain(upkeep, table, spark=Spark(), leave_out={"remove-orphans"}).skipped is None


def test_a_slow_zookeeper_is_not_another_run(upkeep: Upkeep, monkeypatch: pytest.MonkeyPatch) -> None:
    acquire, waits = Leases.acquire, []

    async def slowly(self: Leases, table: str, **options: Any) -> Lease | None:
        waits.append(options["timeout_s"])
        return None if len(waits) == 1 else await acquire(self, table, **options)

    monkeypatch.setattr(Leases, "acquire", slowly)
    run = maintain(upkeep, needy(upkeep), spark=Spark(), leave_out={"remove-orphans"})
    assert (run.skipped, len(waits)) == (None, 2)
    assert run.ok
    assert waits[1] > waits[0]


@pytest.mark.parametrize(
    ("action", "does"),
    [("rewrite-manifests", "rewrite_manifests"), ("partition-statistics", "compute_partition_statistics")],
)
@pytest.mark.parametrize(
    ("hint", "status"),
    [("replan", "yielded"), ("retry", "yielded"), ("fix", "failed"), ("narrow-filter", "failed")],
)
def test_an_action_that_others_overtook_is_left_to_the_next_run(
    action: Action, does: str, hint: Hint, status: Status, upkeep: Upkeep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy table's own merges take away what maintenance has planned on: nobody is alerted of that."""
    refused = Rejected(intent_id=new_intent_id(), table="db.t", rule="missing-manifest", message="7 of 35", hint=hint)
    came_to = SimpleNamespace(answer=refused, before=1, after=1, files=1, partitions=1)
    monkeypatch.setattr(maintenance_run, does, lambda *_: came_to)
    others = set(get_args(Action)) - {action}
    run = maintain(upkeep, needy(upkeep), spark=Spark(), leave_out=others)
    (done,) = run.actions
    assert done.status == status
    assert "missing-manifest" in done.message
    assert run.ok == (status == "yielded")


def test_a_table_that_is_paused_is_left_alone(
    stack: Stack, upkeep: Upkeep, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = needy(upkeep)
    for name, value in stack.environment().items():
        monkeypatch.setenv(name, value)
    assert run_command(["pause", table, "--reason", "moving the bucket", "--by", "ann"]) == 0
    try:
        assert run_command(["maintain", "run", table, "--no-spark"]) == 0
        assert "paused by ann: moving the bucket" in capsys.readouterr().out
    finally:
        assert run_command(["resume", table]) == 0


def test_a_run_gives_way_to_intents_that_wait_and_to_who_has_reserved_the_table(stack: Stack, upkeep: Upkeep) -> None:
    table, client = needy(upkeep), upkeep.client
    with client.begin(table, holder="a backfill"):
        run = maintain(upkeep, table, spark=Spark(), leave_out={"remove-orphans"})
    statuses = {one.action: one.status for one in run.actions}
    assert (statuses["compact"], statuses["rewrite-manifests"]) == ("reserved", "reserved")
    assert statuses["partition-statistics"] == "done"
    assert "a backfill" in run.actions[0].message
    path = written(client, table, ids=[1])
    described = data_files_from_parquet([path], client.table(table))
    daemon = stack.daemons["a"]

    class Slow(Spark):
        """While it compacts, an intent comes that the daemon does not get to."""

        def compact(self, table: str, *, go_on: Callable[[], bool]) -> tuple[Status, str]:
            assert go_on()
            daemon.pause()
            client.append(table, described)
            while go_on():  # until the intent has waited for long enough
                time.sleep(0.005)
            return super().compact(table, go_on=go_on)

    try:
        run = maintain(upkeep, table, spark=Slow(), lag_s_max=0.0001, leave_out={"remove-orphans"})
    finally:
        daemon.resume()
    assert [(one.action, one.status) for one in run.actions] == [
        ("compact", "yielded"), ("rewrite-manifests", "yielded"),
    ]  # fmt: skip
    assert run.ok


def test_what_maintenance_says_on_the_command_line(
    stack: Stack, upkeep: Upkeep, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = needy(upkeep)
    for name, value in stack.environment().items():
        monkeypatch.setenv(name, value)
    assert run_command(["maintain", "plan", table]) == 0
    told = capsys.readouterr().out
    assert f"{table}: 6 data files" in told
    rows = [line.split(maxsplit=3) for line in told.splitlines() if line.startswith(f"{table} ")]
    assert {action: do for _, action, do, _ in rows}["rewrite-manifests"] == "yes"
    assert run_command(["maintain", "run", table, "--no-spark", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["tables"]
    assert [one["action"] for one in run["actions"]] == ["rewrite-manifests", "partition-statistics", "remove-orphans"]
    assert {one["status"] for one in run["actions"]} == {"done"}
    assert run_command(["maintain", "run", table, "--no-spark"]) == 0
    assert "the table needs nothing" in capsys.readouterr().out
    assert run_command(["maintain", "plan"]) == 2
    assert run_command(["maintain", "plan", "db.none"]) == 1
    assert "there is no table 'db.none'" in capsys.readouterr().err
    check(upkeep, table)
