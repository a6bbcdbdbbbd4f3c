"""Finding decisions in a table's journal without reading all of it: by intent, by snapshot, by time.

Synchronous; each reads a bounded tail segment by segment, and what is older by its checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from firn.coordinator.journal.decided_ids import REFUSED_AHEAD_MS
from firn.model.effects import effects_on
from firn.model.identifiers import intent_id_ms
from firn.model.journal import Decided, Segment
from firn.storage.journal import JournalFiles

SEGMENTS_MAX: Final = 20_000
"""Segments read in one search."""

SLACK_MS: Final = 10 * 60_000
"""How far the clocks of daemons may be apart."""


def find_decision(
    journal: JournalFiles, head: str | None, intent_id: str, *, skew_ms: int
) -> tuple[Segment, Decided] | None:
    """The decision on an intent. `skew_ms` is how far its own clock may have been ahead.

    One that was further ahead was refused because of it, and that is on record, too: it is found if it was ahead by a
    day at most, or is so even now, or if a checkpoint lists it. Raises what reading a segment raises.
    """
    made_ms = intent_id_ms(intent_id)
    earliest_ms: int | None = None
    location = head
    while location is not None:
        segment = journal.read(location)
        found = _decision_in(segment, intent_id)
        if found is not None:
            return segment, found
        if earliest_ms is None:
            is_far = made_ms - skew_ms - SLACK_MS > segment.batch.timestamp_ms
            earliest_ms = 0 if is_far else made_ms - max(skew_ms, REFUSED_AHEAD_MS) - SLACK_MS
        if segment.batch.timestamp_ms < earliest_ms:
            return None
        if segment.checkpoint is not None:
            before_ms = made_ms - max(skew_ms, REFUSED_AHEAD_MS) - SLACK_MS
            return _by_checkpoints(journal, segment, intent_id, earliest_ms=before_ms)
        location = segment.batch.previous_segment
    return None


def _by_checkpoints(
    journal: JournalFiles, segment: Segment, intent_id: str, *, earliest_ms: int
) -> tuple[Segment, Decided] | None:
    """As `find_decision`, from a segment with a checkpoint on; `earliest_ms` is for those of older versions."""
    made_ms = intent_id_ms(intent_id)
    while segment.checkpoint is not None:
        for known, _, index in segment.checkpoint.intents:
            if known == intent_id:
                holder = journal.read(segment.checkpoint.segments[index])
                found = _decision_in(holder, intent_id)
                return None if found is None else (holder, found)
        older_ms = segment.checkpoint.older_id_ms
        is_over = segment.checkpoint.newest_entry_ms < earliest_ms if older_ms is None else older_ms < made_ms
        if is_over or segment.batch.previous_checkpoint is None:
            return None
        segment = journal.read(segment.batch.previous_checkpoint)
    return None


def _decision_in(segment: Segment, intent_id: str) -> Decided | None:
    return next((decided for decided in segment.decided if decided.intent_id == intent_id), None)


def find_snapshot(
    journal: JournalFiles, head: str | None, snapshot_id: int, *, made_ms: int | None
) -> tuple[Segment, tuple[Decided, ...]] | None:
    """The batch that made a snapshot, and the intents that it answered. `made_ms` None: when is not known.

    Raises what reading a segment raises.
    """
    oldest_ms = 0 if made_ms is None else made_ms - SLACK_MS
    newest_ms = None if made_ms is None else made_ms + SLACK_MS
    for segment in walk_back(journal, head, newest_ms=newest_ms, through_renames=True):
        if segment.batch.timestamp_ms < oldest_ms:
            return None
        makers = tuple(d for d in segment.decided if makes(d, snapshot_id, table=segment.batch.table))
        if makers:
            return segment, makers
    return None


def makes(decided: Decided, snapshot_id: int, *, table: str) -> bool:
    """Whether an intent, or a member of one, made the table's snapshot, and did not only point a branch at it."""
    return snapshot_id in snapshots_made(decided, table=table)


def snapshots_made(decided: Decided, *, table: str) -> set[int]:
    """The table's snapshots that an intent, or members of one, made and did not only point a branch at."""
    return {
        snapshot_id
        for effect in effects_on(table, decided)
        for snapshot_id in effect.snapshot_ids
        if effect.sequence_number is not None
        and (effect.operation not in {"cherry-pick", "publish"} or "picked-snapshot-id" in effect.details)
    }


def walk_back(
    journal: JournalFiles, head: str | None, *, newest_ms: int | None, through_renames: bool = False
) -> Iterator[Segment]:
    """Segments from the newest to the oldest; those after `newest_ms` are passed over, checkpoint by checkpoint.

    A journal is a name's. `through_renames` follows the table instead, into the journal of the name that it had.
    """
    location, checkpoint = head, None
    for _ in range(SEGMENTS_MAX):
        if location is None:
            return
        segment = journal.read(location)
        before = segment.batch.previous_checkpoint
        if newest_ms is not None and before is not None and segment.batch.timestamp_ms > newest_ms:
            checkpoint = (
                checkpoint if checkpoint is not None and checkpoint.location == before else journal.read(before)
            )
            if checkpoint.batch.timestamp_ms > newest_ms:
                location = before
                continue
        yield segment
        location = segment.batch.previous_segment
        if through_renames and segment.batch.renamed_from is not None:
            location = next((o.segment for o in segment.batch.others if o.table == segment.batch.renamed_from), None)
