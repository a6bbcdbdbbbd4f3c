"""What a task has to know of a table in order to write files for it: small enough to be sent to every task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from firn.coordinator.client.table_view import TableView
from firn.model.metadata import TableMetadata
from firn.model.partitioning import PartitionSpec
from firn.model.reserved import METADATA_COLUMNS
from firn.model.schema import Schema
from firn.model.types import StructType

ROW_ID: Final = "_row_id"
LAST_UPDATED: Final = "_last_updated_sequence_number"
LINEAGE: Final = (ROW_ID, LAST_UPDATED)
"""Columns that rows carry from file to file, so that a row that is moved keeps its identity (v3)."""


class WriteTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A table to write files for.

    `metadata` is without its history. `schema` are the columns of the files: the table's, maybe with `LINEAGE`.
    `sort_order_id` names the order that rows come in, None if they come in none. `run` is in the name of every file:
    the id of the intent that will commit them. `files` are options of file stores by scheme.
    """

    table: str
    metadata: TableMetadata
    schema: Schema
    spec: PartitionSpec
    sort_order_id: int | None = None
    run: str
    files: dict[str, dict[str, Any]]

    @classmethod
    def of(
        cls,
        view: TableView,
        *,
        run: str,
        files: Mapping[str, Mapping[str, Any]],
        sort_order_id: int | None = None,
        lineage: bool = False,
    ) -> WriteTarget:
        """The table as it is, to be written to by its current schema and spec."""
        schema = view.schema
        if lineage:
            extra = tuple(METADATA_COLUMNS[name] for name in LINEAGE)
            schema = msgspec.structs.replace(schema, struct=StructType((*schema.fields, *extra)))
        return cls(
            table=view.name,
            metadata=without_history(view.metadata),
            schema=schema,
            spec=view.spec,
            sort_order_id=sort_order_id,
            run=run,
            files={scheme: dict(options) for scheme, options in files.items()},
        )


def without_history(metadata: TableMetadata) -> TableMetadata:
    """The metadata without snapshots and logs: what files are bound to."""
    return msgspec.structs.replace(
        metadata,
        snapshots=(),
        snapshot_log=(),
        metadata_log=(),
        refs={},
        current_snapshot_id=None,
        statistics=(),
        partition_statistics=(),
    )
