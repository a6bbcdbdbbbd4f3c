"""`firn journal`: the swaps of one table."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import islice
from typing import Any, Final

import click
import msgspec

from firn.coordinator.cli.following import until_interrupted
from firn.coordinator.cli.output import Column, complain
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.text import one_line, shown, time_of
from firn.model.amounts import plural
from firn.model.errors import Unavailable
from firn.model.journal import Segment, committed, rejected
from firn.storage.pointers import Pointers

POLL_S: Final = 0.5

JOURNAL_COLUMNS: Final = (
    Column("SEQ", right=True), Column("TIME"), Column("COMMITTED", right=True), Column("REJECTED", right=True),
    Column("RETRIED", right=True), Column("OPERATIONS", long=True), Column("SNAPSHOTS", right=True),
    Column("METADATA"), Column("DAEMON"),
)  # fmt: skip


@click.command()
@click.argument("table")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Newest swaps to show.")
@click.option("--follow", "-f", is_flag=True, help="Oldest first, and go on with what comes, until Ctrl-C.")
@reaching
def journal(reach: Reach, *, table: str, limit: int, follow: bool) -> None:
    """List the swaps of a table, newest first; of a dropped one, too.

    With --json each is its whole segment, one a line.
    """
    head = reach.pointer(table, dropped=True).journal_head
    newest = list(islice(reach.journal.walk(head), limit))
    if not follow:
        if newest or head is None:
            _print(reach, newest, empty=f"{shown(table)} has no journal yet")
        return
    for segment in reversed(newest):
        _print_line(reach, segment)
    until_interrupted(reach, lambda: _follow(reach, table, head))


async def _follow(reach: Reach, table: str, head: str | None) -> None:
    async with reach.session() as session:
        pointers = Pointers(session)
        while True:
            await asyncio.sleep(POLL_S)
            try:
                now = (await pointers.read_cached(table)).pointer.journal_head
                fresh = await asyncio.to_thread(lambda: list(reach.journal.walk(now, until=head)))  # noqa: B023
            except Unavailable as error:
                complain(f"firn: waiting: {one_line(str(error))}")
                continue
            head = now
            for segment in reversed(fresh):
                _print_line(reach, segment)


def _print(reach: Reach, segments: list[Segment], *, empty: str) -> None:
    if reach.output.as_json:
        for segment in segments:
            reach.output.line(segment_json(segment))
    reach.output.grid(JOURNAL_COLUMNS, (_row(segment) for segment in segments), empty=empty)


def _print_line(reach: Reach, segment: Segment) -> None:
    if reach.output.as_json:
        reach.output.line(segment_json(segment))
    sequence, time, done, refused, retried, operations, snapshots, metadata, daemon = _row(segment)
    reach.output.say(
        shown(
            f"{sequence:>6}  {time}  {done} committed, {refused} rejected, {retried} retried  {operations}  "
            f"{plural(snapshots, 'snapshot')}  {metadata}  {daemon}"
        )
    )


def segment_json(segment: Segment) -> dict[str, Any]:
    """A segment as JSON: where it is, its batch, its decisions. Of a checkpoint only that it is there."""
    return {
        "location": segment.location,
        "batch": msgspec.to_builtins(segment.batch),
        "decided": [msgspec.to_builtins(decided) for decided in segment.decided],
        "retried": [msgspec.to_builtins(retried) for retried in segment.retried],
        "checkpoint": segment.checkpoint is not None,
    }


def _row(segment: Segment) -> tuple[Any, ...]:
    batch = segment.batch
    operations = Counter(decided.operation for decided in segment.decided)
    snapshots = {outcome.snapshot_id for outcome in committed(segment) if outcome.snapshot_id is not None}
    if batch.base_metadata == batch.new_metadata:
        metadata = "unchanged"
    else:
        metadata = (batch.new_metadata or "dropped").rpartition("/")[2].partition("-")[0]
    return (
        batch.sequence,
        time_of(batch.timestamp_ms),
        len(committed(segment)),
        len(rejected(segment)),
        len(segment.retried),
        ", ".join(f"{count} {operation}" for operation, count in operations.most_common()),
        len(snapshots),
        metadata,
        batch.daemon,
    )
