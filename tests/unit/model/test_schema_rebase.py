"""Concurrent schema changes: what is not contested comes to the same, whoever was first."""

from __future__ import annotations

from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from firn.model.column_properties import follow_columns
from firn.model.errors import InvalidInput
from firn.model.schema import Schema, schema_from_json
from firn.model.schema_change import SchemaChange, changes_from_json
from firn.model.schema_rebase import contested
from firn.model.schema_update import apply_changes
from tests.strategies.examples import examples

BASE = schema_from_json(
    {"type": "struct", "schema-id": 0, "identifier-field-ids": [1], "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "a", "type": "int", "required": False},
        {"id": 3, "name": "b", "type": "int", "required": False},
        {"id": 4, "name": "s", "required": False, "type": {"type": "struct", "fields": [
            {"id": 5, "name": "a", "type": "int", "required": False},
            {"id": 6, "name": "b", "type": "int", "required": False},
        ]}},
        {"id": 7, "name": "l", "required": False, "type": {
            "type": "list", "element-id": 8, "element-required": False,
            "element": {"type": "struct", "fields": [{"id": 9, "name": "a", "type": "int", "required": False}]},
        }},
    ]},
    where="schema",
)  # fmt: skip
COLUMNS = ["id", "a", "b", "s", "s.a", "s.b", "l", "l.element", "l.element.a", "new"]
SHORT = ["a", "b", "c", "new"]

columns = st.sampled_from(COLUMNS)
change = st.one_of(
    st.builds(
        lambda name, parent: {"action": "add-column", "name": name, "type": "string", "parent": parent},
        st.sampled_from(SHORT), st.sampled_from(["", "s", "l"]),
    ),
    st.builds(lambda name: {"action": "drop-column", "name": name}, columns),
    st.builds(
        lambda name, new: {"action": "rename-column", "name": name, "new-name": new}, columns, st.sampled_from(SHORT)
    ),
    st.builds(lambda name: {"action": "update-column-type", "name": name, "type": "long"}, columns),
    st.builds(lambda name: {"action": "update-column-doc", "name": name, "doc": "said"}, columns),
    st.builds(lambda name: {"action": "make-column-optional", "name": name}, columns),
    st.builds(lambda names: {"action": "set-identifier-fields", "names": names}, st.sampled_from([["id"], []])),
)  # fmt: skip
change_lists = st.lists(change, min_size=1, max_size=3).map(changes_from_json)


def applied(schema: Schema, changes: tuple[SchemaChange, ...], last_column_id: int = 9) -> tuple[Schema, int] | None:
    try:
        return apply_changes(schema, changes, last_column_id=last_column_id, format_version=2)
    except InvalidInput:
        return None


def shape(schema: Schema) -> Any:
    """The schema without the ids of new columns and without the order of columns."""
    paths = {}
    for field_id, name in schema.names_by_id.items():
        field = schema.fields_by_id[field_id]
        own = field_id if field_id in BASE.fields_by_id else None
        kind = str(field.type) if not schema_has_children(schema, field_id) else type(field.type).__name__
        paths[name] = (own, field.required, field.doc, kind)
    return paths, frozenset(schema.identifier_field_ids)


def schema_has_children(schema: Schema, field_id: int) -> bool:
    return any(schema.parent_id(i) == field_id for i in schema.fields_by_id)


@examples(300)
@given(one=change_lists, other=change_lists)
def test_uncontested_changes_come_to_the_same_in_either_order(
    one: tuple[SchemaChange, ...], other: tuple[SchemaChange, ...]
) -> None:
    after_one, after_other = applied(BASE, one), applied(BASE, other)
    if after_one is None or after_other is None:
        event("not possible at all")
        return
    if contested(BASE, after_one[0], other):
        event("contested")
        return
    both = applied(after_one[0], other, after_one[1])
    if both is None:
        event("not possible any more")
        return
    if contested(BASE, after_other[0], one):
        event("contested one way round: a part of the first changes nothing")
        return
    event("both made")
    reverse = applied(after_other[0], one, after_other[1])
    assert reverse is not None
    assert shape(both[0]) == shape(reverse[0])
    # What the second was about is as it would be without the first.
    for field_id in BASE.fields_by_id:
        alone = after_other[0].fields_by_id.get(field_id)
        if alone is None:
            assert field_id not in both[0].fields_by_id


@given(changes=change_lists)
def test_changes_on_what_nobody_has_changed_are_never_contested(changes: tuple[SchemaChange, ...]) -> None:
    if applied(BASE, changes) is not None:
        assert contested(BASE, BASE, changes) == ()


def test_properties_that_name_columns_swap_with_them() -> None:
    swap = changes_from_json([
        {"action": "rename-column", "name": "a", "new-name": "b"},
        {"action": "rename-column", "name": "b", "new-name": "a"},
    ])  # fmt: skip
    after = apply_changes(BASE, swap, last_column_id=9, format_version=2)[0]
    properties = {"write.metadata.metrics.column.a": "full", "write.metadata.metrics.column.b": "none", "x": "y"}
    assert follow_columns(properties, before=BASE, after=after) == {
        "write.metadata.metrics.column.b": "full", "write.metadata.metrics.column.a": "none", "x": "y",
    }  # fmt: skip
