"""Statistics are those that Iceberg's own library computes: the same sketches, the same partition counts."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.coordinator.cli.main import run as run_command
from firn.model.puffin import BlobMetadata
from firn.pipeline.manifest_rewrite import rewrite_manifests
from firn.pipeline.ndv_statistics import compute_statistics
from firn.pipeline.partition_statistics import compute_partition_statistics
from firn.pipeline.row_level import delete_where
from firn.pipeline.upkeep import Upkeep
from firn.pipeline.writes import append
from firn.storage.puffin import PuffinFile
from firn.storage.theta import THETA_MAX, sketch_from_bytes
from tests.spark.lake import Lake, committed

TYPES: dict[str, Any] = {
    "id": "long", "int": "int", "bool": "boolean", "float": "float", "double": "double", "day": "date",
    "at": "timestamptz", "local": "timestamp", "dec": "decimal(12,2)", "big": "decimal(38,4)", "text": "string",
    "bytes": "binary", "one": "string", "none": "long",
    "nested": {"type": "struct", "fields": [{"id": 100, "name": "x", "type": "int", "required": False}]},
}  # fmt: skip
"""`many` values of each but the last; enough of `id` and `text` that their sketches are full."""


def rows(lake: Lake, count: int, *, first: int = 0, tasks: int = 1):
    return lake.spark.range(first, first + count, numPartitions=tasks).selectExpr(
        "id",
        "CAST(id % 700 - 350 AS int) AS int",
        "IF(id % 5 = 0, NULL, id % 2 = 0) AS bool",
        "CAST(IF(id % 7 = 0, 'NaN', CAST(id % 11 - 5 AS string)) AS float) AS float",
        "IF(id % 3 = 0, -0.0D, CAST(id * 0.37 AS double)) AS double",
        "date_add(DATE'1969-06-01', CAST(id % 900 AS int)) AS day",
        "timestamp_micros(id * 1000003) AS at",
        "CAST(timestamp_micros(-id * 977) AS timestamp_ntz) AS local",
        "CAST((id % 3000 - 1500) / 7 AS decimal(12,2)) AS dec",
        "CAST(id * 12345678901 AS decimal(38,4)) AS big",
        "IF(id % 100 = 0, '', concat('wört-', id * 7 % 9973)) AS text",
        "CAST(concat('b', id % 50) AS binary) AS bytes",
        "'x' AS one",
        "CAST(NULL AS bigint) AS none",
        "named_struct('x', CAST(id % 13 AS int)) AS nested",
    )


def java_table(lake: Lake, table: str) -> Any:
    spark = lake.spark
    jvm = spark._jvm
    assert jvm is not None
    tables = jvm.org.apache.iceberg.hadoop.HadoopTables(spark._jsparkSession.sessionState().newHadoopConf())
    return tables.load(lake.view(table).location)


def java_statistics(lake: Lake, table: str, columns: list[str]) -> dict[int, tuple[bytes, BlobMetadata]]:
    """What Iceberg's Spark action computes; it commits as another writer does."""
    spark = lake.spark
    assert spark._jvm is not None
    assert spark._sc._gateway is not None
    names = spark._sc._gateway.new_array(spark._jvm.java.lang.String, len(columns))
    for at, name in enumerate(columns):
        names[at] = name
    actions = spark._jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)
    actions.computeTableStats(java_table(lake, table)).columns(names).execute()
    # firn hears of another writer's commit when it commits itself.
    lake.client.update_properties(table, {"look": "again"}).committed(60)
    return blobs_of(lake, table)


def blobs_of(lake: Lake, table: str) -> dict[int, tuple[bytes, BlobMetadata]]:
    """The sketches of the table's one statistics file, by column."""
    (statistics,) = lake.view(table).metadata.statistics
    path = statistics["statistics-path"]
    store = lake.connection.store()
    data = store.read(path, bytes_max=10**8)
    assert len(data) == statistics["file-size-in-bytes"]
    puffin = PuffinFile.parse(data, location=path)
    footer_bytes = len(data) - max(blob.end for blob in puffin.metadata.blobs)
    assert statistics["file-footer-size-in-bytes"] == footer_bytes
    assert [dict(blob.properties) for blob in puffin.metadata.blobs] == [
        blob["properties"] for blob in statistics["blob-metadata"]
    ]
    return {blob.fields[0]: (puffin.read(blob), blob) for blob in puffin.metadata.blobs}


def same(ours: dict[int, tuple[bytes, BlobMetadata]], theirs: dict[int, tuple[bytes, BlobMetadata]]) -> None:
    assert ours.keys() == theirs.keys()
    for field_id, (data, blob) in ours.items():
        other, other_blob = theirs[field_id]
        assert data == other, f"column {field_id}"
        assert dict(blob.properties) == dict(other_blob.properties)
        assert (blob.type, blob.snapshot_id, blob.sequence_number, blob.compression_codec) == (
            other_blob.type, other_blob.snapshot_id, other_blob.sequence_number, other_blob.compression_codec,
        )  # fmt: skip


