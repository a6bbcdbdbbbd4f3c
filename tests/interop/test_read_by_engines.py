"""Tables that firn wrote are read equal by every engine, or not for a reason that is written down."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.interop.features import FEATURES, LIMITS, READERS, Limit, Reader, limit_of, page_table
from tests.interop.readers import duckdb_rows, firn_rows, pyiceberg_rows, rust_rows, spark_rows
from tests.interop.rows import expected_rows, table_rows
from tests.interop.table_builder import BuiltTable
from tests.interop.tables import TABLES

PAGE: Final = Path(__file__).parents[2] / "docs/interop.md"
Built = Callable[[str], BuiltTable]


@pytest.mark.parametrize("name", TABLES)
def test_firn_reads_the_rows_it_wrote(built: Built, name):
    table = built(name)
    rows, schema = firn_rows(table.metadata_location)
    assert expected_rows(rows, schema) == expected_rows(table.rows, table.schema)


@pytest.mark.parametrize("name", TABLES)
def test_pyiceberg_reads_the_rows(built: Built, name):
    check(built(name), limit_of("PyIceberg", name), lambda table: pyiceberg_rows(table.metadata_location))


@pytest.mark.parametrize("name", TABLES)
def test_duckdb_reads_the_rows(built: Built, name):
    check(built(name), limit_of("DuckDB", name), lambda table: duckdb_rows(table.metadata_location))


@pytest.mark.parametrize("name", TABLES)
def test_iceberg_rust_reads_the_rows(built: Built, name):
    check(built(name), limit_of("iceberg-rust", name), lambda table: rust_rows(table.metadata_location))


@pytest.mark.parametrize("name", TABLES)
def test_spark_reads_the_rows(built: Built, spark: SparkSession, name):
    check(built(name), limit_of("Spark", name), lambda table: spark_rows(spark, table.location))


def check(table: BuiltTable, limit: Limit | None, read: Callable[[BuiltTable], pa.Table]) -> None:
    """The reader has the expected rows; where it has a limit, that it still has."""
    expected = expected_rows(table.rows, table.schema)
    if limit is None:
        assert table_rows(read(table), table.schema) == expected
    elif limit.says is None:
        assert table_rows(read(table), table.schema) != expected, f"can be read now: {limit}"
    else:
        with pytest.raises(BaseException, match=limit.says) as caught:
            read(table)
        assert not isinstance(caught.value, (AssertionError, KeyboardInterrupt, SystemExit))


@pytest.mark.parametrize("reader", READERS)
def test_every_limit_is_shown_by_a_table(reader: Reader):
    met = {limit_of(reader, name) for name in TABLES}
    assert [limit for limit in LIMITS if limit.reader == reader and limit not in met] == []


def test_every_table_shows_one_feature():
    shown = {name: [f for f, pattern in FEATURES.items() if re.fullmatch(pattern, name)] for name in TABLES}
    assert {name: features for name, features in shown.items() if len(features) != 1} == {}


def test_the_page_says_what_the_tests_hold_readers_to():
    assert page_table(list(TABLES)) in PAGE.read_text(encoding="utf-8")
