"""Transactions: members in order, each on what the ones before it left; the first that is refused decides for all."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final

import msgspec

from firn.coordinator.replay import rules
from firn.coordinator.replay.decision import Applied, Decision, Refusal, Refused
from firn.coordinator.replay.engine import replay
from firn.coordinator.replay.places import chooses_places, places_beside
from firn.coordinator.replay.tables import TABLE_UUIDS
from firn.coordinator.replay.working import Working
from firn.model.effects import MEMBERS, Effect, effect_of
from firn.model.errors import CorruptFile, FirnError, InvalidInput, NotFound
from firn.model.metadata import TableMetadata
from firn.model.operations.tables import CreateTable
from firn.model.operations.transaction import Member, Transaction, Unchanged
from firn.model.pointer import Pointer

UNREADABLE: Final = (CorruptFile, InvalidInput, NotFound)
"""What reading a table raises when its stored state does not pass its checks."""


class UnreadableTableError(Exception):
    """A table that a transaction is about, other than its first, does not pass its checks."""

    def __init__(self, table: str, reason: FirnError) -> None:
        self.table = table
        super().__init__(f"{table}: {reason}")


class Seen(msgspec.Struct, frozen=True, eq=False):
    """A table that is to be unchanged, as it is now; `metadata` is read where a branch of it is looked at."""

    pointer: Pointer | None
    metadata: TableMetadata | None = None


class Drafts(msgspec.Struct, frozen=True, eq=False):
    """The tables of one transaction under replay, by name.

    `places` are those of all tables (`Placement.taken` of every draft): members that choose a place add to it.
    """

    tables: Mapping[str, Working]
    places: dict[str, tuple[str, ...]]


def replay_transaction(drafts: Drafts, transaction: Transaction, seen: Mapping[str, Seen]) -> Decision:
    """Apply all members, or refuse. After a refusal the drafts are of no use any more: drop them.

    Reads of immutable files may raise CorruptFile or Unavailable, of other tables than the first
    UnreadableTableError: then nothing is decided.
    """
    try:
        _require_one_catalog(drafts, transaction)
        first = drafts.tables[transaction.table]
        if transaction.table_uuid is not None:
            first.require(table_uuid=transaction.table_uuid)
    except Refusal as refusal:
        return refusal.refused
    for at, one in enumerate(transaction.unchanged):
        try:
            _require_unchanged(one, seen[one.table])
        except Refusal as refusal:
            return _placed(refusal.refused, f"unchanged[{at}]", {"unchanged": at, "table": one.table})
    effects: list[Effect] = []
    for at, member in enumerate(transaction.members):
        decision = _replay_member(drafts, transaction, member)
        operation = str(member.__struct_config__.tag)
        if isinstance(decision, Refused):
            where = f"members[{at}] ({operation} on {member.table!r})"
            return _placed(decision, where, {"member": at, "table": member.table, "operation": operation})
        effects.append(
            effect_of(
                member,
                snapshot_id=decision.snapshot_id,
                sequence_number=decision.sequence_number,
                details=decision.details,
            )
        )
    own = [effect for effect in effects if effect.table == transaction.table and effect.snapshot_id is not None]
    return Applied(
        snapshot_id=own[-1].snapshot_id if own else None,
        sequence_number=own[-1].sequence_number if own else None,
        details={MEMBERS: effects},
    )


def _replay_member(drafts: Drafts, transaction: Transaction, member: Member) -> Decision:
    draft = drafts.tables[member.table]
    if isinstance(member, CreateTable) and member.table_uuid is None:  # the intent's id does not tell two tables apart
        table_uuid = str(uuid.uuid5(TABLE_UUIDS, f"{transaction.intent_id}/{member.table}"))
        member = msgspec.structs.replace(member, table_uuid=table_uuid)
    full = msgspec.structs.replace(member, summary={**transaction.summary, **member.summary}, writer=transaction.writer)
    try:
        (decision,) = replay(draft, [full])
    except UNREADABLE as error:
        if member.table == transaction.table:
            raise
        raise UnreadableTableError(member.table, error) from error
    if isinstance(decision, Refused) and decision.conflicting_snapshot_id in draft.own:
        return _by_its_own(decision)
    draft.own = frozenset(one.snapshot.snapshot_id for one in draft.snapshots)
    if isinstance(decision, Applied) and chooses_places(member):
        assert draft.metadata is not None
        places = (draft.metadata.location, *places_beside(draft.metadata))
        drafts.places[member.table] = tuple(dict.fromkeys((*drafts.places.get(member.table, ()), *places)))
    return decision


def _require_one_catalog(drafts: Drafts, transaction: Transaction) -> None:
    """Refuse several tables of which one is swapped by a put. Prevents: only a part being committed."""
    if len(transaction.tables) == 1:
        return
    for name, draft in drafts.tables.items():
        if draft.catalog != "metastore":
            rules.INVALID_TRANSACTION.refuse(
                f"{name!r} is a file-system table: it is committed to by the put of its next version, which cannot be "
                "one with a change of another table"
            )


def _require_unchanged(one: Unchanged, seen: Seen) -> None:
    """Refuse when a table that was read is not what it was.

    Prevents: a transaction that rests on what another table does not say any more.
    """
    pointer = seen.pointer
    if pointer is None or pointer.dropped:
        rules.UNKNOWN_TABLE.refuse(f"there is no table {one.table!r}")
    if pointer.catalog != "metastore":
        rules.INVALID_TRANSACTION.refuse(
            f"{one.table!r} is a file-system table: nothing keeps it as it is while others are swapped"
        )
    if pointer.uuid != one.table_uuid:
        rules.TABLE_UUID_MISMATCH.refuse(f"{one.table!r} is {pointer.uuid} now, not {one.table_uuid}")
    if one.metadata_location not in {None, pointer.metadata_location}:
        rules.TABLE_CHANGED.refuse(
            f"{one.table!r} is at {pointer.metadata_location} now, not at {one.metadata_location}"
        )
    if isinstance(one.snapshot_id, msgspec.UnsetType):
        return
    if seen.metadata is None:
        rules.INVALID_TRANSACTION.refuse(f"{one.table!r} is a view: it has no snapshots")
    ref = seen.metadata.refs.get(one.branch)
    head = None if ref is None else ref.snapshot_id
    if head != one.snapshot_id:
        winner = None if head is None else seen.metadata.snapshot_by_id(head)
        rules.TABLE_CHANGED.refuse(
            f"branch {one.branch!r} of {one.table!r} is at snapshot {head} now, not at {one.snapshot_id}",
            winner=winner,
            base=one.snapshot_id,
        )


def _by_its_own(refused: Refused) -> Refused:
    """The refusal of a member that an earlier one is in the way of: nobody else was first, and planning anew helps not.

    The snapshot that it names is committed nowhere.
    """
    return msgspec.structs.replace(
        refused,
        message=f"an earlier member of this transaction is in its way: {refused.message}",
        hint="fix",
        conflicting_snapshot_id=None,
        conflicting_intent_id=None,
        conflicting_writer=None,
    )


def _placed(refused: Refused, where: str, details: dict[str, object]) -> Refused:
    return msgspec.structs.replace(
        refused, message=f"{where}: {refused.message}", details={**refused.details, **details}
    )
