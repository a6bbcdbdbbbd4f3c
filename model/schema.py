"""A table schema: an identified struct type with name and id lookups (table specification, "Schemas")."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from functools import cached_property
from itertools import count
from typing import Any, Final

import msgspec

from firn.model.errors import InvalidSchema
from firn.model.field_ids import with_ids
from firn.model.json_members import as_object, int_or_none, join, longs_of, str_or_none
from firn.model.type_json import SCHEMA_FIELDS_MAX, struct_from_json, type_to_json
from firn.model.types import MapType, NestedField, StructType, child_fields, needs_v3

_MEMBERS: Final = frozenset({"type", "fields", "schema-id", "identifier-field-ids"})


class Schema(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The columns of a table at one time.

    `identifier_field_ids` name the columns that identify a row; `extra` keeps JSON members that firn does not know.
    Lookups are built on first use, in one walk over all fields, nested ones included: a list's element is the field
    ``element``, a map's are ``key`` and ``value``.
    """

    schema_id: int
    struct: StructType
    identifier_field_ids: tuple[int, ...] = ()
    extra: dict[str, Any] = {}

    def __hash__(self) -> int:
        return hash((self.schema_id, self.struct, self.identifier_field_ids))

    @property
    def fields(self) -> tuple[NestedField, ...]:
        """The columns at the top."""
        return self.struct.fields

    def as_struct(self) -> StructType:
        """The columns as a struct type: two schemas with equal structs differ in their ids only."""
        return self.struct

    @cached_property
    def _entries(self) -> tuple[_Entry, ...]:
        return tuple(_walk(self.struct))

    @cached_property
    def fields_by_id(self) -> Mapping[int, NestedField]:
        """Every field, nested ones included, by its id; parents come before what they contain."""
        return {e.field.field_id: e.field for e in self._entries}

    @cached_property
    def names_by_id(self) -> Mapping[int, str]:
        """The full dotted name of every field: ``points.element.x``."""
        return {e.field.field_id: e.name for e in self._entries}

    @cached_property
    def ids_by_name(self) -> Mapping[str, int]:
        """Field ids by full dotted name, and by the short names of `_walk` that no full name takes.

        Where two fields share a name, the first keeps it; `firn.model.schema_rules` refuses such schemas.
        """
        ids: dict[str, int] = {}
        for entry in self._entries:
            ids.setdefault(entry.name, entry.field.field_id)
        for entry in self._entries:
            ids.setdefault(entry.short_name, entry.field.field_id)
        return ids

    @cached_property
    def _ids_by_lowered_name(self) -> Mapping[str, frozenset[int]]:
        ids: dict[str, set[int]] = {}
        for name, field_id in self.ids_by_name.items():
            ids.setdefault(name.lower(), set()).add(field_id)
        return {name: frozenset(found) for name, found in ids.items()}

    @cached_property
    def parent_ids(self) -> Mapping[int, int]:
        """For every nested field, the id of the field that directly contains it."""
        return {e.field.field_id: e.parent_id for e in self._entries if e.parent_id is not None}

    @cached_property
    def positions_by_id(self) -> Mapping[int, tuple[int, ...]]:
        """Where a row, as tuples in field order, keeps a field: positions from the top down through structs.

        Fields inside lists and maps have no single value in a row and are not in it.
        """
        return {e.field.field_id: e.position for e in self._entries if e.position is not None}

    def field_by_id(self, field_id: int) -> NestedField | None:
        """The field with this id, nested ones included; None when there is none."""
        return self.fields_by_id.get(field_id)

    def find_field(self, name: str, case_sensitive: bool = True) -> NestedField | None:  # noqa: FBT001, FBT002 - the shape that the team agreed on
        """The field with this dotted name, full or short; None when there is none.

        Raises InvalidSchema when `case_sensitive` is False and the name fits several fields.
        """
        if case_sensitive:
            found = self.ids_by_name.get(name)
            return None if found is None else self.fields_by_id[found]
        ids = self._ids_by_lowered_name.get(name.lower(), frozenset())
        if len(ids) > 1:
            names = ", ".join(sorted(self.names_by_id[i] for i in ids))
            raise InvalidSchema(f"column name {name!r} fits several columns: {names}")
        return self.fields_by_id[next(iter(ids))] if ids else None

    def column_name(self, field_id: int) -> str | None:
        """The full dotted name of the field with this id; None when there is none."""
        return self.names_by_id.get(field_id)

    def path(self, field_id: int) -> tuple[str, ...]:
        """The name of a field and before it those of all that it is inside: they may have dots in them."""
        parts: list[str] = []
        at: int | None = field_id
        while at is not None:
            parts.append(self.fields_by_id[at].name)
            at = self.parent_ids.get(at)
        return tuple(reversed(parts))

    def parent_id(self, field_id: int) -> int | None:
        """The id of the field that directly contains this one; None for a column at the top."""
        return self.parent_ids.get(field_id)

    def position(self, field_id: int) -> tuple[int, ...] | None:
        """See `positions_by_id`; None for fields inside lists and maps and for unknown ids."""
        return self.positions_by_id.get(field_id)

    @cached_property
    def highest_field_id(self) -> int:
        """The greatest field id in use, 0 for no fields at all."""
        return max(self.fields_by_id, default=0)

    @cached_property
    def partition_types(self) -> dict[Hashable, StructType]:
        """What partition tuples are by this schema, by partition spec: kept by `firn.model.partitioning`."""
        return {}

    @cached_property
    def min_format_version(self) -> int:
        """The oldest format version that may hold this schema.

        Types and initial defaults decide. A write default alone does not change how files are read, and Java writes it
        into older tables; `firn.model.schema_update` does not.
        """
        v3 = any(needs_v3(f.type) or f.initial_default is not None for f in self.fields_by_id.values())
        return 3 if v3 else 1


