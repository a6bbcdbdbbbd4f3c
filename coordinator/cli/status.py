"""`firn status`: the fleet at a glance."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Final

import click
import msgspec

from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK, EXIT_UNAVAILABLE
from firn.coordinator.cli.output import Column, complain
from firn.coordinator.cli.reach import Reach, reaching, shards_of
from firn.coordinator.cli.text import one_line, span_of, time_of
from firn.coordinator.operations.fleet import Cause, Fleet, Shard, fleet_of
from firn.coordinator.store_identity import stores_trouble
from firn.model.amounts import plural
from firn.model.errors import FirnError, Unavailable
from firn.model.pause import Pause
from firn.storage.membership import Membership
from firn.storage.pauses import Pauses
from firn.storage.pointers import Pointers

DAEMON_COLUMNS: Final = (Column("DAEMON"), Column("VERSION"), Column("PAGE"), Column("SHARDS"))
SHARD_COLUMNS: Final = (
    Column("SHARD", right=True), Column("READ BY"), Column("NOT DELIVERED", right=True),
    Column("UNDER WAY", right=True), Column("OLDEST", right=True), Column("EVER ADDED", right=True),
)  # fmt: skip
PAUSE_COLUMNS: Final = (Column("PAUSED"), Column("SINCE"), Column("BY"), Column("WHY", long=True))
UNMERGED_COLUMNS: Final = (Column("MANIFESTS NOT MERGED"), Column("WHY", long=True))


@click.command()
@click.option("--all", "every", is_flag=True, help="Shards that have nothing waiting, too.")
@reaching
def status(reach: Reach, *, every: bool) -> int:
    """Show daemons, shards and what waits. Exits with 1 when something is wrong, and says what.

    With 3 when a server does not answer; without Redis it still shows what ZooKeeper tells.
    """
    fleet = reach.run(_look(reach))
    if reach.output.as_json:
        reach.output.document(
            {"daemons": fleet.members, "shards": fleet.shards, "tables": fleet.tables,
             "waiting": fleet.waiting,
             "oldest-s": fleet.oldest_s, "paused": fleet.paused, "unmerged": fleet.unmerged,
             "troubles": fleet.troubles}
        )  # fmt: skip
    reach.output.say(headline(fleet))
    reach.output.say()
    no_daemons = "no daemons" if fleet.zookeeper_answers else "daemons not known: ZooKeeper does not answer"
    reach.output.grid(DAEMON_COLUMNS, (daemon_row(fleet, i) for i in range(len(fleet.members))), empty=no_daemons)
    shards = [shard for shard in fleet.shards if every or _is_of_interest(shard)]
    if shards:
        reach.output.say()
        reach.output.grid(SHARD_COLUMNS, map(shard_row, shards), empty="")
    if fleet.paused:
        reach.output.say()
        reach.output.grid(PAUSE_COLUMNS, (_pause_row(*item) for item in fleet.paused.items()), empty="")
    if fleet.unmerged:
        reach.output.say()
        reach.output.grid(UNMERGED_COLUMNS, fleet.unmerged.items(), empty="")
    for trouble in fleet.troubles:
        complain(f"firn: {one_line(trouble)}")
    if not _redis_told(fleet):
        return EXIT_UNAVAILABLE
    return EXIT_NO if fleet.troubles else EXIT_OK


async def _look(reach: Reach) -> Fleet:
    """The fleet; without Redis, as far as ZooKeeper tells."""
    async with reach.session() as session, AsyncExitStack() as stack:
        membership = Membership(session)
        streams, troubles = None, []
        try:
            streams = await stack.enter_async_context(reach.streams())
            shards = await shards_of(streams)
        except Unavailable as error:
            troubles = [str(error)]
            shards = max(await membership.owners(), default=-1) + 1  # how many there are, only Redis tells
        fleet = await fleet_of(
            membership=membership, pointers=Pointers(session), pauses=Pauses(session), streams=streams, shards=shards
        )
        try:
            wrong = await stores_trouble(reach.settings, session=session, streams=streams, files=reach.files)
        except FirnError as error:  # what cannot be compared is said by what does not answer
            wrong = str(error) if fleet.zookeeper_answers and streams is not None else None
        troubles += [] if wrong is None else [wrong]
        return msgspec.structs.replace(fleet, causes=(*(Cause(text=text) for text in troubles), *fleet.causes))


def headline(fleet: Fleet) -> str:
    """Return the fleet in one line."""
    oldest = "" if fleet.oldest_s is None else f", the oldest for {span_of(round(fleet.oldest_s * 1000))}"
    state = "trouble" if fleet.troubles else "good"
    daemons, tables = (
        plural(len(fleet.members), "daemon"),
        plural(fleet.tables or 0, "table or view", "tables and views"),
    )
    paused = f" ({len(fleet.paused)} paused)" if fleet.paused else ""
    there = f"{daemons}, {tables}{paused}" if fleet.zookeeper_answers else "daemons and tables not known"
    waiting = "what waits is not known"
    if fleet.waiting is not None:
        waiting = f"{plural(fleet.waiting, 'intent')} not settled{oldest}"
    return f"{state}: {there}, {waiting}"


def _redis_told(fleet: Fleet) -> bool:
    return all(shard.lag is not None for shard in fleet.shards)


def daemon_row(fleet: Fleet, position: int) -> tuple[object, ...]:
    """Return a daemon as a row of `DAEMON_COLUMNS`."""
    member = fleet.members[position]
    return member.id, member.version, member.http or "-", ", ".join(map(str, member.shards)) or "none"


def _pause_row(table: str, pause: Pause) -> tuple[object, ...]:
    return table, time_of(pause.since_ms), pause.by, pause.reason


def _is_of_interest(shard: Shard) -> bool:
    return shard.owner is None or (shard.lag is not None and bool(shard.lag.undelivered or shard.lag.pending))


def shard_row(shard: Shard) -> tuple[object, ...]:
    """Return a shard as a row of `SHARD_COLUMNS`."""
    if shard.lag is None:
        return shard.number, shard.owner or "nobody", "?", "?", "?", "?"
    oldest = "-" if shard.oldest_s is None else span_of(round(shard.oldest_s * 1000))
    return (
        shard.number, shard.owner or "nobody", "?" if shard.lag.undelivered is None else f"{shard.lag.undelivered:,}",
        f"{shard.lag.pending:,}", oldest, f"{shard.lag.entries_added:,}",
    )  # fmt: skip
