"""Changes of schema, partition spec and sort order, collected one by one and submitted as one intent.

    client.update_schema("db.events", base=table).add_column("country", "string").rename_column("ts", "at").submit()

Names are those of the table that the changes were planned on (`base`: a `TableView`, or ids).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Self, Unpack

import msgspec

from firn.coordinator.client.intents import planned_on, schema_id_of
from firn.coordinator.client.options import IntentOptions
from firn.coordinator.client.submitting import Submitted_co, Submitting
from firn.coordinator.client.table_view import TableView
from firn.model import schema_change
from firn.model.errors import InvalidIntent
from firn.model.intent import Intent
from firn.model.operations.layout import UpdateSchema, UpdateSortOrder, UpdateSpec
from firn.model.partition_update import AddField, RemoveField, RenameField, changes_to_json
from firn.model.schema_change import SchemaChange, change_to_json
from firn.model.sorting import Direction, NullOrder, SortBy, sort_by_to_json
from firn.model.type_json import type_from_json
from firn.model.types import Type

TypeLike = Type | str | Mapping[str, Any]
"""A type as a value, as text (``decimal(10, 2)``), or in its JSON form."""


class SchemaUpdate(Generic[Submitted_co]):
    """Changes of a schema in the making; dotted names are nested columns."""

    def __init__(self, make: Callable[[tuple[dict[str, Any], ...]], Submitted_co]) -> None:
        self._make = make
        self._changes: list[dict[str, Any]] = []

    def change(self, change: SchemaChange) -> Self:
        """Any change of `firn.model.schema_change`."""
        self._changes.append(change_to_json(change))
        return self

    def add_column(
        self,
        name: str,
        type: TypeLike,
        *,
        parent: str | None = None,
        required: bool = False,
        doc: str | None = None,
        default: Any = None,
    ) -> Self:
        """Add a column to the table, or to the struct `parent`; `default` is a JSON single value."""
        return self.change(
            schema_change.AddColumn(
                name=name, type=_type(type), parent=parent, required=required, doc=doc, default=default
            )
        )

    def drop_column(self, name: str) -> Self:
        """Remove a column with all that it contains."""
        return self.change(schema_change.DropColumn(name=name))

    def rename_column(self, name: str, new_name: str) -> Self:
        """Give a column another name in its struct."""
        return self.change(schema_change.RenameColumn(name=name, new_name=new_name))

    def update_type(self, name: str, type: TypeLike) -> Self:
        """Promote a column to a wider type."""
        return self.change(schema_change.UpdateType(name=name, type=_type(type)))

    def update_doc(self, name: str, doc: str | None) -> Self:
        """Change a column's comment; None removes it."""
        return self.change(schema_change.UpdateDoc(name=name, doc=doc))

    def set_default(self, name: str, default: Any) -> Self:
        """Change what writers put in when they are given no value."""
        return self.change(schema_change.SetDefault(name=name, default=default))

    def make_optional(self, name: str) -> Self:
        """Allow nulls."""
        return self.change(schema_change.MakeOptional(name=name))

    def require_column(self, name: str) -> Self:
        """Forbid nulls; needs `allow_incompatible` unless these changes add the column with a default."""
        return self.change(schema_change.RequireColumn(name=name))

    def move_first(self, name: str) -> Self:
        """Make a column the first of its struct."""
        return self.change(schema_change.MoveFirst(name=name))

    def move_before(self, name: str, reference: str) -> Self:
        """Put a column before another of the same struct."""
        return self.change(schema_change.MoveBefore(name=name, reference=reference))

    def move_after(self, name: str, reference: str) -> Self:
        """Put a column after another of the same struct."""
        return self.change(schema_change.MoveAfter(name=name, reference=reference))

    def set_identifier_fields(self, *names: str) -> Self:
        """Name the columns that identify a row, as they are called after all changes; none is allowed."""
        return self.change(schema_change.SetIdentifierFields(names=names))

    def submit(self) -> Submitted_co:
        """Submit the changes. Raises InvalidIntent when there are none."""
        return self._make(_some(self._changes))


