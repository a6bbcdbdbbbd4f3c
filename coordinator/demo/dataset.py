"""The demo's table and its rows."""

from __future__ import annotations

import random
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from firn.coordinator.client import TableView
from firn.model.intent import ContentFile
from firn.model.transforms import Bucket
from firn.model.types import LONG
from firn.storage.parquet_schema import arrow_schema

TABLE: Final = "demo.orders"
DAYS: Final = 3
BUCKETS: Final = 16
CUSTOMERS: Final = 2_000
FIRST_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)
COUNTRIES: Final = ("FI", "SE", "NO", "DK", "IS", "EE", "LV", "LT")

SCHEMA: Final[dict[str, Any]] = {
    "type": "struct",
    "schema-id": 0,
    "identifier-field-ids": [1],
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "customer_id", "type": "long", "required": True},
        {"id": 3, "name": "ts", "type": "timestamptz", "required": True},
        {"id": 4, "name": "amount", "type": "decimal(12, 2)", "required": False},
        {"id": 5, "name": "country", "type": "string", "required": False},
        {"id": 6, "name": "score", "type": "double", "required": False},
        {"id": 7, "name": "paid", "type": "boolean", "required": False},
        {"id": 8, "name": "order_uuid", "type": "binary", "required": False},
        {"id": 9, "name": "note", "type": "string", "required": False},
    ],
}
SPEC: Final[dict[str, Any]] = {
    "spec-id": 0,
    "fields": [
        {"source-id": 3, "field-id": 1000, "name": "ts_day", "transform": "day"},
        {"source-id": 2, "field-id": 1001, "name": "customer_id_bucket", "transform": f"bucket[{BUCKETS}]"},
    ],
}


class FileStats(msgspec.Struct, frozen=True):
    """What the proof has to know of a data file: its rows, and the sum of their ids."""

    rows: int
    id_sum: int


def customers_by_bucket() -> list[list[int]]:
    """Customer ids that fall into each bucket of the partition spec."""
    bucket = Bucket(BUCKETS)
    buckets: list[list[int]] = [[] for _ in range(BUCKETS)]
    for customer in range(CUSTOMERS):
        number = bucket.apply(LONG, customer)
        assert number is not None
        buckets[number].append(customer)
    return buckets


def make_rows(view: TableView, *, first_id: int, count: int, customers: list[int], rng: random.Random) -> pa.Table:
    """`count` orders of one day by these customers, with ids from `first_id`."""
    start = FIRST_DAY + timedelta(days=rng.randrange(DAYS))
    columns = {
        "id": list(range(first_id, first_id + count)),
        "customer_id": rng.choices(customers, k=count),
        "ts": [start + timedelta(microseconds=rng.randrange(86_400_000_000)) for _ in range(count)],
        "amount": [Decimal(rng.randrange(100, 1_000_000)) / 100 for _ in range(count)],
        "country": rng.choices(COUNTRIES, k=count),
        "score": [None if rng.random() < 0.05 else rng.random() for _ in range(count)],
        "paid": [rng.random() < 0.9 for _ in range(count)],
        "order_uuid": [rng.randbytes(16) for _ in range(count)],
        "note": [f"order {n} " + "·" * rng.randrange(20) for n in range(count)],
    }
    return pa.table(columns, schema=arrow_schema(view.metadata.current_schema))


def write_file(view: TableView, rows: pa.Table, *, prefix: str) -> tuple[Path, FileStats]:
    """Write rows to a new Parquet file in the table's folder."""
    path = Path(view.metadata.location) / "data" / f"{prefix}-{uuid.uuid4().hex}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, compression="zstd")
    return path, stats_of(rows)


def stats_of(rows: pa.Table) -> FileStats:
    """Rows, and the sum of their ids."""
    return FileStats(rows.num_rows, sum(rows.column("id").to_pylist()))


def read_files(view: TableView, files: list[ContentFile]) -> pa.Table:
    """The rows of data files of this table."""
    schema = arrow_schema(view.metadata.current_schema)
    return pa.concat_tables(pq.read_table(file.file_path, schema=schema) for file in files)
