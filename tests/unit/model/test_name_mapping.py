from __future__ import annotations

import json

import pytest
from hypothesis import given

from firn.model.errors import InvalidInput
from firn.model.field_ids import with_ids
from firn.model.name_mapping import (
    MappedField,
    NameMapping,
    apply_name_mapping,
    name_mapping_from_json,
    name_mapping_from_text,
    name_mapping_of,
    name_mapping_to_json,
    name_mapping_to_text,
    update_name_mapping,
)
from firn.model.schema import schema_from_json
from firn.model.schema_change import AddColumn, DropColumn, RenameColumn
from firn.model.schema_update import apply_changes
from firn.model.type_json import type_from_json
from firn.model.types import INT, STRING, TYPE_DEPTH_MAX, StructType
from tests.strategies.examples import examples
from tests.strategies.schemas import schemas

SPEC_EXAMPLE = [
    {"field-id": 1, "names": ["id", "record_id"]},
    {"field-id": 2, "names": ["data"]},
    {
        "field-id": 3,
        "names": ["location"],
        "fields": [{"field-id": 4, "names": ["latitude", "lat"]}, {"field-id": 5, "names": ["longitude", "long"]}],
    },
]


def field(field_id, name, type):
    return {"id": field_id, "name": name, "required": False, "type": type}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


TABLE = schema_from_json(
    struct(
        field(1, "id", "int"),
        field(2, "home", struct(field(3, "zip", "int"))),
        field(4, "tags", {"type": "list", "element-id": 5, "element": "string", "element-required": True}),
        field(
            6,
            "places",
            {
                "type": "map",
                "key-id": 7,
                "key": "string",
                "value-id": 8,
                "value": struct(field(9, "x", "int")),
                "value-required": True,
            },
        ),
    )
)


def evolve(mapping, *changes):
    after, _ = apply_changes(TABLE, changes, last_column_id=TABLE.highest_field_id, format_version=2)
    return update_name_mapping(mapping, before=TABLE, after=after)


def names(mapping, field_id):
    found = mapping.fields_by_id.get(field_id)
    return None if found is None else found.names


def test_the_specifications_example_survives():
    mapping = name_mapping_from_json(SPEC_EXAMPLE)
    assert mapping.fields_by_id[4].names == ("latitude", "lat")
    assert name_mapping_to_json(mapping) == SPEC_EXAMPLE
    assert name_mapping_from_text(name_mapping_to_text(mapping)) == mapping


def test_ids_and_fields_may_be_left_out_and_other_members_are_kept():
    obj = [{"names": ["a", "b"], "x-kept": 1}, {"field-id": 2, "names": []}]
    mapping = name_mapping_from_json(obj)
    assert mapping.fields[0] == MappedField(names=("a", "b"), extra={"x-kept": 1})
    assert name_mapping_to_json(mapping) == obj


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({}, "m: must be an array"),
        ([1], "m[0]: must be an object"),
        ([{"field-id": 1}], "m[0].names: missing"),
        ([{"names": "a"}], "m[0].names: must be an array"),
        ([{"names": [None]}], "m[0].names[0]: must be a string"),
        ([{"names": [], "field-id": "1"}], "m[0].field-id: must be an integer"),
        ([{"names": [], "fields": {}}], "m[0].fields: must be an array"),
        ([{"names": ["a"]}, {"names": ["b", "a"]}], "m[1].names: name 'a' is mapped twice"),
        (
            [{"field-id": 1, "names": [], "fields": [{"field-id": 1, "names": []}]}],
            "m[0].fields[0].field-id: field id 1 is mapped twice",
        ),
    ],
)
def test_a_malformed_mapping_is_refused_with_the_path_of_the_member(obj, message):
    with pytest.raises(InvalidInput) as caught:
        name_mapping_from_json(obj, where="m")
    assert str(caught.value).startswith(message)


def nested_mapping(levels):
    obj: list[object] = [{"names": ["a"]}]
    for _ in range(levels - 1):
        obj = [{"names": ["a"], "fields": obj}]
    return obj