class _Entry(msgspec.Struct, frozen=True):
    """One field with what only the walk knows: names, parent and position.

    `short_prefix` is what the short names of the fields inside start with.
    """

    field: NestedField
    name: str
    short_name: str
    short_prefix: str
    parent_id: int | None
    position: tuple[int, ...] | None


def _walk(struct: StructType) -> Iterator[_Entry]:
    """Every field, each before what it contains.

    Short names leave out ``element`` and ``value`` before the fields of a struct: ``points.x`` for
    ``points.element.x``.
    """
    open_fields: list[_Entry] = [
        _Entry(field, field.name, field.name, field.name, None, (i,))
        for i, field in reversed(list(enumerate(struct.fields)))
    ]
    while open_fields:
        entry = open_fields.pop()
        yield entry
        field = entry.field
        within_struct = isinstance(field.type, StructType)
        for i, child in reversed(list(enumerate(child_fields(field.type)))):
            is_key = isinstance(field.type, MapType) and i == 0
            transparent = isinstance(child.type, StructType) and not within_struct and not is_key
            short_name = f"{entry.short_prefix}.{child.name}"
            open_fields.append(
                _Entry(
                    child,
                    f"{entry.name}.{child.name}",
                    short_name,
                    entry.short_prefix if transparent else short_name,
                    field.field_id,
                    (*entry.position, i) if within_struct and entry.position is not None else None,
                )
            )


def schema_from_json(obj: Any, *, where: str = "schema") -> Schema:
    """The schema that a JSON object describes; a missing ``schema-id`` (v1) is 0.

    Raises InvalidInput for malformed members and for a field id that is used twice. The other rules of a schema are
    in `firn.model.schema_rules`: historical schemas of a table need not keep today's.
    """
    members = as_object(obj, where=where)
    if str_or_none(members, "type", where=where) not in (None, "struct"):
        raise InvalidSchema("a schema must be a struct", where=join(where, "type"))
    schema_id = int_or_none(members, "schema-id", where=where)
    struct = struct_from_json(members, where=where, known=_MEMBERS)
    schema = Schema(
        schema_id=0 if schema_id is None else schema_id,
        struct=msgspec.structs.replace(struct, extra={}),
        identifier_field_ids=_identifiers(members, where),
        extra=struct.extra,
    )
    check_unique_ids(schema, where=where)
    return schema


def _identifiers(members: dict[str, Any], where: str) -> tuple[int, ...]:
    key = "identifier-field-ids"
    if members.get(key) is None:
        return ()
    ids = longs_of(members, key, where=where)
    if len(ids) > SCHEMA_FIELDS_MAX:
        raise InvalidSchema(f"{len(ids)} identifier fields, over {SCHEMA_FIELDS_MAX}", where=join(where, key))
    return ids


def check_unique_ids(schema: Schema, *, where: str = "schema") -> None:
    """Raise InvalidSchema when two fields share an id: every file would be read wrong."""
    seen: dict[int, str] = {}
    for entry in _walk(schema.struct):
        other = seen.get(entry.field.field_id)
        if other is not None:
            raise InvalidSchema(f"field id {entry.field.field_id} is used by {other} and {entry.name}", where=where)
        seen[entry.field.field_id] = entry.name


def schema_to_json(schema: Schema) -> dict[str, Any]:
    """The JSON object of a schema, as in table metadata."""
    out: dict[str, Any] = {"type": "struct", "schema-id": schema.schema_id}
    if schema.identifier_field_ids:
        out["identifier-field-ids"] = list(schema.identifier_field_ids)
    struct = type_to_json(schema.struct)
    assert isinstance(struct, dict)
    return out | {"fields": struct["fields"]} | schema.extra


def assign_fresh_ids(schema: Schema, next_id: int = 1) -> tuple[Schema, int]:
    """The schema with new ids from `next_id` on, and the last id given (`next_id` - 1 for no fields).

    Every field of a struct gets its id before anything inside the fields does, as when a table is created.
    Identifier fields keep naming the same columns.
    """
    ids = count(next_id)
    new_ids: dict[int, int] = {}

    def fresh(old_id: int) -> int:
        new_ids[old_id] = next(ids)
        return new_ids[old_id]

    struct = with_ids(schema.struct, fresh)
    assert isinstance(struct, StructType)
    identifiers = tuple(new_ids[i] for i in schema.identifier_field_ids if i in new_ids)
    new_schema = msgspec.structs.replace(schema, struct=struct, identifier_field_ids=identifiers)
    return new_schema, next(ids) - 1
