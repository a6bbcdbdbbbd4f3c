"""A streaming application as users run one: files that land in a folder go to a table of firn's, until it is killed."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from firn.pipeline.streams import stream_to


def main(table: str, landing: str, checkpoint: str, *settings: str) -> None:
    builder = SparkSession.builder.master("local[1]").appName("stream")
    for setting in settings:
        name, _, value = setting.partition("=")
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    rows = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(landing)
    write = rows.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query = write.foreachBatch(stream_to(table)).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
