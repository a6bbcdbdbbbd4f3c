"""The session's limits of Arrow batches: changed while a job of firn's runs, where that is safe, and put back."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Iterator
from typing import Any
from zipimport import zipimporter

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from firn.pipeline.arrow_batches import BYTES_CONF, ROWS_CONF, ROWS_MAX, few_rows_uncounted
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


def test_jobs_at_once_share_the_limits_and_the_last_puts_them_back(clean: SparkSession) -> None:
    rows = clean.range(1)
    with few_rows_uncounted(rows):
        with few_rows_uncounted(clean.range(2)):
            assert limits(clean) == (str(ROWS_MAX), str(2**31 - 1))
        assert limits(clean) == (str(ROWS_MAX), str(2**31 - 1))
    assert limits(clean) == (UNSET, UNSET)


@pytest.mark.parametrize(("given", "used"), [("500", "500"), ("9000", str(ROWS_MAX)), ("-1", str(ROWS_MAX))])
def test_a_limit_of_rows_that_was_set_is_set_again(clean: SparkSession, given: str, used: str) -> None:
    clean.conf.set(ROWS_CONF, given)
    with few_rows_uncounted(clean.range(1)):
        assert limits(clean)[0] == used
    assert limits(clean) == (given, UNSET)


@pytest.mark.parametrize("columns", ["encode('a', 'utf-8') AS a", "array(id) AS a", "struct(map(id, id)) AS a"])
def test_values_of_any_size_are_counted_as_spark_counts_them(clean: SparkSession, columns: str) -> None:
    with few_rows_uncounted(clean.range(1).selectExpr("id", columns)):
        assert limits(clean) == (UNSET, UNSET)


def test_a_limit_of_bytes_that_was_set_stays(clean: SparkSession) -> None:
    clean.conf.set(BYTES_CONF, "1000000")
    with few_rows_uncounted(clean.range(1)):
        assert limits(clean) == (UNSET, "1000000")


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
