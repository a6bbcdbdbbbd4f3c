"""The whole story of one intent, or of one snapshot, from the journal, the table's metadata and the queue.

Synchronous. What cannot be told is left out, never guessed: a journal that ends, snapshots that expired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

from firn.coordinator.insight.landed import Landed, landed
from firn.coordinator.insight.queue_look import Place
from firn.coordinator.journal.lookups import find_decision, find_snapshot, makes, walk_back
from firn.coordinator.replay.rules import RULES
from firn.model.ancestry import is_ancestor, snapshots_between
from firn.model.effects import effects_on
from firn.model.identifiers import intent_id_ms
from firn.model.journal import Decided, Segment
from firn.model.metadata import TableMetadata
from firn.model.outcome import Committed, Outcome, Rejected
from firn.model.pause import Pause
from firn.storage.journal import JournalFiles

NO_PAUSES: Final[Mapping[str, Pause]] = MappingProxyType({})

LISTED_MAX: Final = 100
"""Snapshots and intents listed; counts say how many there are."""

NEIGHBOURS_MAX: Final = 200
"""Segments before a batch that are looked through: for whoever won a swap that it lost, for writers of snapshots."""

Telling = Literal["decided", "taken", "waiting", "settled", "unknown"]


class Asked(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """An intent in brief."""

    intent_id: str
    operation: str
    writer: str | None = None
    status: Literal["committed", "rejected"]
    rule: str | None = None
    snapshot_id: int | None = None
    submitted_ms: int | None = None
    base_snapshot_id: int | None = None


class LostSwap(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """An attempt that did not come off, and the batch that came first, if it was firn's and is known."""

    attempt: int
    reason: str
    found_metadata: str | None = None
    rival_batch: str | None = None
    rival_daemon: str | None = None


