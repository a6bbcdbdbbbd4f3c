"""`firn conflicts`: the conflict log of all tables.

The journals are the record; the events have what no journal could take (no such table, no such intent).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

import click
import msgspec

from firn.coordinator.cli.exits import EXIT_OK, EXIT_UNAVAILABLE
from firn.coordinator.cli.following import event_of, events_after, newest_id, until_interrupted
from firn.coordinator.cli.output import Column, complain
from firn.coordinator.cli.patient_reads import PatientJournal, PatientReads
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.rules import complain_of_unknown
from firn.coordinator.cli.text import one_line, shown, time_of
from firn.coordinator.cli.times import Moment, now_ms
from firn.coordinator.journal.lookups import SLACK_MS, walk_back
from firn.coordinator.journal.old_segments import UNREADABLE
from firn.model.errors import NotFound, Unavailable
from firn.model.event import Event
from firn.model.journal import Segment
from firn.model.outcome import Rejected
from firn.storage.intent_streams import FIRST_ID
from firn.storage.journal import JournalFiles
from firn.storage.pointers import Pointer

SEGMENTS_MAX: Final = 10_000
"""Journal segments that one command reads, over all tables."""

EVENTS_MAX: Final = 20_000
"""Newest events in which rejections are looked for that are in no journal of these tables."""

CONFLICT_COLUMNS: Final = (
    Column("TIME"), Column("TABLE"), Column("RULE"), Column("OPERATION"), Column("WRITER"), Column("AGAINST"),
    Column("HINT"), Column("INTENT"), Column("WHY", long=True),
)  # fmt: skip


class Conflict(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """One rejection: when, of what, by whom, and `outcome` with the reason and the winner."""

    time_ms: int
    source: str
    table: str
    rule: str
    operation: str | None = None
    writer: str | None = None
    outcome: Rejected


class _Budget:
    """How many segments may still be read; `spent` says whether that was too few."""

    def __init__(self, segments: int) -> None:
        self._left = segments
        self.spent = False

    def take(self) -> bool:
        self.spent = self.spent or self._left == 0
        self._left -= not self.spent
        return not self.spent


class _Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which conflicts are wanted."""

    table: str | None
    rule: str | None
    writer: str | None
    operation: str | None
    winner: str | None
    since_ms: int
    until_ms: int | None

    def takes(self, conflict: Conflict) -> bool:
        """Whether it is one of them."""
        outcome = conflict.outcome
        return (
            conflict.time_ms >= self.since_ms
            and (self.until_ms is None or conflict.time_ms < self.until_ms)
            and self.table in (None, conflict.table, _at_fault(outcome))
            and self.rule in (None, conflict.rule)
            and self.operation in (None, conflict.operation)
            and self.writer in (None, conflict.writer, outcome.conflicting_writer)
            and self.winner in (None, *_winners(outcome))
        )


def _at_fault(outcome: Rejected) -> str | None:
    """The table over which a transaction was refused; its rejection is in the journal of its first one."""
    table = outcome.details.get("table")
    return table if isinstance(table, str) else None


def _winners(outcome: Rejected) -> tuple[str | None, ...]:
    """By what a winner may be named: writer, intent, operation, snapshot."""
    snapshot = outcome.conflicting_snapshot_id
    return (
        outcome.conflicting_writer,
        outcome.conflicting_intent_id,
        outcome.conflicting_operation,
        None if snapshot is None else str(snapshot),
    )


@click.command(
    epilog="Times: 30s, 15m, 1h, 7d (ago), 2026-11-21, 2026-11-21T15:30, in UTC unless a zone is given. "
    "Examples: firn conflicts --table db.events --since 2h   firn conflicts --winner compactor-0 --until 2026-11-21"
)
@click.option("--table", help="Of this table only, and of transactions that failed over it.")
@click.option("--rule", help="By this rule only.")
@click.option("--operation", help="Of intents of this operation only, such as row-delta.")
@click.option("--writer", help="Of this writer's intents, or lost against its commits.")
@click.option("--winner", help="Lost against this writer, intent, snapshot or operation.")
@click.option("--since", "since_ms", type=Moment(), metavar="TIME", help="Not older than this.")
@click.option("--until", "until_ms", type=Moment(), metavar="TIME", help="Older than this.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most this many.")
@click.option("--follow", "-f", is_flag=True, help="Oldest first, and go on with what comes, until Ctrl-C.")
@reaching
def conflicts(reach: Reach, *, limit: int, follow: bool, since_ms: int | None, **filters: Any) -> int:
    """List what was rejected and why, newest first. With --json one a line, with all that is known of it.

    A table whose store does not answer in some seconds is left out and named; the command exits with 3 then.
    """
    wanted = _Filter(since_ms=since_ms or 0, **filters)
    table = wanted.table
    after = _end_of_events(reach) if follow else FIRST_ID
    pointers = reach.pointers() if table is None else _pointer_if_any(reach, table)
    budget, reads = _Budget(SEGMENTS_MAX), PatientReads()
    logged = journaled(
        pointers, reach.journal, oldest_ms=wanted.since_ms, newest_ms=wanted.until_ms, may_read=budget.take, reads=reads
    )
    merged = heapq.merge(logged, _published(reach, table), key=lambda conflict: conflict.time_ms, reverse=True)
    found = list(islice(filter(wanted.takes, merged), limit))
    if follow:
        _follow(reach, found[::-1], after=after, wanted=wanted.takes)
        return EXIT_OK
    if reach.output.as_json:
        for conflict in found:
            reach.output.line(conflict)
    reach.output.grid(CONFLICT_COLUMNS, (_row(conflict) for conflict in found), empty="no conflicts")
    if not found and wanted.rule is not None:
        complain_of_unknown([wanted.rule])
    if budget.spent:
        complain(f"firn: only the newest {SEGMENTS_MAX} journal segments were looked at: name a --table, or --since")
    return EXIT_UNAVAILABLE if reads.hanging else EXIT_OK


