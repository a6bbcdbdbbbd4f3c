"""Partition evolution: changes of a spec as values and what they make of it (specification, "Partition Evolution").

v1 tables know partition fields by their position only: a removed field stays as ``void`` and ids are 1000, 1001, ….
From v2 on a field is removed for real, its id is never given to another, and a field that comes back gets it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from firn.model.errors import InvalidInput, InvalidMetadata, Unsupported
from firn.model.partitioning import (
    PARTITION_FIELD_ID_START,
    PartitionField,
    PartitionSpec,
    check_spec,
    same_partitioning,
)
from firn.model.schema import Schema
from firn.model.transforms import (
    TimeTransform,
    Transform,
    UnknownTransform,
    Void,
    default_name,
    parse_transform,
)

SPEC_CHANGES_MAX: Final = 1_000
"""Changes in one update."""


class _Change(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="kebab",
    tag_field="action",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """What all changes share: their JSON form names the ``action``."""


class AddField(_Change, frozen=True, kw_only=True, tag="add-field"):
    """Partition by `transform` of the column `source` (its dotted name); `name` None takes the default name."""

    source: str
    transform: str = "identity"
    name: str | None = None


class RemoveField(_Change, frozen=True, kw_only=True, tag="remove-field"):
    """Stop partitioning by a field, given by its `name`, or by `source` column and `transform`."""

    name: str | None = None
    source: str | None = None
    transform: str = "identity"


class RenameField(_Change, frozen=True, kw_only=True, tag="rename-field"):
    """Give the field `name` another name."""

    name: str
    new_name: str


SpecChange = AddField | RemoveField | RenameField


def changes_from_json(obj: Any, *, where: str = "changes") -> tuple[SpecChange, ...]:
    """Changes from a JSON list of objects such as ``{"action": "add-field", "source": "ts", "transform": "day"}``.

    Raises InvalidInput naming the member.
    """
    if isinstance(obj, list) and len(obj) > SPEC_CHANGES_MAX:
        raise InvalidInput(f"{len(obj)} changes, the limit is {SPEC_CHANGES_MAX}", where=where)
    try:
        return msgspec.convert(obj, tuple[SpecChange, ...])
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        raise InvalidInput(message, where=where + path.rstrip("`")) from None


def changes_to_json(changes: Iterable[SpecChange]) -> list[dict[str, Any]]:
    """The JSON form of `changes`."""
    return [msgspec.to_builtins(change) for change in changes]


def evolve_spec(
    spec: PartitionSpec,
    schema: Schema,
    changes: Sequence[SpecChange],
    *,
    format_version: int,
    specs: Sequence[PartitionSpec] = (),
    last_partition_id: int | None = None,
    where: str = "changes",
) -> PartitionSpec:
    """`spec` after `changes`, as one of `specs` where an equivalent one exists and else with the next free id.

    `specs` are all of the table's (oldest first), `last_partition_id` is the highest id that any partition field ever
    had; without them `spec` counts as the only one. The table's new ``last-partition-id`` is the maximum of the old
    and the result's `last_field_id`.

    Raises InvalidInput for a change that is not allowed, InvalidMetadata for a result that is not, Unsupported when
    an unknown transform is in the way.
    """
    specs = specs or (spec,)
    if last_partition_id is None:
        last_partition_id = max(s.last_field_id for s in specs)
    if spec.has_unknown_transform:
        raise Unsupported("a partition spec with an unknown transform cannot be evolved", where=where)
    evolution = _Evolution(spec, schema, format_version, specs, last_partition_id)
    for i, change in enumerate(changes):
        path = f"{where}[{i}]"
        match change:
            case AddField():
                evolution.add(change, path)
            case RemoveField():
                evolution.remove(change, path)
            case RenameField():
                evolution.rename(change.name, change.new_name, path)
    evolved = PartitionSpec(spec_id=spec.spec_id, fields=evolution.fields(), extra=spec.extra)
    check_spec(evolved, schema, format_version=format_version)
    return add_spec(evolved, specs)


def add_spec(spec: PartitionSpec, specs: Iterable[PartitionSpec]) -> PartitionSpec:
    """The equivalent of `spec` in a table with `specs`: the one it has already, else `spec` with the next free id."""
    next_id = 0
    for existing in specs:
        if same_partitioning(existing, spec):
            return existing
        next_id = max(next_id, existing.spec_id + 1)
    return msgspec.structs.replace(spec, spec_id=next_id)


class _Evolution:
    """One update under way. Fields of the old spec are known by their old names until the end."""

    def __init__(
        self,
        spec: PartitionSpec,
        schema: Schema,
        format_version: int,
        specs: Sequence[PartitionSpec],
        last_partition_id: int,
    ) -> None:
        self._spec = spec
        self._schema = schema
        self._format_version = format_version
        self._specs = specs
        self._last_id = last_partition_id
        self._by_name = {f.name: f for f in spec.fields}
        self._by_transform = {(f.source_ids, f.parsed_transform): f for f in spec.fields}
        self._added: list[PartitionField] = []
        self._deleted: set[int] = set()
        self._renamed: dict[str, str] = {}

    def add(self, change: AddField, path: str) -> None:
        source_id, transform = self._resolve(change.source, change.transform, path)
        existing = self._by_transform.get(((source_id,), transform))
        if existing is not None:
            self._restore(existing, change, path)
            return
        for added in self._added:
            self._check_against_added(added, change, source_id, transform, path)
        field = self._new_field(source_id, transform, change, path)
        taken = self._by_name.get(field.name)
        if taken is not None:
            self._free_name(taken, path)
        self._added.append(field)

    def _restore(self, existing: PartitionField, change: AddField, path: str) -> None:
        """Adding back what this update removed takes the removal back, as a renaming if another name is asked for."""
        if existing.field_id not in self._deleted:
            raise InvalidInput(
                f"{change.transform}({change.source}) is the partition field {existing.name!r} already",
                where=path,
            )
        self._deleted.discard(existing.field_id)
        if change.name is not None and change.name != existing.name:
            self.rename(existing.name, change.name, path)

    def _check_against_added(
        self, added: PartitionField, change: AddField, source_id: int, transform: Transform, path: str
    ) -> None:
        theirs = added.parsed_transform
        same_source = added.source_id == source_id
        if change.name == added.name or (same_source and theirs == transform):
            raise InvalidInput(f"this update adds {added} already", where=path)
        if same_source and isinstance(theirs, TimeTransform) and isinstance(transform, TimeTransform):
            raise InvalidInput(f"this update adds {added} already, a {transform} beside it is redundant", where=path)

    def _new_field(self, source_id: int, transform: Transform, change: AddField, path: str) -> PartitionField:
        column = self._schema.column_name(source_id)
        assert column is not None
        if isinstance(transform, UnknownTransform):
            raise Unsupported(f"cannot partition by the unknown transform {transform.text!r}", where=path)
        default = default_name(transform, column)
        historic = self._historic_field(source_id, transform, change.name, default)
        if historic is not None:
            return historic
        if self._format_version < 2:
            # All that v1 readers know is the position, and there are as many fields as ever were.
            field_id = PARTITION_FIELD_ID_START + len(self._spec.fields) + len(self._added)
        else:
            self._last_id += 1
            field_id = self._last_id
        name = change.name if change.name is not None else default
        return PartitionField(source_ids=(source_id,), field_id=field_id, name=name, transform=str(transform))

    def _historic_field(
        self, source_id: int, transform: Transform, name: str | None, default: str
    ) -> PartitionField | None:
        """A field that a former spec had for the same values: its id must be used again.

        Without a `name`, a field of the default name is preferred, then that of the newest spec; one whose name is in
        use now does not count.
        """
        if self._format_version < 2:
            return None
        in_use = {f.name for f in self._spec.fields if f.field_id not in self._deleted}
        in_use.update(f.name for f in self._added)
        found = [
            field
            for spec in reversed(self._specs)
            for field in spec.fields
            if field.source_ids == (source_id,) and field.parsed_transform == transform
            if (field.name == name if name is not None else field.name not in in_use)
        ]
        return next((f for f in found if f.name == default), found[0] if found else None)

    def _free_name(self, taken: PartitionField, path: str) -> None:
        """A new field gets the name of a removed one; where that stays as void (v1), it goes by name and id."""
        if self._is_removed(taken):
            self._rename_removed(taken)
        elif taken.name not in self._renamed:
            raise InvalidInput(f"another partition field is called {taken.name!r}", where=path)

    def _rename_removed(self, field: PartitionField) -> None:
        """Give a removed field a name of its own, and one that has that name another, and so on."""
        taken: PartitionField | None = field
        while taken is not None and taken.name not in self._renamed and self._is_removed(taken):
            new_name = f"{taken.name}_{taken.field_id}"
            self._renamed[taken.name] = new_name
            taken = self._by_name.get(new_name)

    def _is_removed(self, field: PartitionField) -> bool:
        return field.field_id in self._deleted or isinstance(field.parsed_transform, Void)

    def remove(self, change: RemoveField, path: str) -> None:
        field, text = self._field_to_remove(change, path)
        if field is None:
            raise InvalidInput(f"no partition field {text} to remove", where=path)
        if field.name in self._renamed:
            raise InvalidInput(f"this update renames {field.name!r}, it cannot remove it too", where=path)
        self._deleted.add(field.field_id)

    def _field_to_remove(self, change: RemoveField, path: str) -> tuple[PartitionField | None, str]:
        if (change.name is None) == (change.source is None):
            raise InvalidInput("name either the field to remove or its source column", where=path)
        if change.source is None:
            assert change.name is not None
            added = next((f for f in self._added if f.name == change.name), None)
            found, text = self._by_name.get(change.name), change.name
        else:
            source_id, transform = self._resolve(change.source, change.transform, path)
            key = ((source_id,), transform)
            added = next((f for f in self._added if (f.source_ids, f.parsed_transform) == key), None)
            found, text = self._by_transform.get(key), f"{transform}({change.source})"
        if added is not None:
            raise InvalidInput(f"this update adds {added}: leave that out instead of removing it", where=path)
        return found, text

    def rename(self, name: str, new_name: str, path: str) -> None:
        taken = self._by_name.get(new_name)
        if taken is not None and taken.name != name and self._is_removed(taken):
            self._rename_removed(taken)
        if any(f.name == name for f in self._added):
            raise InvalidInput(f"this update adds {name!r}: give it its last name there", where=path)
        field = self._by_name.get(name)
        if field is None:
            raise InvalidInput(f"no partition field {name} to rename", where=path)
        if field.field_id in self._deleted:
            raise InvalidInput(f"this update removes {name!r}, it cannot rename it too", where=path)
        self._renamed[name] = new_name

    def fields(self) -> tuple[PartitionField, ...]:
        kept = []
        for field in self._spec.fields:
            changed = field
            if field.field_id in self._deleted:
                if self._format_version >= 2:
                    continue
                changed = msgspec.structs.replace(field, transform=str(Void()))
            new_name = self._renamed.get(field.name, field.name)
            kept.append(changed if new_name == field.name else msgspec.structs.replace(changed, name=new_name))
        return (*kept, *self._added)

    def _resolve(self, source: str, text: str, path: str) -> tuple[int, Transform]:
        column = self._schema.find_field(source)
        if column is None:
            raise InvalidInput(f"the schema has no column {source!r}", where=f"{path}.source")
        try:
            return column.field_id, parse_transform(text)
        except InvalidInput as error:
            raise InvalidInput(error.message, where=f"{path}.transform") from None


# ---------------------------------------------------------------------------------------------------------------------
# Whole specs


def rebind_spec(spec: PartitionSpec, *, planned_on: Schema, schema: Schema) -> PartitionSpec:
    """`spec` with the source ids that its columns' names have in `schema`.

    A column that `planned_on` does not know (v1's void fields of dropped columns) keeps its id. Raises
    InvalidMetadata when `schema` lacks a column.
    """
    fields = tuple(
        msgspec.structs.replace(field, source_ids=rebind_ids(field.source_ids, planned_on=planned_on, schema=schema))
        for field in spec.fields
    )
    return msgspec.structs.replace(spec, fields=fields)


def rebind_ids(source_ids: tuple[int, ...], *, planned_on: Schema, schema: Schema) -> tuple[int, ...]:
    """The ids that the columns `source_ids` of `planned_on` have in `schema`, by name."""
    rebound = []
    for source_id in source_ids:
        name = planned_on.column_name(source_id)
        column = None if name is None else schema.find_field(name)
        if name is not None and column is None:
            raise InvalidMetadata(f"the schema has no column {name!r}")
        rebound.append(source_id if column is None else column.field_id)
    return tuple(rebound)


def reassign_field_ids(
    spec: PartitionSpec,
    *,
    current: PartitionSpec,
    specs: Sequence[PartitionSpec],
    format_version: int,
    last_partition_id: int,
) -> PartitionSpec:
    """`spec`, made without knowledge of the table, with field ids that fit the table's history.

    From v2 on a field that any of `specs` had keeps its id and others get new ones. In v1 the result begins with the
    fields of `current`, those that `spec` lacks as void. The spec id is left alone, see `add_spec`.
    """
    if format_version >= 2:
        known: dict[tuple[tuple[int, ...], Transform], int] = {}
        for field in (f for s in specs for f in s.fields):
            key = (field.source_ids, field.parsed_transform)
            known[key] = max(known.get(key, 0), field.field_id)
        fields = []
        for field in spec.fields:
            key = (field.source_ids, field.parsed_transform)
            if key not in known:
                last_partition_id += 1
                known[key] = last_partition_id
            fields.append(msgspec.structs.replace(field, field_id=known[key]))
        return msgspec.structs.replace(spec, fields=tuple(fields))
    return msgspec.structs.replace(spec, fields=_after(current, spec))


def _after(current: PartitionSpec, spec: PartitionSpec) -> tuple[PartitionField, ...]:
    wanted = {(f.source_ids, f.parsed_transform): f for f in spec.fields}
    names = {f.name for f in spec.fields}
    fields = []
    for field in current.fields:
        replacement = wanted.pop((field.source_ids, field.parsed_transform), None)
        if replacement is not None:
            fields.append(msgspec.structs.replace(replacement, field_id=field.field_id))
            continue
        name = f"{field.name}_{field.field_id}" if field.name in names else field.name
        fields.append(msgspec.structs.replace(field, name=name, transform=str(Void())))
    for field in wanted.values():
        fields.append(msgspec.structs.replace(field, field_id=PARTITION_FIELD_ID_START + len(fields)))
    return tuple(fields)
