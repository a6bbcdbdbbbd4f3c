"""`firn pause`, `firn resume` and `firn drain`: let nothing be committed to a table for a while."""

from __future__ import annotations

import asyncio
import getpass
import secrets
import socket
from collections.abc import Callable

import click
import msgspec

from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK
from firn.coordinator.cli.output import complain
from firn.coordinator.cli.reach import Reach, reaching, shards_of
from firn.coordinator.cli.text import one_line, shown, span_of, time_of
from firn.coordinator.cli.times import now_ms
from firn.coordinator.operations.pausing import Drain, Paused, drain, pause_table, resume_table
from firn.model.amounts import plural
from firn.model.errors import FirnError, InvalidInput, NotFound
from firn.model.event import pause_event
from firn.model.identifiers import check_table_name
from firn.model.pause import REASON_CHARACTERS_MAX, Pause
from firn.model.sharding import shard_of
from firn.storage.pause_notes import PauseNotes
from firn.storage.pauses import Pauses
from firn.storage.pointers import Pointers
from firn.storage.sessions import Session


def whoever() -> str:
    """Who types, as an event names them."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):  # a user without a name, as in many containers
        return socket.gethostname()


def said_by(command: Callable[..., None]) -> Callable[..., None]:
    """Options that say who does it and why."""
    command = click.option("--by", default=whoever, help="Who does it [default: you, on this machine].")(command)
    return click.option("--reason", required=True, help="Why: all who wait are shown it.")(command)


@click.command(epilog="Example: firn pause db.events --reason 'restoring files of 2026-11-21, ticket 4711'")
@click.argument("tables", nargs=-1, required=True, metavar="TABLE...")
@said_by
@reaching
def pause(reach: Reach, *, tables: tuple[str, ...], reason: str, by: str) -> int:
    """Commit nothing more to TABLE until it is resumed. Its intents are accepted, and wait.

    The batch under way is waited for. Nothing is rejected or lost meanwhile, whatever daemon is restarted or takes
    over; a deadline that passes is told when the table is resumed. Other writers than firn are not held up. Paused
    again, the table keeps waiting, with the new reason.
    """
    noted = _pause(by, reason)
    done = [reach.run(_paused(reach, table, noted)) for table in _checked(tables)]
    if reach.output.as_json:
        reach.output.document({"paused": [msgspec.to_builtins(one) for one in done]})
    for one in done:
        _say_paused(reach, one)
    return EXIT_OK


@click.command(epilog="Example: firn resume db.events")
@click.argument("tables", nargs=-1, required=True, metavar="TABLE...")
@click.option("--by", default=whoever, help="Who does it [default: you, on this machine].")
@reaching
def resume(reach: Reach, *, tables: tuple[str, ...], by: str) -> int:
    """Let TABLE be committed to again: what has waited is decided in its order."""
    ended = {table: reach.run(_resumed(reach, table, by)) for table in _checked(tables)}
    if reach.output.as_json:
        reach.output.document({"resumed": [{"table": table, "was": was} for table, was in ended.items()]})
    for table, was in ended.items():
        if was is None:
            reach.output.say(f"{shown(table)} was not paused")
        else:
            reach.output.say(f"resumed {shown(table)}, which was {pause_text(was)}")
    return EXIT_OK


@click.command("drain", epilog="Example: firn drain db.events --reason 'moving the bucket' --timeout 600")
@click.argument("table")
@said_by
@click.option("--timeout", type=click.FloatRange(min=0), default=300.0, show_default=True, help="Seconds to wait.")
@reaching
def drain_command(reach: Reach, *, table: str, reason: str, by: str, timeout: float) -> int:
    """Wait until what was submitted to TABLE up to now is decided, then pause it.

    What comes meanwhile goes on, and may be decided too. Exits with 1, and does not pause, when it takes longer than
    --timeout. Transactions whose first table is another one are not waited for; they wait as a whole afterwards.
    """
    check_table_name(table)
    noted = _pause(by, reason)
    seen: list[int] = []

    def show(now: Drain) -> None:
        if now.left and now.left not in seen[-1:]:
            complain(f"firn: {now.left:,} of {plural(now.submitted, 'intent')} not decided yet")
        seen.append(now.left)

    ended = reach.run(_drained(reach, table, timeout_s=timeout, progress=show))
    done = None if ended.left else reach.run(_paused(reach, table, noted))
    if reach.output.as_json:
        reach.output.document({"table": table, "drained": not ended.left, **msgspec.to_builtins(ended),
                               "paused": None if done is None else msgspec.to_builtins(done)})  # fmt: skip
    if done is None:
        complain(
            f"firn: {plural(ended.left, 'intent')} of {shown(table)} not decided after {timeout:g} s, so it is not "
            "paused: try again with more time, or firn pause to let them wait, too"
        )
        return EXIT_NO
    reach.output.say(f"{plural(ended.submitted, 'intent')} decided")
    _say_paused(reach, done)
    return EXIT_OK


def pause_text(pause: Pause) -> str:
    """``paused 4 min 2 s ago by ann@host: moving the bucket``."""
    ago = span_of(max(0, now_ms() - pause.since_ms))
    return one_line(f"paused {ago} ago by {pause.by}: {pause.reason}")


def _say_paused(reach: Reach, one: Paused) -> None:
    reach.output.say(
        f"paused {shown(one.table)} at {time_of(one.pause.since_ms)}; firn resume {shown(one.table)} ends it"
    )
    if one.held_by is not None:
        complain(
            f"firn: {shown(one.held_by)} did not give the lock of {shown(one.table)} up; it cannot move its pointer, "
            "but see firn lock show, and firn doctor"
        )


def _pause(by: str, reason: str) -> Pause:
    if not reason.strip() or len(reason) > REASON_CHARACTERS_MAX:
        raise InvalidInput(f"has to have 1 to {REASON_CHARACTERS_MAX} characters", where="--reason")
    return Pause(by=by[:REASON_CHARACTERS_MAX], since_ms=now_ms(), reason=reason.strip())


def _checked(tables: tuple[str, ...]) -> tuple[str, ...]:
    for table in tables:
        check_table_name(table)
    return tuple(dict.fromkeys(tables))


async def _paused(reach: Reach, table: str, pause: Pause) -> Paused:
    async with reach.session() as session:
        done = await pause_table(session, table, pause)
        location = (await Pointers(session).read(table)).pointer.location
    try:
        await asyncio.to_thread(PauseNotes(reach.files).write, location, table, pause, token=secrets.token_hex(4))
    except (FirnError, OSError) as error:
        complain(
            f"firn: {shown(table)} is paused, but no note of it could be left beside its files: should ZooKeeper be "
            f"lost, firn recover will not know of the pause: {one_line(str(error))}"
        )
    await _announce(reach, table, pause, paused=True)
    return done


async def _resumed(reach: Reach, table: str, by: str) -> Pause | None:
    async with reach.session() as session:
        was = await resume_table(session, table)
        location = await _location(session, table)
    if location is not None:
        try:
            await asyncio.to_thread(PauseNotes(reach.files).remove, location)
        except (FirnError, OSError) as error:
            complain(
                f"firn: {shown(table)} is resumed, but the note of its pause is still beside its files: should "
                f"ZooKeeper be lost, firn recover will pause it again: {one_line(str(error))}"
            )
    if was is not None:
        now = Pause(by=by, since_ms=now_ms(), reason=was.reason)
        await _announce(reach, table, now, paused=False)
    return was


async def _location(session: Session, table: str) -> str | None:
    """The table's folder; None for one that is gone."""
    try:
        return (await Pointers(session).read(table)).pointer.location
    except NotFound:
        return None


async def _announce(reach: Reach, table: str, pause: Pause, *, paused: bool) -> None:
    """An event for those who follow; the table is paused or resumed even where it cannot be told."""
    event = msgspec.json.encode(pause_event(table, pause, paused=paused))
    try:
        async with reach.streams() as streams:
            await streams.publish([event])
    except FirnError as error:
        complain(f"firn: no event of it, Redis did not take it: {one_line(str(error))}")


async def _drained(reach: Reach, table: str, *, timeout_s: float, progress: Callable[[Drain], None]) -> Drain:
    async with reach.session() as session:
        found = await Pauses(session).of(table)
    if found is not None:
        raise InvalidInput(f"was {pause_text(found)}: nothing is decided before firn resume {table}", where=table)
    async with reach.streams() as streams:
        shard = shard_of(table, shards=await shards_of(streams))
        return await drain(streams, table, shard=shard, timeout_s=timeout_s, progress=progress)
