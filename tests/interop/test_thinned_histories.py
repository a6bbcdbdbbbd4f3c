"""Other engines read every snapshot that is left of a history that was thinned out."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from firn.coordinator.daemon import Daemon, wall_clock_ms
from firn.model.history import reach_of
from firn.model.intent import CreateTable
from firn.storage.file_system_tables import FileSystemTables
from tests.interop.test_committed_by_firn import FILES, append_rows, clean, make_bench
from tests.unit.coordinator.workbench import SCHEMA, new_id

COMMITS = 40
HOURS = 5
"""Hours from one commit to the next."""


@pytest.mark.parametrize("version", [2, 3])
async def test_each_snapshot_that_is_left_is_read_by_its_id_and_the_newest_by_their_time(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    name, now_ms = f"thinned_v{version}", [wall_clock_ms() - COMMITS * HOURS * 3_600_000]
    monkeypatch.setattr("tests.unit.coordinator.workbench.Daemon", partial(Daemon, wall_ms=lambda: now_ms[0]))
    bench, rows_at = make_bench(warehouse), dict[int, int]()
    async with bench.daemon():
        made = await bench.commit(
            CreateTable(
                intent_id=new_id(), table=f"db.{name}", schema=SCHEMA, format_version=version, catalog="file-system",
                properties={"firn.snapshots-max": "10"},
            )
        )  # fmt: skip
        location = made.metadata_location
        for number in range(COMMITS):
            assert location is not None
            now_ms[0] += HOURS * 3_600_000
            outcome, _ = await append_rows(bench, f"db.{name}", location, pa.table({"id": [number]}))
            assert outcome.snapshot_id is not None
            rows_at[outcome.snapshot_id], location = number + 1, outcome.metadata_location
        assert await clean(bench, f"db.{name}")
        metadata = await bench.metadata(f"db.{name}")
    left = {one.snapshot_id: one.timestamp_ms for one in metadata.snapshots}
    reach = reach_of(metadata)
    assert 10 <= len(left) < 24
    assert reach.oldest_ms is not None
    assert reach.whole_since_ms is not None
    assert reach.oldest_ms < reach.whole_since_ms, "there is a gap"

    newest = FileSystemTables(FILES).newest(str(warehouse / "db" / name))
    assert newest is not None
    table = StaticTable.from_metadata(newest)
    counted = {one: len(table.scan(snapshot_id=one, selected_fields=("id",)).to_arrow()) for one in left}
    assert counted == {one: rows_at[one] for one in left}
    for snapshot_id, at_ms in left.items():
        found = table.snapshot_as_of_timestamp(at_ms)
        assert (None if found is None else found.snapshot_id) == (
            snapshot_id if at_ms >= reach.whole_since_ms else None
        ), "by time there is what is certain"

    union = " UNION ALL ".join(
        f"SELECT {one} AS s, count(*) AS n FROM wh.db.{name} VERSION AS OF {one}" for one in left
    )
    assert {row.s: row.n for row in spark.sql(union).collect()} == counted
    oldest = reach.whole_since_ms / 1000
    by_time = spark.sql(f"SELECT count(*) AS n FROM wh.db.{name} TIMESTAMP AS OF {oldest}").collect()
    assert by_time[0].n == next(counted[one] for one, at_ms in left.items() if at_ms == reach.whole_since_ms)
