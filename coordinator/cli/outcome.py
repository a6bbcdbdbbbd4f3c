"""`firn outcome`: what became of an intent, from Redis while it is there, from the table's journal for good."""

from __future__ import annotations

import click

from firn.coordinator.cli.answers import outcome_pairs
from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK, EXIT_UNAVAILABLE
from firn.coordinator.cli.output import complain
from firn.coordinator.cli.patient_reads import PatientJournal, PatientReads
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.text import one_line, shown
from firn.coordinator.journal.lookups import find_decision
from firn.coordinator.journal.old_segments import UNREADABLE
from firn.model.errors import InvalidInput, NotFound, Unavailable
from firn.model.identifiers import is_intent_id
from firn.model.outcome import Outcome, Rejected, decode_outcome
from firn.storage.pointers import Pointer


@click.command()
@click.argument("intent_id", metavar="ID")
@click.option("--table", help="Its table: other journals are not looked through.")
@reaching
def outcome(reach: Reach, *, intent_id: str, table: str | None) -> int:
    """Show the outcome of an intent. Exits with 1 when it was rejected, with 3 when there is no outcome."""
    if not is_intent_id(intent_id):
        raise InvalidInput(f"{intent_id[:80]!r} is not a UUIDv7 in lower case", where="ID")
    reads = PatientReads()
    found = _in_redis(reach, intent_id)
    if found is None or (
        isinstance(found, Rejected) and found.batch is None
    ):  # no journal keeps it, as far as is known
        found = _in_journals(reach, intent_id, table, reads=reads, told=found) or found
    if found is None:
        known = "Redis and the journals know" if not reads.hanging else "Redis and the journals that were read know"
        complain(f"firn: nothing is decided about {intent_id}, as far as {known}")
        return EXIT_UNAVAILABLE
    if reach.output.as_json:
        reach.output.document(found)
    reach.output.pairs(outcome_pairs(found))
    return EXIT_NO if isinstance(found, Rejected) else EXIT_OK


def _in_redis(reach: Reach, intent_id: str) -> Outcome | None:
    async def look() -> bytes | None:
        async with reach.streams() as streams:
            return await streams.outcome(intent_id)

    try:
        data = reach.run(look())
    except Unavailable as error:
        complain(f"firn: only the journals were looked at: {one_line(str(error))}")
        return None
    return None if data is None else decode_outcome(data)


def _in_journals(
    reach: Reach, intent_id: str, table: str | None, *, reads: PatientReads, told: Outcome | None
) -> Outcome | None:
    """What the journals have: they are right where Redis has a rejection that no journal keeps (`told`)."""
    try:
        pointers = [reach.pointer(table, dropped=True)] if table is not None else reach.pointers()
    except (NotFound, Unavailable):
        if told is None:
            raise
        return None
    for pointer in pointers:
        try:
            found = _in_journal(reach, intent_id, pointer, reads=reads)
        except UNREADABLE as error:
            complain(f"firn: the journal of {shown(pointer.table)} cannot be read: {one_line(str(error))}")
            continue
        if found is not None:
            return found
    return None


def _in_journal(reach: Reach, intent_id: str, pointer: Pointer, *, reads: PatientReads) -> Outcome | None:
    skew_ms = reach.settings.limits.clock_skew_minutes_max * 60_000
    journal = PatientJournal(reach.journal, table=pointer.table, reads=reads)
    found = find_decision(journal, pointer.journal_head, intent_id, skew_ms=skew_ms)
    return None if found is None else found[1].outcome
