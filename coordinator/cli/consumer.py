"""`firn consumer`: who reads a table's changes, how far each has come, and for whom expiry waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK
from firn.coordinator.cli.family import Family
from firn.coordinator.cli.making import view_at
from firn.coordinator.cli.output import Column, complain
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.text import shown, span_of, time_of
from firn.coordinator.cli.times import now_ms
from firn.coordinator.client.consumers import AsyncConsumers
from firn.coordinator.operations.consumed_tables import pointer_at, pointer_of
from firn.model.amounts import plural
from firn.model.consumer import HOLD_DAYS_DEFAULT, HOLD_DAYS_MAX, ConsumerStatus, TableConsumers, status_of
from firn.model.errors import FirnError, NotFound
from firn.model.identifiers import check_table_name
from firn.model.metadata import TableMetadata
from firn.model.snapshot import MAIN_BRANCH
from firn.storage.consumers import Consumers
from firn.storage.pointers import Pointers
from firn.storage.sessions import Session

if TYPE_CHECKING:
    from firn.coordinator.client.table_view import TableView

COLUMNS: Final = (
    Column("TABLE"), Column("CONSUMER"), Column("BRANCH"), Column("SEEN", right=True), Column("MOVED"),
    Column("STATE", long=True),
)  # fmt: skip


class Row(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A consumer as it is listed; `status` None: of a table that is gone or cannot be read, as `trouble` says."""

    table: str
    table_uuid: str
    status: ConsumerStatus
    trouble: str | None = None


@click.group("consumer", cls=Family)
def consumer() -> None:
    """Named consumers of tables' changes: list them, look at one, set one, remove one."""


@consumer.command("list", epilog="Example: firn consumer list db.events")
@click.argument("table", required=False)
@reaching
def list_consumers(reach: Reach, *, table: str | None) -> int:
    """List the consumers of TABLE, or of all tables: what each has not read, and for whom expiry does not wait.

    Exits with 1 when one has lapsed or lost changes.
    """
    if table is not None:
        reach.pointer(table, dropped=True)
    rows = reach.run(_rows(reach, table))
    if reach.output.as_json:
        reach.output.document({"consumers": [msgspec.to_builtins(row) for row in rows]})
    empty = "No table has consumers." if table is None else f"{shown(table)} has no consumers."
    reach.output.grid(COLUMNS, map(_cells, rows), empty=empty)
    return EXIT_NO if any(row.trouble or row.status.state in {"lapsed", "lost"} for row in rows) else EXIT_OK


@consumer.command("show", epilog="Example: firn consumer show db.events etl")
@click.argument("table")
@click.argument("name")
@reaching
def show(reach: Reach, *, table: str, name: str) -> int:
    """Show one consumer of TABLE. Exits with 1 when it has lapsed or lost changes."""
    check_table_name(table)
    status = reach.run(_with(reach, lambda found: found.get(table, name)))
    if reach.output.as_json:
        reach.output.document(msgspec.to_builtins(status))
    one = status.consumer
    reach.output.say(f"{shown(one.name)} of {shown(table)}, branch {shown(one.branch)}: {state_text(status)}")
    seen = "nothing" if one.snapshot_id is None else f"everything up to snapshot {one.snapshot_id}"
    reach.output.say(f"has read {seen}; moved {time_of(one.updated_ms)}")
    reach.output.say(f"expiry waits for it until {time_of(one.held_until_ms)} ({one.hold_days:g} days)")
    return EXIT_NO if status.state in {"lapsed", "lost"} else EXIT_OK


@consumer.command("set", epilog="Example: firn consumer set db.events etl --hold-days 3")
@click.argument("table")
@click.argument("name")
@click.option("--snapshot", type=click.IntRange(min=0), help="What it has read up to [default: the branch's head].")
@click.option("--branch", default=MAIN_BRANCH, show_default=True, help="The branch whose changes it reads.")
@click.option(
    "--hold-days", type=click.FloatRange(min=0, max=HOLD_DAYS_MAX, min_open=True), default=HOLD_DAYS_DEFAULT,
    show_default=True, help="How long expiry waits for it after it last moved.",
)  # fmt: skip
@reaching
def set_consumer(reach: Reach, *, table: str, name: str, snapshot: int | None, branch: str, hold_days: float) -> int:
    """Make a consumer of TABLE, or move one: it has read everything up to a snapshot."""
    check_table_name(table)
    options: dict[str, Any] = {"snapshot_id": snapshot, "branch": branch, "hold_days": hold_days}
    done = reach.run(_with(reach, lambda found: found.set(table, name, **options)))
    if reach.output.as_json:
        reach.output.document(msgspec.to_builtins(done))
    seen = "nothing yet" if done.snapshot_id is None else f"everything up to snapshot {done.snapshot_id}"
    reach.output.say(f"{shown(name)} has read {seen}; expiry waits for it until {time_of(done.held_until_ms)}")
    return EXIT_OK


