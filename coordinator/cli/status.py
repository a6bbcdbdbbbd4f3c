"""`firn status` and `firn top`: the fleet at a glance, once or live."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

import click
import msgspec
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK, EXIT_UNAVAILABLE
from firn.coordinator.cli.following import until_interrupted
from firn.coordinator.cli.output import Column, complain
from firn.coordinator.cli.pausing import pause_text
from firn.coordinator.cli.reach import Reach, reaching, shards_of
from firn.coordinator.cli.text import one_line, shown, span_of, time_of
from firn.coordinator.operations.fleet import Cause, Fleet, Shard, fleet_of
from firn.coordinator.store_identity import stores_trouble
from firn.model.amounts import plural
from firn.model.errors import FirnError, Unavailable
from firn.model.pause import Pause
from firn.storage.membership import Membership
from firn.storage.pauses import Pauses
from firn.storage.pointers import Pointers

REFRESH_S: Final = 1.0

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
    reach.output.say(_headline(fleet))
    reach.output.say()
    no_daemons = "no daemons" if fleet.zookeeper_answers else "daemons not known: ZooKeeper does not answer"
    reach.output.grid(DAEMON_COLUMNS, (_daemon_row(fleet, i) for i in range(len(fleet.members))), empty=no_daemons)
    shards = [shard for shard in fleet.shards if every or _is_of_interest(shard)]
    if shards:
        reach.output.say()
        reach.output.grid(SHARD_COLUMNS, map(_shard_row, shards), empty="")
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


@click.command()
@click.option("--rounds", type=click.IntRange(min=1), help="End after this many looks [default: at Ctrl-C].")
@reaching
def top(reach: Reach, *, rounds: int | None) -> None:
    """Show the fleet live: what comes in, what waits, who works on it. Ctrl-C ends it."""
    until_interrupted(reach, lambda: _watch(reach, rounds))


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


async def _watch(reach: Reach, rounds: int | None) -> None:
    before: tuple[float, dict[int, int]] | None = None
    async with reach.session() as session, reach.streams() as streams:
        membership, pointers, pauses = Membership(session), Pointers(session), Pauses(session)
        shards = await shards_of(streams)
        with Live(refresh_per_second=4, transient=False) as live:
            turn = 0
            while rounds is None or turn < rounds:
                turn += 1
                fleet = await fleet_of(
                    membership=membership, pointers=pointers, pauses=pauses, streams=streams, shards=shards
                )
                now = time.monotonic()
                added = {s.number: s.lag.entries_added for s in fleet.shards if s.lag is not None}
                rates = {} if before is None else _rates(before[1], added, seconds=now - before[0])
                before = now, added
                if reach.output.as_json:
                    reach.output.line({"waiting": fleet.waiting, "intents-per-s": sum(rates.values())})
                else:
                    live.update(_screen(fleet, rates))
                if rounds is None or turn < rounds:
                    await asyncio.sleep(REFRESH_S)


def _rates(before: dict[int, int], now: dict[int, int], *, seconds: float) -> dict[int, float]:
    """Entries added a second, by shard; a stream that was emptied begins anew."""
    return {shard: max(0, count - before.get(shard, count)) / seconds for shard, count in now.items()}


def _screen(fleet: Fleet, rates: dict[int, float]) -> Group:
    head = Text(f"{_headline(fleet)}, {sum(rates.values()):,.0f} intents/s come in", style="bold")
    troubles = [Text(shown(trouble), style="red") for trouble in fleet.troubles]
    daemons = _drawn(DAEMON_COLUMNS, [_daemon_row(fleet, i) for i in range(len(fleet.members))])
    busy = sorted(fleet.shards, key=lambda s: (-rates.get(s.number, 0.0), -(s.oldest_s or 0.0), s.number))
    rows = [(*_shard_row(shard), f"{rates.get(shard.number, 0.0):,.0f}") for shard in busy]
    pauses = [Text(shown(f"{table} {pause_text(pause)}"), style="yellow") for table, pause in fleet.paused.items()]
    shards = _drawn((*SHARD_COLUMNS, Column("IN/S", right=True)), rows)
    return Group(head, *troubles, *pauses, Text(), daemons, Text(), shards)


def _drawn(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.title, justify="right" if column.right else "left")
    for row in rows:
        table.add_row(*(Text(shown("" if value is None else value)) for value in row))
    return table


def _headline(fleet: Fleet) -> str:
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


def _daemon_row(fleet: Fleet, position: int) -> tuple[object, ...]:
    member = fleet.members[position]
    return member.id, member.version, member.http or "-", ", ".join(map(str, member.shards)) or "none"


def _pause_row(table: str, pause: Pause) -> tuple[object, ...]:
    return table, time_of(pause.since_ms), pause.by, pause.reason


def _is_of_interest(shard: Shard) -> bool:
    return shard.owner is None or (shard.lag is not None and bool(shard.lag.undelivered or shard.lag.pending))


def _shard_row(shard: Shard) -> tuple[object, ...]:
    if shard.lag is None:
        return shard.number, shard.owner or "nobody", "?", "?", "?", "?"
    oldest = "-" if shard.oldest_s is None else span_of(round(shard.oldest_s * 1000))
    return (
        shard.number, shard.owner or "nobody", "?" if shard.lag.undelivered is None else f"{shard.lag.undelivered:,}",
        f"{shard.lag.pending:,}", oldest, f"{shard.lag.entries_added:,}",
    )  # fmt: skip
