"""Counters of table metadata: the highest column id, partition field id, sequence number and row id ever given.

What a metadata file claims is a lower limit only. An id that is given twice makes old files answer for a new column or
field, and two rows one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from firn.model.metadata import TableMetadata
from firn.model.partitioning import PartitionSpec
from firn.model.schema import Schema
from firn.model.snapshot import Snapshot

_COUNTERS: Final = ("last_column_id", "last_partition_id", "last_sequence_number", "next_row_id")


def last_column_id(claimed: int, schemas: Iterable[Schema]) -> int:
    """Return the highest column id, of those that the schemas have and the one that is claimed."""
    return max([claimed, *(schema.highest_field_id for schema in schemas)])


def last_partition_id(claimed: int, specs: Iterable[PartitionSpec]) -> int:
    """Return the highest partition field id, of those that the specs have and the one that is claimed."""
    return max([claimed, *(spec.last_field_id for spec in specs)])


def next_row_id(claimed: int, snapshots: Iterable[Snapshot]) -> int:
    """Return the next row id, behind those that the snapshots have given and not below the one that is claimed."""
    given = [one.first_row_id + (one.added_rows or 0) for one in snapshots if one.first_row_id is not None]
    return max([claimed, *given])


def not_below(metadata: TableMetadata, before: TableMetadata) -> TableMetadata:
    """Return the metadata with no counter below that of an earlier state of the same table, whoever wrote it."""
    raised = {
        name: known
        for name in _COUNTERS
        if (known := getattr(before, name)) is not None
        and (now := getattr(metadata, name)) is not None
        and now < known
        and not (name == "last_sequence_number" and metadata.format_version == 1)
    }
    return msgspec.structs.replace(metadata, **raised) if raised else metadata
