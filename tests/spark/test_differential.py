"""Tables by chance are read by every reader: what firn gives, in each of its ways, is what the other engines give."""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import StaticTable
from pyspark.sql import DataFrame

from firn.model.schema import Schema
from firn.model.schema_projection import project
from firn.model.types import (
    LONG,
    TIME,
    TIMESTAMP_NS,
    TIMESTAMPTZ_NS,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
)
from firn.pipeline.column_names import named_column
from firn.pipeline.data_source import register
from firn.pipeline.reads import read
from firn.pipeline.spark_types import spark_type
from tests.interop.rows import Plain, expected_rows, table_rows
from tests.spark.lake import Lake
from tests.spark.random_filters import Condition, leaves, random_condition
from tests.spark.random_rows import OTHERS
from tests.spark.random_table import RandomTable

EVERY = Condition(firn="true", sql="true", keeps=lambda _row: True, python=AlwaysTrue())
LINEAGE = ("_row_id", "_last_updated_sequence_number")


def as_shown(type: Type) -> Type:
    """A type as Spark shows its values."""
    match type:
        case StructType():
            return StructType(tuple(field_as_shown(field) for field in type.fields))
        case ListType():
            return msgspec.structs.replace(type, element=as_shown(type.element))
        case MapType():
            return msgspec.structs.replace(type, key=as_shown(type.key), value=as_shown(type.value))
    return LONG if type in (TIME, TIMESTAMP_NS, TIMESTAMPTZ_NS) else type


def field_as_shown(field: NestedField) -> NestedField:
    return NestedField(field_id=field.field_id, name=field.name, type=as_shown(field.type), required=field.required)


def shown_in_spark(schema: Schema) -> Schema:
    return Schema(schema_id=0, struct=StructType(tuple(map(field_as_shown, schema.fields))))


def random_projection(dice: random.Random, schema: Schema) -> tuple[list[str], Schema]:
    """Names of some columns, fields of structs among them, and the schema that they make."""
    every = [
        name for leaf in leaves(schema.struct) if "." not in "".join(leaf.names) for name in [".".join(leaf.names)]
    ]
    every += [field.name for field in schema.fields]
    names = dice.sample(every, dice.randint(1, min(4, len(every))))
    return names, project(schema, {schema.ids_by_name[name] for name in names})


class Readers:
    """The ways to read a table with a filter and a projection, each to Arrow."""

    def __init__(self, table: RandomTable) -> None:
        self.table = table
        self.lake = table.lake
        self.view = self.lake.view(table.name)

    def firn(self, found: Condition, names: list[str], projection: Schema) -> pa.Table:
        return read(self.lake.spark, self.view, columns=names, filter=found.firn).toArrow()

    def firn_by_spark(self, found: Condition, names: list[str], projection: Schema) -> pa.Table:
        """Spark filters and projects firn's frame, and pushes down what it can."""
        return self.columns(read(self.lake.spark, self.view).where(found.sql), projection).toArrow()

    def source(self, found: Condition, names: list[str], projection: Schema) -> pa.Table:
        options = {"table": self.table.name, "filter": found.firn, "columns": ",".join(names)}
        return self.lake.spark.read.format("firn").options(**options).load().toArrow()

    def source_by_spark(self, found: Condition, names: list[str], projection: Schema) -> pa.Table:
        frame = self.lake.spark.read.format("firn").option("table", self.table.name).load()
        return self.columns(frame.where(found.sql), projection).toArrow()

    def java(self, found: Condition, names: list[str], projection: Schema) -> pa.Table:
        rows = self.lake.by_java(self.table.name).where(found.sql)
        return self.columns(rows, projection).toArrow()

    def pyiceberg(self, found: Condition, projection: Schema) -> pa.Table | None:
        """None where it breaks down over partitions of null."""
        table = StaticTable.from_metadata(self.view.metadata_location)
        assert found.python is not None
        selected = tuple(field.name for field in projection.fields)
        try:
            return table.scan(found.python, selected_fields=selected).to_arrow()
        except TypeError as error:
            if "'NoneType'" not in str(error):
                raise
            return None

    def columns(self, rows: DataFrame, projection: Schema) -> DataFrame:
        """The columns that the projection is of, whole; what is in them may be null, or PySpark fails over structs."""
        fields = [self.table.schema.fields_by_id[field.field_id] for field in projection.fields]
        return rows.select([named_column(one.name).cast(spark_type(one.type)).alias(one.name) for one in fields])


def read_by_pyiceberg(table: RandomTable, found: Condition, projection: Schema) -> bool:
    """Whether PyIceberg can be asked: see tests/interop/features.py for what it cannot."""
    lists = any(isinstance(field.type, ListType | MapType) for field in projection.fields_by_id.values())
    return found.python is not None and not (table.has_equality_deletes or table.is_partitioned_by_floats or lists)


def all_read_the_same(table: RandomTable, *, asked: int) -> None:
    schema, readers = table.schema, Readers(table)
    questions: list[tuple[Condition, list[str], Schema]] = [(EVERY, [f.name for f in schema.fields], schema)]
    questions += [
        (random_condition(table.dice, schema, table.rows), *random_projection(table.dice, schema)) for _ in range(asked)
    ]
    for found, names, projection in questions:
        rows = [row for row in table.rows if found.keeps(row)]
        shown = shown_in_spark(projection)
        expected = expected_rows(rows, shown)
        ways: list[Any] = [readers.firn, readers.firn_by_spark, readers.source, readers.source_by_spark]
        if not any(field.type in OTHERS for field in schema.fields_by_id.values()):
            ways.append(readers.java)
        for way in ways:
            same(table_rows(way(found, names, projection), shown), expected, f"{way.__name__}: {found} {names}")
        if read_by_pyiceberg(table, found, projection):
            given = readers.pyiceberg(found, projection)
            if given is not None:
                same(table_rows(given, projection), expected_rows(rows, projection), f"pyiceberg: {found} {names}")
    # Rows that a table had before v3 were last updated in the file's commit to Iceberg 1.11, in the rows' to the spec.
    if table.born > 2 and ways[-1] == readers.java and readers.view.snapshot_id is not None:
        with_ids = ["id", *LINEAGE]
        ours = read(table.lake.spark, readers.view, columns=with_ids).collect()
        theirs = table.lake.by_java(table.name).select(with_ids).collect()
        assert sorted(ours) == sorted(theirs)


def same(given: Sequence[Plain], expected: Sequence[Plain], what: str) -> None:
    missing, extra = [one for one in expected if one not in given], [one for one in given if one not in expected]
    assert given == expected, f"{what}\nmissing: {missing[:3]}\nextra: {extra[:3]}"


def one_table(lake: Lake, seed: int, *, steps: int, asked: int) -> None:
    register(lake.spark)
    table = RandomTable(lake, random.Random(seed))
    try:
        table.grow(steps)
        all_read_the_same(table, asked=asked)
    except Exception as error:
        error.add_note(f"seed {seed}:\n" + "\n".join(table.log))
        raise


@pytest.mark.parametrize("seed", [14, 16, 28, 33])
def test_a_table_with_a_random_history_is_the_same_to_all(lake: Lake, seed: int) -> None:
    one_table(lake, seed, steps=4, asked=1)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_random_tables_are_the_same_to_all(lake: Lake) -> None:
    for _ in range(60):
        one_table(lake, secrets.randbits(32), steps=12, asked=6)
