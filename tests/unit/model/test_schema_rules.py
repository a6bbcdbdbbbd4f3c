from __future__ import annotations

import msgspec
import pytest

from firn.model.errors import InvalidSchema
from firn.model.reserved import TABLE_FIELD_ID_MAX
from firn.model.schema import Schema
from firn.model.schema_rules import check_identifier, validate_schema
from firn.model.types import (
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIMESTAMP_NS,
    TYPE_DEPTH_MAX,
    UNKNOWN,
    VARIANT,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
)


def field(field_id, name, type=INT, *, required=True, **attributes):
    return NestedField(field_id=field_id, name=name, type=type, required=required, **attributes)


def schema(*fields, identifiers=()):
    return Schema(schema_id=0, struct=StructType(fields), identifier_field_ids=identifiers)


def refused(of, match, *, format_version=None):
    with pytest.raises(InvalidSchema, match=match) as caught:
        validate_schema(of, format_version=format_version, where="schemas[2]")
    assert caught.value.where == "schemas[2]"


def test_ids_must_be_unique_and_the_tables_own():
    refused(schema(field(1, "a"), field(1, "b")), "field id 1 is used by a and b")
    refused(schema(field(-1, "a")), "column a has the negative field id -1")
    validate_schema(schema(field(TABLE_FIELD_ID_MAX, "a")))
    refused(schema(field(TABLE_FIELD_ID_MAX + 1, "a")), "column a has field id 2147483448; .* reserved")


def test_names_must_be_unique_and_sayable():
    inner = StructType((field(3, "b"),))
    refused(schema(field(1, "a"), field(2, "a")), "two columns are named a: field ids 1 and 2")
    refused(schema(field(1, "a", inner), field(2, "a.b")), r"two columns are named a\.b: field ids 3 and 2")
    refused(schema(field(1, "")), "field id 1 has an empty name")
    refused(schema(field(1, "\udc00")), "name of field 1 has a lone surrogate")
    validate_schema(schema(field(1, "a"), field(2, "A")))


def test_a_short_name_may_be_taken():
    points = ListType(element_id=2, element=StructType((field(3, "x"),)), element_required=True)
    validate_schema(schema(field(1, "points", points), field(4, "points.x")))


def test_a_column_of_type_unknown_must_be_optional():
    validate_schema(schema(field(1, "a", UNKNOWN, required=False)))
    refused(schema(field(1, "a", UNKNOWN)), "column a of type unknown must be optional")
    key = MapType(key_id=2, key=UNKNOWN, value_id=3, value=INT, value_required=True)
    refused(schema(field(1, "a", key)), r"column a\.key of type unknown must be optional")


@pytest.mark.parametrize("type", [UNKNOWN, VARIANT, GeometryType(), GeographyType()])
def test_some_types_have_no_default_but_null(type):
    refused(schema(field(1, "a", type, required=False, write_default=b"x")), "write-default of column a must be null")


def test_defaults_must_be_values_of_their_column():
    refused(schema(field(1, "a", INT, initial_default="x")), "initial-default of column a: a string is not a value")
    refused(schema(field(1, "a", INT, write_default=2**31)), "write-default of column a: 2147483648 is outside")
    validate_schema(schema(field(1, "a", INT, initial_default=-1, write_default=0)), format_version=3)


def test_a_structs_default_is_null_or_empty():
    inner = StructType((field(2, "x", initial_default=1),))
    validate_schema(schema(field(1, "a", inner, initial_default={})))
    refused(schema(field(1, "a", inner, initial_default={2: 1})), "column a must be null or an empty struct")


def test_identifier_fields_must_be_exact_values_that_are_always_there():
    inner = StructType((field(11, "x", LONG),))
    of = schema(
        field(1, "id"),
        field(2, "optional", required=False),
        field(3, "double", DOUBLE),
        field(4, "variant", VARIANT),
        field(5, "list", ListType(element_id=10, element=INT, element_required=True)),
        field(6, "outer", inner),
        field(7, "maybe", StructType((field(12, "y", LONG),)), required=False),
        field(
            8,
            "map",
            MapType(key_id=13, key=STRING, value_id=14, value=StructType((field(15, "z"),)), value_required=True),
        ),
    )
    validate_schema(msgspec.structs.replace(of, identifier_field_ids=(1, 11)))
    for field_id, reason in [
        (99, "identifier field id 99 is not a column"),
        (2, "column optional .*: it is not required"),
        (3, "column double .*: double values have no exact equality"),
        (4, "column variant .*: its type is variant"),
        (5, "column list .*: its type is list<int>"),
        (10, r"column list\.element .*: it is inside the list or map list"),
        (12, r"column maybe\.y .*: it is inside maybe, which is optional"),
        (13, r"column map\.key .*: it is inside the list or map map"),
        (15, r"column map\.value\.z .*: it is inside the list or map map"),
    ]:
        with pytest.raises(InvalidSchema, match=reason):
            check_identifier(of, field_id)
        refused(msgspec.structs.replace(of, identifier_field_ids=(1, field_id)), reason)


def test_types_and_defaults_of_version_3_need_version_3():
    nested = schema(field(1, "a", ListType(element_id=2, element=TIMESTAMP_NS, element_required=True)))
    refused(nested, r"column a\.element of type timestamp_ns needs format version 3, the table has 2", format_version=2)
    validate_schema(nested, format_version=3)
    refused(schema(field(1, "a", initial_default=1)), "initial-default of column a needs", format_version=1)
    validate_schema(schema(field(1, "a", write_default=1)), format_version=2)


def test_nesting_ends_at_its_limit():
    def nested(levels):
        type: Type = INT
        for i in range(levels):
            type = ListType(element_id=i + 2, element=type, element_required=True)
        return schema(field(1, "a", type))

    validate_schema(nested(TYPE_DEPTH_MAX - 1))
    refused(nested(TYPE_DEPTH_MAX), f"more than {TYPE_DEPTH_MAX} levels")
