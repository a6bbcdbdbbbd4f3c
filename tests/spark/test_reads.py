"""What a table holds is what Spark gets, whatever files and deletes it is made of."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from firn.coordinator.client import TableView
from firn.model.errors import ChangesUnavailableError, InvalidInput, NotFound
from firn.pipeline import session_copy
from firn.pipeline.change_feed import read_changes
from firn.pipeline.connection import Connection
from firn.pipeline.firn_scan import shown
from firn.pipeline.native_scan import FIELD_IDS_CONF
from firn.pipeline.reads import read, read_appends
from firn.pipeline.row_changes import Mode
from firn.pipeline.row_level import delete_where, update
from firn.pipeline.scan_ways import ways_of
from firn.pipeline.spark_errors import SPARK_ERRORS
from firn.pipeline.writes import append, overwrite
from firn.storage.arrow_rows import batch_of_rows
from firn.storage.incremental_scan import SnapshotRange
from firn.storage.manifest_reader import StoredManifests
from firn.storage.table_scan import plan_scan
from tests.interop.tables import TABLES
from tests.spark.by_hand import append_rows, delete_equal
from tests.spark.lake import Lake, committed, list_of, struct_of

NATIVE = (
    "common-types-v2-parquet", "nested-v2-parquet", "evolved-schema-v2-parquet", "defaults-parquet",
    "type-uuid-parquet", "type-time-parquet", "type-timestamp_ns-parquet", "type-fixed-parquet",
    "position-deletes-parquet", "deletion-vectors-of-parquet", "upgraded-v1-v2-v3", "row-lineage", "plain-paths",
    "evolved-spec-v2", "equality-deletes-parquet", "equality-deletes-v3", "global-equality-deletes-v3",
)  # fmt: skip
THROUGH_FIRN = (
    "common-types-v2-avro", "nested-v2-orc", "nested-defaults-parquet",
    "deletion-vectors-of-avro", "promoted-date-timestamp_ns",
)  # fmt: skip


@pytest.mark.parametrize("name", [*NATIVE, *THROUGH_FIRN])
def test_every_kind_of_table_is_read(lake: Lake, name: str, tmp_path: Path) -> None:
    built = TABLES[name](tmp_path / "t")
    view = TableView(name="t", metadata_location=built.metadata_location, metadata=built.metadata)
    found = read(lake.spark, view).toArrow()
    expected = pa.Table.from_batches([shown(batch_of_rows(built.rows, built.schema), built.schema)])
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))
    files = Connection().store()
    plan = plan_scan(built.metadata, files=StoredManifests(files))
    ways = ways_of(plan.tasks, metadata=built.metadata, projection=plan.projection, files=files)
    assert bool(ways.through_firn) == (name in THROUGH_FIRN)


@pytest.fixture(scope="module")
def history(spark, deployment):
    """A table with three snapshots, and a tag on the first."""
    found = Lake(spark, deployment)
    table = found.create(partition=(("region", "identity"),))
    first = committed(append(found.events(0, 10), table))
    second = committed(append(found.events(10, 20), table))
    third = committed(overwrite(found.events(30, 31), table, where="region = 'eu'"))
    return table, first, second, third


def ids(frame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def test_a_snapshot_is_read_by_id_time_or_name(lake: Lake, history) -> None:
    table, first, second, _ = history
    assert ids(read(lake.spark, table, snapshot_id=first.snapshot_id)) == list(range(10))
    seconds = lake.view(table).metadata.snapshot_by_id(second.snapshot_id)
    assert seconds is not None
    moment = dt.datetime.fromtimestamp(seconds.timestamp_ms / 1000, dt.UTC)
    assert ids(read(lake.spark, table, as_of=moment)) == list(range(20))
    assert ids(read(lake.spark, table, ref="main")) == ids(read(lake.spark, table))
    with pytest.raises(NotFound):
        read(lake.spark, table, ref="nowhere")
    with pytest.raises(InvalidInput, match="time zone"):
        read(lake.spark, table, as_of=moment.replace(tzinfo=None))


@pytest.mark.parametrize(
    "where", ["id >= 12 and region = 'us'", "region is null", "not (region = 'us' or id in (12, 15))", "amount < 1.5"]
)
def test_a_filter_plans_and_applies(lake: Lake, history, where: str) -> None:
    table = history[0]
    every = lake.by_java(table).where(where)
    found = read(lake.spark, table, columns=["amount"], filter=where)
    assert found.columns == ["amount"]
    assert sorted(found.collect()) == sorted(every.select("amount").collect())


def test_metadata_columns_say_where_a_row_is(lake: Lake, history) -> None:
    rows = read(lake.spark, history[0], columns=["id", "_file", "_pos", "_spec_id"]).collect()
    assert {row["_file"] for row in rows} <= set(lake.files_on_disk(history[0]))
    assert len({(row["_file"], row["_pos"]) for row in rows}) == len(rows)
    assert {row["_spec_id"] for row in rows} == {0}


def test_appends_between_snapshots_are_read_once(lake: Lake, history) -> None:
    table, first, second, _ = history
    since = SnapshotRange(from_snapshot_id=first.snapshot_id)
    assert ids(read_appends(lake.spark, table, snapshots=since)) == list(range(10, 20))
    both = SnapshotRange(to_snapshot_id=second.snapshot_id)
    assert ids(read_appends(lake.spark, table, snapshots=both, filter="id > 5")) == list(range(6, 20))


def test_an_empty_table_has_no_rows_but_columns(lake: Lake) -> None:
    found = read(lake.spark, lake.create())
    assert found.columns == ["id", "region", "ts", "amount"]
    assert found.count() == 0


@pytest.mark.parametrize(("version", "mode"), [(2, "copy-on-write"), (3, "merge-on-read")])
def test_changes_are_told_row_by_row(lake: Lake, version: int, mode: Mode) -> None:
    table = lake.create(version=version)
    committed(append(lake.events(0, 4).coalesce(1), table))
    first = lake.view(table).snapshot_id
    committed(append(lake.events(4, 6).coalesce(1), table))
    committed(update(lake.spark, table, {"region": "'x'"}, "id = 1", mode=mode))
    committed(delete_where(lake.spark, table, "id in (2, 5)", mode=mode))
    found = read_changes(lake.spark, table, columns=["id", "region"], snapshots=SnapshotRange(from_snapshot_id=first))
    rows = ((row["_change_ordinal"], row["_change_type"], row.id, row.region) for row in found.collect())
    told = sorted(rows, key=repr)
    assert told == [
        (0, "insert", 4, "us"),
        (0, "insert", 5, None),
        (1, "delete", 1, "us"),
        (1, "insert", 1, "x"),
        (2, "delete", 2, None),
        (2, "delete", 5, None),
    ]
    base = lake.view(table).snapshot_id
    assert first is not None
    committed(lake.client.expire_snapshots(table, snapshot_ids=[first]).result(60))
    again = read_changes(lake.spark, table, columns=["id", "_file"], snapshots=SnapshotRange(from_snapshot_id=first))
    assert sorted((row["_change_type"], row.id) for row in again.collect() if row["_change_ordinal"] == 0) == [
        ("insert", 4), ("insert", 5),
    ]  # fmt: skip
    deletes = read_changes(lake.spark, table, columns=["id"], snapshots=SnapshotRange(from_snapshot_id=base))
    assert (deletes.columns[0], deletes.count()) == ("id", 0)
    with pytest.raises(ChangesUnavailableError) as refused:
        read_changes(lake.spark, table, snapshots=SnapshotRange(from_snapshot_id=first, from_inclusive=True))
    assert refused.value.reason == "base-expired"
    only = read_changes(lake.spark, table, filter="id = 1")
    assert sorted((row["_change_type"], row.id) for row in only.collect()) == [
        ("delete", 1), ("insert", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("copies", [True, False])
def test_settings_of_the_session_change_no_rows(lake: Lake, monkeypatch: pytest.MonkeyPatch, copies: bool) -> None:
    """Columns are found by id, files that are broken are errors, and days of long ago are the days that they are."""
    if not copies:
        monkeypatch.setattr(session_copy, "DATASET", "org.apache.spark.sql.nowhere.Dataset")
    table = lake.create({"id": "long", "day": "date"})
    committed(append(lake.spark.sql("SELECT 1L AS id, DATE '0900-02-03' AS day"), table))
    settings = {
        "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
        "spark.sql.files.ignoreCorruptFiles": "true",
        "spark.sql.files.ignoreMissingFiles": "true",
    }
    before = lake.spark.conf.get(FIELD_IDS_CONF)
    for name, value in settings.items():
        lake.spark.conf.set(name, value)
    try:
        rows = read(lake.spark, table)
        if copies:
            assert lake.spark.conf.get(FIELD_IDS_CONF) == before
            lake.spark.conf.set(FIELD_IDS_CONF, "false")
        assert rows.collect() == [(1, dt.date(900, 2, 3))]
        (path,) = lake.files_on_disk(table)
        content = Path(path).read_bytes()
        for broken in (None, b"PAR1" + bytes(len(content))):
            Path(path).unlink() if broken is None else Path(path).write_bytes(broken)
            with pytest.raises(SPARK_ERRORS, match="FAILED_READ_FILE"):
                rows.collect()
        Path(path).write_bytes(content)
    finally:
        for name in (*settings, FIELD_IDS_CONF):
            lake.spark.conf.unset(name)


def test_fields_of_structs_are_what_they_are_when_they_are_asked_for_alone(lake: Lake) -> None:
    """By their ids, as in a whole row: Spark forgets ids where it leaves out fields of a struct."""
    table = lake.create({"id": "long", "s": struct_of(a=10, b=11), "l": list_of(20, struct_of(x=21, y=22))})
    made = "named_struct('a', 1L, 'b', 2L) AS s, array(named_struct('x', 3L, 'y', 4L)) AS l"
    committed(append(lake.spark.sql(f"SELECT 1L AS id, {made}"), table))
    change = lake.client.update_schema(table, base=lake.view(table))
    change.rename_column("s.b", "c").rename_column("s.a", "b").add_column("new", "long", parent="s")
    change.submit().committed(60)
    rows = read(lake.spark, table)
    one = rows.selectExpr("s.b", "s.c", "l.y", "s.new", "s IS NULL")
    assert one.collect() == [(1, 2, [4], None, False)]
    assert rows.where("s.b = 1").selectExpr("id", "l.x").collect() == [(1, [3])]
    assert read(lake.spark, table, columns=["s.c"], filter="s.b = 1").collect() == [((2,),)]
    lake.spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    try:
        assert one.collect() == [(1, 2, [4], None, False)]
        assert read(lake.spark, table, columns=["id"]).collect() == [(1,)]
    finally:
        lake.spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


def test_deletes_of_a_spec_whose_fields_are_void_are_for_the_whole_table(lake: Lake) -> None:
    table = lake.create(partition=(("region", "identity"),))
    append_rows(lake, table, (0, 6))
    lake.client.update_spec(table, base=lake.view(table)).remove_field("region_0").submit().committed(60)
    lake.client.update_spec(table, base=lake.view(table)).add_field("id", "void").submit().committed(60)
    append_rows(lake, table, (6, 9))
    delete_equal(lake, table, "id", [0, 3, 7], partition=(None,))
    assert sorted(row.id for row in read(lake.spark, table).collect()) == [1, 2, 4, 5, 6, 8] == lake.ids(table)


def test_files_whose_paths_look_like_patterns_are_read_once(lake: Lake) -> None:
    table = lake.create({"id": "long", "region": "string"}, partition=(("region", "identity"),))
    values = ("*", "a*b", "?", "{a,b}", "[ab]", "a b%20/#", "..", "", "plain")
    rows = [(at, value) for at, value in enumerate(values)]
    committed(append(lake.spark.createDataFrame(rows, "id long, region string"), table))
    assert any("*" in path for path in lake.files_on_disk(table))
    assert sorted(read(lake.spark, table).collect()) == rows == sorted(lake.by_java(table).collect())
