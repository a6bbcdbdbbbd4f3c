"""Update spec and sort order: applied to the layout as it is now if they mean there what they meant."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from firn.coordinator.replay import rules
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.schema import changer_of, first_after, require_schema
from firn.coordinator.replay.working import Working
from firn.model.errors import InvalidInput
from firn.model.landmark import Landmark, order_key, spec_key
from firn.model.metadata import TableMetadata
from firn.model.metadata_layout import add_sort_order, add_spec, set_default_sort_order, set_default_spec
from firn.model.operations.layout import UpdateSortOrder, UpdateSpec
from firn.model.partition_update import AddField, RemoveField, RenameField, SpecChange, changes_from_json, evolve_spec
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.schema_rebase import changed_columns
from firn.model.sorting import SortOrder, replace_order, same_order, sort_by_from_json


def update_spec(working: Working, intent: UpdateSpec) -> Applied:
    """Evolve the default partition spec; new partition fields get their ids now.

    Prevents: two writers who each change the partitioning end with one that neither has asked for
    (`layout-conflict`).
    """
    try:
        changes = changes_from_json(list(intent.changes), where="changes")
    except InvalidInput as error:
        rules.INVALID_FIELD.refuse(str(error))
    metadata = working.require(table_uuid=intent.table_uuid)
    schema, spec = require_schema(working, metadata, intent.base_schema_id), metadata.spec_by_id(intent.base_spec_id)
    if spec is None:
        rules.LAYOUT_CONFLICT.refuse(
            f"the table has no partition spec {intent.base_spec_id} (any more)", by=_partitioner(working)
        )
    is_unchanged = schema is metadata.current_schema and spec is metadata.default_spec
    if not is_unchanged:
        try:
            _evolve(metadata, spec, schema, changes)
        except InvalidInput as error:
            rules.INVALID_CHANGE.refuse(str(error))
        touched = _columns_of(changes, schema, spec)
        require_same_columns(working, metadata, schema, touched)
        require_same_partitioning(working, spec, metadata.default_spec, schema, touched)
    try:
        evolved = _evolve(metadata, metadata.default_spec, metadata.current_schema, changes)
        changed, spec_id = add_spec(metadata, evolved, now_ms=working.attempt.now_ms)
    except InvalidInput as error:
        if is_unchanged:
            rules.INVALID_CHANGE.refuse(str(error))
        rules.LAYOUT_CONFLICT.refuse(str(error), by=_partitioner(working))
    changed = set_default_spec(changed, spec_id, now_ms=working.attempt.now_ms)
    if changed is not metadata:
        working.change_metadata(changed)
    return Applied(details={"spec-id": spec_id} | unchanged(metadata, changed))


def unchanged(before: TableMetadata, after: TableMetadata) -> dict[str, bool]:
    """What an outcome says when the table was already as it was asked for."""
    return {"unchanged": True} if after is before else {}


def _evolve(
    metadata: TableMetadata, spec: PartitionSpec, schema: Schema, changes: Sequence[SpecChange]
) -> PartitionSpec:
    return evolve_spec(
        spec,
        schema,
        changes,
        format_version=metadata.format_version,
        specs=metadata.partition_specs,
        last_partition_id=metadata.last_partition_id,
    )


def _columns_of(changes: Sequence[SpecChange], schema: Schema, spec: PartitionSpec) -> set[int]:
    """The columns that changes are about; the changes must be such as can be applied."""
    names = {field.name: field for field in spec.fields}
    touched: set[int] = set()
    for change in changes:
        match change:
            case AddField(source=source) | RemoveField(source=str(source)):
                column = schema.find_field(source)
                touched |= set() if column is None else {column.field_id}
            case RemoveField(name=name) | RenameField(name=name):
                field = None if name is None else names.get(name)
                touched |= set() if field is None else set(field.source_ids)
    return touched


def require_same_columns(working: Working, metadata: TableMetadata, base: Schema, touched: Collection[int]) -> None:
    """Refuse when a column was changed since. Prevents: a layout by a column that its writer did not mean."""
    current = metadata.current_schema
    changed = sorted({base.names_by_id[i] for i in changed_columns(base, current, touched)})
    if changed:
        first = first_after(metadata, base, lambda schema: any(changed_columns(base, schema, touched)))
        rules.LAYOUT_CONFLICT.refuse(
            f"the schema was changed since schema {base.schema_id} (it is {current.schema_id} now), "
            f"{', '.join(changed)} too",
            columns=changed,
            by=changer_of(working, first),
        )


def _partitioner(working: Working) -> Landmark | None:
    """Who made the default spec what it is, as far as the journal tells."""
    assert working.metadata is not None
    return working.landmarks.find(spec_key(working.metadata.default_spec_id))


def require_same_partitioning(
    working: Working, base: PartitionSpec, current: PartitionSpec, schema: Schema, touched: Collection[int]
) -> None:
    """Refuse when somebody else changed how rows are partitioned by the same columns.

    Prevents: a table partitioned by day and by hour of one column, or by nothing that both had meant to keep.
    """
    before, after = {f.field_id: f for f in base.fields}, {f.field_id: f for f in current.fields}
    changed = [(before.get(i), after.get(i)) for i in {**before, **after} if before.get(i) != after.get(i)]
    columns = {i for pair in changed for field in pair if isinstance(field, PartitionField) for i in field.source_ids}
    contested = sorted(schema.column_name(i) or str(i) for i in columns & set(touched))
    if contested:
        rules.LAYOUT_CONFLICT.refuse(
            f"the partitioning was changed since spec {base.spec_id} (it is {current.spec_id} now), by "
            f"{', '.join(contested)} too",
            columns=contested,
            by=_partitioner(working),
        )


def update_sort_order(working: Working, intent: UpdateSortOrder) -> Applied:
    """Replace the default sort order as a whole; two of them cannot be merged (`layout-conflict`)."""
    try:
        keys = sort_by_from_json(list(intent.sort_by), where="sort-by")
    except InvalidInput as error:
        rules.INVALID_FIELD.refuse(str(error))
    metadata = working.require(table_uuid=intent.table_uuid)
    schema = require_schema(working, metadata, intent.base_schema_id)
    try:
        planned = replace_order(
            keys, schema, orders=metadata.sort_orders, format_version=metadata.format_version, where="sort-by"
        )
    except InvalidInput as error:
        rules.INVALID_CHANGE.refuse(str(error))
    require_same_columns(working, metadata, schema, {i for f in planned.fields for i in f.source_ids})
    require_same_order(working, metadata, intent, planned)
    try:
        changed, order_id = add_sort_order(metadata, planned, now_ms=working.attempt.now_ms)
    except InvalidInput as error:
        rules.LAYOUT_CONFLICT.refuse(str(error), by=changer_of(working, metadata.current_schema))
    changed = set_default_sort_order(changed, order_id, now_ms=working.attempt.now_ms)
    if changed is not metadata:
        working.change_metadata(changed)
    return Applied(details={"sort-order-id": order_id} | unchanged(metadata, changed))


def require_same_order(working: Working, metadata: TableMetadata, intent: UpdateSortOrder, planned: SortOrder) -> None:
    """Refuse when somebody else has set another order. Prevents: that one being undone by who never knew of it."""
    current = metadata.default_order
    if metadata.default_sort_order_id != intent.base_sort_order_id and not same_order(current, planned):
        rules.LAYOUT_CONFLICT.refuse(
            f"the sort order was changed since order {intent.base_sort_order_id} (it is {current.order_id} now)",
            columns=_sorted_by(metadata.current_schema, current),
            by=working.landmarks.find(order_key(current.order_id)),
        )


def _sorted_by(schema: Schema, order: SortOrder) -> list[str]:
    return [schema.column_name(i) or str(i) for field in order.fields for i in field.source_ids]
