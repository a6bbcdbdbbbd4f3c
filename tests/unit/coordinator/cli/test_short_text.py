"""Columns, partitions and sort keys in short text mean what they say."""

import pytest

from firn.coordinator.cli.short_text import order_of_keys, schema_of_columns, spec_of_partitions
from firn.model.errors import InvalidInput
from firn.model.schema import schema_from_json

SCHEMA = schema_from_json(schema_of_columns(["id long required", "ts timestamptz", '"a b" string']))


@pytest.mark.parametrize(
    ("text", "name", "type", "required"),
    [
        ("id long", "id", "long", False),
        ("id: long required", "id", "long", True),
        ("id long not null", "id", "long", True),
        ("id long NULL", "id", "long", False),
        ("p decimal( 10,2 )  optional", "p", "decimal(10, 2)", False),
        ("f fixed[16]", "f", "fixed[16]", False),
        ('"a b" string required', "a b", "string", True),
        ("`a,b` string", "a,b", "string", False),
        ("日本 timestamptz_ns", "日本", "timestamptz_ns", False),
        ("g geography(srid:4326, spherical)", "g", None, False),
        ("required int", "required", "int", False),
    ],
)
def test_a_column_is_a_name_a_type_and_whether_it_is_required(text, name, type, required):
    (field,) = schema_of_columns([text])["fields"]
    assert (field["name"], field["required"]) == (name, required)
    assert type is None or field["type"] == type


def test_nested_types_have_ids_of_their_own():
    text = "m map<string, struct<x long required, y: list<double>>> required"
    schema = schema_from_json(schema_of_columns(["a int", text]))
    assert sorted(schema.fields_by_id) == list(range(1, 8))
    assert {name for name in schema.ids_by_name if name.startswith("m.value.")} >= {"m.value.x", "m.value.y.element"}
    assert schema.find_field("m.value.x").required  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text",
    ["", "id", "id lng", "id long long", "l list", "l list<>", "l list<long", "m map<string>", "s struct<>", "<x long",
     "l " + "list<" * 70 + "int" + ">" * 70, "x" * 20_000],
)  # fmt: skip
def test_a_column_that_means_nothing_is_refused_by_name(text):
    with pytest.raises(InvalidInput, match="column"):
        schema_of_columns([text])


@pytest.mark.parametrize(
    ("text", "name", "transform", "source"),
    [
        ("day(ts)", "ts_day", "day", 2),
        ("days( ts )", "ts_day", "day", 2),
        ("bucket(16, id)", "id_bucket_16", "bucket[16]", 1),
        ("truncate(4,a b) as prefix", "prefix", "truncate[4]", 3),
        ('"a b"', "a b", "identity", 3),
        ("identity(id)", "id", "identity", 1),
        ("id", "id", "identity", 1),
    ],
)
def test_a_partition_is_a_transform_of_a_column(text, name, transform, source):
    (field,) = spec_of_partitions([text], SCHEMA)["fields"]
    assert (field["name"], field["transform"], field["source-id"]) == (name, transform, source)


@pytest.mark.parametrize(
    ("text", "transform", "direction", "nulls"),
    [
        ("ts", "identity", "asc", "nulls-first"),
        ("ts desc", "identity", "desc", "nulls-last"),
        ("ts DESC NULLS FIRST", "identity", "desc", "nulls-first"),
        ("bucket(16, id) asc nulls-last", "bucket[16]", "asc", "nulls-last"),
        ("a b desc", "identity", "desc", "nulls-last"),
    ],
)
def test_a_sort_key_has_a_direction_and_a_place_for_nulls(text, transform, direction, nulls):
    (field,) = order_of_keys([text], SCHEMA)["fields"]
    assert (field["transform"], field["direction"], field["null-order"]) == (transform, direction, nulls)
