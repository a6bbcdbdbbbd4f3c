"""`firn report`: the journals of all tables as a table, and what there were conflicts about. Without Spark."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK
from firn.coordinator.cli.family import Family
from firn.coordinator.cli.output import Column, complain
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.text import one_line, shown, time_of
from firn.coordinator.cli.times import Moment, Span
from firn.coordinator.client.table_view import TableView
from firn.model.amounts import plural
from firn.model.errors import InvalidInput, NotFound, Unavailable
from firn.pipeline.cli.reached import ReachClient, journal_heads
from firn.pipeline.commits_table import COMMITS_TABLE, Collected, CommitsTable, require_commits
from firn.pipeline.conflict_page import conflict_page
from firn.pipeline.conflict_report import ConflictReport, Window, conflict_report

COLLECTED_COLUMNS: Final = (
    Column("TABLE"), Column("COMMITTED", right=True), Column("REJECTED", right=True), Column("UP TO SWAP", right=True),
)  # fmt: skip
TABLE_COLUMNS: Final = (
    Column("TABLE", long=True), Column("COMMITTED", right=True), Column("REJECTED", right=True),
)  # fmt: skip
RULE_COLUMNS: Final = (Column("RULE"), Column("HINT"), Column("REJECTED", right=True))
PAIR_COLUMNS: Final = (Column("LOST", long=True), Column("WON", long=True), Column("REJECTED", right=True))
HOUR_COLUMNS: Final = (Column("HOUR"), Column("COMMITTED", right=True), Column("REJECTED", right=True))

HOURS_SHOWN: Final = 24
LINES_SHOWN: Final = 20

_commits_option = click.option(
    "--commits", "commits_table", default=COMMITS_TABLE, show_default=True, help="The table that journals are kept in."
)


@click.group(cls=Family)
def report() -> None:
    """Reports over the journals of all tables, which are kept as an Iceberg table for SQL (firn.commits)."""


@report.command()
@_commits_option
@click.option(
    "--every", "every_ms", type=Span(), metavar="SPAN", help="Go on, as often as this (30s, 5m), until Ctrl-C."
)
@reaching
def commits(reach: Reach, *, commits_table: str, every_ms: int | None) -> int:
    """Bring the table of commits up to date: a row for every decision of every journal, each exactly once.

    It may be stopped and repeated at any time, and run in several places at once.
    """
    while True:
        try:
            collected = collect(reach, commits_table)
        except Unavailable as error:
            if every_ms is None:
                raise
            complain(f"firn: waiting: {one_line(str(error))}")
        else:
            _say_collected(reach, collected, commits_table)
            if every_ms is None:
                return EXIT_NO if collected.problems else EXIT_OK
        try:
            time.sleep(every_ms / 1000)
        except KeyboardInterrupt:
            return EXIT_OK


def collect(reach: Reach, commits_table: str) -> Collected:
    """One collection, with a count of its rows while it works."""
    with Progress(
        SpinnerColumn(), TextColumn("reading journals: {task.completed} decisions"), TimeElapsedColumn(),
        console=Console(stderr=True), transient=True, disable=not Console(stderr=True).is_terminal,
    ) as progress:  # fmt: skip
        task = progress.add_task("", total=None)
        table = CommitsTable(
            ReachClient(reach), files=reach.files, journal=reach.journal, table=commits_table,
            progress=lambda rows: progress.advance(task, rows),
        )  # fmt: skip
        return table.collect(journal_heads(reach.pointers()))


def _say_collected(reach: Reach, collected: Collected, commits_table: str) -> None:
    for problem in collected.problems:
        complain(f"firn: {one_line(problem)}")
    if reach.output.as_json:
        reach.output.line(collected)
        return
    rows = ((one.table, one.committed, one.rejected, one.sequence) for one in collected.tables)
    if collected.tables:
        reach.output.grid(COLLECTED_COLUMNS, rows, empty="")
    reach.output.say(
        f"{plural(collected.rows, 'decision')} added to {shown(commits_table)}"
        if collected.rows
        else f"nothing is new; {shown(commits_table)} is up to date"
    )


@report.command(
    epilog="Times: 1h, 7d (ago), 2026-11-21, 2026-11-21T15:30, in UTC unless a zone is given. "
    "Example: firn report conflicts --since 7d --html conflicts.html"
)
@click.option("--table", help="Of this table only.")
@click.option("--since", "since_ms", type=Moment(), metavar="TIME", help="Not older than this.")
@click.option("--until", "until_ms", type=Moment(), metavar="TIME", help="Older than this.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write it as one page with plots, too.")
@click.option("--no-collect", is_flag=True, help="Take the table of commits as it is, without a daemon.")
@_commits_option
@reaching
def conflicts(
    reach: Reach, *, table: str | None, since_ms: int | None, until_ms: int | None, html: Path | None, no_collect: bool,
    commits_table: str,
) -> None:  # fmt: skip
    """Count what was rejected: by table, rule, loser and winner, and hour.

    The table of commits is brought up to date first. `firn conflicts` lists the rejections themselves.
    """
    if not no_collect:
        _collect_first(reach, commits_table)
    window = Window(table=table, since_ms=since_ms, until_ms=until_ms)
    found = conflict_report(commits_view(reach, commits_table), window, files=reach.files)
    if html is not None:
        _write(html, conflict_page(found, now=datetime.now(UTC)))
    if reach.output.as_json:
        reach.output.document(found)
        return
    _say_conflicts(reach, found)
    if html is not None:
        reach.output.say(f"\nwritten to {shown(html)}")


def commits_view(reach: Reach, commits_table: str) -> TableView:
    """The table of commits as it is. Raises NotFound, with how to make it, and InvalidInput for another table."""
    try:
        return require_commits(ReachClient(reach).table(commits_table))
    except NotFound as error:
        raise NotFound(
            f"nothing to report from: {error}; firn report commits makes it from the journals, and so does this "
            "command without --no-collect"
        ) from error


def _collect_first(reach: Reach, commits_table: str) -> None:
    try:
        collected = collect(reach, commits_table)
    except Unavailable as error:
        raise Unavailable(f"{error} (--no-collect reports what is there already)") from error
    for problem in collected.problems:
        complain(f"firn: {one_line(problem)}")


def _window_text(window: Window) -> str:
    of = "" if window.table is None else f" of {shown(window.table)}"
    since = "" if window.since_ms is None else f" since {time_of(window.since_ms)}"
    return of + since + ("" if window.until_ms is None else f" until {time_of(window.until_ms)}")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(error.strerror or str(error), where=str(path)) from error


def _say_conflicts(reach: Reach, found: ConflictReport) -> None:
    output = reach.output
    window = found.window
    output.say(f"{found.rejected:,} rejected, {found.committed:,} committed{_window_text(window)}")
    if window.table is not None and not (found.rejected or found.committed):
        complain(f"firn: no journal tells of {shown(window.table)} there: is that its name? (firn table list)")
    if not found.rejected:
        return
    tables = [line for line in found.tables if line.rejected]
    hours = [line for line in found.hours if line.rejected]
    output.say("\nby table")
    output.grid(TABLE_COLUMNS, ((t.table, t.committed, t.rejected) for t in tables[:LINES_SHOWN]), empty="")
    output.say("\nby rule")
    output.grid(RULE_COLUMNS, ((r.rule, r.hint, r.rejected) for r in found.rules[:LINES_SHOWN]), empty="")
    output.say("\nby loser and winner")
    output.grid(PAIR_COLUMNS, ((p.loser, p.winner, p.rejected) for p in found.pairs[:LINES_SHOWN]), empty="")
    output.say(f"\nby hour, the last {HOURS_SHOWN} with a rejection" if len(hours) > HOURS_SHOWN else "\nby hour")
    shown_hours = ((time_of(h.hour_ms), h.committed, h.rejected) for h in hours[-HOURS_SHOWN:])
    output.grid(HOUR_COLUMNS, shown_hours, empty="")
    if max(len(tables), len(found.rules), len(found.pairs)) > LINES_SHOWN:
        output.say(f"\nthe first {LINES_SHOWN} of each are shown; --json has all")
