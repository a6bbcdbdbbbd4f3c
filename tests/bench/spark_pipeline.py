"""Ten million rows through firn's pipeline, beside Spark's own Parquet writer and reader, in the same session."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from firn.coordinator.client.answers import committed
from firn.pipeline.connection import Connection
from firn.pipeline.reads import read
from firn.pipeline.row_level import delete_where
from firn.pipeline.writes import append
from tests.bench.deployment import Deployment, deployment
from tests.bench.measurement import Measurement, measured
from tests.bench.options import Options

REPEATS: Final = 3
"""The two take turns so often; the best of each counts."""

READ_REPEATS: Final = 20
"""Reading takes less than a second, and Java gets faster for many turns: of the last half, the median counts."""

WARM_UP_ROWS: Final = 100_000
PARTS: Final = 4

COLUMNS: Final = {
    "id": "long", "customer": "long", "amount": "double", "region": "string", "ts": "timestamptz", "day": "int",
}  # fmt: skip


def spark_write(options: Options) -> list[Measurement]:
    """The rows as they come, appended to a table that is not partitioned; beside ``write.parquet``."""
    with _bench(options.rows) as bench:
        ours, theirs = _best(
            lambda rows: bench.append(bench.table(), rows), lambda rows: rows.write.parquet(bench.folder()), bench=bench
        )
    return [_compared("spark-write-10m", ours, theirs, peer_name="write.parquet", target=1 / 1.15, n=options.rows)]


def spark_write_partitioned(options: Options) -> list[Measurement]:
    """The rows brought together and written by one of 30 days; beside the same in Spark."""
    with _bench(options.rows) as bench:
        ours, theirs = _best(
            lambda rows: bench.append(bench.table(partition="day"), rows),
            lambda rows: rows.repartition("day").write.partitionBy("day").parquet(bench.folder()),
            bench=bench,
        )
    name = "spark-write-partitioned"
    return [_compared(name, ours, theirs, peer_name="repartition and partitionBy", target=1.0, n=options.rows)]


def spark_read_one_column(options: Options) -> list[Measurement]:
    """One column of six, summed; beside ``read.parquet`` of what Spark has written."""
    with _bench(options.rows) as bench:
        table, folder = bench.table(), bench.folder()
        bench.append(table, bench.rows())
        bench.rows().write.parquet(folder)
        turns = _turns(
            lambda _: _sum(bench.read(table, "amount")),
            lambda _: _sum(bench.spark.read.parquet(folder).select("amount")),
            bench=bench,
            repeats=READ_REPEATS,
        )
    ours, theirs = (statistics.median(times[READ_REPEATS // 2 :]) for times in turns)
    name, note = "spark-read-one-column", f"median of the last half of {READ_REPEATS}, in turns"
    return [_compared(name, ours, theirs, peer_name="read.parquet", target=1.0, n=options.rows, note=note)]


def spark_delete_dv(options: Options) -> list[Measurement]:
    """One row in a hundred deleted, all over the table: by deletion vectors, beside rewriting the files."""
    with _bench(options.rows) as bench:
        times: dict[str, list[float]] = {"merge-on-read": [], "copy-on-write": []}
        for turn in range(REPEATS + 1):  # the first is for warming up
            for mode, found in times.items():
                table = bench.table(version=3)
                bench.append(table, bench.rows(options.rows if turn else WARM_UP_ROWS))
                taken = _timed(lambda: bench.delete(table, "customer = 7", mode))  # noqa: B023 - called at once
                if turn:
                    found.append(taken)
    ours, theirs = (min(found) for found in times.values())
    return [_compared("spark-delete-dv", ours, theirs, peer_name="copy-on-write", target=5.0, n=options.rows // 100)]


class _Bench:
    """A session and a deployment, with new tables and folders at hand."""

    def __init__(self, spark: SparkSession, running: Deployment, *, rows: int) -> None:
        self.spark = spark
        self._running = running
        self._connection = Connection(redis=running.redis_url)
        self._rows = rows
        self._made = 0

    def rows(self, count: int | None = None) -> DataFrame:
        """The rows, which Spark makes up while they are written."""
        return self.spark.range(0, count or self._rows, numPartitions=PARTS).selectExpr(
            "id",
            "id % 100 AS customer",
            "CAST(id * 1.25 AS double) AS amount",
            "concat('region-', id % 17) AS region",
            "timestamp_micros(id * 1000003) AS ts",
            "CAST(id % 30 AS int) AS day",
        )

    def table(self, *, partition: str | None = None, version: int = 2) -> str:
        """A new table."""
        name = f"db.bench{self._number()}"
        ids = {column: at for at, column in enumerate(COLUMNS, 1)}
        fields = [{"id": ids[name], "name": name, "type": kind, "required": False} for name, kind in COLUMNS.items()]
        spec = [] if partition is None else [
            {"source-id": ids[partition], "field-id": 1000, "name": partition, "transform": "identity"}
        ]  # fmt: skip
        with self._running.client() as client:
            client.create_table(
                name,
                {"type": "struct", "fields": fields},
                partition_spec={"spec-id": 0, "fields": spec},
                format_version=version,
            ).committed(60)
        return name

    def folder(self) -> str:
        """A place for files of Spark's own."""
        return str(self._running.folder / f"parquet{self._number()}")

    def append(self, table: str, rows: DataFrame) -> None:
        """Append through firn."""
        committed(append(rows, table, connection=self._connection))

    def read(self, table: str, column: str) -> DataFrame:
        """One column, read through firn."""
        return read(self.spark, table, columns=[column], connection=self._connection)

    def delete(self, table: str, where: str, mode: Any) -> None:
        """Delete through firn."""
        answer = delete_where(self.spark, table, where, connection=self._connection, mode=mode)
        assert answer is not None
        committed(answer)

    def _number(self) -> int:
        self._made += 1
        return self._made


@contextmanager
def _bench(rows: int) -> Iterator[_Bench]:
    with deployment() as running:
        spark = _session(running.folder)
        try:
            yield _Bench(spark, running, rows=rows)
        finally:
            spark.stop()


def _session(folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.driver.memory": "3g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.warehouse.dir": str(folder / "spark"),
    }
    builder = SparkSession.builder.master("local[2]").appName("firn-bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _best(
    ours: Callable[[DataFrame], object], theirs: Callable[[DataFrame], object], *, bench: _Bench
) -> tuple[float, float]:
    """The best times of both (s)."""
    one, other = _turns(ours, theirs, bench=bench, repeats=REPEATS)
    return min(one), min(other)


def _turns(
    ours: Callable[[DataFrame], object], theirs: Callable[[DataFrame], object], *, bench: _Bench, repeats: int
) -> tuple[list[float], list[float]]:
    """The times of both (s), which take turns after a round with few rows."""
    small = bench.rows(WARM_UP_ROWS)
    for work in (ours, theirs):
        work(small)
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        rows = bench.rows()
        for times, work in zip(found, (ours, theirs), strict=True):
            times.append(_timed(lambda: work(rows)))  # noqa: B023 - called at once
    return found


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _sum(rows: DataFrame) -> float:
    return float(rows.groupBy().sum().collect()[0][0])


def _compared(
    name: str, ours: float, theirs: float, *, peer_name: str, target: float, n: int,
    note: str = f"best of {REPEATS}, in turns",
) -> Measurement:  # fmt: skip
    return measured(
        name, value=ours, unit="s", peer=theirs, peer_name=peer_name, target=float(f"{target:.3g}"), n=n, note=note
    )
