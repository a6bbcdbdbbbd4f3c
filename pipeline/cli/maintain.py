"""`firn maintain plan|run|dropped`: what tables need, doing it, and what goes of dropped ones.

Spark is started only for what reads rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Final

import click

from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK, EXIT_UNAVAILABLE, exit_code_of, worst_of
from firn.coordinator.cli.family import Family
from firn.coordinator.cli.output import Column, complain
from firn.coordinator.cli.progress import ProgressLine, showing_progress
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.text import one_line, shown, span_of, time_of
from firn.coordinator.cli.times import Span
from firn.coordinator.client import Answer, Client
from firn.coordinator.client.servers import Servers
from firn.model.amounts import plural, size_text
from firn.model.errors import FirnError, InvalidInput, Misconfigured, UnknownOutcome
from firn.model.extras import import_with_extra
from firn.pipeline.connection import Connection
from firn.pipeline.dropped_tables import (
    DAY_MS,
    FORGET_AFTER_MS,
    PURGE_AFTER_MS,
    Delays,
    DroppedName,
    Swept,
    dropped_names,
    sweep_dropped,
)
from firn.pipeline.maintenance_plan import NEEDS_SPARK, Action, MaintenancePlan
from firn.pipeline.maintenance_run import LAG_S_MAX, Status, TableRun, maintain, plan_table
from firn.pipeline.upkeep import Upkeep
from firn.storage.journal import JOURNAL_FOLDER

PLAN_COLUMNS: Final = (Column("TABLE"), Column("ACTION"), Column("DO"), Column("WHY", long=True))
DROPPED_COLUMNS: Final = (
    Column("NAME"),
    Column("KIND"),
    Column("DROPPED"),
    Column("FILES GO"),
    Column("NAME GOES"),
    Column("LOCATION", long=True),
)
RUN_COLUMNS: Final = (Column("TABLE"), Column("ACTION"), Column("STATUS"), Column("TOOK"), Column("WHAT", long=True))

_EXITS: Final[dict[Status, int]] = {"failed": EXIT_NO, "unknown": EXIT_UNAVAILABLE}

_TABLES: Final = click.argument("tables", nargs=-1, metavar="[TABLE…]")
_ALL: Final = click.option("--all", "every", is_flag=True, help="All tables.")


_PURGE_AFTER: Final = click.option(
    "--purge-after", type=Span(), default=f"{PURGE_AFTER_MS // DAY_MS}d", show_default=True, metavar="SPAN",
    help="Remove files of tables dropped with --purge so long after the drop.",
)  # fmt: skip
_FORGET_AFTER: Final = click.option(
    "--forget-after", type=Span(), default=f"{FORGET_AFTER_MS // DAY_MS}d", show_default=True, metavar="SPAN",
    help="Remove dropped names of which nothing is left so long after the drop.",
)  # fmt: skip


@click.group("maintain", cls=Family)
def maintain_group() -> None:
    """Maintenance of tables: compaction, deletes, manifests, statistics, expiry, orphans, as each table needs it."""


@maintain_group.command(epilog="Thresholds are the tables' firn.maintain.* properties: see docs/pipeline.md.")
@_TABLES
@_ALL
@reaching
def plan(reach: Reach, *, tables: tuple[str, ...], every: bool) -> int:
    """Look at tables and say what each needs, and why; change nothing.

    Exits with 1 when a table could not be read, with 3 when a server does not answer.
    """
    upkeep = _upkeep(reach)
    names = _names(upkeep, tables, every=every)
    with showing_progress(reach.output) as progress:
        plans, failed = _each(names, lambda table: plan_table(upkeep, table), progress)
    if reach.output.as_json:
        reach.output.document({"plans": plans, "failed": _told(failed)})
    for one in plans:
        reach.output.say(_headline(one))
    rows = [
        (one.health.table, decision.action, "yes" if decision.wanted else "-", decision.reason)
        for one in plans
        for decision in one.decisions
    ]
    if plans:
        reach.output.say()
    if rows or not failed:
        reach.output.grid(PLAN_COLUMNS, rows, empty="there are no tables")
    _complain_of(failed)
    return worst_of(map(exit_code_of, failed.values()))


@maintain_group.command(epilog="Example: firn maintain run --all --no-spark")
@_TABLES
@_ALL
@click.option("--master", help="Spark master, if Spark is needed [default: all cores of this machine].")
@click.option("--conf", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of Spark's; repeatable.")
@click.option(
    "--no-spark", is_flag=True, help="Leave out what needs Spark: compaction, rewriting of deletes, distinct values."
)
@click.option(
    "--max-lag", "lag_s_max", type=click.FloatRange(min=0.1), default=LAG_S_MAX, show_default=True, metavar="SECONDS",
    help="Stop working on a table whose intents have to wait for longer.",
)  # fmt: skip
@_PURGE_AFTER
@_FORGET_AFTER
@click.option("--force", is_flag=True, help="Take delays under 24 hours for dropped tables.")
@reaching
def run(  # noqa: PLR0913 - its options
    reach: Reach, *, tables: tuple[str, ...], every: bool, master: str | None, settings: tuple[str, ...],
    no_spark: bool, lag_s_max: float, purge_after: int, forget_after: int, force: bool,
) -> int:  # fmt: skip
    """Do what the plan says, table by table, at low priority; give way when intents have to wait.

    With --all, files of tables that were dropped with --purge are removed when their time has come, and names of which
    nothing is left: firn maintain dropped lists them.

    Exits with 1 when an action failed or a table could not be read, with 3 when a server does not answer or an outcome
    is missing.
    """
    delays = Delays(purge_after_ms=purge_after, forget_after_ms=forget_after)
    delays.check(force=force)
    upkeep = _upkeep(reach)
    reach.require_redis()
    with ExitStack() as stack:
        progress = stack.enter_context(showing_progress(reach.output))
        spark = NoSpark() if no_spark else LateSpark(reach, stack, master=master, settings=settings)

        def begun(action: Action) -> None:
            if action in NEEDS_SPARK:
                progress.stand_aside(f"{action} with Spark")
            else:
                progress.action(action)

        def one(table: str) -> TableRun:
            return maintain(
                upkeep, table, spark=spark, lag_s_max=lag_s_max, leave_out=NEEDS_SPARK if no_spark else frozenset(),
                progress=begun,
            )  # fmt: skip

        runs, failed = _each(_names(upkeep, tables, every=every), one, progress)
    swept = _sweep(reach, upkeep, delays) if every else ()
    if reach.output.as_json:
        reach.output.document({"tables": runs, "dropped": swept, "failed": _told(failed)})
    rows = [row for one in runs for row in _rows(one)]
    rows += [(one.table, "end-dropped", one.status, "-", one.message) for one in swept]
    if rows or not failed:
        reach.output.grid(RUN_COLUMNS, rows, empty="there are no tables")
        reach.output.say()
    _complain_of(failed)
    worked = [action for one in runs for action in one.actions]
    unknown = sum(a.status == "unknown" for a in worked)
    reach.output.say(
        f"{plural(len(runs), 'table')}: {plural(sum(a.status == 'done' for a in worked), 'action')} done, "
        f"{sum(a.status == 'failed' for a in worked)} failed, "
        + (f"{unknown} not known to have ended, " if unknown else "")
        + f"{sum(a.status in {'yielded', 'reserved'} for a in worked)} left for later"
        + (f"; {plural(len(failed), 'table')} not worked on" if failed else "")
    )
    return worst_of([
        *map(exit_code_of, failed.values()),
        *(_EXITS.get(one.status, EXIT_OK) for one in worked),
        *(EXIT_NO for one in swept if one.status == "failed"),
    ])  # fmt: skip


@maintain_group.command(epilog="Example: firn maintain dropped --json")
@_PURGE_AFTER
@_FORGET_AFTER
@reaching
def dropped(reach: Reach, *, purge_after: int, forget_after: int) -> None:
    """List the names of dropped tables and views, and what firn maintain run --all removes when.

    Names that a rename left behind are listed, too. A name goes when nothing is left in its folders. Files stay unless
    the table was dropped with --purge.
    """
    delays = Delays(purge_after_ms=purge_after, forget_after_ms=forget_after)
    found = dropped_names(_upkeep(reach), delays)
    if reach.output.as_json:
        reach.output.document(found)
    reach.output.grid(DROPPED_COLUMNS, map(_dropped_row, found), empty="nothing was dropped")


def _dropped_row(one: DroppedName) -> tuple[object, ...]:
    since = "not known" if one.dropped_ms is None else time_of(one.dropped_ms)
    files = "never" if one.purge_due_ms is None else time_of(one.purge_due_ms)
    name = "never" if one.forget_due_ms is None else time_of(one.forget_due_ms)
    if not one.purge and one.forget_due_ms is not None:
        name = f"{name}, if its folder is empty"
    kind = one.kind if one.renamed_to is None else f"{one.kind}, now {one.renamed_to}"
    return one.table, kind, since, files, name, one.location


class NoSpark:
    """For a run that leaves out what needs Spark."""

    def compact(self, table: str, *, go_on: Callable[[], bool]) -> tuple[Status, str]:
        raise Misconfigured("this run starts no Spark")

    def rewrite_deletes(self, table: str) -> tuple[Answer | None, str]:
        raise Misconfigured("this run starts no Spark")

    def distinct_values(self, table: str) -> Answer | None:
        raise Misconfigured("this run starts no Spark")


class LateSpark:
    """Spark, started when the first table needs it, for all that follow; `stack` ends it."""

    def __init__(self, reach: Reach, stack: ExitStack, *, master: str | None, settings: Sequence[str]) -> None:
        self._reach = reach
        self._stack = stack
        self._master = master
        self._settings = settings
        self._started: tuple[Any, Connection] | None = None

    def compact(self, table: str, *, go_on: Callable[[], bool]) -> tuple[Status, str]:
        spark, connection = self._session()
        outcome = _loaded("firn.pipeline.compaction").compact(spark, table, connection=connection, go_on=go_on)
        told = f"{plural(outcome.files_before, 'file')} became {outcome.files_after:,}"
        if not outcome.ok:
            raise (UnknownOutcome if outcome.unknown else FirnError)(f"{told}; {outcome}")
        if outcome.postponed:
            return "yielded", f"{told}; {plural(outcome.postponed, 'group')} left, because intents have to wait"
        return "done", told

    def rewrite_deletes(self, table: str) -> tuple[Answer | None, str]:
        spark, connection = self._session()
        outcome = _loaded("firn.pipeline.delete_files_rewrite").rewrite_delete_files(
            spark, table, connection=connection
        )
        return outcome.answer, f"{plural(outcome.files_before, 'delete file')} became {outcome.files_after:,}"

    def distinct_values(self, table: str) -> Answer | None:
        spark, connection = self._session()
        answer: Answer | None = (
            _loaded("firn.pipeline.ndv_statistics").compute_statistics(spark, table, connection=connection).answer
        )
        return answer

    def _session(self) -> tuple[Any, Connection]:
        if self._started is None:
            running = _loaded("firn.pipeline.cli.spark_running")
            options = running.spark_options(self._master, self._settings)
            self._started = self._stack.enter_context(running.session(self._reach, options, app="firn maintain"))
        return self._started


def _loaded(module: str) -> Any:
    """A module that needs PySpark, which is loaded only when a table needs it."""
    return import_with_extra(module, what="this step (left out with --no-spark)", extra="spark")


def _upkeep(reach: Reach) -> Upkeep:
    connection = Connection.of_servers(Servers.of_settings(reach.settings))
    client: Client = connection.client()
    return Upkeep(client=client, files=reach.files, session=reach.session, streams=reach.streams)


def _names(upkeep: Upkeep, tables: tuple[str, ...], *, every: bool) -> list[str]:
    if every == bool(tables):
        raise InvalidInput("name tables, or say --all", where="TABLE")
    return [one.table for one in upkeep.tables() if one.kind == "table"] if every else list(dict.fromkeys(tables))


def _each(
    names: Sequence[str], work: Callable[[str], Any], progress: ProgressLine
) -> tuple[list[Any], dict[str, FirnError]]:
    """What comes of each table; one that cannot be read never stops another."""
    found, failed = [], dict[str, FirnError]()
    for number, name in enumerate(names, start=1):
        progress.within("table", number, len(names), name)
        try:
            found.append(work(name))
        except FirnError as error:
            failed[name] = error
    return found, failed


def _sweep(reach: Reach, upkeep: Upkeep, delays: Delays) -> tuple[Swept, ...]:
    """Remove what is due of dropped tables, showing how far it is."""
    with showing_progress(reach.output) as progress:
        return sweep_dropped(
            upkeep, delays=delays, progress=progress,
            begins=lambda number, total, name: progress.within("dropped table", number, total, name),
        )  # fmt: skip


def _headline(one: MaintenancePlan) -> str:
    health = one.health
    return (
        f"{shown(health.table)}: {plural(health.data_files, 'data file')} of {size_text(health.data_bytes)}, "
        f"{plural(health.delete_files, 'delete file')} for {health.delete_ratio:.1%} of rows, "
        f"{plural(health.manifests, 'manifest')}, {plural(health.snapshots, 'snapshot')}"
    )


def _rows(one: TableRun) -> list[tuple[object, ...]]:
    """Return the lines of one table: what was copied of its journal, then its actions, or why there are none."""
    found: list[tuple[object, ...]] = []
    if one.journal_copied:
        message = f"{plural(one.journal_copied, 'segment')} copied to {JOURNAL_FOLDER}"
        found.append((one.table, "copy-journal", "done", "-", message))
    found += [(one.table, a.action, a.status, span_of(a.took_s * 1000), a.message) for a in one.actions]
    if one.skipped is not None:
        found.append((one.table, "-", "skipped", "-", one.skipped))
    return found or [(one.table, "-", "nothing", "-", "the table needs nothing")]


def _told(failed: dict[str, FirnError]) -> dict[str, str]:
    return {table: str(error) for table, error in failed.items()}


def _complain_of(failed: dict[str, FirnError]) -> None:
    for table, why in _told(failed).items():
        complain(f"firn: {shown(table)}: {one_line(why)}")