class BatchTold(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """The batch that decided: who made it, from which metadata to which, and who else was in it."""

    batch: str
    segment: str
    sequence: int
    daemon: str
    lock_token: int
    timestamp_ms: int
    base_metadata: str | None = None
    new_metadata: str | None = None
    committed: int = 0
    rejected: int = 0
    lost_swaps: tuple[LostSwap, ...] = ()
    intents: tuple[Asked, ...] = ()
    """All intents of the batch, in the order in which they were replayed."""


class Now(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """What has become of a snapshot since: branches and tags at it, branches that have it in their history."""

    exists: bool
    refs: tuple[str, ...] = ()
    in_history_of: tuple[str, ...] = ()


class PausedTable(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A table that an intent waits for, and who paused it."""

    table: str
    pause: Pause


class Story(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """Everything that is known of one intent.

    `made_ms` is the writer's clock, `submitted_ms` and places the queue's, all else the daemon's. `rebased_over` are
    the snapshots between its base and its own (of a rejected one: and the head it was judged on), newest first; None
    where it names no base, or they cannot be told any more. `entries` is every entry of it that still stands in the
    queue. `winner` is the intent that came first, where the rejection names one that the journal knows. `paused` is
    what holds it up, if an operator does.
    """

    intent_id: str
    state: Telling
    table: str | None = None
    operation: str | None = None
    writer: str | None = None
    writer_sequence: int | None = None
    branch: str | None = None
    priority: str | None = None
    made_ms: int
    submitted_ms: int | None = None
    entry: str | None = None
    deliveries: int = 0
    waited_ms: int | None = None
    trace_id: str | None = None
    base_snapshot_id: int | None = None
    outcome: Outcome | None = None
    prevents: str | None = None
    batch: BatchTold | None = None
    snapshot: Landed | None = None
    now: Now | None = None
    rebased_over: tuple[Landed, ...] | None = None
    rebased_over_count: int = 0
    winner: Asked | None = None
    entries: tuple[Place, ...] = ()
    paused: PausedTable | None = None


class SnapshotStory(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """Everything that is known of one snapshot.

    `intents` are those that it answered; empty for one that firn did not make (`snapshot.engine` names who did) and
    where the journal does not tell. `rebased_over` are the snapshots after the oldest base of those intents.
    `snapshot` is None when it has expired.
    """

    snapshot_id: int
    table: str
    snapshot: Landed | None = None
    summary: dict[str, str] = {}
    now: Now
    intents: tuple[Asked, ...] = ()
    batch: BatchTold | None = None
    base_snapshot_id: int | None = None
    rebased_over: tuple[Landed, ...] | None = None
    rebased_over_count: int = 0


class Sources(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a table's story is told from. `head` is its newest journal segment; no `metadata`: it is dropped, a view."""

    table: str
    journal: JournalFiles
    head: str | None
    metadata: TableMetadata | None
    skew_ms: int


def story_of(
    intent_id: str,
    *,
    sources: Sequence[Sources],
    outcome: Outcome | None,
    entries: Sequence[Place],
    pauses: Mapping[str, Pause] = NO_PAUSES,
) -> Story:
    """The story of an intent; `sources` are the tables whose journals may have it, `outcome` what Redis has.

    `pauses` are those of all tables: what an intent waits for that is not decided.
    """
    story = Story(
        intent_id=intent_id, state="unknown", made_ms=intent_id_ms(intent_id), entries=tuple(entries), outcome=outcome
    )
    for source in sources:
        found = find_decision(source.journal, source.head, intent_id, skew_ms=source.skew_ms)
        if found is not None:
            return _decided(story, source, *found, told=outcome)
    story = _queued(story, pauses)
    if outcome is None:
        return story
    told = msgspec.structs.replace(story, state="decided", table=story.table or outcome.table)
    return msgspec.structs.replace(told, prevents=_prevents(outcome))


def _queued(story: Story, pauses: Mapping[str, Pause]) -> Story:
    """What the queue tells of an intent that no journal has."""
    if not story.entries:
        return story
    place = next((one for one in story.entries if one.state != "settled"), story.entries[0])
    return msgspec.structs.replace(
        story,
        state=place.state,
        table=place.intent.table,
        operation=place.intent.operation,
        writer=place.intent.writer,
        branch=place.intent.branch,
        priority=place.intent.priority,
        base_snapshot_id=place.intent.base_snapshot_id,
        submitted_ms=place.submitted_ms,
        entry=f"{place.stream}/{place.entry_id}",
        deliveries=place.deliveries,
        paused=_paused(place, pauses),
    )


def _paused(place: Place, pauses: Mapping[str, Pause]) -> PausedTable | None:
    """What holds an intent up that is not decided: its table, or another one of a transaction."""
    if place.state == "settled":
        return None
    named = [place.intent.table, *(member.table for member in place.intent.members)]
    found = ((table, pauses[table]) for table in named if table in pauses)
    return next((PausedTable(table=table, pause=pause) for table, pause in found), None)


def _decided(story: Story, source: Sources, segment: Segment, decided: Decided, *, told: Outcome | None) -> Story:
    """The story by the journal. What Redis has of the same decision (`told`) knows how long the commit took, too."""
    outcome = decided.outcome if told is None or told.batch != decided.outcome.batch else told
    made = outcome.snapshot_id if isinstance(outcome, Committed) else None
    if made is not None and not makes(decided, made, table=segment.batch.table):
        made = None
    end = made if isinstance(outcome, Committed) else outcome.head_snapshot_id
    over = _between(source.metadata, decided.base_snapshot_id, end, without_last=made is not None)
    over = None if over is None else _with_writers(source, over[:LISTED_MAX], segment) + over[LISTED_MAX:]
    return msgspec.structs.replace(
        story,
        state="decided",
        table=source.table,
        operation=decided.operation,
        writer=decided.writer,
        writer_sequence=decided.writer_sequence,
        branch=decided.branch,
        priority=decided.priority,
        submitted_ms=decided.entry_ms or None,
        entry=decided.entry,
        deliveries=decided.deliveries,
        waited_ms=max(0, segment.batch.timestamp_ms - decided.entry_ms) if decided.entry_ms else None,
        trace_id=decided.trace_id,
        base_snapshot_id=decided.base_snapshot_id,
        outcome=outcome,
        prevents=_prevents(outcome),
        batch=_batch(source, segment),
        snapshot=_brief(source.metadata, made),
        now=None if made is None else _now(source.metadata, made),
        rebased_over=None if over is None else over[:LISTED_MAX],
        rebased_over_count=len(over or ()),
        winner=_winner(source, outcome),
    )


def _prevents(outcome: Outcome) -> str | None:
    """What the rule that refused an intent is there for."""
    return RULES[outcome.rule].prevents if isinstance(outcome, Rejected) and outcome.rule in RULES else None


def _brief(metadata: TableMetadata | None, snapshot_id: int | None) -> Landed | None:
    snapshot = None if metadata is None or snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
    return None if snapshot is None else landed(snapshot)


def _between(
    metadata: TableMetadata | None, base: int | None, end: int | None, *, without_last: bool
) -> tuple[Landed, ...] | None:
    if metadata is None or base is None or end is None:
        return None
    found = snapshots_between(metadata, after_id=base, until_id=end)
    if found is None:
        return None
    return tuple(landed(snapshot) for snapshot in (found[1:] if without_last else found))


def _with_writers(source: Sources, over: tuple[Landed, ...], segment: Segment) -> tuple[Landed, ...]:
    """The snapshots, those of several intents with the writers, from the segments before the one that decided."""
    wanted = {one.snapshot_id for one in over if one.intents_count > 1}
    writers: dict[int, dict[str, None]] = {}
    walk = walk_back(source.journal, segment.location, newest_ms=None, through_renames=True)
    for _ in range(NEIGHBOURS_MAX):
        neighbour = next(walk, None) if wanted - writers.keys() else None
        if neighbour is None:
            break
        for decided in neighbour.decided:
            for effect in effects_on(neighbour.batch.table, decided):
                if effect.snapshot_id in wanted:
                    named = writers.setdefault(effect.snapshot_id or 0, {})
                    named |= {} if decided.writer is None else {decided.writer: None}
    return tuple(msgspec.structs.replace(one, writers=tuple(writers.get(one.snapshot_id, ()))) for one in over)


def _now(metadata: TableMetadata | None, snapshot_id: int) -> Now:
    if metadata is None or metadata.snapshot_by_id(snapshot_id) is None:
        return Now(exists=False)
    at = tuple(name for name, ref in metadata.refs.items() if ref.snapshot_id == snapshot_id)
    within = tuple(
        name
        for name, ref in metadata.refs.items()
        if ref.type == "branch" and is_ancestor(metadata, ancestor_id=snapshot_id, descendant_id=ref.snapshot_id)
    )
    return Now(exists=True, refs=at, in_history_of=within)


def _asked(decided: Decided) -> Asked:
    outcome = decided.outcome
    is_committed = isinstance(outcome, Committed)
    return Asked(
        intent_id=decided.intent_id,
        operation=decided.operation,
        writer=decided.writer,
        status="committed" if is_committed else "rejected",
        rule=outcome.rule if isinstance(outcome, Rejected) else None,
        snapshot_id=outcome.snapshot_id if isinstance(outcome, Committed) else None,
        submitted_ms=decided.entry_ms or None,
        base_snapshot_id=decided.base_snapshot_id,
    )


def _winner(source: Sources, outcome: Outcome) -> Asked | None:
    """The intent that came first, as the journal has it."""
    if not isinstance(outcome, Rejected) or outcome.conflicting_intent_id in (None, outcome.intent_id):
        return None
    assert outcome.conflicting_intent_id is not None
    found = find_decision(source.journal, source.head, outcome.conflicting_intent_id, skew_ms=source.skew_ms)
    return None if found is None else _asked(found[1])


def _batch(source: Sources, segment: Segment) -> BatchTold:
    batch = segment.batch
    return BatchTold(
        batch=batch.batch,
        segment=segment.location,
        sequence=batch.sequence,
        daemon=batch.daemon,
        lock_token=batch.lock_token,
        timestamp_ms=batch.timestamp_ms,
        base_metadata=batch.base_metadata,
        new_metadata=batch.new_metadata,
        committed=sum(isinstance(decided.outcome, Committed) for decided in segment.decided),
        rejected=sum(isinstance(decided.outcome, Rejected) for decided in segment.decided),
        lost_swaps=_lost_swaps(source, segment),
        intents=tuple(_asked(decided) for decided in segment.decided[:LISTED_MAX]),
    )


def _lost_swaps(source: Sources, segment: Segment) -> tuple[LostSwap, ...]:
    """The attempts before the one that came off; who came first stands in the segments just before it."""
    if not segment.retried:
        return ()
    rivals: dict[str | None, Segment] = {}
    walk = walk_back(source.journal, segment.batch.previous_segment, newest_ms=None)
    for _, rival in zip(range(NEIGHBOURS_MAX), walk, strict=False):
        rivals.setdefault(rival.batch.new_metadata, rival)
    told = []
    for retried in segment.retried:
        rival_of = rivals.get(retried.found_metadata) if retried.found_metadata is not None else None
        told.append(
            LostSwap(
                attempt=retried.attempt,
                reason=retried.reason,
                found_metadata=retried.found_metadata,
                rival_batch=None if rival_of is None else rival_of.batch.batch,
                rival_daemon=None if rival_of is None else rival_of.batch.daemon,
            )
        )
    return tuple(told)


def snapshot_story_of(snapshot_id: int, *, source: Sources) -> SnapshotStory | None:
    """The story of a snapshot; None where neither the table nor its journal knows it."""
    metadata = source.metadata
    snapshot = None if metadata is None else metadata.snapshot_by_id(snapshot_id)
    brief = None if snapshot is None else landed(snapshot)
    # Snapshots of REST clients say nothing of firn, and are in its journal all the same.
    made_ms = None if snapshot is None else snapshot.timestamp_ms
    found = find_snapshot(source.journal, source.head, snapshot_id, made_ms=made_ms)
    if brief is None and found is None:
        return None
    decided = () if found is None else found[1]
    bases = [one.base_snapshot_id for one in decided if one.base_snapshot_id is not None]
    over, base = _widest(metadata, bases, snapshot_id)
    if over is not None and found is not None:
        over = _with_writers(source, over[:LISTED_MAX], found[0]) + over[LISTED_MAX:]
    summary: dict[str, Any] = {} if snapshot is None else dict(snapshot.summary or {})
    return SnapshotStory(
        snapshot_id=snapshot_id,
        table=source.table,
        snapshot=brief,
        summary=summary,
        now=_now(metadata, snapshot_id),
        intents=tuple(_asked(one) for one in decided[:LISTED_MAX]),
        batch=None if found is None else _batch(source, found[0]),
        base_snapshot_id=base,
        rebased_over=None if over is None else over[:LISTED_MAX],
        rebased_over_count=len(over or ()),
    )


def _widest(
    metadata: TableMetadata | None, bases: Sequence[int], snapshot_id: int
) -> tuple[tuple[Landed, ...] | None, int | None]:
    """The most that any of the intents was rebased over, and the base of that one."""
    told = [
        (over, base) for base in bases if (over := _between(metadata, base, snapshot_id, without_last=True)) is not None
    ]
    return max(told, key=lambda one: len(one[0]), default=(None, bases[0] if bases else None))
