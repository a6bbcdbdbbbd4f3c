"""`firn top`: the fleet, live."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

import click
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from firn.coordinator.cli.following import until_interrupted
from firn.coordinator.cli.output import Column
from firn.coordinator.cli.pausing import pause_text
from firn.coordinator.cli.reach import Reach, reaching, shards_of
from firn.coordinator.cli.status import DAEMON_COLUMNS, SHARD_COLUMNS, daemon_row, headline, shard_row
from firn.coordinator.cli.text import shown
from firn.coordinator.operations.fleet import Fleet, fleet_of
from firn.storage.membership import Membership
from firn.storage.pauses import Pauses
from firn.storage.pointers import Pointers

REFRESH_S: Final = 1.0


@click.command()
@click.option("--rounds", type=click.IntRange(min=1), help="End after this many looks [default: at Ctrl-C].")
@reaching
def top(reach: Reach, *, rounds: int | None) -> None:
    """Show the fleet live: what comes in, what waits, who works on it. Ctrl-C ends it."""
    until_interrupted(reach, lambda: _watch(reach, rounds))


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
    head = Text(f"{headline(fleet)}, {sum(rates.values()):,.0f} intents/s come in", style="bold")
    troubles = [Text(shown(trouble), style="red") for trouble in fleet.troubles]
    daemons = _drawn(DAEMON_COLUMNS, [daemon_row(fleet, i) for i in range(len(fleet.members))])
    busy = sorted(fleet.shards, key=lambda s: (-rates.get(s.number, 0.0), -(s.oldest_s or 0.0), s.number))
    rows = [(*shard_row(shard), f"{rates.get(shard.number, 0.0):,.0f}") for shard in busy]
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
