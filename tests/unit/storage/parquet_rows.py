"""Rows to Parquet files in memory, and back."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from firn.model.schema import Schema
from firn.storage.arrow_rows import batch_of_rows, rows_of_batch
from firn.storage.parquet_files import ParquetFileWriter, read_parquet


def written(rows, schema: Schema, **options):
    sink = io.BytesIO()
    writer = ParquetFileWriter(sink, schema, **options)
    writer.write(batch_of_rows(rows, schema))
    return writer.close(), sink.getvalue()


def read(data: bytes, schema: Schema, **options):
    batches = read_parquet(data, location="f.parquet", schema=schema, **options)
    return [row for batch in batches for row in rows_of_batch(batch, schema)]


def plain(table: pa.Table, **options) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()
