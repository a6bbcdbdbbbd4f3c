"""A table's snapshots with the intents that they answered: metadata says what changed, the journal who asked for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from firn.coordinator.journal.lookups import snapshots_made
from firn.model.errors import CorruptFile, NotFound
from firn.model.journal import Segment
from firn.model.metadata import TableMetadata
from firn.model.snapshot import Snapshot
from firn.storage.journal import JournalFiles

SEGMENTS_MAX: Final = 2_000
"""Journal segments looked through for the intents of the snapshots shown."""


class Made(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """An intent that a snapshot answered."""

    intent_id: str
    operation: str
    writer: str | None = None


class HistoryItem(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """One snapshot; `intents` is empty for those that firn did not make, and when its journal does not reach back."""

    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int
    timestamp_ms: int
    operation: str | None
    refs: tuple[str, ...]
    intents: tuple[Made, ...]
    intents_count: int
    summary: dict[str, str]


def history_of(
    metadata: TableMetadata, *, journal: JournalFiles, journal_head: str | None, limit: int
) -> list[HistoryItem]:
    """The newest `limit` snapshots, newest first."""
    newest = [*metadata.snapshots][-limit:][::-1]
    made = _made(journal, journal_head, {snapshot.snapshot_id for snapshot in newest})
    refs: dict[int, list[str]] = {}
    for name, ref in metadata.refs.items():
        refs.setdefault(ref.snapshot_id, []).append(name)
    return [_item(snapshot, made=made, refs=refs) for snapshot in newest]


def _made(journal: JournalFiles, head: str | None, wanted: set[int]) -> dict[int, list[Made]]:
    """Intents by the snapshot they became, as far as the journal tells."""
    found: dict[int, list[Made]] = {}
    try:
        for position, segment in enumerate(_segments(journal, head)):
            if position >= SEGMENTS_MAX or wanted <= found.keys():
                break
            for decided in segment.decided:
                for snapshot_id in wanted & snapshots_made(decided, table=segment.batch.table):
                    made = Made(intent_id=decided.intent_id, operation=decided.operation, writer=decided.writer)
                    found.setdefault(snapshot_id, []).append(made)
    except (NotFound, CorruptFile):
        return found  # the snapshots are told all the same; `firn fsck` says what is wrong with the journal
    return found


def _segments(journal: JournalFiles, head: str | None) -> Iterator[Segment]:
    """A table's journal from `head` backwards, through the names that it had before."""
    while head is not None:
        location, head = head, None
        for segment in journal.walk(location):
            yield segment
            if segment.batch.renamed_from is not None:
                head = segment.batch.others[0].segment
                break


def _item(snapshot: Snapshot, *, made: Mapping[int, list[Made]], refs: Mapping[int, list[str]]) -> HistoryItem:
    summary = snapshot.summary or {}
    intents = tuple(made.get(snapshot.snapshot_id, ()))
    stated = summary.get("firn.intents", "")
    return HistoryItem(
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number,
        timestamp_ms=snapshot.timestamp_ms,
        operation=snapshot.operation,
        refs=tuple(refs.get(snapshot.snapshot_id, ())),
        intents=intents,
        intents_count=len(intents) or (int(stated) if stated.isdecimal() and len(stated) < 10 else 0),
        summary=summary,
    )
