"""Counters of table metadata: the highest column id, partition field id, sequence number and row id ever given.

What a metadata file claims is a lower limit only. An id that is given twice makes old files answer for a new column or
field, and two rows one.
"""

from __future__ import annotations

from typing import Final

import msgspec

from firn.model.errors import InvalidMetadata
from firn.model.json_members import LONG_MAX
from firn.model.metadata import TableMetadata

_COUNTERS: Final = ("last_column_id", "last_partition_id", "last_sequence_number", "next_row_id")


def shown_counters(metadata: TableMetadata) -> dict[str, int]:
    """Return the counters, by their names in the struct, as low as schemas, specs and snapshots allow at least."""
    shown = {
        "last_column_id": max((schema.highest_field_id for schema in metadata.schemas), default=0),
        "last_partition_id": max((spec.last_field_id for spec in metadata.partition_specs), default=0),
        "last_sequence_number": max((one.sequence_number for one in metadata.snapshots), default=0),
    }
    if metadata.next_row_id is not None:
        given = (one.first_row_id + (one.added_rows or 0) for one in metadata.snapshots if one.first_row_id is not None)
        shown["next_row_id"] = max(given, default=0)
    return shown


def with_shown_counters(metadata: TableMetadata) -> TableMetadata:
    """Return the metadata with no counter below what it shows itself. Raises InvalidMetadata past 63 bits."""
    shown = shown_counters(metadata)
    if max(shown.values()) > LONG_MAX:
        raise InvalidMetadata(f"a snapshot has row ids up to {shown['next_row_id']}, past 63 bits", where="snapshots")
    return _raised(metadata, shown)


def not_below(metadata: TableMetadata, before: TableMetadata) -> TableMetadata:
    """Return the metadata with no counter below that of an earlier state of the same table, whoever wrote it."""
    known = {name: getattr(before, name) for name in _COUNTERS if getattr(before, name) is not None}
    if metadata.format_version == 1:  # which has no sequence numbers
        known.pop("last_sequence_number")
    return _raised(metadata, known)


def _raised(metadata: TableMetadata, least: dict[str, int]) -> TableMetadata:
    raised = {
        name: value
        for name, value in least.items()
        if (claimed := getattr(metadata, name)) is not None and claimed < value
    }
    return msgspec.structs.replace(metadata, **raised) if raised else metadata
