"""`firn spark`: Spark jobs for people who want no code."""

from __future__ import annotations

from typing import Any, Final, cast

import click

from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK, EXIT_UNAVAILABLE
from firn.coordinator.cli.family import Family
from firn.coordinator.cli.output import Column
from firn.coordinator.cli.reach import Reach
from firn.coordinator.cli.text import shown
from firn.model.amounts import plural
from firn.pipeline.cli.report import collect, commits_view
from firn.pipeline.cli.spark_running import SparkOptions, bars, session, sparking, watching
from firn.pipeline.cli.spark_stats import stats
from firn.pipeline.cli.spark_upkeep import expire, orphans
from firn.pipeline.commits_table import COMMITS_TABLE
from firn.pipeline.compaction import compact as compact_table
from firn.pipeline.compaction_layout import Strategy
from firn.pipeline.compaction_outcome import Progress as CompactionProgress
from firn.pipeline.compaction_plan import plan_compaction
from firn.pipeline.compaction_rules import rules_of
from firn.pipeline.conflict_queries import QUERIES
from firn.pipeline.reads import read
from firn.pipeline.row_filter import parse_filter
from firn.pipeline.spark_demo import DEMO_TABLE, require_demo_table, submit_demo
from firn.storage.manifest_reader import StoredManifests

COMMITS_VIEW: Final = "commits"
"""What SQL calls the table of commits."""

ROWS_SHOWN: Final = 100


@click.group(cls=Family)
def spark() -> None:
    """Spark and maintenance for people who want no code. On this machine, or wherever --master says."""


spark.add_command(expire)
spark.add_command(orphans)
spark.add_command(stats)


@spark.command("submit-demo")
@click.option("--table", default=DEMO_TABLE, show_default=True, help="The table; made if it is not there.")
@click.option("--rows", type=click.IntRange(min=1), default=100_000, show_default=True, help="Rows to append.")
@sparking
def submit_demo_command(reach: Reach, options: SparkOptions, *, table: str, rows: int) -> None:
    """Append made-up orders with Spark, read the table back, and count."""
    with session(reach, options, app="firn demo") as (started, connection):
        require_demo_table(connection, table)
        with watching(started, f"writing {plural(rows, 'row')}"):
            done = submit_demo(started, connection, table=table, rows=rows)
    if reach.output.as_json:
        reach.output.document(done)
        return
    reach.output.say(f"{plural(done.rows_appended, 'row')} appended in snapshot {done.snapshot_id}; Spark reads back:")
    columns = (Column("COUNTRY"), Column("AMOUNT", right=True))
    reach.output.grid(columns, done.amount_by_country.items(), empty="")
    reach.output.say(f"{plural(done.rows_in_table, 'row')} in {shown(table)}")


@spark.command(
    epilog="Thresholds are table properties (firn.compaction.*; docs/pipeline.md). "
    "Example: firn spark compact db.events --strategy z-order --by customer,ts"
)
@click.argument("table")
@click.option(
    "--strategy", type=click.Choice(["bin-pack", "sort", "z-order"]), default="bin-pack", show_default=True,
    help="How rows are laid out in the new files.",
)  # fmt: skip
@click.option("--by", help="Columns to sort or z-order by, with commas [sort: the table's sort order].")
@click.option("--where", default="true", help="Only files that may have matching rows, as in SQL's WHERE.")
@click.option("--branch", default="main", show_default=True, help="The branch to compact.")
@click.option("--all", "rewrite_all", is_flag=True, help="Rewrite every file, not only those that need it.")
@click.option("--dry-run", is_flag=True, help="Only say what would be rewritten, and why; starts no Spark job.")
@sparking
def compact(
    reach: Reach, options: SparkOptions, *, table: str, where: str, branch: str, rewrite_all: bool, dry_run: bool,
    **layout: str | None,
) -> int:  # fmt: skip
    """Rewrite small files, large ones and those with many deletes. What is committed meanwhile is not disturbed."""
    metadata = reach.reader.metadata(reach.pointer(table, kind="table").metadata_location)
    overrides = {"rewrite_all": True} if rewrite_all else {}
    rules = rules_of(metadata.properties, **overrides)
    if dry_run:
        plan = plan_compaction(
            metadata, files=StoredManifests(reach.files), filter=parse_filter(where), branch=branch, rules=rules
        )
        _say(reach, plan)
        return EXIT_OK
    columns = [name.strip() for name in (layout["by"] or "").split(",") if name.strip()]
    with session(reach, options, app=f"firn compact {table}") as (started, connection), bars() as progress:
        bar = progress.add_task(f"compacting {shown(table)}", total=None)

        def told(step: CompactionProgress) -> None:
            progress.update(bar, total=step.groups_total, completed=step.groups_done)

        outcome = compact_table(
            started, table, strategy=cast("Strategy", layout["strategy"]), by=columns, where=where, branch=branch,
            rules=rules, connection=connection, progress=told,
        )  # fmt: skip
    _say(reach, outcome)
    return EXIT_OK if outcome.ok else EXIT_UNAVAILABLE if outcome.unknown else EXIT_NO


def _say(reach: Reach, found: Any) -> None:
    """A plan or an outcome, which tells itself as JSON and as text."""
    if reach.output.as_json:
        reach.output.document(found.as_json())
    else:
        for line in str(found).splitlines():
            reach.output.say(shown(line))


@spark.command(
    "report", epilog='Example: firn spark report --sql "SELECT writer, count(*) FROM commits GROUP BY writer"'
)
@click.option("--sql", help=f"A query of your own over the view {COMMITS_VIEW}, instead of the conflict report.")
@click.option("--no-collect", is_flag=True, help="Take the table of commits as it is.")
@click.option("--commits", "commits_table", default=COMMITS_TABLE, show_default=True, help="The table of commits.")
@sparking
def report_command(
    reach: Reach, options: SparkOptions, *, sql: str | None, no_collect: bool, commits_table: str
) -> None:
    """The conflict report, or a query of your own, by Spark SQL over the journals of all tables.

    With --json, a JSON document with a list of rows for each query.
    """
    if not no_collect:
        collect(reach, commits_table)
    commits_view(reach, commits_table)  # before Spark is started for nothing
    queries = [("query", sql)] if sql else [(query.title, query.over(COMMITS_VIEW)) for query in QUERIES]
    found: dict[str, list[dict[str, Any]]] = {}
    with session(reach, options, app="firn report", commits=False) as (started, connection):
        read(started, commits_table, connection=connection).createOrReplaceTempView(COMMITS_VIEW)
        for title, query in queries:
            with watching(started, title):
                frame = started.sql(query)
                rows = [row.asDict(recursive=True) for row in frame.collect()]
            found[title] = rows
            if not reach.output.as_json:
                reach.output.say(f"\n{title}" if not sql else "")
                columns = [Column(name.upper(), long=True) for name in frame.columns]
                listed = ([row[name] for name in frame.columns] for row in rows[:ROWS_SHOWN])
                reach.output.grid(columns, listed, empty="no rows")
                if len(rows) > ROWS_SHOWN:
                    reach.output.say(f"… {len(rows) - ROWS_SHOWN:,} more; --json has all")
    if reach.output.as_json:
        reach.output.document({title: _plain(rows) for title, rows in found.items()})


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Values that JSON has: times and decimals as text."""
    kept = (str, int, float, bool, type(None))
    return [{k: v if isinstance(v, kept) else str(v) for k, v in row.items()} for row in rows]
