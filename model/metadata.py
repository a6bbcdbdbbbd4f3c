"""Table metadata: everything a table is, in one value (table specification, "Table Metadata")."""

from __future__ import annotations

from typing import Any

import msgspec

from firn.model.partitioning import PartitionSpec
from firn.model.schema import Schema
from firn.model.snapshot import MetadataLogEntry, Snapshot, SnapshotLogEntry, SnapshotRef
from firn.model.sorting import SortOrder


class TableMetadata(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The content of one metadata file, whatever its format version (1, 2 or 3), in the shape of the newest.

    Lists keep the file's order. `snapshots` are in commit order as written. `statistics`, `partition_statistics` and
    `encryption_keys` are held as the JSON objects they are. `extra` keeps members that firn does not know.
    Times are milliseconds since 1970-01-01 UTC.
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
    snapshots: tuple[Snapshot, ...] = ()
    snapshot_log: tuple[SnapshotLogEntry, ...] = ()
    metadata_log: tuple[MetadataLogEntry, ...] = ()
    sort_orders: tuple[SortOrder, ...]
    default_sort_order_id: int = 0
    refs: dict[str, SnapshotRef] = {}
    statistics: tuple[dict[str, Any], ...] = ()
    partition_statistics: tuple[dict[str, Any], ...] = ()
    next_row_id: int | None = None
    encryption_keys: tuple[dict[str, Any], ...] = ()
    extra: dict[str, Any] = {}
