"""The Spark application of `firn demo` (`firn.coordinator.demo.spark_part`): ``demo_spark.py REDIS_URL SECONDS``.

It appends rows while the other writers do, a file or two an intent. When its standard input is closed, the others are
done: it compacts one day of the table, and reads the table back.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec
import pyarrow.parquet as pq
import pyspark.sql.functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import DataFrame, SparkSession

from firn.coordinator.client import Answer, TableView
from firn.coordinator.client.intents import new_intent_id
from firn.coordinator.demo.actors import ID_STRIDE, Report
from firn.coordinator.demo.dataset import COUNTRIES, DAYS, FIRST_DAY, TABLE, FileStats, customers_by_bucket, stats_of
from firn.coordinator.demo.ending import end_with
from firn.coordinator.demo.spark_part import SparkLine
from firn.model.amounts import plural
from firn.model.errors import Misconfigured
from firn.model.outcome import Committed, Rejected
from firn.pipeline.compaction import compact
from firn.pipeline.compaction_rules import rules_of
from firn.pipeline.connection import Connection
from firn.pipeline.reads import read
from firn.pipeline.spark_session import spark_session
from firn.pipeline.writes import append
from firn.storage.manifest_reader import StoredManifests
from firn.storage.table_scan import plan_scan

ACTOR: Final = "spark-0"
FIRST_ID: Final = 1_000 * ID_STRIDE
ROWS: Final = 20_000
"""Rows of one append."""

COMPACTED_DAY: Final = "ts >= '2026-01-01T00:00:00+00:00' and ts < '2026-01-02T00:00:00+00:00'"
SETTINGS: Final = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
MASTER: Final = "local[2]"


class SparkActor:
    """One Spark session on the demo's table; what it does goes out as `SparkLine`."""

    def __init__(self, spark: SparkSession, connection: Connection) -> None:
        self._spark = spark
        self._connection = connection

    def append_until(self, ends_at: float) -> None:
        """Append again and again, at least once."""
        buckets = customers_by_bucket()
        number = 0
        while number == 0 or time.monotonic() < ends_at:
            rows = self._orders(FIRST_ID + number * ROWS, customers=buckets[number % len(buckets)], day=number % DAYS)
            intent_id = new_intent_id()
            started = time.monotonic()
            answer = append(rows, TABLE, intent_id=intent_id, writer=ACTOR, connection=self._connection)
            added = self._stats(name for name in self._live(answer) if intent_id in name)
            tell("appended", "", report=report_of(answer, "append (Spark)", started, added=added))
            number += 1

    def compact(self) -> None:
        """Rewrite the small files of one day; nobody else changes the table any more."""
        before = self._live(None)
        started = time.monotonic()
        rules = rules_of(self._connection.table(TABLE).metadata.properties, min_input_files=2)
        outcome = compact(
            self._spark, TABLE, where=COMPACTED_DAY, rules=rules, max_commits=1, connection=self._connection
        )
        after = self._live(None)
        tell(
            "compacted",
            f"compacted {plural(outcome.files_before, 'file')} into {outcome.files_after:,}",
            report=Report(
                role="spark",
                actor=ACTOR,
                operation="replace (Spark)",
                intent_id=plural(len(outcome.groups), "group"),
                status="committed" if outcome.ok else "rejected",
                latency_ms=(time.monotonic() - started) * 1000,
                added=self._stats(sorted(after - before)),
                removed=sorted(before - after),
            ),
        )

    def read_back(self) -> None:
        """Count the table, and add up its ids."""
        rows = read(self._spark, TABLE, columns=["id"], connection=self._connection)
        found = rows.agg(F.count("*"), F.sum(F.col("id").cast("decimal(38, 0)"))).collect()[0]
        stats = FileStats(found[0], int(found[1] or 0))
        tell("read-back", f"reads {plural(stats.rows, 'row')}", read=stats)

    def _orders(self, first_id: int, *, customers: Sequence[int], day: int) -> DataFrame:
        """Orders of one day by customers of one bucket: rows of one partition."""
        start_s = int(FIRST_DAY.timestamp()) + day * 86_400
        chosen = F.array(*(F.lit(customer) for customer in customers[:20]))
        countries = F.array(*(F.lit(country) for country in COUNTRIES))
        return self._spark.range(first_id, first_id + ROWS, numPartitions=2).select(
            "id",
            F.element_at(chosen, (F.col("id") % F.size(chosen) + 1).cast("int")).cast("long").alias("customer_id"),
            F.timestamp_seconds(F.lit(start_s) + F.col("id") % 86_400).alias("ts"),
            F.element_at(countries, (F.col("id") % len(COUNTRIES) + 1).cast("int")).alias("country"),
            (F.col("id") % 1_000_000 / 100).cast("decimal(12, 2)").alias("amount"),
        )

    def _live(self, answer: Answer | None) -> set[str]:
        """The live data files of the table: as this answer has left it, or as it is now."""
        files = self._connection.store()
        if isinstance(answer, Committed) and answer.metadata_location is not None:
            view = TableView.from_metadata(answer.metadata_location, files, name=TABLE)
        else:
            view = self._connection.table(TABLE)
        return {task.file.file_path for task in plan_scan(view.metadata, files=StoredManifests(files)).tasks}

    def _stats(self, locations: Iterable[str]) -> dict[str, FileStats]:
        return {
            location: stats_of(pq.read_table(location, columns=["id"], partitioning=None)) for location in locations
        }


def report_of(answer: Answer, operation: str, started: float, *, added: dict[str, FileStats]) -> Report:
    """An answer as the demo's ledger has it."""
    status: Literal["committed", "rejected", "unknown"] = "unknown"
    if isinstance(answer, Committed):
        status = "committed"
    elif isinstance(answer, Rejected):
        status = "rejected"
    return Report(
        role="spark",
        actor=ACTOR,
        operation=operation,
        intent_id=answer.intent_id,
        status=status,
        rule=answer.rule if isinstance(answer, Rejected) else None,
        latency_ms=(time.monotonic() - started) * 1000,
        added=added,
    )


def tell(stage: Any, text: str, *, report: Report | None = None, read: FileStats | None = None) -> None:
    """Say a line."""
    line = SparkLine(stage=stage, text=text, report=report, read=read)
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


def main(arguments: Sequence[str]) -> None:
    """Append, wait, compact, read back."""
    redis_url, seconds, parent = arguments
    end_with(int(parent))  # Java ends with this process
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that Java is stopped, too
    ends_at = time.monotonic() + float(seconds)
    connection = Connection(redis=redis_url)
    try:
        with spark_session(app="firn demo", master=MASTER, settings=SETTINGS) as spark:
            actor = SparkActor(spark, connection)
            actor.append_until(ends_at)
            sys.stdin.buffer.read()
            actor.compact()
            actor.read_back()
    except Misconfigured as error:
        tell("skipped", str(error).splitlines()[0])


if __name__ == "__main__":
    main(sys.argv[1:])
