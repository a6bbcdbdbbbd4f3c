"""Create-or-replace keeps a column id only where old files still read right under it."""

from __future__ import annotations

from typing import Any

import pytest

from firn.model.metadata import TableMetadata
from firn.model.metadata_create import new_table_metadata
from firn.model.metadata_replace import replace_table
from firn.model.partitioning import UNPARTITIONED, spec_from_json
from firn.model.schema import schema_from_json
from firn.model.sorting import UNSORTED


def column(field_id: int, name: str, type: object, **members: object) -> dict[str, object]:
    return {"id": field_id, "name": name, "required": False, "type": type, **members}


def struct(*fields: dict[str, object]) -> dict[str, object]:
    return {"type": "struct", "fields": list(fields)}


def list_of(element: object, *, required: bool = False) -> dict[str, object]:
    return {"type": "list", "element-id": 90, "element": element, "element-required": required}


def map_of(key: object, value: object) -> dict[str, object]:
    return {"type": "map", "key-id": 91, "key": key, "value-id": 92, "value": value, "value-required": False}


def table(type: object, *, transform: str | None = None, version: int = 2, **members: object) -> TableMetadata:
    fields = [{"source-id": 1, "name": "part", "transform": transform}] if transform else []
    return new_table_metadata(
        schema=schema_from_json(struct(column(1, "a", type, **members), column(2, "other", "long")), where="schema"),
        spec=spec_from_json({"spec-id": 0, "fields": fields}, where="spec"),
        order=UNSORTED,
        location="/wh/t",
        table_uuid="0192f0c1-5b2e-4cc1-8f4e-2d6a1b3c4d5e",
        now_ms=1,
        format_version=version,
    )


def replaced(before: TableMetadata, type: object, *, transform: str | None = None, **members: object) -> TableMetadata:
    fields = [{"source-id": 1, "name": "part", "transform": transform}] if transform else []
    schema = schema_from_json(struct(column(1, "a", type, **members), column(2, "other", "long")), where="schema")
    spec = spec_from_json({"spec-id": 0, "fields": fields}, where="spec") if fields else UNPARTITIONED
    return replace_table(before, schema, spec, now_ms=2)


KEPT = [
    ("int", "int"),
    ("int", "long"),
    ("float", "double"),
    ("decimal(5, 2)", "decimal(9, 2)"),
    ("string", "string"),
    (list_of("int"), list_of("long")),
    (map_of("string", "int"), map_of("string", "long")),
    (struct(column(10, "x", "int")), struct(column(10, "y", "string"))),
]
NEW = [
    ("int", "string"),
    ("long", "int"),
    ("string", "int"),
    ("string", "binary"),
    ("double", "float"),
    ("decimal(9, 2)", "decimal(5, 2)"),
    ("decimal(5, 2)", "decimal(9, 3)"),
    ("timestamp", "timestamptz"),
    ("fixed[4]", "fixed[5]"),
    ("date", "timestamp"),  # a promotion from format version 3 on only
    ("int", struct(column(10, "x", "int"))),
    (struct(column(10, "x", "int")), "int"),
    (list_of("int"), list_of("string")),
    (list_of("int"), list_of("int", required=True)),
    (list_of("int"), map_of("int", "int")),
    (map_of("int", "int"), map_of("long", "int")),
    (map_of("string", "int"), map_of("string", "date")),
    (map_of("string", "int"), struct(column(10, "key", "string"), column(11, "value", "int"))),
]


@pytest.mark.parametrize(("old", "new"), KEPT)
def test_a_column_of_the_same_or_a_promoted_type_keeps_its_id(old: object, new: object) -> None:
    before = table(old)
    after = replaced(before, new)
    assert after.current_schema.fields[0].field_id == before.current_schema.fields[0].field_id
    assert after.current_schema.fields[1] == before.current_schema.fields[1]


@pytest.mark.parametrize(("old", "new"), NEW)
def test_a_column_of_another_type_gets_new_ids_for_all_that_it_holds(old: object, new: object) -> None:
    before = table(old)
    after = replaced(before, new)
    used = set(before.current_schema.fields_by_id)
    inside = {i for i, name in after.current_schema.names_by_id.items() if name.split(".")[0] == "a"}
    assert not inside & used
    assert after.last_column_id == max(after.current_schema.fields_by_id)
    assert after.current_schema.fields[1].field_id == before.current_schema.fields[1].field_id


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"required": False}, {"required": True}),
        ({"initial-default": 1, "write-default": 1}, {"initial-default": 2, "write-default": 2}),
        ({}, {"initial-default": 2, "write-default": 2}),
    ],
)
def test_a_column_that_old_rows_would_break_gets_a_new_id(old: dict[str, Any], new: dict[str, Any]) -> None:
    before = table("int", version=3, **old)
    after = replaced(before, "int", **new)
    assert after.current_schema.fields[0].field_id not in before.current_schema.fields_by_id


@pytest.mark.parametrize(
    ("old", "new", "transform", "keeps"),
    [
        ("int", "string", "identity", False),
        ("long", "int", "identity", False),
        ("string", "int", "truncate[3]", False),
        ("int", "long", "bucket[8]", True),
        ("date", "timestamp", "day", True),
        ("date", "timestamp", "identity", False),
        ("date", "timestamp", "bucket[8]", False),
    ],
)
def test_the_partition_field_and_spec_are_new_where_the_column_is(
    old: str, new: str, transform: str, *, keeps: bool
) -> None:
    before = table(old, transform=transform, version=3)
    after = replaced(before, new, transform=transform)
    old_field, new_field = before.default_spec.fields[0], after.default_spec.fields[0]
    assert (after.default_spec_id == before.default_spec_id) is keeps
    assert (new_field.field_id == old_field.field_id) is keeps
    assert (new_field.source_ids == old_field.source_ids) is keeps
    assert after.last_partition_id == max(f.field_id for spec in after.partition_specs for f in spec.fields)
