"""The data source: SQL and writers of Spark reach firn's tables, streams reach them once."""

from __future__ import annotations

import datetime as dt

import pyspark.sql.functions as F  # noqa: N812 - what everybody calls it
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import datasource as spark_source
from pyspark.sql.types import StructType

from firn.model.errors import Unsupported
from firn.pipeline.data_source import FirnSource, register
from firn.pipeline.streams import stream_to
from tests.spark.by_hand import delete_equal
from tests.spark.lake import Lake


def test_frames_are_written_and_read_by_format(lake: Lake) -> None:
    register(lake.spark)
    table = lake.create(partition=(("region", "identity"),))
    lake.events(0, 0).write.format("firn").option("table", table).mode("append").save()  # as in a quiet hour
    lake.events(0, 10).write.format("firn").option("table", table).mode("append").save()
    assert lake.ids(table) == list(range(10))
    frame = lake.spark.read.format("firn").option("table", table).load()
    assert sorted(row.id for row in frame.where("region = 'eu' AND id > 2").collect()) == [3, 6, 9]
    assert frame.count() == 10  # whatever was asked of it before
    assert frame.where("id = 3").union(frame).count() == 11
    delete_equal(lake, table, "id", [6], partition=("eu",))
    filtered = lake.spark.read.format("firn").options(table=table, columns="region", filter="id > 3 and id < 9").load()
    assert sorted(filtered.collect(), key=repr) == [("us",), ("us",), (None,), (None,)]
    assert lake.spark.read.format("firn").options(table=table, filter="id > 99").load().collect() == []
    lake.events(20, 22).write.format("firn").option("table", table).option("overwrite-mode", "dynamic").mode(
        "overwrite"
    ).save()
    assert lake.ids(table) == [1, 4, 7, 20, 21]  # 20 is of no region, 21 is in the EU
    (first, *_) = lake.view(table).metadata.snapshots
    moment = dt.datetime.fromtimestamp(first.timestamp_ms / 1000, dt.UTC).isoformat()
    for option, value in (("as-of", moment), ("snapshot-id", first.snapshot_id)):
        before = lake.spark.read.format("firn").option("table", table).option(option, value).load()
        assert sorted(row.id for row in before.collect()) == list(range(10))
    with pytest.raises(PySparkException, match=r"options\.as-of"):
        lake.spark.read.format("firn").option("table", table).option("as-of", "yesterday").load()
    lake.events(30, 33).write.format("firn").option("table", table).mode("overwrite").save()
    assert lake.ids(table) == [30, 31, 32]


def test_sql_inserts_into_and_selects_from_a_table(lake: Lake) -> None:
    register(lake.spark)
    table = lake.create()
    lake.spark.sql(f"CREATE TABLE firn_events USING firn OPTIONS (table '{table}')")
    try:
        lake.spark.sql("INSERT INTO firn_events SELECT 1L, 'eu', TIMESTAMP '2026-01-01 00:00:00', 1.25BD")
        lake.spark.sql("INSERT INTO firn_events VALUES (2, NULL, NULL, NULL)")
        assert [row.id for row in lake.spark.sql("SELECT id FROM firn_events ORDER BY id").collect()] == [1, 2]
        assert lake.ids(table) == [1, 2]
    finally:
        lake.spark.sql("DROP TABLE firn_events")


def test_a_write_that_fails_leaves_table_and_folder_as_they_were(lake: Lake) -> None:
    register(lake.spark)
    table = lake.create()
    broken = lake.events(0, 3).coalesce(1).withColumn("id", F.raise_error(F.lit("a bad row")).cast("bigint"))
    with pytest.raises(PySparkException, match="a bad row"):
        broken.write.format("firn").option("table", table).mode("append").save()
    assert lake.view(table).snapshot_id is None
    assert lake.files_on_disk(table) == []


ARROW_STREAMS = hasattr(spark_source, "DataSourceStreamArrowWriter")
"""Whether Spark hands streams over in Arrow batches: from 4.1 on."""


def test_a_spark_without_such_streams_is_told_what_to_use_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(spark_source, "DataSourceStreamArrowWriter", raising=False)
    with pytest.raises(Unsupported, match="stream_to"):
        FirnSource({"table": "db.t"}).streamWriter(StructType(), overwrite=False)


@pytest.mark.parametrize(
    "sink",
    [
        pytest.param("source", marks=pytest.mark.skipif(not ARROW_STREAMS, reason="needs Spark 4.1")),
        "foreach-batch",
    ],
)
def test_a_stream_that_is_started_again_writes_every_row_once(lake: Lake, sink: str, tmp_path) -> None:
    register(lake.spark)
    table = lake.create({"id": "long", "at": "timestamptz"})
    landing = tmp_path / "landing"
    checkpoint = tmp_path / "checkpoint"

    def arrive(first: int) -> None:
        rows = lake.spark.range(first, first + 10).selectExpr("id", "timestamp_seconds(id) AS at")
        rows.coalesce(1).write.mode("append").parquet(str(landing))

    def run() -> None:
        rows = lake.spark.readStream.schema("id bigint, at timestamp").parquet(str(landing))
        write = rows.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        if sink == "source":
            query = write.format("firn").option("table", table).start()
        else:
            query = write.foreachBatch(stream_to(table)).start()
        assert query.awaitTermination(120)
        assert query.exception() is None

    arrive(0)
    run()
    arrive(10)
    run()
    commits = sorted((checkpoint / "commits").glob("[0-9]*"))
    commits[-1].unlink()  # as after a crash between the commit to the table and Spark's own note of it
    for note in (checkpoint / "commits").glob(".*crc"):
        note.unlink()
    run()
    assert lake.ids(table) == list(range(20))
