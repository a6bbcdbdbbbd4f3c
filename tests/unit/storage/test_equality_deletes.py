from __future__ import annotations

import math
import uuid
from decimal import Decimal

import pytest

from firn.model.errors import CorruptFile, InvalidInput, InvalidSchema
from firn.model.schema import Schema
from firn.model.schema_projection import project
from firn.model.types import (
    BINARY,
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    UUID,
    DecimalType,
    FixedType,
    ListType,
    NestedField,
    StructType,
)
from firn.storage import equality_deletes
from firn.storage.data_files import NewFile, encode_rows
from firn.storage.equality_deletes import decode_equality_deletes, encode_equality_deletes

LOCATION = "s3://bucket/table/data/deletes"
FORMATS = ["parquet", "avro", "orc"]


def field(field_id, name, type, *, required=False) -> NestedField:
    return NestedField(field_id=field_id, name=name, type=type, required=required)


ANIMALS = Schema(
    schema_id=0,
    struct=StructType((field(1, "id", LONG), field(2, "category", STRING), field(3, "name", STRING))),
)
KOALA, TEDDY, GRIZZLY, POLAR = (
    {1: 1, 2: "marsupial", 3: "Koala"},
    {1: 2, 2: "toy", 3: "Teddy"},
    {1: 3, 2: None, 3: "Grizzly"},
    {1: 4, 2: None, 3: "Polar"},
)


def deletes_of(rows, schema, ids, file_format="parquet", *, table=None):
    new = NewFile(location=LOCATION, file_format=file_format)
    data, entry = encode_equality_deletes(rows, schema, new, equality_ids=ids)
    read = decode_equality_deletes(
        data, file_format=file_format, location=LOCATION, schema=table or schema, equality_ids=ids
    )
    return read, entry


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize(
    ("columns", "ids", "row", "survivors"),
    [
        ({1}, (1,), {1: 3}, [KOALA, TEDDY, POLAR]),
        ({1, 2, 3}, (1,), GRIZZLY, [KOALA, TEDDY, POLAR]),
        ({1, 2, 3}, (1, 2), POLAR, [KOALA, TEDDY, GRIZZLY]),
        ({2}, (2,), {2: None}, [KOALA, TEDDY]),
        ({1, 2}, (1, 2), {1: 4, 2: "x"}, [KOALA, TEDDY, GRIZZLY, POLAR]),
    ],
)
def test_the_specifications_examples(columns, ids, row, survivors, file_format):
    deletes, entry = deletes_of([row], project(ANIMALS, columns), ids, file_format, table=ANIMALS)
    assert [one for one in (KOALA, TEDDY, GRIZZLY, POLAR) if not deletes.deletes(one)] == survivors
    assert (entry.content, entry.equality_ids, entry.record_count) == ("equality-deletes", ids, 1)
    assert entry.file_format == file_format
    assert set(entry.value_counts or {}) == columns


EVERY = Schema(
    schema_id=0,
    struct=StructType(
        (
            field(1, "i", INT),
            field(2, "d", DATE),
            field(3, "s", STRING),
            field(4, "u", UUID),
            field(5, "b", BINARY),
            field(6, "f", FixedType(2)),
            field(7, "n", DecimalType(9, 2)),
            field(8, "st", StructType((field(9, "x", LONG), field(10, "in", StructType((field(11, "y", STRING),)))))),
        )
    ),
)
ROW = {1: 1, 2: 2, 3: "s", 4: uuid.UUID(int=4), 5: b"b", 6: b"ff", 7: Decimal("1.50"), 8: {9: 9, 10: {11: "y"}}}


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("field_id", [1, 2, 3, 4, 5, 6, 7, 9, 11])
def test_rows_are_deleted_by_columns_of_every_type(field_id, file_format):
    deletes, _ = deletes_of([ROW], project(EVERY, {field_id}), (field_id,), file_format, table=EVERY)
    assert deletes.deletes(ROW)
    empty = dict.fromkeys(ROW)
    assert not deletes.deletes(empty)
    nulls, _ = deletes_of([empty], project(EVERY, {field_id}), (field_id,), file_format, table=EVERY)
    assert nulls.deletes(empty)
    assert not nulls.deletes(ROW)


