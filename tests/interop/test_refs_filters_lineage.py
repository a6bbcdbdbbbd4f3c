"""What readers choose of a table that firn wrote: branches, tags, rows by filters, row ids."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import duckdb
import pytest
from pyspark.sql import SparkSession

from firn.model.reserved import LAST_UPDATED_SEQUENCE_NUMBER, ROW_ID
from firn.model.schema import Schema
from tests.interop.readers import duckdb_rows, firn_rows, pyiceberg_rows, rust_rows, spark_rows
from tests.interop.rows import expected_rows, table_rows
from tests.interop.table_builder import BuiltTable

Built = Callable[[str], BuiltTable]
VERSIONS: Final = (1, 2, 3)
REFS: Final = ("main", "first", "audit")


def at(table: BuiltTable, ref: str) -> tuple[list[dict[str, Any]], Schema, int]:
    """The rows of a branch or tag, the schema it is read with, and its snapshot."""
    snapshot = table.metadata.snapshot_by_id(table.metadata.refs[ref].snapshot_id)
    assert snapshot is not None
    assert snapshot.schema_id is not None
    is_tag = table.metadata.refs[ref].type == "tag"
    schema = table.metadata.schema_by_id(snapshot.schema_id) if is_tag else table.schema
    assert schema is not None
    return expected_rows(table.rows_at[ref], schema), schema, snapshot.snapshot_id


@pytest.mark.parametrize("ref", REFS)
@pytest.mark.parametrize("version", VERSIONS)
def test_branches_and_tags_are_read_equal(built: Built, version, ref):
    table = built(f"references-v{version}")
    expected, schema, snapshot_id = at(table, ref)
    rows, read_with = firn_rows(table.metadata_location, ref=ref)
    assert (expected_rows(rows, read_with), read_with) == (expected, schema)
    assert table_rows(pyiceberg_rows(table.metadata_location, ref=ref), schema) == expected
    assert table_rows(duckdb_rows(table.metadata_location, snapshot_id=snapshot_id), schema) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_spark_reads_branches_and_tags(built: Built, spark: SparkSession, version):
    table = built(f"references-v{version}")
    for ref in REFS:
        expected, schema, snapshot_id = at(table, ref)
        options = {"versionAsOf" if table.metadata.refs[ref].type == "tag" else "branch": ref}
        assert table_rows(spark_rows(spark, table.location, options=options), schema) == expected
        by_id = spark_rows(spark, table.location, options={"versionAsOf": snapshot_id})
        assert table_rows(by_id, schema) == expected


# -- filters: partition values, bounds and counts must mean the same to everybody -------------------------------------
EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a timestamp without zone


def literal(type: str, value: Any, *, spark: bool) -> str | None:
    """A value in SQL, as all engines spell it; None where they do not agree on a spelling."""
    match type:
        case "int" | "long":
            return str(value)
        case "decimal(9, 2)":
            return f"CAST({value} AS DECIMAL(9, 2))"
        case "string":
            return "'" + value.replace("'", "''") + "'" if "'" not in value else None
        case "date":
            return f"DATE '{dt.date(1970, 1, 1) + dt.timedelta(days=value)}'"
        case "timestamp":
            moment = EPOCH + dt.timedelta(microseconds=value)
            return f"{'TIMESTAMP_NTZ' if spark else 'TIMESTAMP'} '{moment.isoformat(' ')}'"
    return None


def pyiceberg_literal(type: str, value: Any) -> str:
    match type:
        case "string":
            return f"'{value}'"
        case "date":
            return f"'{dt.date(1970, 1, 1) + dt.timedelta(days=value)}'"
        case "timestamp":
            return f"'{(EPOCH + dt.timedelta(microseconds=value)).isoformat()}'"
    return str(value)


def filters(table: BuiltTable) -> list[tuple[str, str, Any, Callable[[Any], bool]]]:
    """(column, operator, value, what it keeps) for each value of each column that all engines can be asked for."""
    found: list[tuple[str, str, Any, Callable[[Any], bool]]] = []
    for field in table.schema.fields:
        values: set[Any] = {row.get(field.field_id) for row in table.rows} - {None}
        for value in sorted(values):
            if literal(str(field.type), value, spark=False) is not None:
                found.append((field.name, "=", value, partial(operator.eq, value)))
                found.append((field.name, "<", value, partial(operator.gt, value)))
    return found


def kept(table: BuiltTable, column: str, keeps: Callable[[Any], bool]) -> list[dict[str, Any]]:
    field_id = table.schema.ids_by_name[column]
    rows = [row for row in table.rows if row.get(field_id) is not None and keeps(row[field_id])]
    return expected_rows(rows, table.schema)


FILTERED: Final = ("numbers", "texts", "year", "month", "day", "hour")


def duckdb_limit(group: str, type: str, symbol: str, value: Any) -> str | None:
    """What DuckDB does with a filter that it cannot follow: an error's text, or ``loses rows``."""
    if type.startswith("decimal") and value < 0 and symbol == "=":
        return "Information loss"
    # It rounds moments before 1970 up instead of down, and then leaves out the file.
    if type == "timestamp" and value < 0 and group in {"month", "day"} and symbol == "=":
        return "loses rows"
    return None


