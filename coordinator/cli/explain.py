"""`firn explain`: the whole story of one intent, or of one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import click

from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK, EXIT_UNAVAILABLE
from firn.coordinator.cli.explained import snapshot_lines, story_lines
from firn.coordinator.cli.output import complain
from firn.coordinator.cli.patient_reads import PatientJournal, PatientReads
from firn.coordinator.cli.reach import Reach, reaching, shards_of
from firn.coordinator.cli.text import one_line, shown
from firn.coordinator.cli.times import now_ms
from firn.coordinator.insight.explain import Sources, snapshot_story_of, story_of
from firn.coordinator.insight.queue_look import Place, places_of
from firn.coordinator.journal.lookups import find_decision
from firn.coordinator.journal.old_segments import UNREADABLE
from firn.model.errors import InvalidInput, NotFound, Unavailable
from firn.model.identifiers import is_intent_id
from firn.model.outcome import Outcome, decode_outcome, is_final
from firn.model.pause import Pause
from firn.model.sharding import shard_of
from firn.storage.pauses import Pauses
from firn.storage.pointers import Pointer

RENAMES_MAX: Final = 10
"""Names that a table is followed through."""


@click.command(
    epilog="Examples: firn explain 0192f0c1-…   firn explain --snapshot 3051729675574597004 --table db.events"
)
@click.argument("intent_id", metavar="[INTENT]", required=False)
@click.option("--snapshot", "snapshot_id", type=int, help="Explain this snapshot of --table instead.")
@click.option("--table", help="Its table: for a snapshot needed, for an intent faster.")
@reaching
def explain(reach: Reach, *, intent_id: str | None, snapshot_id: int | None, table: str | None) -> int:
    """Tell the whole story of an intent: submitted, waited, batch, replays, rule, outcome, and what came meanwhile.

    Or of a snapshot: who asked for it, over what it was rebased, with whom it was committed. Exits with 1 when nothing
    is known of it, with 3 when a store that does not answer in some seconds may know more.
    """
    if (intent_id is None) == (snapshot_id is None):
        raise click.UsageError("give an intent id, or --snapshot with --table")
    if snapshot_id is not None:
        if table is None:
            raise click.UsageError("--snapshot needs its --table")
        return _snapshot(reach, snapshot_id, table)
    assert intent_id is not None
    if not is_intent_id(intent_id):
        raise InvalidInput(f"{intent_id[:80]!r} is not a UUIDv7 in lower case", where="INTENT")
    return _intent(reach, intent_id, table)


def _intent(reach: Reach, intent_id: str, table: str | None) -> int:
    outcome, entries = _in_redis(reach, intent_id, table)
    if outcome is not None and is_final(outcome):  # what is no intent may name any table
        table = table or outcome.table
    table = table or _table_of(entries)
    reads = PatientReads()
    story = story_of(
        intent_id, sources=_sources(reach, intent_id, table, reads=reads), outcome=outcome, entries=entries,
        pauses=reach.run(_pauses(reach)) if entries and outcome is None else {},
    )  # fmt: skip
    if reach.output.as_json:
        reach.output.document(story)
    reach.output.lines(story_lines(story, now_ms=now_ms()))
    if reads.hanging and story.state != "decided":
        return EXIT_UNAVAILABLE
    return EXIT_NO if story.state == "unknown" else EXIT_OK


def _in_redis(reach: Reach, intent_id: str, table: str | None) -> tuple[Outcome | None, list[Place]]:
    async def look() -> tuple[Outcome | None, list[Place]]:
        async with reach.streams() as streams:
            data = await streams.outcome(intent_id)
            outcome = None if data is None else decode_outcome(data)
            known = table or (outcome.table if outcome is not None and is_final(outcome) else None)
            shards = await shards_of(streams)
            looked_at = range(shards) if not known else [shard_of(known, shards=shards)]
            return outcome, await places_of(streams, intent_id, shards=looked_at)

    try:
        return reach.run(look())
    except Unavailable as error:
        complain(f"firn: only the journals were looked at: {one_line(str(error))}")
        return None, []


async def _pauses(reach: Reach) -> dict[str, Pause]:
    async with reach.session() as session:
        return await Pauses(session).all()


def _table_of(entries: Sequence[Place]) -> str | None:
    return entries[0].intent.table if entries else None


def _sources(reach: Reach, intent_id: str, table: str | None, *, reads: PatientReads) -> list[Sources]:
    """The table whose journal has the intent; without its name all of them are asked."""
    try:
        pointers = reach.pointers() if table is None else [reach.pointer(table, dropped=True)]
    except NotFound:
        return []  # what was submitted to it is told by Redis, if at all
    skew_ms = reach.settings.limits.clock_skew_minutes_max * 60_000
    for pointer in pointers:
        try:
            journal = PatientJournal(reach.journal, table=pointer.table, reads=reads)
            if find_decision(journal, pointer.journal_head, intent_id, skew_ms=skew_ms) is not None:
                return [reads.run(pointer.table, partial(_source, reach, pointer))]
        except UNREADABLE as error:
            complain(f"firn: the journal of {shown(pointer.table)} cannot be read: {one_line(str(error))}")
    return []


def _source(reach: Reach, pointer: Pointer) -> Sources:
    now = _under_its_name(reach, pointer)
    is_there = not now.dropped and now.kind == "table" and now.uuid == pointer.uuid
    return Sources(
        table=pointer.table,
        journal=reach.journal,
        head=pointer.journal_head,
        metadata=reach.metadata_reader.metadata(now.metadata_location) if is_there else None,
        skew_ms=reach.settings.limits.clock_skew_minutes_max * 60_000,
    )


def _under_its_name(reach: Reach, pointer: Pointer) -> Pointer:
    """The pointer of what was renamed, under the name that it has now."""
    for _ in range(RENAMES_MAX):
        if pointer.renamed_to is None:
            break
        try:
            pointer = reach.pointer(pointer.renamed_to, dropped=True)
        except NotFound:
            break
    return pointer


def _snapshot(reach: Reach, snapshot_id: int, table: str) -> int:
    story = snapshot_story_of(snapshot_id, source=_source(reach, reach.pointer(table, dropped=True)))
    if story is None:
        raise NotFound(f"neither {table} nor its journal knows a snapshot {snapshot_id}")
    if reach.output.as_json:
        reach.output.document(story)
    reach.output.lines(snapshot_lines(story))
    return EXIT_OK
