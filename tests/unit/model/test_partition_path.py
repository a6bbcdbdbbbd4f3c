from __future__ import annotations

from decimal import Decimal
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidInput
from firn.model.partition_path import LEVEL_BYTES_MAX, partition_path
from firn.model.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMPTZ,
    DecimalType,
    NestedField,
    StructType,
    Type,
)
from firn.storage.locations import normalize

TYPES: tuple[Type, ...] = (LONG, TIMESTAMPTZ, STRING, DATE, BINARY, DecimalType(9, 2), BOOLEAN, DOUBLE)
SCHEMA = Schema(
    schema_id=0,
    struct=StructType(
        tuple(NestedField(field_id=i, name=f"c{i}", type=t, required=False) for i, t in enumerate(TYPES, start=1))
    ),
)


def path(*parts):
    """The path of a spec given as (name, transform, source, value)."""
    fields = tuple(
        PartitionField(field_id=1000 + i, name=name, transform=transform, source_ids=(source,))
        for i, (name, transform, source, _) in enumerate(parts)
    )
    return partition_path(PartitionSpec(spec_id=0, fields=fields), SCHEMA, tuple(part[-1] for part in parts))


def test_each_field_is_one_level_in_the_specs_order():
    assert path(("ts_day", "day", 2, 17501), ("b", "bucket[16]", 1, 3)) == "ts_day=2017-12-01/b=3"
    assert partition_path(UNPARTITIONED, SCHEMA, ()) == ""


@pytest.mark.parametrize(
    ("transform", "source", "value", "text"),
    [
        ("year", 2, -1, "1969"),
        ("month", 2, 575, "2017-12"),
        ("hour", 2, 420042, "2017-12-01-18"),
        ("identity", 2, 1512151975038194, "2017-12-01T18%3A12%3A55.038194%2B00%3A00"),
        ("identity", 4, -1, "1969-12-31"),
        ("bucket[4]", 4, 3, "3"),
        ("truncate[10]", 6, Decimal("12.30"), "12.30"),
        ("identity", 5, b"\xff\xfe", "%2F%2F4%3D"),
        ("identity", 7, False, "false"),
        ("identity", 8, 1e10, "1.0E10"),
        ("void", 1, None, "null"),
        ("identity", 1, None, "null"),
        ("spiral", 1, "abc", "abc"),
        ("identity", 99, None, "null"),
    ],
)
def test_values_are_the_transforms_text(transform, source, value, text):
    assert path(("p", transform, source, value)) == f"p={text}"


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("a b", "a+b"),
        ("a+b", "a%2Bb"),
        ("a/b=c&d", "a%2Fb%3Dc%26d"),
        ("~*-._", "%7E*-._"),
        ("é", "%C3%A9"),
        ("..", ".."),
        ("", ""),
        ("\ud800", "%3F"),
    ],
)
def test_names_and_values_are_encoded_as_forms_are(text, encoded):
    assert path((text, "identity", 3, text)) == f"{encoded}={encoded}"


@given(st.text(), st.text())
def test_no_value_can_add_a_level_to_the_path(name, value):
    assert path((name, "identity", 3, value)).count("/") == 0


@given(st.text(min_size=1, max_size=15, alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0.%")))
def test_a_path_reads_back(value):
    assert parse_qsl(path(("name", "identity", 3, value)), keep_blank_values=True) == [("name", value)]


def test_a_tuple_of_another_length_is_refused():
    with pytest.raises(InvalidInput, match="1 partition value, the spec has 0"):
        partition_path(UNPARTITIONED, SCHEMA, (1,))


@pytest.mark.parametrize(
    "value",
    [
        f"{'x' * 254}a",
        "日本" * 100,
        "/" * 200,
        "a" * 10_000,
        "\0",
        "\0" * 90,
        "a/../../b",
        "/..",
        "\\..\\a",
        "%00",
        "a/%2E%2E/b",
    ],
)  # fmt: skip
def test_a_level_fits_into_a_folders_name_and_differs_for_other_values(value):
    name = path(("c", "identity", 3, value))
    assert len(name.encode()) <= LEVEL_BYTES_MAX
    assert "/" not in name
    assert normalize(f"/warehouse/{name}/f.parquet") == f"/warehouse/{name}/f.parquet"
    assert name == path(("c", "identity", 3, value))
    assert name != path(("c", "identity", 3, value + "!"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a/b", "c=a%2Fb"), ("a=b", "c=a%3Db"), ("%2F", "c=%252F"), ("\n", "c=%0A"), ("..", "c=.."),
        ("", "c="), ("null", "c=null"), (None, "c=null"), ("x" * 253, "c=" + "x" * 253),
    ],
)  # fmt: skip
def test_values_that_are_no_names_of_folders_are_encoded(value, text):
    assert path(("c", "identity", 3, value)) == text
