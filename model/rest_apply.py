"""What a list of REST updates makes of a table's metadata: all of it, or an error and nothing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firn.model import metadata_changes as changes
from firn.model import metadata_layout as layout
from firn.model import rest_updates as rest
from firn.model.errors import InvalidInput, InvalidMetadata, InvalidSchema, Unsupported
from firn.model.metadata import FORMAT_VERSION_DEFAULT, FORMAT_VERSION_MAX, TableMetadata
from firn.model.metadata_check import check_metadata
from firn.model.partitioning import PARTITION_FIELD_ID_START
from firn.model.refs import set_ref
from firn.model.sorting import UNSORTED

replace = msgspec.structs.replace


def apply_updates(metadata: TableMetadata | None, updates: Sequence[rest.Update], *, now_ms: int) -> TableMetadata:
    """The metadata after the updates, in order; the same object when they change nothing.

    `metadata` None is a table to create: the updates must then give it a UUID, a location, a schema and a spec.
    Raises a FirnError naming the update (``updates[3]…``) that is not allowed, or what the result lacks.
    """
    base = _nothing(updates, now_ms) if metadata is None else metadata
    state = _State(base, now_ms=now_ms)
    for i, update in enumerate(updates):
        try:
            state.apply(update)
        except InvalidInput as error:
            raise _located(error, f"updates[{i}]") from error
    result = state.metadata
    if result is base and metadata is not None:
        return metadata
    if not result.sort_orders:
        result = replace(result, sort_orders=(UNSORTED,))
    result = changes.without_intermediate_snapshots(result, base=base)
    check_metadata(result)
    layout.check_layout(result)
    return result


def _located(error: InvalidInput, where: str) -> InvalidInput:
    """The error, naming the update that caused it."""
    kind = type(error) if type(error) in {InvalidMetadata, InvalidSchema, Unsupported} else InvalidInput
    return kind(error.message, where=f"{where}.{error.where}" if error.where else where, hint=error.hint)


def _nothing(updates: Sequence[rest.Update], now_ms: int) -> TableMetadata:
    """What a table is before its first update: a shape to fill, which no check would pass."""
    versions = [update.format_version for update in updates if isinstance(update, rest.UpgradeFormatVersion)]
    version = versions[0] if versions else FORMAT_VERSION_DEFAULT
    if not 1 <= version <= FORMAT_VERSION_MAX:
        raise Unsupported(f"unsupported format version v{version}", where="updates")
    return TableMetadata(
        format_version=version,
        table_uuid="",
        location="",
        last_updated_ms=now_ms - 1,
        last_column_id=0,
        schemas=(),
        current_schema_id=-1,
        partition_specs=(),
        default_spec_id=-1,
        last_partition_id=PARTITION_FIELD_ID_START - 1,
        sort_orders=(),
        default_sort_order_id=UNSORTED.order_id,
        next_row_id=0 if version > 2 else None,
    )


class _State:
    """Metadata under change, with what ``-1`` stands for."""

    def __init__(self, metadata: TableMetadata, *, now_ms: int) -> None:
        self.metadata = metadata
        self._now_ms = now_ms
        self._last_schema: int | None = None
        self._last_spec: int | None = None
        self._last_order: int | None = None

    def apply(self, update: rest.Update) -> None:
        """Make one change."""
        match update:
            case rest.AddSchema() | rest.SetCurrentSchema() | rest.RemoveSchemas():
                self._schema(update)
            case rest.AddSpec() | rest.SetDefaultSpec() | rest.RemovePartitionSpecs():
                self._spec(update)
            case rest.AddSortOrder() | rest.SetDefaultSortOrder():
                self._order(update)
            case rest.AddSnapshot() | rest.SetSnapshotRef() | rest.RemoveSnapshots() | rest.RemoveSnapshotRef():
                self._snapshot(update)
            case _:
                self._table(update)

    def _schema(self, update: rest.AddSchema | rest.SetCurrentSchema | rest.RemoveSchemas) -> None:
        match update:
            case rest.AddSchema():
                self.metadata, self._last_schema = layout.add_schema(self.metadata, update.schema, now_ms=self._now_ms)
            case rest.SetCurrentSchema():
                schema_id = _chosen(update.schema_id, self._last_schema, "schema")
                self.metadata = layout.set_current_schema(self.metadata, schema_id, now_ms=self._now_ms)
            case rest.RemoveSchemas():
                self.metadata = layout.remove_schemas(self.metadata, update.schema_ids, now_ms=self._now_ms)

    def _spec(self, update: rest.AddSpec | rest.SetDefaultSpec | rest.RemovePartitionSpecs) -> None:
        match update:
            case rest.AddSpec():
                self._need_schema()
                self.metadata, self._last_spec = layout.add_spec(
                    self.metadata, update.spec, assign_ids=update.assign_ids, now_ms=self._now_ms
                )
            case rest.SetDefaultSpec():
                spec_id = _chosen(update.spec_id, self._last_spec, "spec")
                self.metadata = layout.set_default_spec(self.metadata, spec_id, now_ms=self._now_ms)
            case rest.RemovePartitionSpecs():
                self.metadata = layout.remove_specs(self.metadata, update.spec_ids, now_ms=self._now_ms)

    def _order(self, update: rest.AddSortOrder | rest.SetDefaultSortOrder) -> None:
        match update:
            case rest.AddSortOrder():
                self._need_schema()
                self.metadata, self._last_order = layout.add_sort_order(
                    self.metadata, update.sort_order, now_ms=self._now_ms
                )
            case rest.SetDefaultSortOrder():
                order_id = _chosen(update.sort_order_id, self._last_order, "sort order")
                self.metadata = layout.set_default_sort_order(self.metadata, order_id, now_ms=self._now_ms)

    def _need_schema(self) -> None:
        if self.metadata.schema_by_id(self.metadata.current_schema_id) is None:
            raise InvalidMetadata("needs a current schema: add and set one before", where="schema")

    def _snapshot(
        self, update: rest.AddSnapshot | rest.SetSnapshotRef | rest.RemoveSnapshots | rest.RemoveSnapshotRef
    ) -> None:
        match update:
            case rest.AddSnapshot():
                self._need_schema()
                self.metadata = changes.add_snapshot(self.metadata, update.snapshot, branch=None, now_ms=self._now_ms)
            case rest.SetSnapshotRef():
                self.metadata = set_ref(self.metadata, update.ref_name, update.ref, now_ms=self._now_ms)
            case rest.RemoveSnapshots():
                self.metadata = changes.remove_snapshots(self.metadata, update.snapshot_ids, now_ms=self._now_ms)
            case rest.RemoveSnapshotRef():
                self.metadata = changes.remove_ref(self.metadata, update.ref_name, now_ms=self._now_ms)

    def _table(self, update: rest.Update) -> None:
        metadata, now_ms = self.metadata, self._now_ms
        match update:
            case rest.AssignUuid():
                self.metadata = changes.assign_uuid(metadata, update.uuid, now_ms=now_ms)
            case rest.UpgradeFormatVersion():
                self.metadata = changes.upgrade(metadata, update.format_version, now_ms=now_ms)
            case rest.SetLocation():
                self.metadata = changes.set_location(metadata, update.location, now_ms=now_ms)
            case rest.SetProperties():
                self.metadata = changes.set_properties(metadata, update.updates, now_ms=now_ms)
            case rest.RemoveProperties():
                self.metadata = changes.remove_properties(metadata, update.removals, now_ms=now_ms)
            case rest.SetStatistics():
                self.metadata = changes.set_statistics(metadata, update.statistics, now_ms=now_ms)
            case rest.RemoveStatistics():
                self.metadata = changes.remove_statistics(metadata, update.snapshot_id, now_ms=now_ms)
            case rest.SetPartitionStatistics():
                self.metadata = changes.set_statistics(
                    metadata, update.partition_statistics, partition=True, now_ms=now_ms
                )
            case rest.RemovePartitionStatistics():
                self.metadata = changes.remove_statistics(metadata, update.snapshot_id, partition=True, now_ms=now_ms)
            case rest.AddEncryptionKey():
                self.metadata = changes.add_encryption_key(metadata, update.encryption_key, now_ms=now_ms)
            case rest.RemoveEncryptionKey():
                self.metadata = changes.remove_encryption_key(metadata, update.key_id, now_ms=now_ms)


def _chosen(number: int, last_added: int | None, noun: str) -> int:
    if number != rest.LAST_ADDED:
        return number
    if last_added is None:
        raise InvalidMetadata(f"cannot set last added {noun}: no {noun} has been added")
    return last_added
