"""Columns beside the user's, whatever those are called."""

from __future__ import annotations

import pytest

from firn.model.errors import Unsupported
from firn.model.expressions.binding import bind
from firn.model.expressions.filter_text import filter_from_text
from firn.model.expressions.predicates import BoundPredicate
from firn.model.reserved import FILE, POS, ROW_ID
from firn.model.schema import Schema
from firn.model.types import INT, NestedField, StructType
from firn.pipeline.user_columns import fresh_name, require_distinct


def schema(*fields: NestedField | str) -> Schema:
    made = [
        NestedField(field_id=at, name=one, type=INT, required=False) if isinstance(one, str) else one
        for at, one in enumerate(fields, start=1)
    ]
    return Schema(schema_id=0, struct=StructType(tuple(made)))


def test_a_fresh_name_is_none_of_the_others_even_without_regard_to_case() -> None:
    assert fresh_name("__firn_z", ["a"]) == "__firn_z"
    assert fresh_name("__firn_z", ["a", "__FIRN_Z"], ["__firn_z_1"]) == "__firn_z_2"


def test_columns_that_spark_cannot_tell_apart_are_refused() -> None:
    with pytest.raises(Unsupported, match="differ in case only"):
        require_distinct(schema("A", "a"), case_sensitive=False)
    require_distinct(schema("A", "a"), case_sensitive=True)
    require_distinct(schema("a.b", "a", FILE, POS), case_sensitive=False)


@pytest.mark.parametrize(("name", "needed"), [("_file", FILE), ("_pos", POS), ("_row_id", ROW_ID)])
def test_a_column_called_like_a_metadata_column_is_refused_where_that_is_needed(name: str, needed: NestedField) -> None:
    for case_sensitive in (True, False):
        with pytest.raises(Unsupported, match="called like a metadata column"):
            require_distinct(schema(name, needed), case_sensitive=case_sensitive)
    require_distinct(schema(name), case_sensitive=False)


def test_the_path_of_a_column_keeps_dots_in_names_apart_from_structs() -> None:
    inside = StructType((NestedField(field_id=9, name="y.z", type=INT, required=False),))
    given = schema("a.b", NestedField(field_id=2, name="x", type=inside, required=False))
    assert given.path(1) == ("a.b",)
    assert given.path(9) == ("x", "y.z")
    bound = bind(filter_from_text("`a.b` = 1"), given)
    assert isinstance(bound, BoundPredicate)
    assert bound.term.reference.path == ("a.b",)
