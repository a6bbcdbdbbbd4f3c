"""Files that nothing needs go, manifests are put in order: on real servers, beside a daemon that goes on committing."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from firn import data_files_from_parquet
from firn.coordinator.client.intents import new_intent_id
from firn.model.errors import InvalidInput, NotFound
from firn.model.intent import DeleteFiles
from firn.model.outcome import Committed
from firn.pipeline.manifest_rewrite import rewrite_manifests
from firn.pipeline.orphan_files import remove_orphans
from firn.pipeline.snapshot_expiry import expire_snapshots, remove_unreachable
from firn.pipeline.upkeep import Upkeep
from firn.storage.journal import is_journal_file
from firn.storage.locations import normalize
from firn.storage.object_files import ObjectFiles
from tests.acceptance.stack import Stack
from tests.integration.maintenance.kept_tables import LATER_MS, SCHEMA, WAIT_S, append, check, delete, stored, written
from tests.integration.s3_server import S3Server
from tests.strategies.quiet_upkeep import QuietUpkeep
from tests.strategies.table_histories import History, live_files


def test_expired_snapshots_take_their_files_along(upkeep: Upkeep, table: str) -> None:
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
    assert any(map(is_journal_file, there))
    check(upkeep, table)
    assert remove_unreachable(upkeep, table, now_ms=LATER_MS).removed == {}


def test_files_of_snapshots_that_expired_with_commits_are_found(upkeep: Upkeep, table: str) -> None:
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
    check(upkeep, table)
    append(client, table)
    check(upkeep, table)


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
    check(upkeep, table)
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
    check(upkeep, table)
    assert remove_orphans(upkeep, table, now_ms=LATER_MS).count == 0


def test_orphans_go_while_a_table_is_written_to(upkeep: Upkeep, table: str) -> None:
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
    check(upkeep, table)


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
def test_manifests_are_rewritten_by_partition(upkeep: Upkeep, version: int) -> None:
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
    check(upkeep, table)


def test_manifests_that_others_took_away_are_planned_anew(
    upkeep: Upkeep, table: str, monkeypatch: pytest.MonkeyPatch
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
    check(upkeep, table)