@pytest.mark.parametrize("group", FILTERED)
@pytest.mark.parametrize("version", VERSIONS)
def test_filters_keep_the_same_rows(built: Built, version, group):
    table = built(f"transforms-v{version}-{group}")
    asked = filters(table)
    assert asked
    for column, symbol, value, keeps in asked:
        type = str(table.schema.fields_by_id[table.schema.ids_by_name[column]].type)
        expected = kept(table, column, keeps)
        sql = f"{column} {symbol} {literal(type, value, spark=False)}"
        text = f"{column} {symbol} {pyiceberg_literal(type, value)}"
        rows, schema = firn_rows(table.metadata_location, where=text)
        assert expected_rows(rows, schema) == expected, f"firn: {text}"
        from_python = pyiceberg_rows(table.metadata_location, where=text)
        assert table_rows(from_python, table.schema) == expected, f"PyIceberg: {text}"
        from_rust = rust_rows(table.metadata_location, where=sql)
        assert table_rows(from_rust, table.schema) == expected, f"iceberg-rust: {sql}"
        limit = duckdb_limit(group, type, symbol, value)
        if limit in {None, "loses rows"}:
            from_duckdb = table_rows(duckdb_rows(table.metadata_location, where=sql), table.schema)
            assert (from_duckdb == expected) == (limit is None), f"DuckDB: {sql}"
        else:
            with pytest.raises(duckdb.Error, match=limit):
                duckdb_rows(table.metadata_location, where=sql)


@pytest.mark.parametrize("group", FILTERED)
def test_spark_filters_keep_the_same_rows(built: Built, spark: SparkSession, group):
    table = built(f"transforms-v2-{group}")
    for column, symbol, value, keeps in filters(table):
        type = str(table.schema.fields_by_id[table.schema.ids_by_name[column]].type)
        sql = f"{column} {symbol} {literal(type, value, spark=True)}"
        answer = spark_rows(spark, table.location, where=sql)
        assert table_rows(answer, table.schema) == kept(table, column, keeps), sql


@pytest.mark.parametrize("column", ["i", "l"])
def test_firn_finds_minima_that_wrap_around_when_truncated(built: Built, column):
    table = built("truncated-minimum")
    where = f"{column} < 0"
    expected = kept(table, column, lambda value: value < 0)
    rows, schema = firn_rows(table.metadata_location, where=where)
    assert expected_rows(rows, schema) == expected
    assert table_rows(rust_rows(table.metadata_location, where=where), schema) == expected
    # These two lose the row: they look for it in a partition below zero.
    assert pyiceberg_rows(table.metadata_location, where=where).num_rows == 0
    assert duckdb_rows(table.metadata_location, where=where).num_rows == 0


def test_spark_loses_minima_that_wrap_around_when_truncated(built: Built, spark: SparkSession):
    table = built("truncated-minimum")
    assert spark_rows(spark, table.location, where="i < 0").num_rows == 0
    assert spark_rows(spark, table.location, where="l < 0").num_rows == 0


# -- row lineage ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["row-lineage", "upgraded-v1-v2-v3", "rewritten-v3"])
def test_spark_gives_rows_the_ids_that_firn_gives_them(built: Built, spark: SparkSession, name):
    table = built(name)
    columns = ["id", ROW_ID.name, LAST_UPDATED_SEQUENCE_NUMBER.name]
    rows, schema = firn_rows(table.metadata_location, columns=columns)
    frame = spark.read.format("iceberg").load(table.location).select(*columns)
    assert table_rows(frame.toArrow(), schema) == expected_rows(rows, schema)
    ids = [row[ROW_ID.field_id] for row in rows]
    assert None not in ids
    assert len(set(ids)) == len(ids)
