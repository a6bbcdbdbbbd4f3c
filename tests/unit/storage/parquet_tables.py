"""Parquet files in memory, and what firn says of them."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.types import (
    NestedField,
    StructType,
)
from firn.storage.parquet_metrics import parquet_data_file

LOCATION = "s3://table/data/a.parquet"
UNPARTITIONED = PartitionSpec(spec_id=0)
FULL = {"write.metadata.metrics.default": "full"}


def field(field_id, name, type, *, required=False, default=None) -> NestedField:
    return NestedField(field_id=field_id, name=name, type=type, required=required, initial_default=default)


def schema_of(*fields) -> Schema:
    return Schema(schema_id=0, struct=StructType(fields))


def spec_of(*fields) -> PartitionSpec:
    return PartitionSpec(
        spec_id=3,
        fields=tuple(
            PartitionField(source_ids=(source,), field_id=1000 + i, name=f"p{i}", transform=transform)
            for i, (source, transform) in enumerate(fields)
        ),
    )


def parquet(table: pa.Table, **options) -> pq.ParquetFile:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return pq.ParquetFile(pa.BufferReader(sink.getvalue()))


def with_id(name, type, field_id, *, nullable=True) -> pa.Field:
    return pa.field(name, type, nullable=nullable, metadata={"PARQUET:field_id": str(field_id)})


def data_file(
    table: pa.Table, schema: Schema, *, properties=None, spec=UNPARTITIONED, partition=None, write=None, **more
):
    return parquet_data_file(
        parquet(table, **(write or {})).metadata,
        location=LOCATION,
        file_size=1234,
        schema=schema,
        spec=spec,
        partition=partition,
        properties=properties,
        **more,
    )
