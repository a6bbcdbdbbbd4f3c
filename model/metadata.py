"""Table metadata: everything a table is, in one value (table specification, "Table Metadata")."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from firn.model.partitioning import PartitionSpec
from firn.model.schema import Schema
from firn.model.snapshot import MAIN_BRANCH, MetadataLogEntry, Snapshot, SnapshotLogEntry, SnapshotRef
from firn.model.sorting import UNSORTED, SortOrder

FORMAT_VERSION_MAX: Final = 3
"""Newest format version that is read and written."""

FORMAT_VERSION_DEFAULT: Final = 2
"""Format version of a new table that does not ask for another."""

_MAY_GROW: Final = "_may_grow"
"""Mark of the one metadata among all that share an index of snapshots whose successor may add to it."""


class TableMetadata(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The content of one metadata file, whatever its format version (1, 2 or 3), in the shape of the newest.

    Lists keep the file's order. `snapshots` are in commit order as written. `statistics`, `partition_statistics` and
    `encryption_keys` are held as the JSON objects they are. `extra` keeps members that firn does not know.
    Times are milliseconds since 1970-01-01 UTC. `table_uuid` is empty only for a v1 table that was never given one.
    """

    format_version: int
    table_uuid: str
    location: str
    last_sequence_number: int = 0
    last_updated_ms: int
    last_column_id: int
    schemas: tuple[Schema, ...]
    current_schema_id: int
    partition_specs: tuple[PartitionSpec, ...]
    default_spec_id: int
    last_partition_id: int
    properties: dict[str, str] = {}
    current_snapshot_id: int | None = None
    snapshots: Sequence[Snapshot] = ()
    snapshot_log: Sequence[SnapshotLogEntry] = ()
    metadata_log: tuple[MetadataLogEntry, ...] = ()
    sort_orders: tuple[SortOrder, ...]
    default_sort_order_id: int = 0
    refs: dict[str, SnapshotRef] = {}
    statistics: tuple[dict[str, Any], ...] = ()
    partition_statistics: tuple[dict[str, Any], ...] = ()
    next_row_id: int | None = None
    encryption_keys: tuple[dict[str, Any], ...] = ()
    extra: dict[str, Any] = {}

    @cached_property
    def _schemas(self) -> dict[int, Schema]:
        return {schema.schema_id: schema for schema in self.schemas}

    @cached_property
    def _specs(self) -> dict[int, PartitionSpec]:
        return {spec.spec_id: spec for spec in self.partition_specs}

    @cached_property
    def _orders(self) -> dict[int, SortOrder]:
        return {order.order_id: order for order in self.sort_orders}

    @cached_property
    def _snapshots(self) -> dict[int, Snapshot]:
        self.__dict__[_MAY_GROW] = True
        return {snapshot.snapshot_id: snapshot for snapshot in self.snapshots}

    def schema_by_id(self, schema_id: int) -> Schema | None:
        """The schema with that id, None when the table has none such."""
        return self._schemas.get(schema_id)

    def spec_by_id(self, spec_id: int) -> PartitionSpec | None:
        """The partition spec with that id, None when the table has none such."""
        return self._specs.get(spec_id)

    def order_by_id(self, order_id: int) -> SortOrder | None:
        """The sort order with that id; 0 is unsorted even where the file does not list it."""
        return self._orders.get(order_id, UNSORTED if order_id == UNSORTED.order_id else None)

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot with that id, None when it expired or never was."""
        found = self._snapshots.get(snapshot_id)
        if found is None or found.sequence_number <= self.last_sequence_number:
            return found
        return found if len(self._snapshots) == len(self.snapshots) else None  # else one that followed on this

    @property
    def current_schema(self) -> Schema:
        """The schema that new data is written with."""
        return self._schemas[self.current_schema_id]

    @property
    def default_spec(self) -> PartitionSpec:
        """The spec that new data is partitioned by."""
        return self._specs[self.default_spec_id]

    @property
    def default_order(self) -> SortOrder:
        """The order that new data should be sorted by."""
        return self._orders.get(self.default_sort_order_id, UNSORTED)

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The head of ``main``, None while the table is empty."""
        return None if self.current_snapshot_id is None else self._snapshots[self.current_snapshot_id]

    def ref(self, name: str) -> SnapshotRef | None:
        """The branch or tag with that name; ``main`` is absent while the table is empty."""
        return self.refs.get(name)

    def head(self, branch: str = MAIN_BRANCH) -> Snapshot | None:
        """The snapshot a branch points at; None when there is no such branch (a tag is not one)."""
        ref = self.refs.get(branch)
        return None if ref is None or ref.type != "branch" else self._snapshots[ref.snapshot_id]

    @property
    def next_sequence_number(self) -> int:
        """What the next snapshot must carry; v1 tables have none and use 0."""
        return self.last_sequence_number + 1 if self.format_version > 1 else 0


def with_index_of(metadata: TableMetadata, before: TableMetadata) -> TableMetadata:
    """`metadata`, which has the snapshots of `before`, or these and one more, with the index of them if there is one.

    The index grows in its place, and once only: `before` tells later snapshots by their sequence numbers, and whatever
    else follows on it makes an index of its own.
    """
    index = before.__dict__.get("_snapshots")
    if index is None:
        return metadata
    more = metadata.snapshots[len(before.snapshots) :]
    if all(snapshot.sequence_number > before.last_sequence_number for snapshot in more):
        may_grow = before.__dict__.pop(_MAY_GROW, False)  # one only is told so, whatever other threads do
        if may_grow or not more:
            index.update((snapshot.snapshot_id, snapshot) for snapshot in more)
            metadata.__dict__["_snapshots"] = index
        if may_grow:
            metadata.__dict__[_MAY_GROW] = True
    return metadata
