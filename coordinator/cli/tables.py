"""`firn tables`: how all tables are, one line each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, get_args

import click

from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK
from firn.coordinator.cli.output import Column, complain
from firn.coordinator.cli.pausing import pause_text
from firn.coordinator.cli.reach import Reach, reaching, shards_of
from firn.coordinator.cli.text import one_line, span_of
from firn.coordinator.cli.times import now_ms
from firn.coordinator.operations.table_health import (
    Content,
    State,
    TableHealth,
    health_of_tables,
    with_content,
    with_queue,
)
from firn.model.amounts import plural, size_text
from firn.model.errors import NotFound, Unavailable
from firn.model.identifiers import check_table_name

COLUMNS: Final = (
    Column("TABLE"), Column("STATE"), Column("KIND"), Column("VERSION", right=True), Column("MOVED", right=True),
    Column("WAITING", right=True), Column("CONFLICTS", right=True), Column("LOCK"),
)  # fmt: skip
DEEP_COLUMNS: Final = (
    Column("SNAPSHOTS", right=True), Column("HISTORY", right=True), Column("MANIFESTS", right=True),
    Column("FILES", right=True), Column("DELETES", right=True),
    Column("RECORDS", right=True), Column("BYTES", right=True),
)  # fmt: skip
WHY: Final = Column("WHY", long=True)

SORTS: Final[dict[str, Callable[[TableHealth], Any]]] = {
    "name": lambda one: one.table,
    "moved": lambda one: -(one.moved_ms or 0),
    "idle": lambda one: one.moved_ms or 0,
    "waiting": lambda one: -(one.waiting or 0),
    "conflicts": lambda one: -(one.conflicts or 0),
    "snapshots": lambda one: -_of(one, "snapshots"),
    "manifests": lambda one: -_of(one, "manifests"),
    "files": lambda one: -_of(one, "data_files"),
    "bytes": lambda one: -_of(one, "bytes"),
}
STUCK: Final = frozenset({"stalled", "unreadable"})
DEEP_SORTS: Final = frozenset({"snapshots", "manifests", "files", "bytes"})


@click.command(
    epilog="Examples: firn tables --sort waiting --limit 10   firn tables --state paused   firn tables --deep db.events"
)
@click.argument("names", nargs=-1, metavar="[TABLE]...")
@click.option("--deep", is_flag=True, help="Read the metadata of each, too: sizes, and whether it can be read.")
@click.option("--sort", type=click.Choice(list(SORTS)), default="name", show_default=True, help="What comes first.")
@click.option("--state", "states", multiple=True, type=click.Choice(get_args(State)),
              help="Those in this state.")  # fmt: skip
@click.option("--kind", type=click.Choice(["table", "view"]), help="Tables or views only.")
@click.option("--contains", metavar="TEXT", help="Those whose name contains this.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@reaching
def tables(
    reach: Reach,
    *,
    names: tuple[str, ...],
    deep: bool,
    sort: str,
    states: tuple[str, ...],
    kind: str | None,
    contains: str | None,
    limit: int | None,
) -> int:
    """Show how each table is: its last move, what waits, conflicts of the last hour, who holds its lock.

    Without --deep no file is read, so it is fast for a thousand tables, and a table whose files are damaged shows once
    a daemon has found it. Exits with 1 when one is unreadable or stalled.
    """
    if sort in DEEP_SORTS and not deep:
        raise click.UsageError(f"--sort {sort} needs --deep")
    for name in names:
        check_table_name(name)

    def wanted(one: TableHealth) -> bool:
        return (
            (not states or one.state in states)
            and kind in (None, one.kind)
            and (contains is None or contains.lower() in one.table.lower())
        )

    found = reach.run(_look(reach, names, deep=deep, dropped="dropped" in states, early=None if deep else wanted))
    missing = set(names) - {one.table for one in found}
    if missing and not states and contains is None and kind is None:
        raise NotFound(f"there is no table {', '.join(sorted(missing))} (firn tables lists those there are)")
    chosen = sorted(filter(wanted, found), key=lambda one: (SORTS[sort](one), one.table))
    shown_tables = chosen[:limit]
    if reach.output.as_json:
        reach.output.document(shown_tables)
    columns = (*COLUMNS, *(DEEP_COLUMNS if deep else ()), WHY)
    now = now_ms()
    reach.output.grid(columns, (_row(one, deep=deep, now_ms=now) for one in shown_tables), empty="no such tables")
    if len(chosen) > len(shown_tables):
        reach.output.say(f"{plural(len(chosen) - len(shown_tables), 'more table')} not shown (--limit)")
    return EXIT_NO if any(one.state in STUCK for one in chosen) else EXIT_OK


async def _look(
    reach: Reach, names: Sequence[str], *, deep: bool, dropped: bool, early: Callable[[TableHealth], bool] | None
) -> list[TableHealth]:
    async with reach.session() as session:
        found = await health_of_tables(session, wanted=names, dropped=dropped)
    if deep:
        found = await with_content(found, reach.reader, reach.files)
    looked_at = [health for health, _ in found if early is None or early(health)]
    try:
        async with reach.streams() as streams:
            shards, now = await shards_of(streams), await streams.clock_ms()
            return await with_queue(looked_at, streams, shards=shards, now_ms=now)
    except Unavailable as error:
        complain(f"firn: what waits, and conflicts, are not shown: {one_line(str(error))}")
        return looked_at


def _of(one: TableHealth, member: str) -> int:
    return getattr(one.content, member, None) or 0


def _row(one: TableHealth, *, deep: bool, now_ms: int) -> tuple[object, ...]:
    moved = "-" if one.moved_ms is None else span_of(max(0, now_ms - one.moved_ms))
    unmerged = None if one.unmerged is None else f"manifests are not merged: {one.unmerged}"
    why = one.trouble or (unmerged if one.paused is None else pause_text(one.paused)) or _properties(one.content)
    return (
        one.table, one.state, one.kind, "-" if one.version is None else one.version, moved, _number(one.waiting),
        _number(one.conflicts), one.lock or "-", *(_sizes(one.content, now_ms=now_ms) if deep else ()), why,
    )  # fmt: skip


def _properties(content: Content | None) -> str | None:
    if content is None or not content.unusable_properties:
        return None
    return f"unusable property, its default is used: {'; '.join(content.unusable_properties)}"


def _sizes(content: Content | None, *, now_ms: int) -> tuple[str, ...]:
    if content is None:
        return ("-",) * len(DEEP_COLUMNS)
    oldest_ms = None if content.history is None else content.history.oldest_ms
    history = "-" if oldest_ms is None else span_of(max(0, now_ms - oldest_ms))
    counts = (content.manifests, content.data_files, content.delete_files, content.records)
    size = "?" if content.bytes is None else size_text(content.bytes)
    return (_number(content.snapshots), history, *map(_number, counts), size)


def _number(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"
