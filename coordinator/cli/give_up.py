"""`firn give-up`: decide an intent whose past is lost for good, by what somebody states who has looked at the table."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Final, NoReturn

import click
import msgspec

from firn.coordinator.cli.answers import outcome_pairs
from firn.coordinator.cli.exits import EXIT_OK, EXIT_UNAVAILABLE
from firn.coordinator.cli.output import Line, complain
from firn.coordinator.cli.pausing import whoever
from firn.coordinator.cli.reach import Reach, reaching, shards_of
from firn.coordinator.cli.text import one_line, time_of
from firn.coordinator.insight.landed import Landed
from firn.coordinator.insight.lost_past import Evidence, evidence_of
from firn.coordinator.insight.queue_look import Place, payload_at, places_of
from firn.coordinator.journal.lookups import find_decision
from firn.coordinator.journal.old_segments import UNREADABLE
from firn.model.amounts import agreeing, plural
from firn.model.errors import InvalidInput, NotFound
from firn.model.identifiers import is_intent_id
from firn.model.intent import Intent
from firn.model.intent_codec import decode_intent
from firn.model.outcome import Outcome, decode_outcome
from firn.model.pause import REASON_CHARACTERS_MAX
from firn.model.sharding import shard_of
from firn.storage.given_up import GivenUp, Statement
from firn.storage.pointers import Pointer

LOOK_S: Final = 0.2
"""How often it is asked whether a daemon has decided."""


class Held(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """An intent that waits for its past: what is in the way, and what the table says of it."""

    intent_id: str
    table: str
    operation: str
    in_the_way: str
    evidence: Evidence


@click.command(
    epilog="Examples: firn give-up 0192f0c1-…   firn give-up 0192f0c1-… --never-committed --reason 'its files are gone'"
)
@click.argument("intent_id", metavar="INTENT")
@click.option("--table", help="Its table; without it all streams are looked through.")
@click.option("--never-committed", is_flag=True, help="State that it never was: it is refused.")
@click.option("--committed", "snapshot_id", type=int, metavar="SNAPSHOT", help="State that it was, in this snapshot.")
@click.option("--reason", default="", help="How you know: its writer is told, and the journal keeps it.")
@click.option("--by", default=whoever, help="Who states it [default: you, on this machine].")
@click.option("--timeout", type=click.FloatRange(min=0), default=60.0, show_default=True, help="Seconds to wait.")
@reaching
def give_up(
    reach: Reach,
    *,
    intent_id: str,
    table: str | None,
    never_committed: bool,
    snapshot_id: int | None,
    reason: str,
    by: str,
    timeout: float,
) -> int:
    """Decide an intent that waits because the journal file that would tell of it is lost for good.

    Without a statement it only shows what is in the way, and what the table says. Bring the file back if you can: then
    nothing has to be stated. What contradicts the table is not taken.
    """
    if not is_intent_id(intent_id):
        raise InvalidInput(f"{intent_id[:80]!r} is not a UUIDv7 in lower case", where="INTENT")
    if never_committed and snapshot_id is not None:
        raise click.UsageError("it was committed, or it never was: state one")
    states = never_committed or snapshot_id is not None
    if states and not 0 < len(reason.strip()) <= REASON_CHARACTERS_MAX:
        raise click.UsageError(f"a statement needs its --reason, of {REASON_CHARACTERS_MAX} characters at most")
    place, intent = _waiting(reach, intent_id, table)
    pointer = reach.pointer(intent.table)
    held = _held(reach, place, intent, pointer)
    if not states:
        if reach.output.as_json:
            reach.output.document(held)
        reach.output.lines(_lines(held))
        return EXIT_OK
    statement = _statement(held, snapshot_id, by=by[:REASON_CHARACTERS_MAX], reason=reason.strip())
    outcome = reach.run(_stated(reach, intent_id, statement, timeout_s=timeout))
    if outcome is None:
        complain(
            f"firn: no daemon has decided {intent_id} by it in {timeout:g} s, so it is withdrawn: is one running that "
            "knows this command (firn status)?"
        )
        return EXIT_UNAVAILABLE
    if reach.output.as_json:
        reach.output.document(outcome)
    reach.output.pairs(outcome_pairs(outcome))
    return EXIT_OK


def _waiting(reach: Reach, intent_id: str, table: str | None) -> tuple[Place, Intent]:
    """The intent as it stands in its stream. Raises NotFound when it does not, or not any more."""

    async def look() -> tuple[Place, bytes]:
        async with reach.streams() as streams:
            if await streams.outcome(intent_id) is not None:
                _no(f"{intent_id} has its outcome: firn outcome {intent_id} shows it")
            shards = await shards_of(streams)
            looked_at = range(shards) if table is None else [shard_of(table, shards=shards)]
            places = await places_of(streams, intent_id, shards=looked_at)
            place = next((one for one in places if one.state != "settled"), None)
            payload = None if place is None else await payload_at(streams, place)
            if place is None or payload is None:
                _no(f"{intent_id} waits in no stream: nobody has submitted it again, so nothing is to be decided")
            return place, payload

    place, payload = reach.run(look())
    return place, decode_intent(payload, limits=reach.settings.limits).intent


def _held(reach: Reach, place: Place, intent: Intent, pointer: Pointer) -> Held:
    """What is in the way of an intent. Raises NotFound where nothing is."""
    skew_ms = reach.settings.limits.clock_skew_minutes_max * 60_000
    try:
        found = find_decision(reach.journal, pointer.journal_head, intent.intent_id, skew_ms=skew_ms)
    except UNREADABLE as error:
        in_the_way = str(error)
    else:
        known = "knows what was decided on it" if found is not None else "can be read, and has no decision on it"
        _no(
            f"the journal of {intent.table} {known}: it needs no statement (firn explain {intent.intent_id}; entry "
            f"{place.entry_id} of {place.stream})"
        )
    if pointer.kind != "table":
        _no(f"{intent.table} is a view: it has no snapshots that could tell")
    metadata = reach.reader.metadata(pointer.metadata_location)
    return Held(
        intent_id=intent.intent_id, table=intent.table, operation=str(intent.__struct_config__.tag),
        in_the_way=in_the_way, evidence=evidence_of(intent, metadata=metadata, reader=reach.reader),
    )  # fmt: skip


def _no(message: str) -> NoReturn:
    raise NotFound(message)


def _statement(held: Held, snapshot_id: int | None, *, by: str, reason: str) -> Statement:
    """The statement, if the table does not say otherwise."""
    evidence = held.evidence
    told = {one.snapshot_id: one for one in (*evidence.adders, *filter(None, [evidence.snapshot]))}
    if snapshot_id is None:
        if evidence.is_committed:
            _no(f"{held.table} says that it was committed: {'; '.join(_traces(evidence))}")
        return Statement(by=by, reason=reason)
    if snapshot_id not in told:
        _no(f"nothing in {held.table} says that snapshot {snapshot_id} is its: {'; '.join(_traces(evidence))}")
    made = told[snapshot_id]
    return Statement(
        by=by, reason=reason, snapshot_id=snapshot_id, sequence_number=made.sequence_number, batch=made.batch
    )  # fmt: skip


async def _stated(reach: Reach, intent_id: str, statement: Statement, *, timeout_s: float) -> Outcome | None:
    """State it until a daemon has decided; the outcome, None when that did not come in time."""
    ends_at = time.monotonic() + timeout_s
    async with reach.streams() as streams, reach.session() as session, GivenUp(session).stating(intent_id, statement):
        while (data := await streams.outcome(intent_id)) is None:
            if time.monotonic() >= ends_at:
                return None
            await asyncio.sleep(LOOK_S)
    return decode_outcome(data)


def _lines(held: Held) -> Iterator[Line]:
    yield Line("intent", held.intent_id, strong=True)
    yield Line("asks for", f"{held.operation} on {held.table}")
    yield Line("in the way", one_line(held.in_the_way))
    yield from (Line("the table", trace) for trace in _traces(held.evidence))
    if held.evidence.oldest_ms is not None:
        since = time_of(held.evidence.oldest_ms)
        yield Line("", f"its snapshots are kept since {since}: what expired before left no trace")
    made = [one.snapshot_id for one in (*filter(None, [held.evidence.snapshot]), *held.evidence.adders)]
    if made:
        yield Line("it was", f"firn give-up {held.intent_id} --committed {made[0]} --reason …")
    else:
        yield Line("if it never was", f"firn give-up {held.intent_id} --never-committed --reason …")


def _traces(evidence: Evidence) -> list[str]:
    """What the table says, in words."""
    said = [] if evidence.snapshot is None else [f"snapshot {_brief(evidence.snapshot)} names it in its summary"]
    if evidence.live:
        by = ", added by snapshot " + ", ".join(map(_brief, evidence.adders)) if evidence.adders else ""
        several = f"{evidence.live} of its {plural(evidence.files, 'file')} {agreeing(evidence.live)}"
        some = several if evidence.files > 1 else "its file is"
        said.append(f"{some} in the table{by}")
    elif evidence.files:
        none = f"none of its {plural(evidence.files, 'file')} is" if evidence.files > 1 else "its file is not"
        said.append(f"{none} in the table now: never added, or compacted or deleted since")
    return said or ["no snapshot that is kept names it"]


def _brief(one: Landed) -> str:
    return f"{one.snapshot_id} of {time_of(one.timestamp_ms)}"
