from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from firn.model.errors import InvalidInput, InvalidSchema
from firn.model.schema import assign_fresh_ids, schema_from_json, schema_to_json
from firn.model.schema_rules import validate_schema
from tests.strategies.examples import examples
from tests.strategies.schemas import schemas, schemas_v1


def field(field_id, name, type, *, required=False, **members):
    return {"id": field_id, "name": name, "required": required, "type": type, **members}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def list_of(element_id, element):
    return {"type": "list", "element-id": element_id, "element": element, "element-required": True}


def map_of(key_id, key, value_id, value):
    return {
        "type": "map",
        "key-id": key_id,
        "key": key,
        "value-id": value_id,
        "value": value,
        "value-required": True,
    }


POINT = struct(field(15, "x", "long"), field(16, "y", list_of(17, "int")))
ADDRESS = struct(field(20, "zip", "int"))
TRIPS = schema_from_json(
    {
        **struct(
            field(1, "id", "long", required=True),
            field(2, "home", struct(field(8, "street", "string"), field(9, "geo", struct(field(10, "lat", "double"))))),
            field(3, "points", list_of(14, POINT)),
            field(4, "places", map_of(18, ADDRESS, 19, struct(field(21, "name", "string")))),
        ),
        "schema-id": 7,
        "identifier-field-ids": [1],
        "x-kept": True,
    }
)


@given(schemas())
@examples(40)
def test_every_schema_survives_json(schema):
    assert schema_from_json(schema_to_json(schema)) == schema


@given(schemas())
@examples(25)
def test_generated_schemas_keep_the_rules(schema):
    validate_schema(schema, format_version=3)


@given(schemas_v1())
@examples(20)
def test_a_schema_of_old_types_needs_no_new_version(schema):
    assert schema.min_format_version == 1
    validate_schema(schema, format_version=1)


def test_a_version_1_schema_without_an_id_is_schema_0():
    assert schema_from_json(struct()).schema_id == 0


@pytest.mark.parametrize(
    ("name", "field_id"),
    [
        ("id", 1),
        ("home.geo.lat", 10),
        ("points", 3),
        ("points.element", 14),
        ("points.element.x", 15),
        ("points.x", 15),
        ("points.element.y.element", 17),
        ("points.y.element", 17),
        ("places.key.zip", 20),
        ("places.value.name", 21),
        ("places.name", 21),
    ],
)
def test_a_field_is_found_by_its_full_and_its_short_name(name, field_id):
    found = TRIPS.find_field(name)
    assert found is not None
    assert found.field_id == field_id
    assert TRIPS.find_field(name.upper(), False) == found
    assert TRIPS.find_field(name.upper()) is None


@pytest.mark.parametrize("name", ["", "lat", "places.zip", "home.", "points.element.z"])
def test_a_name_that_no_field_has_finds_nothing(name):
    assert TRIPS.find_field(name) is None
    assert TRIPS.find_field(name, False) is None


def test_a_full_name_wins_over_another_fields_short_name():
    points, column = field(1, "a", list_of(2, struct(field(3, "b", "int")))), field(4, "a.b", "string")
    for fields in ((points, column), (column, points)):
        found = schema_from_json(struct(*fields)).find_field("a.b")
        assert found is not None
        assert found.field_id == 4


def test_a_name_that_fits_two_columns_without_case_is_refused():
    schema = schema_from_json(struct(field(1, "id", "int"), field(2, "ID", "int")))
    assert schema.find_field("ID", True) == schema.field_by_id(2)
    with pytest.raises(InvalidSchema, match="ID, id"):
        schema.find_field("Id", False)


def test_ids_lead_to_names_parents_and_positions():
    assert TRIPS.column_name(21) == "places.value.name"
    assert TRIPS.column_name(99) is None
    assert TRIPS.field_by_id(99) is None
    assert TRIPS.parent_id(10) == 9
    assert TRIPS.parent_id(15) == 14
    assert TRIPS.parent_id(1) is None
    assert TRIPS.position(10) == (1, 1, 0)
    assert TRIPS.position(3) == (2,)
    assert TRIPS.position(15) is None
    assert TRIPS.highest_field_id == 21


def test_lookups_are_not_carried_into_a_changed_copy():
    assert TRIPS.field_by_id(1) is not None
    smaller = msgspec.structs.replace(TRIPS, struct=msgspec.structs.replace(TRIPS.struct, fields=()))
    assert smaller.field_by_id(1) is None
    assert smaller.highest_field_id == 0


def test_fresh_ids_are_given_level_by_level_as_when_a_table_is_created():
    fresh, last = assign_fresh_ids(TRIPS, 1)
    assert [f.field_id for f in fresh.fields] == [1, 2, 3, 4]
    assert {n: i for i, n in fresh.names_by_id.items() if i > 4} == {
        "home.street": 5,
        "home.geo": 6,
        "home.geo.lat": 7,
        "points.element": 8,
        "points.element.x": 9,
        "points.element.y": 10,
        "points.element.y.element": 11,
        "places.key": 12,
        "places.value": 13,
        "places.key.zip": 14,
        "places.value.name": 15,
    }
    assert last == 15
    assert fresh.identifier_field_ids == (1,)
    assert assign_fresh_ids(fresh, 101)[0].identifier_field_ids == (101,)


def test_fresh_ids_reach_into_default_values():
    element = struct(field(30, "x", "int"))
    schema = schema_from_json(struct(field(20, "points", list_of(25, element), **{"initial-default": [{"30": 1}, {}]})))
    fresh, last = assign_fresh_ids(schema)
    assert last == 3
    assert schema_to_json(fresh)["fields"][0]["initial-default"] == [{"3": 1}, {}]


@given(schemas())
@examples(30)
def test_fresh_ids_change_nothing_but_ids(schema):
    fresh, last = assign_fresh_ids(schema, 1000)
    assert sorted(fresh.fields_by_id) == list(range(1000, last + 1))
    assert sorted(fresh.names_by_id.values()) == sorted(schema.names_by_id.values())
    assert assign_fresh_ids(fresh, 1)[0] == assign_fresh_ids(schema, 1)[0]


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ([], "s: must be an object"),
        ({"type": "list", "fields": []}, "s.type: a schema must be a struct"),
        ({"type": "struct"}, "s.fields: missing"),
        ({**struct(), "schema-id": "1"}, "s.schema-id: must be an integer"),
        ({**struct(), "identifier-field-ids": [1, "2"]}, "s.identifier-field-ids[1]: must be a 64-bit integer"),
        ({**struct(), "identifier-field-ids": 1}, "s.identifier-field-ids: must be an array"),
        (struct(field(1, "a", "int"), field(2, "b", "intt")), "s.fields[1].type: unknown type 'intt'"),
        (struct(field(1, "a", "int"), field(1, "b", "int")), "s: field id 1 is used by a and b"),
        (struct(field(1, "a", list_of(1, "int"))), "s: field id 1 is used by a and a.element"),
    ],
)
def test_a_malformed_schema_is_refused_with_the_path_of_the_member(obj, message):
    with pytest.raises(InvalidInput) as caught:
        schema_from_json(obj, where="s")
    assert str(caught.value).startswith(message)


def test_the_index_of_a_wide_schema_takes_one_walk():
    wide = schema_from_json(struct(*(field(i, f"c{i}", list_of(20_000 + i, "int")) for i in range(1, 10_001))))
    assert len(wide.fields_by_id) == 20_000
    assert wide.find_field("c10000.element") is not None
