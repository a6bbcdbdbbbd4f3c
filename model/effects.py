"""What a decision did to one table: one effect of an ordinary intent, one of each member of a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from firn.model.journal import Decided
from firn.model.operations.common import Operation
from firn.model.outcome import Committed
from firn.model.planned_on import ref_of

MEMBERS: Final = "members"
"""The member of a transaction's outcome details that lists what became of its members, in order."""

SNAPSHOT_IDS: Final = "snapshot-ids"
"""The member of an outcome's details that lists all snapshots of an intent that brought its own."""

TRANSACTION: Final = "transaction"
"""The operation's name."""


_SEVERAL: Final = frozenset({TRANSACTION, "rest-commit"})
"""Operations that may make several snapshots."""


class Effect(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """What an operation did to `table`. `ref` is the branch or tag, `details` what the operation has to say."""

    table: str
    operation: str
    ref: str | None = None
    snapshot_id: int | None = None
    sequence_number: int | None = None
    metadata_location: str | None = None
    details: dict[str, Any] = {}

    @property
    def snapshot_ids(self) -> tuple[int, ...]:
        """The snapshots that it made or is about, in order: a request of the REST catalog may bring several."""
        several = self.details.get(SNAPSHOT_IDS)
        if isinstance(several, list | tuple) and several:
            return tuple(several)
        return () if self.snapshot_id is None else (self.snapshot_id,)


def effect_of(
    member: Operation, *, snapshot_id: int | None, sequence_number: int | None, details: Mapping[str, Any]
) -> Effect:
    """The effect of a member that was applied; where its table's metadata will be is not known yet."""
    return Effect(
        table=member.table,
        operation=str(member.__struct_config__.tag),
        ref=ref_of(member),
        snapshot_id=snapshot_id,
        sequence_number=sequence_number,
        details=dict(details),
    )


def effects_on(table: str, decided: Decided) -> tuple[Effect, ...]:
    """What a decision that stands in the journal of `table` did to it; nothing, if it is a rejection or a repeat."""
    outcome = decided.outcome
    if not isinstance(outcome, Committed) or outcome.repeats is not None:
        return ()
    if decided.operation == TRANSACTION:
        members = msgspec.convert(outcome.details.get(MEMBERS, ()), tuple[Effect, ...])
        return tuple(effect for effect in members if effect.table == table)
    return (
        Effect(
            table=table,
            operation=decided.operation,
            ref=decided.branch,
            snapshot_id=outcome.snapshot_id,
            sequence_number=outcome.sequence_number,
            metadata_location=outcome.metadata_location,
            details=outcome.details,
        ),
    )


def snapshots_on(table: str, decided: Iterable[Decided]) -> set[tuple[int, int]]:
    """The snapshots that decisions in the journal of `table` made of it, each behind its sequence number."""
    made: set[tuple[int, int]] = set()
    for one in decided:
        outcome = one.outcome
        if one.operation in _SEVERAL:
            effects = effects_on(table, one)
            made.update((e.sequence_number or 0, snapshot_id) for e in effects for snapshot_id in e.snapshot_ids)
        elif isinstance(outcome, Committed) and outcome.snapshot_id is not None and outcome.repeats is None:
            made.add((outcome.sequence_number or 0, outcome.snapshot_id))
    return made