class SpecUpdate(Generic[Submitted_co]):
    """Changes of a partition spec in the making."""

    def __init__(self, make: Callable[[tuple[dict[str, Any], ...]], Submitted_co]) -> None:
        self._make = make
        self._changes: list[AddField | RemoveField | RenameField] = []

    def add_field(self, source: str, transform: str = "identity", *, name: str | None = None) -> Self:
        """Partition by a transform (``day``, ``bucket[16]``) of a column, too."""
        self._changes.append(AddField(source=source, transform=transform, name=name))
        return self

    def remove_field(self, name: str | None = None, *, source: str | None = None, transform: str = "identity") -> Self:
        """Stop partitioning by a field, given by its name, or by its column and transform."""
        self._changes.append(RemoveField(name=name, source=source, transform=transform))
        return self

    def rename_field(self, name: str, new_name: str) -> Self:
        """Give a partition field another name."""
        self._changes.append(RenameField(name=name, new_name=new_name))
        return self

    def submit(self) -> Submitted_co:
        """Submit the changes. Raises InvalidIntent when there are none."""
        return self._make(_some(changes_to_json(self._changes)))


class OrderUpdate(Generic[Submitted_co]):
    """A sort order in the making; without a key it is unsorted."""

    def __init__(self, make: Callable[[tuple[dict[str, Any], ...]], Submitted_co]) -> None:
        self._make = make
        self._keys: list[SortBy] = []

    def asc(self, source: str, transform: str = "identity", *, null_order: NullOrder | None = None) -> Self:
        """Sort by a column, or a transform of it, ascending; nulls first unless said otherwise."""
        return self._by(source, transform, "asc", null_order)

    def desc(self, source: str, transform: str = "identity", *, null_order: NullOrder | None = None) -> Self:
        """Sort by a column, or a transform of it, descending; nulls last unless said otherwise."""
        return self._by(source, transform, "desc", null_order)

    def _by(self, source: str, transform: str, direction: Direction, null_order: NullOrder | None) -> Self:
        self._keys.append(SortBy(source=source, transform=transform, direction=direction, null_order=null_order))
        return self

    def submit(self) -> Submitted_co:
        """Submit the order."""
        return self._make(tuple(sort_by_to_json(self._keys)))


class LayoutOperations(Submitting[Submitted_co]):
    """Schema, partitioning and order; each returns the change in the making."""

    def update_schema(
        self,
        table: str,
        *,
        base: TableView | int,
        allow_incompatible: bool = False,
        case_sensitive: bool = True,
        **options: Unpack[IntentOptions],
    ) -> SchemaUpdate[Submitted_co]:
        """Evolve the schema. `base`: the table as it was looked at, or the id of its schema."""
        return SchemaUpdate(
            self._making(
                UpdateSchema(
                    table=table,
                    base_schema_id=schema_id_of(base),
                    changes=(),
                    allow_incompatible=allow_incompatible,
                    case_sensitive=case_sensitive,
                    **planned_on(base, options),
                ),
                "changes",
            )
        )

    def update_spec(
        self,
        table: str,
        *,
        base: TableView | int,
        base_spec_id: int | None = None,
        **options: Unpack[IntentOptions],
    ) -> SpecUpdate[Submitted_co]:
        """Evolve how the table is partitioned. `base`: the table as it was looked at, or ids of its schema and spec."""
        spec_id = base_spec_id if not isinstance(base, TableView) else base.metadata.default_spec_id
        return SpecUpdate(
            self._making(
                UpdateSpec(
                    table=table,
                    base_schema_id=schema_id_of(base),
                    base_spec_id=_given(spec_id, "base_spec_id"),
                    changes=(),
                    **planned_on(base, options),
                ),
                "changes",
            )
        )

    def update_sort_order(
        self,
        table: str,
        *,
        base: TableView | int,
        base_sort_order_id: int | None = None,
        **options: Unpack[IntentOptions],
    ) -> OrderUpdate[Submitted_co]:
        """Replace the sort order. `base`: the table as it was looked at, or ids of its schema and order."""
        order_id = base_sort_order_id if not isinstance(base, TableView) else base.metadata.default_sort_order_id
        return OrderUpdate(
            self._making(
                UpdateSortOrder(
                    table=table,
                    base_schema_id=schema_id_of(base),
                    base_sort_order_id=_given(order_id, "base_sort_order_id"),
                    sort_by=(),
                    **planned_on(base, options),
                ),
                "sort_by",
            )
        )

    def _making(self, intent: Intent, member: str) -> Callable[[tuple[dict[str, Any], ...]], Submitted_co]:
        return lambda changes: self.submit(msgspec.structs.replace(intent, **{member: changes}))


def _given(value: int | None, name: str) -> int:
    if value is None:
        raise InvalidIntent("is needed where the base is no table", rule="missing-field", where=name.replace("_", "-"))
    return value


def _some(changes: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    found = tuple(changes)
    if not found:
        raise InvalidIntent("there is no change", rule="invalid-field", where="changes")
    return found


def _type(type: TypeLike) -> Type:
    return (
        type_from_json(dict(type) if isinstance(type, Mapping) else type) if isinstance(type, str | Mapping) else type
    )
