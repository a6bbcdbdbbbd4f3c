"""Whether changes of a schema that were planned on one schema mean the same on another (concurrent evolution).

They do when they are about other columns than those that changed between the two. Columns are told by their ids: names
may have moved on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from firn.model.schema import Schema
from firn.model.schema_change import (
    AddColumn,
    DropColumn,
    MoveAfter,
    MoveBefore,
    MoveFirst,
    SchemaChange,
    SetIdentifierFields,
)
from firn.model.types import ListType, MapType, NestedField, is_nested


class _Touched(msgspec.Struct):
    """What a list of changes is about, as ids of the schema that it was planned on. None is the table as a parent."""

    columns: set[int]
    parents: set[int]
    dropped: set[int]
    reordered: set[int | None]
    identifiers: bool = False


def contested(
    base: Schema, current: Schema, changes: Sequence[SchemaChange], *, case_sensitive: bool = True
) -> tuple[str, ...]:
    """What both the changes, planned on `base`, and the way from `base` to `current` are about, for people.

    Names are those of `base`. Empty when the changes mean on `current` what they meant on `base`, provided that they
    can be applied there. The changes must be such as can be applied to `base`.
    """
    touched = _touched(base, changes, case_sensitive=case_sensitive)
    found = set(changed_columns(base, current, touched.columns))
    found |= set(moved_away(base, current, touched.parents))
    below_dropped = {i for i in base.fields_by_id if not touched.dropped.isdisjoint(_path(base, i))}
    found |= set(changed_columns(base, current, below_dropped))
    found |= touched.dropped & set(_grown(base, current))
    names = [base.names_by_id[i] for i in sorted(found)]
    names += [
        "the order of columns" + ("" if parent is None else f" in {base.names_by_id[parent]}")
        for parent in touched.reordered & set(_reordered(base, current))
    ]
    if touched.identifiers and set(base.identifier_field_ids) != set(current.identifier_field_ids):
        names.append("the identifier fields")
    return tuple(names)


def changed_columns(base: Schema, current: Schema, ids: Iterable[int]) -> Iterator[int]:
    """Those of the columns that are not the same in both schemas: gone, altered, or within something that is.

    What is added to or altered within a column is not a change of the column itself.
    """
    for field_id in ids:
        if _own(base, field_id) != _own(current, field_id):
            yield field_id
        else:
            parent = base.parent_id(field_id)
            yield from () if parent is None else moved_away(base, current, (parent,))


def moved_away(base: Schema, current: Schema, ids: Iterable[int]) -> Iterator[int]:
    """Those of the columns, and of what they are within, that are gone or have another name."""
    for start in ids:
        for field_id in _path(base, start):
            there = current.fields_by_id.get(field_id)
            if there is None or there.name != base.fields_by_id[field_id].name:
                yield field_id


def _own(schema: Schema, field_id: int) -> tuple[Any, ...] | None:
    """What a column is by itself, apart from what is within it; None where the schema does not have it."""
    field = schema.fields_by_id.get(field_id)
    if field is None:
        return None
    kind = type(field.type) if is_nested(field.type) else field.type
    defaults = (field.initial_default, field.write_default)
    return field.name, field.required, field.doc, defaults, kind, schema.parent_id(field_id)


def _path(schema: Schema, field_id: int) -> Iterator[int]:
    """A column and all that it is within, innermost first."""
    here: int | None = field_id
    while here is not None:
        yield here
        here = schema.parent_id(here)


def _grown(base: Schema, current: Schema) -> Iterator[int]:
    """Columns of `base` within which `current` has new ones."""
    for field_id in current.fields_by_id:
        if field_id not in base.fields_by_id:
            yield from (i for i in _path(current, field_id) if i in base.fields_by_id)


def _reordered(base: Schema, current: Schema) -> Iterator[int | None]:
    """Parents in which the columns that both schemas have stand in another order."""
    before, after = _children(base, keep=current.fields_by_id), _children(current, keep=base.fields_by_id)
    yield from (parent for parent, children in before.items() if after.get(parent, children) != children)


def _children(schema: Schema, *, keep: Collection[int]) -> dict[int | None, list[int]]:
    children: dict[int | None, list[int]] = {}
    for field_id in schema.fields_by_id:
        if field_id in keep:
            children.setdefault(schema.parent_id(field_id), []).append(field_id)
    return children


def _touched(base: Schema, changes: Sequence[SchemaChange], *, case_sensitive: bool) -> _Touched:
    touched = _Touched(set(), set(), set(), set())
    for change in changes:
        match change:
            case AddColumn(parent=parent):
                touched.parents |= {f.field_id for f in _struct_in(base, parent, case_sensitive=case_sensitive)}
            case SetIdentifierFields(names=names):
                touched.identifiers = True
                touched.columns |= {f.field_id for n in names for f in _found(base, n, case_sensitive=case_sensitive)}
            case MoveFirst() | MoveBefore() | MoveAfter():
                for name in (change.name, getattr(change, "reference", None)):
                    for field in _found(base, name, case_sensitive=case_sensitive):
                        touched.parents.add(field.field_id)
                        touched.reordered.add(base.parent_id(field.field_id))
            case _:
                ids = {f.field_id for f in _found(base, change.name, case_sensitive=case_sensitive)}
                touched.columns |= ids
                touched.dropped |= ids if isinstance(change, DropColumn) else set()
    return touched


def _found(schema: Schema, name: str | None, *, case_sensitive: bool) -> Iterator[NestedField]:
    """The column of this name; none where the changes add it themselves."""
    field = schema.find_field(name, case_sensitive) if name else None
    if field is not None:
        yield field


def _struct_in(schema: Schema, name: str | None, *, case_sensitive: bool) -> Iterator[NestedField]:
    """The column of this name, with the element or value that a column added to it goes into."""
    for field in _found(schema, name, case_sensitive=case_sensitive):
        yield field
        if isinstance(field.type, ListType):
            yield field.type.element_field
        elif isinstance(field.type, MapType):
            yield field.type.value_field