def test_nesting_ends_at_its_limit():
    name_mapping_from_text(json.dumps(nested_mapping(TYPE_DEPTH_MAX)))
    for read in (name_mapping_from_json, lambda o: name_mapping_from_text(json.dumps(o))):
        with pytest.raises(InvalidInput, match="levels"):
            read(nested_mapping(TYPE_DEPTH_MAX + 1))


def test_text_that_is_not_json_is_refused_by_the_propertys_name():
    with pytest.raises(InvalidInput, match=r"schema\.name-mapping\.default"):
        name_mapping_from_text("[{]")


@given(schemas())
@examples(25)
def test_the_mapping_of_a_schema_gives_its_files_their_ids_back(schema):
    mapping = name_mapping_of(schema)
    assert name_mapping_from_text(name_mapping_to_text(mapping)) == mapping
    nameless = with_ids(schema.struct, lambda _: -1)
    assert isinstance(nameless, StructType)
    found = apply_name_mapping(nameless, mapping)
    assert {f.field_id: f.name for f in found.fields} == {f.field_id: f.name for f in schema.fields}
    assert [f.type for f in found.fields] == [f.type for f in schema.fields]


def test_fields_that_are_not_mapped_are_left_out():
    file = type_from_json(
        struct(
            field(0, "record_id", "int"),
            field(0, "unmapped", "int"),
            field(0, "no id", "int"),
            field(0, "a.b", "string"),
            field(0, "list", {"type": "list", "element-id": 0, "element": "int", "element-required": True}),
            field(
                0,
                "map",
                {"type": "map", "key-id": 0, "key": "int", "value-id": 0, "value": "int", "value-required": True},
            ),
        )
    )
    assert isinstance(file, StructType)
    mapping = NameMapping(
        (
            MappedField(names=("id", "record_id"), field_id=7),
            MappedField(names=("no id",)),
            MappedField(names=("a",), field_id=8, fields=(MappedField(names=("b",), field_id=9),)),
            MappedField(names=("a.b",), field_id=10),
            MappedField(names=("list",), field_id=11),
            MappedField(names=("map",), field_id=12, fields=(MappedField(names=("key",), field_id=13),)),
        )
    )
    found = apply_name_mapping(file, mapping)
    assert [(f.field_id, f.name, f.type) for f in found.fields] == [(7, "record_id", INT), (10, "a.b", STRING)]


def test_a_renamed_field_keeps_its_old_name_and_gains_the_new():
    mapping = evolve(
        name_mapping_of(TABLE), RenameColumn(name="id", new_name="key"), RenameColumn(name="places.x", new_name="y")
    )
    assert names(mapping, 1) == ("id", "key")
    assert names(mapping, 9) == ("x", "y")


def test_an_added_field_is_mapped_with_all_that_it_contains():
    of = type_from_json(
        {"type": "list", "element-id": 0, "element": struct(field(0, "a", "int")), "element-required": True}
    )
    mapping = evolve(
        name_mapping_of(TABLE), AddColumn(name="new", type=of), AddColumn(name="city", parent="home", type=STRING)
    )
    assert names(mapping, 10) == ("new",)
    assert names(mapping, 11) == ("element",)
    assert names(mapping, 12) == ("a",)
    assert [f.names for f in mapping.fields_by_id[2].fields] == [("zip",), ("city",)]


def test_a_name_goes_to_the_field_that_has_it_now():
    mapping = evolve(name_mapping_of(TABLE), DropColumn(name="id"), AddColumn(name="id", type=STRING))
    assert names(mapping, 1) == ()
    assert names(mapping, 10) == ("id",)
    swapped = evolve(
        name_mapping_of(TABLE), RenameColumn(name="id", new_name="tags"), RenameColumn(name="tags", new_name="id")
    )
    assert (names(swapped, 1), names(swapped, 4)) == (("tags",), ("id",))


def test_a_dropped_field_stays_mapped_for_the_files_that_have_it():
    assert evolve(name_mapping_of(TABLE), DropColumn(name="home")) == name_mapping_of(TABLE)


def test_unchanged_columns_missing_from_the_mapping_stay_missing():
    partial = NameMapping((MappedField(names=("id",), field_id=1),))
    assert evolve(partial, RenameColumn(name="tags", new_name="labels")) == partial
    assert evolve(partial, RenameColumn(name="id", new_name="key")).fields_by_id.keys() == {1}
