"""`firn lock`: who works on a table now, and how to end it."""

from __future__ import annotations

import click
import msgspec

from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK
from firn.coordinator.cli.family import Family
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.text import shown, time_of
from firn.model.errors import NotFound
from firn.model.identifiers import check_table_name
from firn.storage.leases import HolderInfo, Leases


@click.group(cls=Family)
def lock() -> None:
    """Look at a table's lock, or take it away from its holder."""


@lock.command()
@click.argument("table")
@reaching
def show(reach: Reach, *, table: str) -> None:
    """Show who holds the lock of TABLE, and since when."""
    holder = _holder_of(reach, table)
    if reach.output.as_json:
        reach.output.document({"table": table, "holder": None if holder is None else msgspec.to_builtins(holder)})
    if holder is None:
        reach.output.say(f"nobody works on {shown(table)}")
        return
    reach.output.pairs([
        ("holder", holder.member), ("since", time_of(holder.since_ms)), ("fencing token", holder.token),
    ])  # fmt: skip


@lock.command(name="break", epilog="Example: firn lock break db.events --yes")
@click.argument("table")
@click.option("--yes", is_flag=True, help="Do not ask.")
@reaching
def break_(reach: Reach, *, table: str, yes: bool) -> int:
    """Take the lock of TABLE away from its holder.

    It is safe: a swap checks its own lock in the same transaction, so a holder that has lost it cannot commit. It reads
    the table again and queues up anew. Seldom needed: a holder that is dead loses its lock with its session.
    """
    holder = _holder_of(reach, table)
    if holder is None:
        reach.output.say(f"nobody works on {shown(table)}")
        return EXIT_OK
    if not yes and not click.confirm(f"Take the lock of {shown(table)} away from {shown(holder.member)}?", err=True):
        return EXIT_NO
    broken = reach.run(_broken(reach, table, holder))
    if reach.output.as_json:
        reach.output.document({"table": table, "broken": broken, "holder": msgspec.to_builtins(holder)})
    reach.output.say(
        f"{shown(holder.member)} has lost the lock of {shown(table)}" if broken
        else f"{shown(holder.member)} had given it up already"
    )  # fmt: skip
    return EXIT_OK


def _holder_of(reach: Reach, table: str) -> HolderInfo | None:
    """Who holds the lock; None if nobody does. Raises NotFound where there is nothing to lock."""
    holder = reach.run(_holder(reach, table))
    if holder is None:
        reach.pointer(table, dropped=True)
    return holder


async def _holder(reach: Reach, table: str) -> HolderInfo | None:
    check_table_name(table)
    async with reach.session() as session:
        leases = Leases(session, member="operator")
        try:
            return await leases.holder(table)
        finally:
            await leases.close()


async def _broken(reach: Reach, table: str, holder: HolderInfo) -> bool:
    async with reach.session() as session:
        leases = Leases(session, member="operator")
        try:
            await leases.break_hold(table, token=holder.token)
        except NotFound:
            return False
        else:
            return True
        finally:
            await leases.close()
