"""Partition specs: how a row becomes a partition tuple (table specification, "Partitioning")."""

from __future__ import annotations

from typing import Any, Final

import msgspec

PARTITION_FIELD_ID_START: Final = 1000
"""First id given to a partition field."""


class PartitionField(msgspec.Struct, frozen=True, kw_only=True):
    """One value of the partition tuple.

    `transform` is the text of the specification (``bucket[16]``, ``day``, or one that firn does not know, which is
    kept as it is). `source_ids` has one id for v1 and v2 tables; v3 allows several.
    """

    source_ids: tuple[int, ...]
    field_id: int
    name: str
    transform: str
    extra: dict[str, Any] = {}

    @property
    def source_id(self) -> int:
        """The only source column; meaningful when the transform takes one argument."""
        return self.source_ids[0]


class PartitionSpec(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """An identified tuple of partition fields; an empty one is unpartitioned."""

    spec_id: int
    fields: tuple[PartitionField, ...] = ()
    extra: dict[str, Any] = {}