@consumer.command("remove", epilog="Example: firn consumer remove db.events etl")
@click.argument("table")
@click.argument("name")
@reaching
def remove(reach: Reach, *, table: str, name: str) -> int:
    """Remove a consumer of TABLE, or of one that had this name: expiry does not wait for it any more.

    Exits with 1 when there is none such.
    """
    check_table_name(table)
    removed = reach.run(_with(reach, lambda found: found.remove(table, name)))
    if reach.output.as_json:
        reach.output.document({"removed": removed})
    if not removed:
        complain(f"firn: {shown(table)} has no consumer {shown(name)} (firn consumer list shows those there are)")
        return EXIT_NO
    reach.output.say(f"removed {shown(name)} of {shown(table)}")
    return EXIT_OK


def state_text(status: ConsumerStatus) -> str:
    """``behind by 12 snapshots, 3 h 2 min; lapsed``."""
    lag = None if status.lag_ms is None else span_of(status.lag_ms)
    match status.state:
        case "current":
            return "has read everything"
        case "lost":
            return "lost: what it has not read has expired" + ("" if lag is None else f"; it had read up to {lag} ago")
    text = f"behind by {plural(status.behind or 0, 'snapshot')}, {lag}"
    return f"{text}; lapsed: expiry does not wait for it" if status.state == "lapsed" else text


def _cells(row: Row) -> tuple[str, ...]:
    one = row.status.consumer
    seen = "-" if one.snapshot_id is None else str(one.snapshot_id)
    state = row.trouble or state_text(row.status)
    return shown(row.table), shown(one.name), shown(one.branch), seen, time_of(one.updated_ms), state


async def _rows(reach: Reach, table: str | None) -> list[Row]:
    async with reach.session() as session:
        rows: list[Row] = []
        for found in await Consumers(session).all():
            rows += await _rows_of(reach, session, found)
    return [row for row in rows if table in {None, row.table}]


async def _rows_of(reach: Reach, session: Session, found: TableConsumers) -> list[Row]:
    table, metadata, trouble = found.table, None, None
    try:
        pointer = await pointer_of(found, Pointers(session))
        if pointer is not None and not pointer.dropped:
            table = pointer.table
            now = await reach.followed(session, table)
            metadata = None if now is None else await _metadata(reach, now.metadata_location)
        elif await pointer_at(table, Pointers(session)) is None or pointer is not None:
            trouble = "its table was dropped"
        else:
            trouble = "lost: its table was made anew under the name"
    except FirnError as error:
        trouble = f"its table cannot be read: {error}"
    rows = []
    for one in found.consumers:
        status = (
            ConsumerStatus(consumer=one, state="lost", behind=None, lag_ms=None)
            if metadata is None
            else status_of(one, metadata, now_ms=now_ms())
        )
        rows.append(Row(table=table, table_uuid=found.table_uuid, status=status, trouble=trouble))
    return rows


async def _with(reach: Reach, work: Any) -> Any:
    """Do something with the consumers of tables, as a client does."""
    async with reach.session() as session:

        async def connected() -> Consumers:
            return Consumers(session)

        async def look(name: str) -> TableView:
            pointer = await reach.followed(session, name)
            if pointer is None or pointer.dropped or pointer.kind != "table":
                raise NotFound(f"there is no table {name!r} (firn table list shows those there are)")
            return await asyncio.to_thread(view_at, reach, pointer, name=name)

        return await work(AsyncConsumers(connected, look))


async def _metadata(reach: Reach, location: str) -> TableMetadata:
    return await asyncio.to_thread(reach.metadata_reader.metadata, location)
