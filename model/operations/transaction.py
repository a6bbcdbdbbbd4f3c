"""Transactions: several operations, on one table or several, that are committed together or not at all."""

from __future__ import annotations

from typing import Annotated, Final, get_args

import msgspec

from firn.model.operations.common import Name, Operation, Path, SnapshotId
from firn.model.operations.files import FileIntent
from firn.model.operations.layout import LayoutOperation
from firn.model.operations.refs import RefOperation
from firn.model.operations.rest import RestCommit
from firn.model.operations.tables import CreateTable
from firn.model.operations.upkeep import (
    RemovePartitionStatistics,
    RemoveStatistics,
    SetLocation,
    SetPartitionStatistics,
    SetStatistics,
    UpdateProperties,
    UpgradeFormat,
)

Member = (
    FileIntent
    | CreateTable
    | RefOperation
    | LayoutOperation
    | UpdateProperties
    | SetLocation
    | SetStatistics
    | RemoveStatistics
    | SetPartitionStatistics
    | RemovePartitionStatistics
    | UpgradeFormat
    | RestCommit
)
"""What can be part of a transaction. A member has the transaction's intent id, and none of a queue entry's members."""

MEMBER_OPERATIONS: Final = frozenset(str(kind.__struct_config__.tag) for kind in get_args(Member))
"""Their names on the wire."""


class Unchanged(
    msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True, omit_defaults=True
):
    """A table that the transaction has read and does not change: it must be as its writer saw it.

    Either nothing at all may have happened to it since (`metadata_location`), or nothing to one branch (`snapshot_id`,
    null where the branch was empty).
    """

    table: str
    table_uuid: str
    metadata_location: Path | None = None
    branch: Name = "main"
    snapshot_id: SnapshotId | msgspec.UnsetType | None = msgspec.UNSET


class Transaction(Operation, frozen=True, kw_only=True, tag="transaction"):
    """Apply all members in order, each on what the ones before it left, and only if every table of `unchanged` is.

    `table` is one that a member changes; its journal tells whether the transaction was decided. `summary` goes into
    every snapshot, `table_uuid` is that of `table`.
    """

    members: Annotated[tuple[Member, ...], msgspec.Meta(min_length=1)]
    unchanged: tuple[Unchanged, ...] = ()

    @property
    def changed_tables(self) -> tuple[str, ...]:
        """The tables that its members are about, each once: `table` first, then as they come."""
        return tuple(dict.fromkeys((self.table, *(member.table for member in self.members))))

    @property
    def tables(self) -> tuple[str, ...]:
        """All its tables, those that are to be unchanged last."""
        return tuple(dict.fromkeys((*self.changed_tables, *(one.table for one in self.unchanged))))
