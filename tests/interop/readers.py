"""Every engine that reads tables, behind one call each: a table's rows as Arrow, whatever the engine makes of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pyarrow as pa
from datafusion import SessionContext
from pyiceberg.table import StaticTable
from pyiceberg_core.datafusion import IcebergDataFusionTable
from pyspark.sql import SparkSession
from pyspark.sql.functions import to_json
from pyspark.sql.types import VariantType

from firn.model.expressions.filter_text import filter_from_text
from firn.model.expressions.predicates import TRUE
from firn.model.metadata import TableMetadata
from firn.model.schema import Schema
from firn.storage.arrow_rows import Row
from firn.storage.local_files import LocalFiles
from firn.storage.manifest_reader import StoredManifests
from firn.storage.metadata_files import decode_metadata
from firn.storage.scan_rows import scan_rows
from firn.storage.table_scan import plan_scan

METADATA_BYTES_MAX: Final = 64 * 1024 * 1024
FILES: Final = LocalFiles()


def pyiceberg_rows(metadata_location: str, *, where: str | None = None, ref: str | None = None) -> pa.Table:
    table = StaticTable.from_metadata(metadata_location)
    snapshot_id = None
    if ref is not None:
        snapshot = table.snapshot_by_name(ref)
        assert snapshot is not None
        snapshot_id = snapshot.snapshot_id
    scan = table.scan(snapshot_id=snapshot_id)
    return (scan if where is None else scan.filter(where)).to_arrow()


@cache
def duckdb_connection() -> duckdb.DuckDBPyConnection:
    """One DuckDB with the extensions of its wheels, which never asks the network for others."""
    config: dict[str, Any] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "threads": "2",
    }
    connection = duckdb.connect(config=config)
    for package, name in ((duckdb_extension_avro, "avro"), (duckdb_extension_iceberg, "iceberg")):
        folder = Path(package.__file__).parent / "extensions" / f"v{duckdb.__version__}"
        connection.execute(f"LOAD '{folder / name}.duckdb_extension'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def duckdb_rows(metadata_location: str, *, where: str | None = None, snapshot_id: int | None = None) -> pa.Table:
    options = "" if snapshot_id is None else f", snapshot_from_id => {snapshot_id}"
    query = f"SELECT * FROM iceberg_scan('{metadata_location}'{options})"
    return duckdb_connection().execute(query + (f" WHERE {where}" if where else "")).to_arrow_table()


def rust_rows(metadata_location: str, *, where: str | None = None) -> pa.Table:
    context = SessionContext()
    context.register_table("t", IcebergDataFusionTable(["db", "t"], metadata_location, {}))
    return context.sql("SELECT * FROM t" + (f" WHERE {where}" if where else "")).to_arrow_table()


def spark_rows(
    spark: SparkSession, location: str, *, where: str | None = None, options: dict[str, Any] | None = None
) -> pa.Table:
    """By the table's folder, which for Spark's Iceberg is a table of its own: version hint, newest version."""
    rows = spark.read.format("iceberg").options(**(options or {})).load(location)
    for field in rows.schema.fields:
        if isinstance(field.dataType, VariantType):
            rows = rows.withColumn(field.name, to_json(field.name))
    return (rows.where(where) if where else rows).toArrow()


def firn_metadata(metadata_location: str) -> TableMetadata:
    data = FILES.read(metadata_location, bytes_max=METADATA_BYTES_MAX)
    return decode_metadata(data, location=metadata_location)


def firn_rows(
    metadata_location: str, *, where: str | None = None, ref: str | None = None, columns: list[str] | None = None
) -> tuple[list[Row], Schema]:
    """The rows that firn plans and reads itself, and their schema."""
    metadata = firn_metadata(metadata_location)
    plan = plan_scan(
        metadata,
        files=StoredManifests(FILES),
        filter=TRUE if where is None else filter_from_text(where),
        ref=ref,
        columns=columns,
    )
    return [row for part in scan_rows(plan, metadata, files=FILES) for row in part], plan.projection
