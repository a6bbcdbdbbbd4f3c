"""Names that new columns may have, and those that a table keeps from elsewhere."""

from __future__ import annotations

import pytest

from firn.model.errors import InvalidSchema
from firn.model.new_names import COLUMN_NAME_BYTES_MAX, check_new_names, unusable_name
from firn.model.reserved import METADATA_COLUMN_NAMES
from firn.model.schema import Schema
from firn.model.types import INT, ListType, NestedField, StructType
from tests.strategies.hostile_names import BIDI, CONTROLS, PLAIN, RESERVED_COLUMNS, SPACED


def schema(*names, first=1, type=INT):
    fields = [NestedField(field_id=first + i, name=n, type=type, required=False) for i, n in enumerate(names)]
    return Schema(schema_id=0, struct=StructType(tuple(fields)))


def nested(*names):
    inside = schema(*names, first=3).struct
    column = ListType(element_id=2, element=inside, element_required=False)
    return schema("s", type=column)


def test_the_table_of_reserved_names_is_the_models():
    assert set(RESERVED_COLUMNS) == METADATA_COLUMN_NAMES


@pytest.mark.parametrize("name", PLAIN)
def test_unusual_names_can_be_given(name):
    check_new_names(schema(name))
    check_new_names(nested(name))


@pytest.mark.parametrize("name", [*CONTROLS, *BIDI, *SPACED, "", "\ud800", "ä" * (COLUMN_NAME_BYTES_MAX // 2 + 1)])
def test_names_that_cannot_be_shown_or_stored_cannot_be_given_at_any_level(name):
    for given in (schema("id", name), nested("id", name)):
        with pytest.raises(InvalidSchema, match="choose another name") as caught:
            check_new_names(given, where="changes")
        assert caught.value.where == "changes"
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", [form(n) for n in RESERVED_COLUMNS for form in (str, str.upper)])
def test_names_of_metadata_columns_cannot_be_given_at_the_top(name):
    with pytest.raises(InvalidSchema, match="metadata column"):
        check_new_names(schema("id", name))
    check_new_names(nested(name))


def test_names_that_differ_in_case_only_cannot_be_given():
    for given in (schema("A", "a"), nested("Id", "id"), schema("Größe", "GRÖßE")):
        with pytest.raises(InvalidSchema, match="differ in case only"):
            check_new_names(given)
    check_new_names(schema("A", "b"))


@pytest.mark.parametrize("names", [("_file", "id"), ("a\nb",), ("A", "a"), ("A", "a", "c"), ("", "x" * 2000)])
def test_names_that_a_table_has_already_may_stay(names):
    known = schema(*names)
    check_new_names(known, known=known)
    with pytest.raises(InvalidSchema):
        check_new_names(schema(*names, "_pos"), known=known)
    if "a" in names:
        with pytest.raises(InvalidSchema, match="differ in case"):
            check_new_names(schema("A", "b", "B"), known=known)


def test_a_twin_beside_a_known_name_is_refused():
    with pytest.raises(InvalidSchema, match="differ in case"):
        check_new_names(schema("a", "A"), known=schema("a"))


def test_the_reason_is_the_end_of_a_sentence():
    assert unusable_name("_pos") is not None
    assert unusable_name("_pos", at_top=False) is None