def test_a_null_struct_means_null_columns():
    nulls, _ = deletes_of([{8: None}], project(EVERY, {11}), (11,), table=EVERY)
    assert nulls.deletes({8: {10: None}})
    assert nulls.deletes({8: {10: {11: None}}})


def test_deletes_written_before_a_promotion_still_apply():
    promoted = Schema(schema_id=1, struct=StructType((field(1, "i", LONG),)))
    deletes, _ = deletes_of([{1: 5}], project(EVERY, {1}), (1,), table=promoted)
    assert deletes.deletes({1: 5})


def test_a_column_that_the_file_lacks_counts_as_null():
    data, _ = encode_rows([{1: 5}], project(ANIMALS, {1}), NewFile(location=LOCATION))
    deletes = decode_equality_deletes(
        data, file_format="parquet", location=LOCATION, schema=ANIMALS, equality_ids=(1, 2)
    )
    assert deletes.deletes({1: 5, 2: None})
    assert not deletes.deletes({1: 5, 2: "x"})


def test_sets_of_deletes_unite():
    first, _ = deletes_of([{1: 1}], project(ANIMALS, {1}), (1,), table=ANIMALS)
    second, _ = deletes_of([{1: 2}], project(ANIMALS, {1}), (1,), table=ANIMALS)
    both = first.union(second)
    assert both.deletes(KOALA)
    assert both.deletes(TEDDY)
    assert not both.deletes(POLAR)


def test_floats_of_another_writer_are_compared_by_their_bits():
    schema = Schema(schema_id=0, struct=StructType((field(1, "d", DOUBLE),)))
    data, _ = encode_rows([{1: math.nan}, {1: 0.0}], schema, NewFile(location=LOCATION))
    deletes = decode_equality_deletes(data, file_format="parquet", location=LOCATION, schema=schema, equality_ids=(1,))
    assert deletes.deletes({1: math.nan})
    assert deletes.deletes({1: 0.0})
    assert not deletes.deletes({1: -0.0})


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ((), "each delete column once"),
        ((1, 1), "each delete column once"),
        ((99,), "no column has id 99"),
        ((2,), "column 'd' is a double"),
        ((3,), "column 'l' is a list"),
        ((4,), "inside a list"),
    ],
)
def test_columns_that_rows_cannot_be_deleted_by_are_refused(ids, reason):
    schema = Schema(
        schema_id=0,
        struct=StructType(
            (
                field(1, "a", LONG),
                field(2, "d", DOUBLE),
                field(3, "l", ListType(element_id=4, element=LONG, element_required=False)),
            )
        ),
    )
    with pytest.raises(InvalidInput, match=reason):
        encode_equality_deletes([{1: 1}], schema, NewFile(location=LOCATION), equality_ids=ids)


def test_no_deletes_are_no_file():
    with pytest.raises(InvalidInput, match="needs deletes"):
        encode_equality_deletes([], ANIMALS, NewFile(location=LOCATION), equality_ids=(1,))


def test_bad_files_are_refused(monkeypatch):
    data, _ = encode_equality_deletes([KOALA, TEDDY], ANIMALS, NewFile(location=LOCATION), equality_ids=(1,))
    with pytest.raises(CorruptFile, match="deletes"):
        decode_equality_deletes(data[:-5], file_format="parquet", location=LOCATION, schema=ANIMALS, equality_ids=(1,))
    with pytest.raises(InvalidInput, match="no column has id 9"):
        decode_equality_deletes(data, file_format="parquet", location=LOCATION, schema=ANIMALS, equality_ids=(9,))
    other = Schema(schema_id=0, struct=StructType((field(1, "id", UUID),)))
    with pytest.raises(InvalidSchema, match="column 'id'"):
        decode_equality_deletes(data, file_format="parquet", location=LOCATION, schema=other, equality_ids=(1,))
    monkeypatch.setattr(equality_deletes, "EQUALITY_DELETES_MAX", 1)
    with pytest.raises(CorruptFile, match="more than 1"):
        decode_equality_deletes(data, file_format="parquet", location=LOCATION, schema=ANIMALS, equality_ids=(1,))
