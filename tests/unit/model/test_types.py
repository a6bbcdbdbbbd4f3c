from __future__ import annotations

import pytest
from hypothesis import given

from firn.model.errors import InvalidInput, InvalidSchema
from firn.model.type_json import field_from_json, field_to_json, type_from_json, type_to_json
from firn.model.types import (
    INT,
    STRING,
    TIMESTAMPTZ,
    TYPE_DEPTH_MAX,
    VARIANT,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    StructType,
    child_fields,
    is_primitive,
    needs_v3,
    type_from_text,
)
from tests.strategies.examples import examples
from tests.strategies.schemas import types


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("decimal(9,2)", DecimalType(9, 2)),
        ("decimal( 38 ,  0 )", DecimalType(38, 0)),
        ("fixed[16]", FixedType(16)),
        ("fixed[ 16 ]", FixedType(16)),
        ("geometry", GeometryType()),
        ("geometry(OGC:CRS84)", GeometryType()),
        ("geometry( srid:4326 )", GeometryType("srid:4326")),
        ("geography(ogc:crs84, Spherical)", GeographyType()),
        ("geography(srid:4326)", GeographyType("srid:4326")),
        ("geography(srid:4326,karney)", GeographyType("srid:4326", "karney")),
        ("geography(OGC:CRS84, vincenty)", GeographyType(None, "vincenty")),
        ("geometry('EPSG:4326')", GeometryType("EPSG:4326")),
        ("geography('EPSG:4326', \"karney\")", GeographyType("EPSG:4326", "karney")),
        ("variant", VARIANT),
        ("TimestampTZ", TIMESTAMPTZ),
        ("DECIMAL(9, 2)", DecimalType(9, 2)),
        ("Fixed[16]", FixedType(16)),
        ("GEOMETRY(srid:Own)", GeometryType("srid:Own")),
        ("Geography(EPSG:4326, KARNEY)", GeographyType("EPSG:4326", "karney")),
    ],
)
def test_a_type_is_read_from_its_text_in_any_case_with_blanks_and_explicit_defaults(text, type):
    assert type_from_text(text) == type
    assert type_from_text(str(type)) == type


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "unknown type"),
        ("integer", "unknown type"),
        ("Integer", "unknown type"),
        ("struct", "unknown type"),
        ("decimal(39, 2)", "precision 39"),
        ("decimal(0, 0)", "precision 0"),
        ("decimal(3, 4)", "scale 4"),
        ("decimal(-1, 0)", "unknown type"),
        ("decimal(٣, 0)", "unknown type"),
        ("fixed[0]", r"fixed\[0\]"),
        ("fixed[99999999999]", "unknown type"),
        ("geometry()", "empty coordinate"),
        ("geometry('')", "empty coordinate"),
        ("geography(srid:1,)", "edge algorithm ''"),
        ("geography(srid:1, flat)", "edge algorithm 'flat'"),
        ("geometry(" + "x" * 5000 + ")", "5010 characters"),
    ],
)
def test_text_that_is_no_type_is_refused_with_its_place(text, reason):
    with pytest.raises(InvalidSchema, match=rf"^fields\[0\]\.type: .*{reason}"):
        type_from_text(text, where="fields[0].type")


@given(types())
@examples(60)
def test_every_type_survives_json(type):
    assert type_from_json(type_to_json(type)) == type
    assert hash(type_from_json(type_to_json(type))) == hash(type)


def test_unknown_members_of_fields_and_nested_types_are_kept():
    obj = {
        "id": 1,
        "name": "tags",
        "required": False,
        "type": {
            "type": "list",
            "element-id": 2,
            "element-required": True,
            "element": {"type": "struct", "fields": [], "x-struct": 1},
            "x-list": [2],
        },
        "x-field": {"deep": None},
    }
    field = field_from_json(obj)
    assert field.extra == {"x-field": {"deep": None}}
    assert field_to_json(field) == obj


def nested_lists(levels):
    type: object = "int"
    for i in range(levels):
        type = {"type": "list", "element-id": i + 1, "element": type, "element-required": True}
    return type


def test_nesting_ends_at_its_limit():
    type_from_json(nested_lists(TYPE_DEPTH_MAX))
    with pytest.raises(InvalidSchema, match=f"more than {TYPE_DEPTH_MAX} levels"):
        type_from_json(nested_lists(TYPE_DEPTH_MAX + 1))


FIELD = {"id": 1, "name": "a", "required": True, "type": "int"}


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (None, "f: a field must be an object, not null"),
        ([], "f: a field must be an object, not an array"),
        ({**FIELD, "id": "1"}, "f.id: must be an integer, not a string"),
        ({**FIELD, "id": True}, "f.id: must be an integer, not a boolean"),
        ({**FIELD, "id": 2**31}, "f.id: 2147483648 is outside"),
        ({**FIELD, "id": None}, "f.id: missing"),
        ({**FIELD, "name": 3}, "f.name: must be a string"),
        ({**FIELD, "required": 1}, "f.required: must be a boolean"),
        ({k: v for k, v in FIELD.items() if k != "type"}, "f.type: missing"),
        ({**FIELD, "type": 4}, "f.type: a type must be a string or an object"),
        ({**FIELD, "type": {}}, "f.type.type: missing"),
        ({**FIELD, "type": {"type": "set"}}, "f.type.type: unknown nested type 'set'"),
        ({**FIELD, "type": {"type": "struct", "fields": {}}}, "f.type.fields: must be an array"),
        ({**FIELD, "type": {"type": "struct", "fields": [7]}}, "f.type.fields[0]: a field must be an object"),
        ({**FIELD, "type": {"type": "list", "element-id": 2, "element-required": True}}, "f.type.element: missing"),
        ({**FIELD, "doc": 1}, "f.doc: must be a string"),
        ({**FIELD, "initial-default": "x"}, "f.initial-default: a string is not a value of type int"),
        ({**FIELD, "write-default": 2**31}, "f.write-default: 2147483648 is outside the range of int"),
        ({**FIELD, "type": "variant", "write-default": 1}, "f.write-default: a value of type variant must be null"),
    ],
)
def test_a_malformed_field_is_refused_with_the_path_of_the_member(obj, message):
    with pytest.raises(InvalidInput) as caught:
        field_from_json(obj, where="f")
    assert str(caught.value).startswith(message)


def test_an_explicit_null_default_is_no_default():
    assert field_from_json({**FIELD, "initial-default": None, "write-default": None}) == field_from_json(FIELD)


def test_lists_and_maps_show_what_they_contain_as_fields():
    element = ListType(element_id=2, element=INT, element_required=False)
    assert child_fields(element) == (NestedField(field_id=2, name="element", type=INT, required=False),)
    of = MapType(key_id=3, key=STRING, value_id=4, value=INT, value_required=True)
    assert [(f.field_id, f.name, f.required) for f in child_fields(of)] == [(3, "key", True), (4, "value", True)]
    assert child_fields(INT) == ()


def test_a_variant_is_neither_primitive_nor_nested():
    assert not is_primitive(VARIANT)
    assert not is_primitive(StructType(()))
    assert is_primitive(GeometryType())


def test_types_that_format_version_3_added_are_known():
    v3 = {"timestamp_ns", "timestamptz_ns", "unknown", "variant", "geometry", "geography"}
    assert all(needs_v3(type_from_text(name)) for name in v3)
    assert not any(needs_v3(type_from_text(name)) for name in ("int", "timestamptz", "uuid", "decimal(9, 2)"))
