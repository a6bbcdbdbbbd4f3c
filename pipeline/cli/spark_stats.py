"""`firn spark stats`: distinct values of columns and counts of partitions, attached to the table for query planners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import msgspec

from firn.coordinator.cli.answers import complain_of, exit_code_of_answers
from firn.coordinator.cli.output import Column
from firn.coordinator.cli.reach import Reach
from firn.coordinator.cli.text import shown
from firn.coordinator.client import Answer
from firn.model.amounts import plural
from firn.model.transforms import Void
from firn.pipeline.cli.spark_running import SparkOptions, session, sparking, watching
from firn.pipeline.cli.spark_upkeep import upkeep_of
from firn.pipeline.ndv_statistics import compute_statistics
from firn.pipeline.partition_statistics import compute_partition_statistics


class Counted(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What was attached: distinct values by column, and how many partitions were counted."""

    table: str
    distinct_values: Mapping[str, int]
    partitions: int
    answers: tuple[Answer, ...]


@click.command(epilog="Example: firn spark stats db.events --columns customer,region")
@click.argument("table")
@click.option("--columns", help="Count distinct values of these, with commas [default: every column that can be].")
@click.option("--partitions-only", is_flag=True, help="Count partitions only, which needs no Spark session.")
@sparking
def stats(reach: Reach, options: SparkOptions, *, table: str, columns: str | None, partitions_only: bool) -> int:
    """Count distinct values of columns, and rows and files of partitions, for the planners of query engines."""
    metadata = reach.reader.metadata(reach.pointer(table, kind="table").metadata_location)
    answers: list[Answer | None] = []
    estimates: Mapping[str, int] = {}
    partitions = 0
    if not partitions_only:
        names = [name.strip() for name in (columns or "").split(",") if name.strip()]
        with (
            session(reach, options, app=f"firn stats {table}") as (spark, connection),
            watching(spark, f"counting {shown(table)}"),
        ):
            found = compute_statistics(spark, table, columns=names, connection=connection)
        estimates = found.estimates
        answers.append(found.answer)
    if any(not isinstance(field.parsed_transform, Void) for field in metadata.default_spec.fields):
        counted = compute_partition_statistics(upkeep_of(reach), table)
        partitions = counted.partitions
        answers.append(counted.answer)
    given = tuple(answer for answer in answers if answer is not None)
    _say(reach, Counted(table=table, distinct_values=estimates, partitions=partitions, answers=given))
    return exit_code_of_answers(given)


def _say(reach: Reach, counted: Counted) -> None:
    if reach.output.as_json:
        reach.output.document(counted)
        return
    rows: Any = sorted(counted.distinct_values.items())
    if rows:
        reach.output.grid((Column("COLUMN"), Column("DISTINCT VALUES", right=True)), rows, empty="")
    if counted.partitions:
        reach.output.say(f"{plural(counted.partitions, 'partition')} counted")
    if not counted.answers:
        reach.output.say(f"{shown(counted.table)} has nothing to count")
    for answer in counted.answers:
        complain_of(answer)
