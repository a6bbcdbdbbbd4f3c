"""Maintenance of tables on real Redis and ZooKeeper, beside a daemon that goes on committing."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn import Client, data_files_from_parquet
from firn.coordinator.cli.main import run as run_command
from firn.coordinator.client.intents import new_intent_id
from firn.coordinator.embedded import RedisServer, ZooKeeperServer
from firn.coordinator.fsck.run import check_table
from firn.model.content_file import content_file_of
from firn.model.deletion_vector import DeletionVector
from firn.model.errors import InvalidInput, NotFound
from firn.model.intent import DeleteFiles
from firn.model.limits import Limits
from firn.model.outcome import Committed
from firn.pipeline.connection import Connection
from firn.pipeline.maintenance_plan import Action
from firn.pipeline.maintenance_run import Status, TableRun, maintain, plan_table
from firn.pipeline.manifest_rewrite import rewrite_manifests
from firn.pipeline.orphan_files import HOUR_MS, remove_orphans
from firn.pipeline.snapshot_expiry import expire_snapshots, remove_unreachable
from firn.pipeline.upkeep import Upkeep
from firn.storage.data_files import NewFile
from firn.storage.locations import normalize
from firn.storage.object_files import ObjectFiles
from firn.storage.parquet_schema import arrow_schema
from firn.storage.position_deletes import encode_position_deletes
from tests.acceptance.stack import Stack
from tests.integration.s3_server import S3Server
from tests.strategies.quiet_upkeep import QuietUpkeep
from tests.strategies.table_histories import History, live_files

LATER_MS = 10**15
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
WAIT_S = 20.0


@pytest.fixture(scope="module")
def stack(
    tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer, zookeeper_server: ZooKeeperServer
) -> Iterator[Stack]:
    """One daemon for all tests of this module."""
    redis_server.start()
    zookeeper_server.start()
    with Stack(tmp_path_factory.mktemp("upkeep"), redis_server=redis_server, zookeeper_server=zookeeper_server) as made:
        made.redis.flushall()
        made.daemon()
        yield made


@pytest.fixture
def upkeep(stack: Stack) -> Upkeep:
    return Upkeep.of(
        Connection(redis=stack.redis_url, zookeeper=stack.zookeeper_server.hosts + stack.root, timeout_s=WAIT_S)
    )


@pytest.fixture
def table(upkeep: Upkeep) -> str:
    name = f"db.t{uuid.uuid4().hex[:8]}"
    upkeep.client.create_table(name, SCHEMA).committed(WAIT_S)
    return name


def written(client: Client, table: str, *, ids: Sequence[int] = (1, 2, 3)) -> Path:
    view = client.table(table)
    path = Path(view.location, "data", f"{uuid.uuid4()}.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": list(ids)}, schema=arrow_schema(view.schema)), path)
    return path


def append(client: Client, table: str) -> str:
    path = written(client, table)
    client.append(table, data_files_from_parquet([path], client.table(table))).committed(WAIT_S)
    return str(path)


def delete(client: Client, table: str, *paths: str) -> None:
    client.delete_files(table, paths).committed(WAIT_S)


def check(stack: Stack, upkeep: Upkeep, table: str) -> None:
    """The table is whole, as `firn fsck` sees it."""
    verdict = check_table(upkeep.table(table).pointer, files=upkeep.files, limits=Limits())
    assert verdict.ok, verdict.findings


def stored(upkeep: Upkeep, table: str) -> set[str]:
    return {one.location for one in upkeep.files.list(upkeep.table(table).metadata.location)}


def test_expired_snapshots_take_their_files_along(stack: Stack, upkeep: Upkeep, table: str) -> None:
    client = upkeep.client
    gone, kept = append(client, table), append(client, table)
    delete(client, table, gone)
    newest = append(client, table)
    lists = [one.manifest_list for one in upkeep.table(table).metadata.snapshots]
    expired = expire_snapshots(upkeep, table, retain_last=1, older_than=None)
    assert isinstance(expired.answer, Committed)
    assert expired.removal is not None
    assert expired.removal.count == 0  # nothing is old enough by the table's own properties
    ids = [one.snapshot_id for one in upkeep.table(table).metadata.snapshots[:-1]]
    removal = expire_snapshots(upkeep, table, snapshot_ids=ids).removal
    assert removal is not None
    assert removal.removed == {}  # snapshots that are minutes old leave their files to the next removal
    removal = remove_unreachable(upkeep, table, now_ms=LATER_MS)
    assert removal.removed["content files"] == 1
    assert removal.removed["manifest lists"] == 3
    there = stored(upkeep, table)
    assert gone not in there
    assert {kept, newest} <= there
    assert there.isdisjoint(lists[:-1])
    assert lists[-1] in there
    assert any("/journal/" in one for one in there)
    check(stack, upkeep, table)
    assert remove_unreachable(upkeep, table, now_ms=LATER_MS).removed == {}


def test_files_of_snapshots_that_expired_with_commits_are_found(stack: Stack, upkeep: Upkeep, table: str) -> None:
    client = upkeep.client
    properties = {"firn.snapshots-max": "2", "write.metadata.previous-versions-max": "3"}
    client.update_properties(table, properties).committed(WAIT_S)
    for _ in range(14):
        delete(client, table, append(client, table))
    now = upkeep.table(table)
    assert len(now.metadata.snapshots) < 16
    told = remove_unreachable(upkeep, table, dry_run=True, now_ms=LATER_MS)
    removal = remove_unreachable(upkeep, table, now_ms=LATER_MS)
    assert removal.removed == told.removed
    assert removal.removed["manifest lists"] == 28 - len(now.metadata.snapshots)
    assert removal.removed["content files"] >= 14 - len(now.metadata.snapshots)
    there = stored(upkeep, table)
    versions = [one for one in there if one.endswith(".metadata.json")]
    assert len(versions) == 1 + len(now.metadata.metadata_log) == 4
    assert len([one for one in there if "/data/" in one]) <= len(now.metadata.snapshots)
    check(stack, upkeep, table)
    append(client, table)
    check(stack, upkeep, table)


def test_files_that_waiting_intents_and_reservations_name_stay(stack: Stack, upkeep: Upkeep, table: str) -> None:
    client = upkeep.client
    waited_for, reserved, gone = (append(client, table) for _ in range(3))
    view = client.table(table)
    again = data_files_from_parquet([waited_for], view)
    delete(client, table, waited_for, reserved, gone)
    append(client, table)
    ids = [one.snapshot_id for one in upkeep.table(table).metadata.snapshots[:-1]]
    assert expire_snapshots(upkeep, table, snapshot_ids=ids, keep_files=True).removal is None
    daemon = stack.daemons["a"]
    with client.begin(table, files=[reserved], purpose="a test"):
        daemon.pause()
        try:
            ticket = client.append(table, again)
            removal = remove_unreachable(upkeep, table, now_ms=LATER_MS)
        finally:
            daemon.resume()
    assert (removal.under_way, removal.removed["content files"]) == (2, 1)
    ticket.committed(WAIT_S)
    there = stored(upkeep, table)
    assert {waited_for, reserved} <= there
    assert gone not in there
    check(stack, upkeep, table)
    # Nothing leads to the reserved one any more: an orphan now.
    assert remove_unreachable(upkeep, table, now_ms=LATER_MS).removed == {}
    assert str(reserved) in stored(upkeep, table)


def test_nothing_is_removed_of_a_table_that_may_share_its_files(upkeep: Upkeep, table: str) -> None:
    client = upkeep.client
    delete(client, table, append(client, table))
    client.update_properties(table, {"gc.enabled": "false"}).committed(WAIT_S)
    before = stored(upkeep, table)
    with pytest.raises(InvalidInput, match=r"gc\.enabled"):
        remove_unreachable(upkeep, table)
    assert stored(upkeep, table) == before
    with pytest.raises(NotFound):
        remove_unreachable(upkeep, "db.none")


def test_an_intent_that_waits_keeps_its_old_files_and_is_committed_later(
    stack: Stack, upkeep: Upkeep, table: str
) -> None:
    """The writer died after it had submitted, days ago, and the daemon was down all the time."""
    client = upkeep.client
    append(client, table)
    orphan, waits, in_batch = (written(client, table) for _ in range(3))
    view = client.table(table)
    described, batched = data_files_from_parquet([waits], view), data_files_from_parquet([in_batch], view)
    daemon = stack.daemons["a"]
    daemon.pause()
    try:
        tickets = [client.append(table, described), client.append(table, batched)]
        told = remove_orphans(upkeep, table, now_ms=LATER_MS)
        assert told.locations == (str(orphan),)
        assert orphan.exists()
        found = remove_orphans(upkeep, table, now_ms=LATER_MS, dry_run=False)
    finally:
        daemon.resume()
    assert (found.locations, found.under_way) == ((str(orphan),), 2)
    for ticket in tickets:
        ticket.committed(WAIT_S)
    assert not orphan.exists()
    assert waits.exists()
    check(stack, upkeep, table)
    assert remove_orphans(upkeep, table, now_ms=LATER_MS).count == 0


def test_orphans_go_while_a_table_is_written_to(stack: Stack, upkeep: Upkeep, table: str) -> None:
    """Everything is taken for old. Writers that leave files lying before they submit them have reserved the table."""
    client = upkeep.client
    orphan = written(client, table)
    os.utime(orphan, (0, 0))
    stop, made = threading.Event(), []

    def write() -> None:
        while not stop.is_set():
            made.append(append(client, table))

    writers = [threading.Thread(target=write) for _ in range(2)]
    with client.begin(table, purpose="two writers"):
        for writer in writers:
            writer.start()
        try:
            found = [remove_orphans(upkeep, table, now_ms=LATER_MS, dry_run=False).locations for _ in range(4)]
            remove_unreachable(upkeep, table)
        finally:
            stop.set()
            for writer in writers:
                writer.join()
    assert found == [(str(orphan),), (), (), ()]
    assert set(made) <= stored(upkeep, table)
    check(stack, upkeep, table)


def test_expiry_and_orphans_on_an_object_store() -> None:
    with S3Server() as s3:
        files = ObjectFiles(s3.options, sleep=lambda _seconds: None)
        history = History(files=files, location="s3a://bucket/wh/t")
        gone, kept, orphan = history.file(), history.file(), history.file()
        history.commit(gone, kept)
        history.commit(removed=[gone])
        history.commit(history.file())
        history.expire([1, 2])
        upkeep = QuietUpkeep(history)
        removed = remove_unreachable(upkeep, "db.t", now_ms=LATER_MS).removed
        assert removed["content files"] == 1
        assert remove_orphans(upkeep, "db.t", now_ms=LATER_MS).locations == (orphan.file_path.replace("s3a:", "s3:"),)
        remove_orphans(upkeep, "db.t", now_ms=LATER_MS, dry_run=False)
        assert {*map(normalize, history.stored())} == {*map(normalize, history.reachable())}
        files.close()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_manifests_are_rewritten_by_partition(stack: Stack, upkeep: Upkeep, version: int) -> None:
    client, table = upkeep.client, f"db.m{version}"
    spec = {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "id", "transform": "identity"}]}
    client.create_table(table, SCHEMA, partition_spec=spec, format_version=version).committed(WAIT_S)
    for number in (3, 1, 2, 3, 1, 2):
        path = written(client, table, ids=[number])
        client.append(table, data_files_from_parquet([path], client.table(table))).committed(WAIT_S)
    before = live_files(upkeep.table(table).metadata, upkeep.files)
    done = rewrite_manifests(upkeep, table)
    assert isinstance(done.answer, Committed)
    assert (done.before, done.after, done.files) == (6, 1, 6)
    now = upkeep.table(table).metadata
    after = live_files(now, upkeep.files)
    assert sorted(after, key=lambda one: one.file_path) == sorted(before, key=lambda one: one.file_path)
    assert [one.partition for one in after] == [(1,), (1,), (2,), (2,), (3,), (3,)]
    assert rewrite_manifests(upkeep, table).answer is None
    check(stack, upkeep, table)


def test_manifests_that_others_took_away_are_planned_anew(
    stack: Stack, upkeep: Upkeep, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = upkeep.client
    paths = [append(client, table) for _ in range(4)]
    submit = client.submit
    waits = iter(paths)

    def submit_late(intent: Any) -> Any:
        path = next(waits, None)
        if path in paths[:1]:
            submit(DeleteFiles(intent_id=new_intent_id(), table=table, removed_data_files=(path,))).committed(WAIT_S)
        return submit(intent)

    monkeypatch.setattr(client, "submit", submit_late)
    done = rewrite_manifests(upkeep, table)
    assert isinstance(done.answer, Committed)
    assert done.files == 3
    assert sorted(one.file_path for one in live_files(upkeep.table(table).metadata, upkeep.files)) == sorted(paths[1:])
    check(stack, upkeep, table)


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


def test_a_run_does_what_the_plan_says_and_then_nothing_is_left(stack: Stack, upkeep: Upkeep) -> None:
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
    assert messages["partition-statistics"] == "1 partitions counted"
    # The daemon's clock is today's, so nothing is old enough for it to expire.
    assert messages["remove-orphans"].startswith("1 of ")
    check(stack, upkeep, table)
    left = plan_table(upkeep, table, now_ms=now_ms).wanted
    assert set(left) <= {"compact", "distinct-values", "expire"}  # which the stand-in, and the clock, did not do
    without = maintain(upkeep, table, spark=spark, now_ms=now_ms, leave_out={"compact", "distinct-values", "expire"})
    assert without.actions == ()


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


def test_deletes_that_reach_nothing_any_more_go_without_spark(stack: Stack, upkeep: Upkeep) -> None:
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
    assert (done.status, done.message) == ("done", "1 delete files removed that reached nothing")
    assert spark.asked == []
    assert dangling not in [file.file_path for file in live_files(upkeep.table(table).metadata, upkeep.files)]
    assert maintain(upkeep, table, spark=spark, leave_out=others).actions == ()
    check(stack, upkeep, table)


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
    check(stack, upkeep, table)
