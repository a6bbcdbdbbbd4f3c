"""DataFrames become commits: all of their rows once, where and how the table asks, or nothing."""

from __future__ import annotations

import pyspark.sql.functions as F  # noqa: N812 - what everybody calls it
import pytest
from pyspark.errors import PySparkException

from firn.model.errors import RejectedError
from firn.model.outcome import Rejected
from firn.pipeline.streams import stream_to
from firn.pipeline.writes import append, overwrite, replace_partitions
from tests.spark.lake import Lake, committed


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_appended_frame_is_what_others_read(lake: Lake, version: int) -> None:
    table = lake.create(version=version, partition=(("region", "bucket[2]"), ("ts", "month"), ("id", "bucket[4]")))
    committed(append(lake.events(0, 100), table))
    outcome = committed(append(lake.events(100, 150), table, summary={"etl.run": "7"}))
    wanted = lake.events(0, 150).orderBy("id").collect()
    assert lake.by_java(table).orderBy("id").collect() == wanted
    assert lake.view(table).snapshot_id == outcome.snapshot_id
    assert lake.summary(table)["etl.run"] == "7"


def test_rows_are_brought_together_by_partition_and_sorted(lake: Lake) -> None:
    table = lake.create(partition=(("id", "bucket[3]"), ("region", "truncate[1]")), order=(("amount", "desc"),))
    committed(append(lake.events(0, 200).repartition(7), table))
    files = lake.by_java(table).groupBy(F.input_file_name().alias("file")).count().count()
    assert files <= 9 + 2  # a range may begin or end inside a partition
    order = lake.view(table).metadata.default_order
    assert order.is_sorted
    scattered = lake.create(partition=(("id", "bucket[3]"),), write_metadata_compression="none")
    committed(append(lake.events(0, 60).repartition(2), scattered, distribution="none"))
    assert len(lake.files_on_disk(scattered)) == 6
    committed(append(lake.events(60, 120).repartition(2), scattered, distribution="hash"))
    assert len(lake.files_on_disk(scattered)) == 6 + 3


def test_an_overwrite_takes_the_place_of_what_its_filter_covers(lake: Lake) -> None:
    table = lake.create(partition=(("region", "identity"),))
    committed(append(lake.events(0, 9), table))
    committed(overwrite(lake.events(30, 31), table, where="region = 'eu'"))
    assert lake.ids(table) == [1, 2, 4, 5, 7, 8, 30]
    committed(replace_partitions(lake.events(31, 32), table))
    assert lake.ids(table) == [2, 5, 8, 30, 31]
    committed(overwrite(lake.events(0, 3), table))
    assert lake.ids(table) == [0, 1, 2]
    refused = overwrite(lake.events(3, 6), table, where="region = 'eu'")
    assert isinstance(refused, Rejected)
    assert refused.rule == "outside-filter"
    named = {file for file in lake.files_on_disk(table) if refused.intent_id in file}
    assert named == set()


def test_a_job_that_fails_changes_nothing_and_leaves_nothing(lake: Lake) -> None:
    table = lake.create()
    committed(append(lake.events(0, 3), table))
    before = set(lake.files_on_disk(table))
    # One task: what a task writes that outlives its failed job is an orphan.
    broken = (
        lake.events(3, 6)
        .coalesce(1)
        .withColumn("id", F.when(F.col("id") == 5, F.raise_error(F.lit("a bad row"))).otherwise(F.col("id")))
    )
    with pytest.raises(PySparkException, match="a bad row"):
        append(broken, table)
    with pytest.raises(PySparkException, match="no column 'colour'"):
        append(lake.events(3, 6).coalesce(1).withColumn("colour", F.lit("red")), table)
    assert set(lake.files_on_disk(table)) == before
    assert lake.ids(table) == [0, 1, 2]


def test_an_epoch_is_written_once_however_often_it_is_sent(lake: Lake) -> None:
    table = lake.create()
    first = committed(append(lake.events(0, 3), table, writer="job-7", writer_sequence=1))
    again = committed(append(lake.events(0, 3), table, writer="job-7", writer_sequence=1))
    assert again.snapshot_id == first.snapshot_id
    assert lake.ids(table) == [0, 1, 2]


def test_a_job_without_rows_is_committed_and_makes_no_snapshot(lake: Lake) -> None:
    """As every quiet hour of a schedule and every empty batch of a stream would otherwise fail its job."""
    table = lake.create(partition=(("region", "identity"),))
    nothing = lake.events(0, 0)
    assert committed(append(nothing, table)).snapshot_id is None
    filled = committed(append(lake.events(0, 3), table)).snapshot_id
    assert committed(append(nothing, table)).snapshot_id == filled
    assert committed(replace_partitions(nothing, table)).snapshot_id == filled
    assert committed(overwrite(nothing, table, where="region = 'mars'")).snapshot_id == filled
    batch = stream_to(table, writer="quiet")
    batch(nothing, 0)
    batch(lake.events(3, 6), 1)
    batch(nothing, 2)
    batch(nothing, 2)  # that epoch has been committed
    with pytest.raises(RejectedError, match="writer-sequence-reuse"):
        batch(lake.events(6, 9), 2)
    assert lake.ids(table) == [0, 1, 2, 3, 4, 5]
    assert len(lake.view(table).metadata.snapshots) == 2
