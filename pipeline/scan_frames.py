"""The rows of a planned scan as one DataFrame, whichever way its files are read."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from firn.model.metadata import TableMetadata
from firn.model.scan_plan import FileScanTask
from firn.model.schema import Schema
from firn.pipeline.connection import Connection
from firn.pipeline.firn_scan import firn_frame
from firn.pipeline.native_scan import native_frame
from firn.pipeline.scan_ways import ways_of
from firn.pipeline.spark_types import spark_schema
from firn.pipeline.user_columns import CASE_SENSITIVE, require_distinct


def scan_frame(
    spark: SparkSession,
    tasks: Sequence[FileScanTask],
    *,
    metadata: TableMetadata,
    projection: Schema,
    connection: Connection,
) -> DataFrame:
    """The live rows of these tasks' files in the columns of `projection`, metadata columns among them if asked for.

    No filter is applied. The frame may be evaluated as long as the files are there. Raises Unsupported for columns
    that Spark cannot tell apart (`require_distinct`).
    """
    require_distinct(projection, case_sensitive=spark.conf.get(CASE_SENSITIVE, "false") == "true")
    ways = ways_of(tasks, metadata=metadata, projection=projection, files=connection.store())
    frames = []
    if ways.native:
        frames.append(native_frame(spark, ways.native, metadata=metadata, projection=projection, connection=connection))
    if ways.through_firn:
        frames.append(
            firn_frame(spark, ways.through_firn, metadata=metadata, projection=projection, connection=connection)
        )
    if not frames:
        return spark.createDataFrame([], spark_schema(projection))
    return functools.reduce(DataFrame.unionAll, frames)
