"""The warehouse's disk goes under two daemons, and comes back: nothing is refused, lost, or made anywhere else."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.coordinator.client import Client, Intents, TableView, Unknown
from firn.coordinator.client.data_files import data_files_from_parquet
from firn.storage.locations import MARK_NAME
from firn.storage.parquet_schema import arrow_schema
from tests.acceptance.stack import Stack

TABLES: dict[str, Literal["metastore", "file-system"]] = {"db.events": "metastore", "db.files": "file-system"}
COLUMNS = {"type": "struct", "fields": [{"id": 1, "name": "n", "type": "long", "required": False}]}
MAKE = Intents()
READY_S = 30.0


@pytest.mark.timeout(120)
def test_a_disk_that_goes_stops_commits_and_starts_them_again_when_it_is_back(stack: Stack) -> None:
    stack.daemon("a")
    daemons = [stack.daemon("b")]
    aside = stack.folder / "aside"
    with stack.client() as client:
        for table, catalog in TABLES.items():
            client.create_table(table, COLUMNS, catalog=catalog).committed(READY_S)
        views = {table: client.table(table) for table in TABLES}
        files = {table: [_file(view, n) for n in range(4)] for table, view in views.items()}
        sources = {t: [data_files_from_parquet([f], views[t]) for f in files[t]] for t in TABLES}
        for table in TABLES:
            client.submit(MAKE.append(table, sources[table][0])).committed(READY_S)
        stack.warehouse.rename(aside)
        stack.warehouse.mkdir()
        waiting = [client.submit(MAKE.append(table, sources[table][1])) for table in TABLES]
        made = client.create_table("db.new", COLUMNS)
        _until_stalled(stack, len(TABLES))
        stack.daemons["a"].kill()
        daemons.append(stack.daemon("c"))  # starts without the disk
        waiting += [client.submit(MAKE.append(table, sources[table][2])) for table in TABLES]
        doctor = stack.firn("doctor")
        assert doctor.returncode == 1
        assert f"its mark {MARK_NAME} is missing" in doctor.stdout
        assert list(stack.warehouse.iterdir()) == []
        assert all(isinstance(one.result(0.1), Unknown) for one in (*waiting, made))
        stack.warehouse.rmdir()
        aside.rename(stack.warehouse)
        for one in (*waiting, made):
            one.committed(READY_S)
        for table in TABLES:
            client.submit(MAKE.append(table, sources[table][3])).committed(READY_S)
            assert _rows(client, table) == 4
    fsck = stack.firn("fsck", "--all", "--deep")
    assert fsck.returncode == 0, fsck.stdout + fsck.stderr
    assert "is the one that the daemons know" in stack.firn("doctor").stdout
    assert not any(record for daemon in daemons for record in daemon.log_records("critical"))


def _file(view: TableView, number: int) -> Path:
    path = Path(view.location) / "data" / f"{number}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"n": [number]}, schema=arrow_schema(view.schema)), path)
    return path


def _rows(client: Client, table: str) -> int:
    snapshot = client.table(table).metadata.current_snapshot
    assert snapshot is not None
    assert snapshot.summary is not None
    return int(snapshot.summary["total-records"])


def _until_stalled(stack: Stack, tables: int) -> None:
    ends_at = time.monotonic() + READY_S
    while sum(daemon.metric("firn_stalled_tables") for daemon in stack.daemons.values()) < tables:
        assert time.monotonic() < ends_at, [daemon.log()[-2000:] for daemon in stack.daemons.values()]
        time.sleep(0.1)
