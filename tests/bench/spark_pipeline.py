"""Ten million rows through firn's pipeline, beside Spark's own Parquet writer and reader.

Run by itself: ``python -m tests.bench.spark_pipeline`` (``FIRN_BENCH_ROWS`` for another number of rows).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, SparkSession

from firn.coordinator.client import Client
from firn.model.outcome import Committed
from firn.pipeline.connection import Connection
from firn.pipeline.reads import read
from firn.pipeline.row_level import delete_where
from firn.pipeline.writes import append
from tests.bench.deployment import deployment
from tests.bench.measurement import Measurement, measured
from tests.bench.options import Options

ROWS: Final = int(os.environ.get("FIRN_BENCH_ROWS", "10000000"))
REPEATS: Final = 3
"""The best of so many counts."""

COLUMNS: Final = {
    "id": "long", "customer": "long", "amount": "double", "region": "string", "ts": "timestamptz", "day": "int",
}  # fmt: skip


def spark_pipeline(_options: Options) -> list[Measurement]:
    """Writing, writing by partition, reading one column, and deleting 1 % in either mode."""
    with deployment() as running:
        spark = _session(running.folder)
        connection = Connection(redis=running.redis_url)
        try:
            bench = _Bench(spark, connection, running.folder)
            return [bench.write(), bench.write_by_partition(), bench.read_one_column(), bench.delete_rows()]
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


class _Bench:
    def __init__(self, spark: SparkSession, connection: Connection, folder: Path) -> None:
        self._spark = spark
        self._connection = connection
        self._folder = folder
        self._tables = 0

    def write(self) -> Measurement:
        """The same rows, as they come."""
        rows = self._rows()
        ours = _best(lambda: _committed(append(rows, self._table(), connection=self._connection)))
        theirs = _best(lambda: rows.write.parquet(self._new_folder()))
        return _compared("spark-write", ours, theirs, peer_name="write.parquet", target=0.87)

    def write_by_partition(self) -> Measurement:
        """The same rows, brought together and written by day."""
        rows = self._rows()
        table = lambda: self._table(partition="day")  # noqa: E731 - a new one for each run
        ours = _best(lambda: _committed(append(rows, table(), connection=self._connection)))
        theirs = _best(lambda: rows.repartition("day").write.partitionBy("day").parquet(self._new_folder()))
        return _compared("spark-write-partitioned", ours, theirs, peer_name="partitionBy", target=1.0)

    def read_one_column(self) -> Measurement:
        """One column of six, summed."""
        table, folder = self._table(), self._new_folder()
        _committed(append(self._rows(), table, connection=self._connection))
        self._rows().write.parquet(folder)
        ours = _best(lambda: _sum(read(self._spark, table, columns=["amount"], connection=self._connection)))
        theirs = _best(lambda: _sum(self._spark.read.parquet(folder).select("amount")))
        return _compared("spark-read-column", ours, theirs, peer_name="read.parquet", target=0.9)

    def delete_rows(self) -> Measurement:
        """One row in a hundred, all over the table: by deletion vectors, beside rewriting."""

        def delete(mode: Any) -> float:
            table = self._table(version=3)
            _committed(append(self._rows(), table, connection=self._connection))
            start = time.perf_counter()
            _committed(delete_where(self._spark, table, "customer = 7", connection=self._connection, mode=mode))
            return time.perf_counter() - start

        ours = min(delete("merge-on-read") for _ in range(REPEATS))
        theirs = min(delete("copy-on-write") for _ in range(REPEATS))
        return _compared("spark-delete-1-percent", ours, theirs, peer_name="copy-on-write", target=5.0)

    def _rows(self) -> DataFrame:
        return self._spark.range(0, ROWS, numPartitions=4).selectExpr(
            "id",
            "id % 100 AS customer",
            "CAST(id * 1.25 AS double) AS amount",
            "concat('region-', id % 17) AS region",
            "timestamp_micros(id * 1000003) AS ts",
            "CAST(id % 30 AS int) AS day",
        )

    def _table(self, *, partition: str | None = None, version: int = 2) -> str:
        self._tables += 1
        name = f"db.bench{self._tables}"
        ids = {column: at for at, column in enumerate(COLUMNS, 1)}
        fields = [{"id": ids[name], "name": name, "type": type_, "required": False} for name, type_ in COLUMNS.items()]
        spec = [] if partition is None else [
            {"source-id": ids[partition], "field-id": 1000, "name": partition, "transform": "identity"}
        ]  # fmt: skip
        with Client(self._connection.redis) as client:
            client.create_table(
                name,
                {"type": "struct", "fields": fields},
                partition_spec={"spec-id": 0, "fields": spec},
                format_version=version,
            ).committed(60)
        return name

    def _new_folder(self) -> str:
        self._tables += 1
        return str(self._folder / f"parquet{self._tables}")


def _best(work: Callable[[], object]) -> float:
    found = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def _sum(rows: DataFrame) -> float:
    return float(rows.groupBy().sum("amount").collect()[0][0])


def _committed(answer: Any) -> None:
    assert isinstance(answer, Committed), answer


def _compared(name: str, ours: float, theirs: float, *, peer_name: str, target: float) -> Measurement:
    return measured(
        name, value=ours, unit="s", peer=theirs, peer_name=peer_name, target=target, n=ROWS, note=f"best of {REPEATS}"
    )


if __name__ == "__main__":
    for one in spark_pipeline(Options()):
        print(msgspec.json.encode(one).decode())
