"""Tables that Spark and PyIceberg made are registered and committed to by firn; they read it and go on from there.

The daemon is a real one on the twins of Redis and ZooKeeper; files and the other engines are real.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from firn.coordinator.client import TableView, data_files_from_parquet
from firn.coordinator.fsck.run import check_table
from firn.model.intent import Append, CreateTable, DeleteFiles, RegisterTable
from firn.model.operations.refs import CreateBranch, FastForward
from firn.model.outcome import Committed
from firn.storage.file_stores import open_files
from firn.storage.file_system_tables import FileSystemTables
from firn.storage.parquet_schema import arrow_schema
from firn.storage.pointers import Pointers
from tests.unit.coordinator.workbench import SCHEMA, Workbench, new_id

FILES = open_files({"file": {}})


def make_bench(warehouse: Path) -> Workbench:
    return Workbench(files=FILES, warehouse=str(warehouse))


async def append_rows(
    bench: Workbench, table: str, metadata_location: str, rows: pa.Table, branch: str = "main"
) -> tuple[Committed, str]:
    """Write rows to a file of the table and commit it through firn; the outcome, and where the file is."""
    view = TableView.from_metadata(metadata_location, FILES, name=table)
    path = Path(view.location, "data", f"firn-{uuid.uuid4().hex}.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {field.name: [None] * len(rows) for field in arrow_schema(view.schema)} | rows.to_pydict()
    pq.write_table(pa.table(known, schema=arrow_schema(view.schema)), path)
    files = tuple(data_files_from_parquet([str(path)], view))
    intent = Append(intent_id=new_id(), table=table, branch=branch, data_files=files)
    return await bench.commit(intent), files[0].file_path


async def clean(bench: Workbench, table: str) -> bool:
    pointer = (await Pointers(bench.zookeeper.connect()).read(table)).pointer
    verdict = check_table(pointer, files=FILES, limits=bench.limits)
    assert verdict.ok, "\n".join(f"{f.invariant} {f.where}: {f.message}" for f in verdict.findings)
    return verdict.ok


def rows_of(first: int, last: int, **extra: Any) -> pa.Table:
    ids = list(range(first, last))
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{i}" for i in ids], **extra})


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_spark_and_firn_take_turns_on_a_table_that_spark_made(
    spark: SparkSession, warehouse: Path, version: int
) -> None:
    name = f"turns_v{version}"
    spark.sql(
        f"CREATE TABLE wh.db.{name} (id BIGINT, name STRING) USING iceberg PARTITIONED BY (truncate(1000, id)) "
        f"TBLPROPERTIES ('format-version'='{version}')"
    )
    spark.sql(f"INSERT INTO wh.db.{name} VALUES (1, 'n1'), (2, 'n2')")
    location = str(warehouse / "db" / name)
    tables = FileSystemTables(FILES)
    bench = make_bench(warehouse)
    async with bench.daemon():
        register = RegisterTable(intent_id=new_id(), table=f"db.{name}", location=location, catalog="file-system")
        await bench.commit(register)
        newest = tables.newest(location)
        assert newest is not None
        _, path = await append_rows(bench, f"db.{name}", newest, rows_of(3, 6))
        spark.sql(f"REFRESH TABLE wh.db.{name}")
        spark.sql(f"INSERT INTO wh.db.{name} VALUES (6, 'n6')")  # a foreign commit on top of firn's
        newest = tables.newest(location)
        assert newest is not None
        await append_rows(bench, f"db.{name}", newest, rows_of(7, 9))
        spark.sql(f"REFRESH TABLE wh.db.{name}")
        found = [tuple(row) for row in spark.sql(f"SELECT id, name FROM wh.db.{name} ORDER BY id").collect()]
        assert found == [(i, f"n{i}") for i in range(1, 9)]
        await bench.commit(DeleteFiles(intent_id=new_id(), table=f"db.{name}", removed_data_files=(path,)))
        spark.sql(f"REFRESH TABLE wh.db.{name}")
        left = [row.id for row in spark.sql(f"SELECT id FROM wh.db.{name} ORDER BY id").collect()]
        assert left == [1, 2, 6, 7, 8]
        kinds = spark.sql(f"SELECT operation FROM wh.db.{name}.snapshots ORDER BY committed_at").collect()
        assert [row.operation for row in kinds] == ["append", "append", "append", "append", "delete"]
        assert await clean(bench, f"db.{name}")


@pytest.mark.parametrize("version", [1, 2])
async def test_firn_commits_to_a_table_that_pyiceberg_made(tmp_path: Path, version: int) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "wh"))
    catalog.create_namespace("db")
    made = catalog.create_table("db.t", rows_of(0, 1).schema, properties={"format-version": str(version)})
    made.append(rows_of(1, 4))
    bench = make_bench(tmp_path / "wh")
    async with bench.daemon():
        location = made.metadata_location.removeprefix("file://")
        await bench.commit(RegisterTable(intent_id=new_id(), table="db.t", metadata_location=location))
        outcome, _ = await append_rows(bench, "db.t", location, rows_of(4, 7))
        assert outcome.metadata_location is not None
        found = StaticTable.from_metadata(outcome.metadata_location).scan().to_arrow()
        assert sorted(found.column("id").to_pylist()) == [1, 2, 3, 4, 5, 6]
        assert await clean(bench, "db.t")
    catalog.close()


def ids_at(metadata_location: str | None, ref: str) -> list[int]:
    """Return the ids that PyIceberg reads from a branch."""
    assert metadata_location is not None
    table = StaticTable.from_metadata(metadata_location)
    snapshot = table.snapshot_by_name(ref)
    scan = table.scan(snapshot_id=None if snapshot is None else snapshot.snapshot_id)
    return sorted(scan.to_arrow().column("id").to_pylist())


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_pyiceberg_reads_a_new_table_that_is_written_audited_and_published_by_branch(
    tmp_path: Path, version: int
) -> None:
    bench = make_bench(tmp_path / "wh")
    async with bench.daemon():
        await bench.commit(CreateTable(intent_id=new_id(), table="db.t", schema=SCHEMA, format_version=version))
        made = await bench.commit(CreateBranch(intent_id=new_id(), table="db.t", ref_name="audit"))
        assert ids_at(made.metadata_location, "audit") == []
        assert made.metadata_location is not None
        written, _ = await append_rows(bench, "db.t", made.metadata_location, pa.table({"id": [1, 2, 3]}), "audit")
        assert ids_at(written.metadata_location, "main") == []
        assert ids_at(written.metadata_location, "audit") == [1, 2, 3]
        published = await bench.commit(FastForward(intent_id=new_id(), table="db.t", to="audit"))
        assert ids_at(published.metadata_location, "main") == [1, 2, 3]
        assert await clean(bench, "db.t")
