from __future__ import annotations

import pytest
from hypothesis import given

from firn.model.errors import InvalidSchema
from firn.model.schema import schema_from_json
from firn.model.schema_union import changes_for_union, union_schema
from firn.model.types import DOUBLE, INT, LONG, TIMESTAMP
from tests.strategies.schemas import schemas


def field(field_id, name, type, *, required=False, **members):
    return {"id": field_id, "name": name, "required": required, "type": type, **members}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def list_of(element_id, element, *, required=True):
    return {"type": "list", "element-id": element_id, "element": element, "element-required": required}


def map_of(key, value, *, required=True):
    return {"type": "map", "key-id": 91, "key": key, "value-id": 92, "value": value, "value-required": required}


def schema(*fields):
    return schema_from_json(struct(*fields))


def union(mine, other, **options):
    return union_schema(mine, other, last_column_id=100, **{"format_version": 3, **options})[0]


@given(schemas())
def test_a_schema_already_holds_itself(of):
    assert changes_for_union(of, of, format_version=3) == ()


@given(schemas(max_fields=3), schemas(max_fields=3))
def test_a_union_holds_every_column_of_both(mine, other):
    try:
        both = union(mine, other)
    except InvalidSchema:
        return
    assert set(mine.names_by_id.items()) <= set(both.names_by_id.items())
    assert set(other.names_by_id.values()) <= set(both.names_by_id.values())
    assert changes_for_union(both, both, format_version=3) == ()


def test_new_columns_are_optional_wherever_they_are_nested():
    mine = schema(field(1, "points", list_of(2, struct(field(3, "x", "int", required=True)))))
    other = schema(
        field(
            1, "points", list_of(2, struct(field(4, "x", "int", required=True), field(5, "y", "int", required=True)))
        ),
        field(6, "extra", struct(field(7, "deep", "int", required=True)), required=True, doc="new"),
    )
    both = union(mine, other)
    y, extra = both.find_field("points.y"), both.find_field("extra")
    assert y is not None
    assert extra is not None
    assert (y.required, extra.required, extra.doc) == (False, False, "new")
    assert both.field_by_id(3) == mine.field_by_id(3)
    deep = both.find_field("extra.deep")
    assert deep is not None
    assert deep.required


def test_columns_get_wider_and_never_narrower():
    mine = schema(
        field(1, "a", "int"), field(2, "b", "double"), field(3, "c", list_of(4, "float")), field(5, "d", "date")
    )
    other = schema(
        field(1, "a", "long"), field(2, "b", "float"), field(3, "c", list_of(4, "double")), field(5, "d", "timestamp")
    )
    both = union(mine, other)
    assert [f.type for f in both.fields if f.name in "abd"] == [LONG, DOUBLE, TIMESTAMP]
    assert both.fields_by_id[4].type == DOUBLE
    assert union(both, mine) == both


def test_nullability_docs_and_write_defaults_follow_the_other():
    mine = schema(field(1, "a", "long", required=True, **{"write-default": 1}), field(2, "m", map_of("string", "int")))
    other = schema(
        field(7, "a", "int", doc="about a", **{"write-default": 2}),
        field(8, "m", map_of("string", "int", required=False)),
    )
    both = union(mine, other)
    a = both.fields[0]
    assert (a.type, a.required, a.doc, a.write_default) == (LONG, False, "about a", 2)
    assert not both.fields_by_id[92].required


def test_a_default_of_a_narrower_type_is_taken_as_the_wider():
    mine = schema(field(1, "t", "timestamp"))
    other = schema(field(1, "t", "date", **{"write-default": "1970-01-02"}))
    assert union(mine, other).fields[0].write_default == 86_400 * 10**6


def test_new_columns_keep_both_defaults():
    other = schema(field(1, "a", "int", **{"initial-default": 1, "write-default": 2}))
    both = union(schema(), other)
    assert (both.fields[0].initial_default, both.fields[0].write_default) == (1, 2)


@pytest.mark.parametrize(
    ("mine", "other", "match"),
    [
        ("int", "string", "type of a from int to string"),
        ("int", struct(field(5, "x", "int")), "type of a from int to struct"),
        (struct(field(5, "x", "int")), "int", "type of a from struct"),
        (list_of(5, "int"), list_of(5, "string"), r"type of a\.element from int to string"),
        (map_of("int", "int"), map_of("long", "int"), r"type of a\.key: the key of a map"),
    ],
)
def test_types_that_do_not_fit_are_refused_by_name(mine, other, match):
    with pytest.raises(InvalidSchema, match=match):
        union(schema(field(1, "a", mine)), schema(field(1, "a", other)))


def test_without_case_columns_are_the_same():
    mine, other = schema(field(1, "id", "int")), schema(field(1, "ID", "long"))
    assert [f.name for f in union(mine, other).fields] == ["id", "ID"]
    merged = union(mine, other, case_sensitive=False)
    assert [(f.name, f.type) for f in merged.fields] == [("id", LONG)]
    assert INT not in [f.type for f in merged.fields]