def test_sketches_have_the_bytes_of_the_java_reference(lake: Lake) -> None:
    """Of full sketches, whose bytes depend on the order of values, too: one file is one task for both."""
    table = lake.create(TYPES)
    committed(append(rows(lake, 15_000), table))
    names = [name for name in TYPES if name != "nested"]
    theirs = java_statistics(lake, table, names)
    found = compute_statistics(lake.spark, table)
    committed(found.answer)
    same(blobs_of(lake, table), theirs)
    assert found.estimates["one"] == 1
    assert found.estimates["none"] == 0
    full = [sketch_from_bytes(data, location="").theta < THETA_MAX for data, _ in theirs.values()]
    assert sum(full) > 3
    assert not all(full)


def test_sketches_of_several_tasks_and_deleted_rows_are_united(lake: Lake) -> None:
    table = lake.create({"id": "long", "region": "string"}, version=3, partition=(("region", "identity"),))
    for first in (0, 500):
        frame = lake.spark.range(first, first + 700).selectExpr("id", "IF(id % 3 = 0, 'eu', 'us') AS region")
        committed(append(frame, table))
    committed(delete_where(lake.spark, table, "id < 100", mode="merge-on-read"))
    theirs = java_statistics(lake, table, ["id", "region"])
    found = compute_statistics(lake.spark, table, columns=["id", "region"])
    same(blobs_of(lake, table), theirs)
    assert found.estimates == {"id": 1_100, "region": 2}


@pytest.mark.parametrize("version", [2, 3])
def test_partition_statistics_are_those_of_the_java_reference(lake: Lake, version: int) -> None:
    table = lake.create(version=version, partition=(("region", "identity"), ("ts", "day")))
    committed(append(lake.events(0, 12), table))
    committed(delete_where(lake.spark, table, "id in (1, 7)", mode="merge-on-read"))
    lake.client.update_spec(table, base=lake.view(table)).remove_field("ts_1").submit().committed(60)
    committed(append(lake.events(10, 16), table))
    committed(delete_where(lake.spark, table, "id = 15", mode="copy-on-write"))
    assert lake.spark._jvm is not None
    handler = lake.spark._jvm.org.apache.iceberg.PartitionStatsHandler
    made = handler.computeAndWriteStatsFile(java_table(lake, table))
    theirs = pq.read_table(made.path().removeprefix("file:"))
    upkeep = Upkeep.of(lake.connection)
    done = compute_partition_statistics(upkeep, table)
    committed(done.answer)
    assert done.location is not None
    ours = pq.read_table(done.location)
    assert [ids(field) for field in ours.schema] == [ids(field) for field in theirs.schema]
    assert ours.column_names == theirs.column_names
    assert sorted(map(repr, ours.to_pylist())) == sorted(map(repr, theirs.to_pylist()))
    scan = java_table(lake, table).newPartitionStatisticsScan().useSnapshot(lake.view(table).snapshot_id).scan()
    read = [(one.specId(), one.dataRecordCount(), one.dvCount()) for one in each(scan)]
    vectors = ours["dv_count"].to_pylist() if version == 3 else [None] * len(read)
    expected = zip(ours["spec_id"].to_pylist(), ours["data_record_count"].to_pylist(), vectors, strict=True)
    assert sorted(map(repr, read)) == sorted(map(repr, expected))

    before = {tuple(row) for row in lake.by_java(table).collect()}
    rewritten = rewrite_manifests(upkeep, table)
    committed(rewritten.answer)
    assert rewritten.before > rewritten.after
    assert {tuple(row) for row in lake.by_java(table).collect()} == before


def ids(field: pa.Field) -> Any:
    own = field.metadata[b"PARQUET:field_id"], field.nullable
    return (own, [ids(child) for child in field.type]) if pa.types.is_struct(field.type) else own


def each(iterable: Any) -> list[Any]:
    found, iterator = [], iterable.iterator()
    while iterator.hasNext():
        found.append(iterator.next())
    return found


def test_a_run_of_maintenance_starts_spark_for_what_reads_rows(
    lake: Lake, sessions: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    table = lake.create(partition=(("region", "identity"),), firn_maintain_statistics="all")
    lake.client.update_properties(table, {"firn.compaction.min-input-files": "2"}).committed(60)
    for first in range(0, 12, 6):
        committed(append(lake.events(first, first + 6), table))
    assert run_command(["maintain", "run", table, "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["tables"]
    statuses = {one["action"]: one["status"] for one in run["actions"]}
    assert statuses == dict.fromkeys(("compact", "partition-statistics", "distinct-values", "remove-orphans"), "done")
    assert sessions == ["firn maintain"]
    assert lake.ids(table) == list(range(12))
    assert len(lake.view(table).metadata.statistics) == 1
    assert run_command(["maintain", "run", table]) == 0
    assert "the table needs nothing" in capsys.readouterr().out
    assert sessions == ["firn maintain"]
