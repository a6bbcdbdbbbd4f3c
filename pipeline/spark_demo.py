"""A Spark job to try: orders made up by Spark, appended through firn, read back and counted."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pyspark.sql.functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import DataFrame, SparkSession

from firn.coordinator.client.answers import committed
from firn.model.errors import NotFound
from firn.pipeline.connection import Connection
from firn.pipeline.reads import read
from firn.pipeline.writes import append

DEMO_TABLE: Final = "demo.spark_orders"
CREATE_TIMEOUT_S: Final = 60.0

_DAYS: Final = 30
_COUNTRIES: Final = ("FI", "SE", "NO", "DK", "IS", "EE", "LV", "LT")
_SCHEMA: Final[dict[str, Any]] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "customer_id", "type": "long", "required": True},
        {"id": 3, "name": "ts", "type": "timestamptz", "required": True},
        {"id": 4, "name": "country", "type": "string", "required": False},
        {"id": 5, "name": "amount", "type": "decimal(12, 2)", "required": False},
    ],
}
_SPEC: Final[dict[str, Any]] = {
    "spec-id": 0,
    "fields": [{"source-id": 3, "field-id": 1000, "name": "ts_day", "transform": "day"}],
}


class DemoDone(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What the job did: rows that it appended, and what the table has now."""

    table: str
    snapshot_id: int | None
    rows_appended: int
    rows_in_table: int
    amount_by_country: dict[str, str]


def require_demo_table(connection: Connection, table: str) -> None:
    """Make the table if it is not there."""
    client = connection.client()
    try:
        client.table(table)
    except NotFound:
        ticket = client.create_table(table, _SCHEMA, partition_spec=_SPEC)
        answer = ticket.result(CREATE_TIMEOUT_S)
        if getattr(answer, "rule", None) != "table-exists":
            committed(answer)


def demo_orders(spark: SparkSession, rows: int) -> DataFrame:
    """So many orders of thirty days, the same each time."""
    countries = F.array(*(F.lit(country) for country in _COUNTRIES))
    day_s = 86_400
    return spark.range(rows).select(
        "id",
        (F.col("id") * 7919 % 2_000).alias("customer_id"),
        F.timestamp_seconds(F.lit(1_767_225_600) + F.col("id") * 104_729 % (_DAYS * day_s)).alias("ts"),
        F.element_at(countries, (F.col("id") % len(_COUNTRIES) + 1).cast("int")).alias("country"),
        (F.col("id") % 1_000_000 / 100).cast("decimal(12, 2)").alias("amount"),
    )


def submit_demo(spark: SparkSession, connection: Connection, *, table: str, rows: int) -> DemoDone:
    """Append the orders as one intent, and read the table back. Raises RejectedError, UnknownOutcome."""
    done = committed(append(demo_orders(spark, rows), table, connection=connection))
    back = read(spark, table, snapshot_id=done.snapshot_id, connection=connection)
    grouped = back.groupBy("country").agg(F.count("*").alias("rows"), F.sum("amount").alias("amount"))
    counted = grouped.orderBy("country").collect()
    return DemoDone(
        table=table,
        snapshot_id=done.snapshot_id,
        rows_appended=rows,
        rows_in_table=sum(row["rows"] for row in counted),
        amount_by_country={row["country"]: str(row["amount"]) for row in counted},
    )
