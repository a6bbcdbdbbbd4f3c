"""Limits of Arrow batches: smaller for the rows of firn's jobs, where that is safe, and for nothing else."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Iterator
from typing import Any
from zipimport import zipimporter

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from firn.pipeline import session_copy
from firn.pipeline.arrow_batches import BYTES_CONF, ROWS_CONF, ROWS_MAX, in_small_batches
from firn.pipeline.python_archives import forget_spark_jars

UNSET = "7"


@pytest.fixture
def clean(spark: SparkSession) -> Iterator[SparkSession]:
    yield spark
    for name in (BYTES_CONF, ROWS_CONF):
        spark.conf.unset(name)


def limits(spark: SparkSession) -> tuple[Any, Any]:
    """Rows and bytes of a batch, `UNSET` for Spark's own."""
    return spark.conf.get(ROWS_CONF, UNSET), spark.conf.get(BYTES_CONF, UNSET)


def sizes(rows: DataFrame) -> list[int]:
    """How many rows come to Python at once."""

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"rows": [batch.num_rows for batch in batches]})

    return [row[0] for row in rows.mapInArrow(count, "rows bigint").collect()]


def some_rows(spark: SparkSession, *columns: str) -> DataFrame:
    return spark.range(12_000, numPartitions=1).selectExpr("id", *columns)


def test_a_jobs_rows_come_in_small_batches_and_those_of_others_as_they_did(clean: SparkSession) -> None:
    rows = some_rows(clean)
    mine = in_small_batches(rows)
    assert limits(clean) == (UNSET, UNSET)
    assert sizes(mine) == [ROWS_MAX] * 6
    assert sizes(rows) == [10_000, 2_000]
    assert sizes(in_small_batches(rows.persist())) == [ROWS_MAX] * 6
    rows.unpersist()
    assert clean.range(1).sparkSession is clean
    assert clean.sparkContext.parallelize([(1,)]).toDF(["id"]).sparkSession is clean


@pytest.mark.parametrize(("given", "used"), [(500, 500), (9_000, ROWS_MAX), (-1, ROWS_MAX)])
def test_a_limit_of_rows_that_was_set_counts_if_it_is_smaller(clean: SparkSession, given: int, used: int) -> None:
    clean.conf.set(ROWS_CONF, str(given))
    assert sizes(in_small_batches(some_rows(clean)))[0] == used
    assert limits(clean) == (str(given), UNSET)


@pytest.mark.parametrize("column", ["encode('a', 'utf-8') AS a", "array(id) AS a", "struct(map(id, id)) AS a"])
def test_values_of_any_size_are_counted_as_spark_counts_them(clean: SparkSession, column: str) -> None:
    rows = some_rows(clean, column)
    assert in_small_batches(rows) is rows


def test_a_limit_of_bytes_that_was_set_stays(clean: SparkSession) -> None:
    clean.conf.set(BYTES_CONF, "1000000")
    rows = some_rows(clean)
    assert in_small_batches(rows) is rows


def test_a_spark_that_copies_no_sessions_takes_its_own_batches(
    clean: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_copy, "DATASET", "org.apache.spark.sql.nowhere.Dataset")
    rows = some_rows(clean)
    assert in_small_batches(rows) is rows


def test_a_worker_forgets_the_jar_of_spark_and_can_import_as_before(spark: SparkSession) -> None:
    """Or it would read the jar's list of contents again before every task."""

    def finders() -> set[str]:
        return {finder.archive for finder in sys.path_importer_cache.values() if isinstance(finder, zipimporter)}

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)
        assert importlib.util.find_spec("a_module_that_is_nowhere") is None  # looked for all over the path
        before = finders()
        forget_spark_jars()
        yield pa.record_batch({"before": [" ".join(before)], "after": [" ".join(finders())]})

    (found,) = spark.range(1, numPartitions=1).mapInArrow(task, "before string, after string").collect()
    assert "spark-core_" in found.before
    assert "spark-core_" not in found.after