def journaled(
    pointers: Iterable[Pointer],
    journal: JournalFiles,
    *,
    oldest_ms: int,
    newest_ms: int | None = None,
    may_read: Callable[[], bool],
    reads: PatientReads,
) -> Iterator[Conflict]:
    """The rejections in the journals of these tables, newest first, from about `newest_ms` back to `oldest_ms`.

    `may_read` is asked before each segment. A journal that cannot be read is left out, with a warning.
    """
    logs = [
        _journaled(
            pointer, PatientJournal(journal, table=pointer.table, reads=reads), oldest_ms=oldest_ms,
            newest_ms=newest_ms, may_read=may_read,
        )
        for pointer in pointers
    ]  # fmt: skip
    return heapq.merge(*logs, key=lambda conflict: conflict.time_ms, reverse=True)


def _journaled(
    pointer: Pointer,
    journal: JournalFiles,
    *,
    oldest_ms: int,
    newest_ms: int | None,
    may_read: Callable[[], bool],
) -> Iterator[Conflict]:
    newest_ms = None if newest_ms is None else newest_ms + SLACK_MS
    try:
        for segment in walk_back(journal, pointer.journal_head, newest_ms=newest_ms):
            if segment.batch.timestamp_ms < oldest_ms or not may_read():
                return
            yield from _rejections(segment)
    except UNREADABLE as error:
        complain(f"firn: the journal of {shown(pointer.table)} cannot be read: {one_line(str(error))}")


def _rejections(segment: Segment) -> Iterator[Conflict]:
    for decided in reversed(segment.decided):
        if isinstance(decided.outcome, Rejected):
            yield Conflict(
                time_ms=segment.batch.timestamp_ms,
                source="journal",
                table=segment.batch.table,
                rule=decided.outcome.rule,
                operation=decided.operation,
                writer=decided.writer,
                outcome=decided.outcome,
            )


def _published(reach: Reach, table: str | None) -> list[Conflict]:
    """Return the rejections that are in no journal of these tables, from the newest events, newest first.

    There was no table to keep them, or a transaction was refused over `table` and is in the journal of another: those
    journals are not read for it, that would be all there are. Without Redis the journals are listed all the same.
    """

    async def read() -> list[Conflict]:
        async with reach.streams() as streams:
            messages = await streams.newest_events(count=EVENTS_MAX)
        events = {event.id: event for message in messages if (event := event_of(message)) is not None}
        return [conflict for event in events.values() if (conflict := _of_event(event)) is not None]

    try:
        found = reach.run(read())
    except Unavailable as error:
        complain(f"firn: rejections that are in no journal are not shown: {one_line(str(error))}")
        return []
    wanted = (one for one in found if one.outcome.batch is None or table not in (None, one.table))
    return sorted(wanted, key=lambda conflict: conflict.time_ms, reverse=True)


def _pointer_if_any(reach: Reach, table: str) -> list[Pointer]:
    """Return none for a name that is no table's: what was submitted to it is among the events."""
    try:
        return [reach.pointer(table, dropped=True)]
    except NotFound:
        return []


def _end_of_events(reach: Reach) -> str:
    async def look() -> str:
        async with reach.streams() as streams:
            return await newest_id(streams)

    return reach.run(look())


def _follow(reach: Reach, known: list[Conflict], *, after: str, wanted: Callable[[Conflict], bool]) -> None:
    seen = {conflict.outcome.intent_id for conflict in known}
    for conflict in known:
        _print_line(reach, conflict)

    async def follow() -> None:
        async with reach.streams() as streams:
            async for event in events_after(streams, after):
                conflict = _of_event(event)
                if conflict is None or not wanted(conflict) or conflict.outcome.intent_id in seen:
                    continue
                _print_line(reach, conflict)

    until_interrupted(reach, follow)


def _of_event(event: Event) -> Conflict | None:
    if event.type not in {"firn.intent.rejected", "firn.intent.dead-lettered"}:
        return None
    try:
        outcome = msgspec.convert(event.data, Rejected)
    except msgspec.ValidationError:
        return None
    return Conflict(
        time_ms=event.time_ms or now_ms(),  # somebody else's event may have none
        source="event",
        table=outcome.table,
        rule=outcome.rule,
        operation=event.data.get("operation"),
        writer=event.data.get("writer"),
        outcome=outcome,
    )


def _print_line(reach: Reach, conflict: Conflict) -> None:
    if reach.output.as_json:
        reach.output.line(conflict)
    reach.output.say("  ".join(shown(cell) for cell in _row(conflict)))


def _row(conflict: Conflict) -> tuple[object, ...]:
    outcome = conflict.outcome
    against = outcome.conflicting_writer or outcome.conflicting_intent_id or outcome.conflicting_snapshot_id
    return (
        time_of(conflict.time_ms),
        conflict.table or "-",
        conflict.rule,
        conflict.operation or "-",
        conflict.writer or "-",
        against or "-",
        outcome.hint,
        outcome.intent_id or "-",
        outcome.message,
    )
