"""Spark at work on a table that others write, too: ``spark_racer.py <warehouse> <writer> <class path>``.

Its catalog is a Hadoop one, which commits with a rename. The class path has a file system whose rename overwrites
nothing, as that of HDFS (`NoOverwriteFileSystem.java`): what Hadoop's local one may overwrite nobody can keep.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.acceptance.race import Step, foreign_turns, ids_of
from tests.spark_session import start_spark

NAME = "wh.db.raced"
TRIES = 100
LOST = ("CommitFailedException", "ValidationException")


def main() -> None:
    """Append, and every third time delete some of what was appended: rows of files that stay."""
    warehouse, writer = Path(sys.argv[1]), int(sys.argv[2])
    spark = start_spark(
        warehouse,
        more={
            "spark.driver.extraClassPath": sys.argv[3],
            "spark.hadoop.fs.file.impl": "NoOverwriteFileSystem",
            "spark.sql.catalog.wh.cache-enabled": "false",
        },
    )
    spark.sql(f"SELECT count(*) FROM {NAME}").collect()
    held: list[int] = []
    for turn in foreign_turns():
        if turn % 3 == 2:
            gone, held = held[:3], held[3:]
            condition = f"writer = 'spark-{writer}' AND id IN ({', '.join(map(str, gone))})"
            _until_committed(spark, f"DELETE FROM {NAME} WHERE {condition}")
            _tell(spark, writer, deleted=tuple(gone))
        else:
            ids = ids_of(writer, turn)
            values = ", ".join(f"({i}, 'spark-{writer}')" for i in ids)
            _until_committed(spark, f"INSERT INTO {NAME} VALUES {values}")
            _tell(spark, writer, added=tuple(ids))
            held += ids
    spark.stop()


def _until_committed(spark: SparkSession, statement: str) -> None:
    for _ in range(TRIES):
        try:
            spark.sql(statement)
        except (PySparkException, Py4JJavaError) as error:
            if not any(name in str(error) for name in LOST):
                raise
        else:
            return
    raise SystemExit(f"lost {TRIES} times in a row: {statement}")


def _tell(spark: SparkSession, writer: int, **ids: tuple[int, ...]) -> None:
    """Spark does not say which snapshot it made: it is the newest of this application's."""
    mine = spark.sparkContext.applicationId
    query = f"SELECT snapshot_id FROM {NAME}.snapshots WHERE summary['spark.app.id'] = '{mine}'"
    (newest,) = spark.sql(f"{query} ORDER BY committed_at DESC, parent_id DESC LIMIT 1").collect()
    os.write(1, msgspec.json.encode(Step(snapshot_id=newest.snapshot_id, **ids)) + b"\n")


if __name__ == "__main__":
    main()
