"""Named consumers of a table's changes, with real servers: expiry waits for them, and what it took is never made up."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn import ChangesUnavailableError, Client, ConsumerMovedError, data_files_from_parquet
from firn.model.expressions.binding import bind
from firn.model.expressions.predicates import TRUE
from firn.model.scan_plan import FileScanTask, ScanMetrics, ScanPlan
from firn.storage.arrow_rows import Row
from firn.storage.incremental_scan import SnapshotRange
from firn.storage.local_files import LocalFiles
from firn.storage.manifest_reader import StoredManifests
from firn.storage.parquet_schema import arrow_schema
from firn.storage.scan_rows import scan_rows
from firn.storage.snapshot_changes import changes_of
from tests.acceptance.stack import Stack

TABLE, OTHER = "db.events", "db.renamed"
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}


def write(client: Client, folder: Path, table: str, *ids: int) -> str:
    """Append a file of these rows; its location."""
    view = client.table(table)
    path = folder / f"{time.monotonic_ns()}.parquet"
    place = Path(view.location.removeprefix("file://")) / "data" / path.name
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": list(ids)}, schema=arrow_schema(view.schema)), place)
    client.append(table, data_files_from_parquet([str(place)], view)).committed(30)
    return str(place)


def unread(client: Client, table: str, name: str) -> tuple[list[tuple[str, int]], int | None, int | None]:
    """What came for a consumer and what went, where it is, and where that ends."""
    status, view = client.consumers.look_at(table, name)
    at, metadata = status.consumer, view.metadata
    window = SnapshotRange(
        from_snapshot_id=at.snapshot_id, table_uuid=view.uuid, from_beginning=at.snapshot_id is None, branch=at.branch
    )
    files, schema = LocalFiles(), metadata.current_schema

    def ids(tasks: tuple[FileScanTask, ...]) -> list[int]:
        plan = ScanPlan(
            snapshot_id=None, schema=schema, projection=schema, filter=TRUE, tasks=tasks, metrics=ScanMetrics()
        )
        rows: list[Row] = [row for part in scan_rows(plan, metadata, files=files) for row in part]
        return [row[1] for row in rows]

    found = changes_of(
        metadata, window.resolve(metadata), manifests=StoredManifests(files), files=files, filter=bind(TRUE, schema)
    )
    told: list[tuple[str, int]] = []
    for one in found:
        told += [("insert", number) for number in ids(one.inserted)] + [
            ("delete", number) for number in ids(one.deleted)
        ]
    return sorted(told), at.snapshot_id, metadata.current_snapshot_id


def expire(client: Client, table: str) -> None:
    """Let everything expire that may."""
    client.expire_snapshots(table, older_than=datetime.now(UTC), retain_last=1).committed(30)


def fsck(stack: Stack) -> None:
    for table in (TABLE, OTHER):
        found = stack.firn("fsck", table, "--deep")
        assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.timeout(120)
def test_expiry_waits_for_a_consumer_says_what_it_costs_and_a_table_made_anew_is_refused(
    stack: Stack, tmp_path: Path
) -> None:
    daemon = stack.daemon()
    with stack.client(zookeeper=stack.zookeeper_server.hosts + stack.root) as client:
        client.create_table(TABLE, SCHEMA, format_version=2).committed(30)
        client.consumers.set(TABLE, "from-start")
        first = write(client, tmp_path, TABLE, 1, 2)
        client.consumers.set(TABLE, "etl")
        write(client, tmp_path, TABLE, 3)
        client.delete_files(TABLE, [first]).committed(30)
        write(client, tmp_path, TABLE, 4)
        done = stack.firn("spark", "expire", TABLE, "--older-than", "0s", "--retain-last", "1")
        assert done.returncode == 0, done.stderr
        assert unread(client, TABLE, "from-start")[0] == [
            *(("delete", number) for number in (1, 2)),
            *(("insert", number) for number in (1, 2, 3, 4)),
        ]
        assert client.consumers.remove(TABLE, "from-start")
        changes, base, end = unread(client, TABLE, "etl")
        assert changes == [("delete", 1), ("delete", 2), ("insert", 3), ("insert", 4)]
        assert base is not None
        assert end is not None

        # It moves once, also if the answer is asked for again; who has read the same cannot move it after that.
        for _ in range(2):
            client.consumers.advance(TABLE, "etl", expected=base, to=end)
        write(client, tmp_path, TABLE, 5)
        newer = client.table(TABLE).snapshot_id
        assert newer is not None
        with pytest.raises(ConsumerMovedError):
            client.consumers.advance(TABLE, "etl", expected=base, to=newer)
        expire(client, TABLE)
        assert unread(client, TABLE, "etl")[0] == [("insert", 5)]
        assert client.table(TABLE).metadata.snapshot_by_id(base) is None, "nobody needs what it has read"

        # A hold ends: it is reported, the history goes, and the consumer is refused.
        client.consumers.set(TABLE, "late", snapshot_id=end, hold_days=0.00001)
        client.consumers.advance(TABLE, "etl", expected=end, to=newer)
        ends_at = time.monotonic() + 20
        while not (lapsed := [e for e in stack.events() if e["type"] == "firn.consumer.lapsed"]):
            assert time.monotonic() < ends_at
            time.sleep(0.2)
        assert (lapsed[0]["data"]["consumer"], lapsed[0]["data"]["behind"]) == ("late", 1)
        assert daemon.metric("firn_consumers_left_total") == 1
        listed = stack.firn("consumer", "list", TABLE)
        assert listed.returncode == 1
        assert "behind by 1 snapshot" in listed.stdout
        assert "lapsed" in listed.stdout
        write(client, tmp_path, TABLE, 6)
        expire(client, TABLE)
        assert unread(client, TABLE, "late")[0] == [("insert", 5), ("insert", 6)], "its own snapshot only is gone"
        last = client.table(TABLE).snapshot_id
        assert last is not None
        client.consumers.advance(TABLE, "etl", expected=newer, to=last)
        write(client, tmp_path, TABLE, 7)
        expire(client, TABLE)
        with pytest.raises(ChangesUnavailableError) as refused:
            unread(client, TABLE, "late")
        assert refused.value.reason == "base-expired"
        shown = json.loads(stack.firn("consumer", "show", TABLE, "late", "--json").stdout)
        assert shown["state"] == "lost"
        assert unread(client, TABLE, "etl")[0] == [("insert", 7)]

        # A renamed table keeps its consumers; one that gets its name has none of them.
        client.rename_table(TABLE, OTHER).committed(30)
        assert unread(client, OTHER, "etl")[0] == [("insert", 7)]
        client.create_table(TABLE, SCHEMA).committed(30)
        client.consumers.set(TABLE, "etl")
        write(client, tmp_path, TABLE, 8)
        client.drop_table(TABLE).committed(30)
        client.create_table(TABLE, SCHEMA, location=f"{stack.warehouse}/anew").committed(30)
        with pytest.raises(ChangesUnavailableError) as refused:
            unread(client, TABLE, "etl")
        assert refused.value.reason == "table-replaced"
        write(client, tmp_path, TABLE, 9)
    fsck(stack)
