"""A table on disk for tests of the sink: its target, and what firn reads back."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from firn.coordinator.client import TableView
from firn.model.content_file import bind_content_file
from firn.model.datafile import DataFile
from firn.model.intent import ContentFile
from firn.model.metadata import TableMetadata
from firn.model.metadata_create import new_table_metadata
from firn.model.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from firn.model.schema import Schema, assign_fresh_ids
from firn.model.sorting import UNSORTED, SortOrder
from firn.model.types import NestedField, StructType, Type
from firn.pipeline.parquet_sink import ParquetSink
from firn.pipeline.write_target import WriteTarget
from firn.storage.arrow_rows import Row, rows_of_batch
from firn.storage.parquet_files import read_parquet

RUN = "0192f0c1-0000-7000-8000-000000000000"


def schema_of(**types: Type) -> Schema:
    fields = tuple(
        NestedField(field_id=i, name=name, type=type, required=False) for i, (name, type) in enumerate(types.items(), 1)
    )
    return assign_fresh_ids(Schema(schema_id=0, struct=StructType(fields)))[0]


def spec_of(*fields: tuple[int, str]) -> PartitionSpec:
    return PartitionSpec(
        spec_id=0,
        fields=tuple(
            PartitionField(source_ids=(source,), field_id=1000 + at, name=f"p{at}", transform=transform)
            for at, (source, transform) in enumerate(fields)
        ),
    )


def target(
    folder: Path,
    schema: Schema,
    spec: PartitionSpec = UNPARTITIONED,
    order: SortOrder = UNSORTED,
    *,
    lineage: bool = False,
    properties: Mapping[str, str] | None = None,
) -> WriteTarget:
    metadata = new_table_metadata(
        schema,
        spec,
        order,
        location=str(folder / "table"),
        table_uuid=str(uuid.uuid4()),
        now_ms=1_700_000_000_000,
        properties=properties,
        format_version=3,
    )
    view = TableView(name="db.t", metadata_location="", metadata=metadata)
    return WriteTarget.of(view, run=RUN, files={"file": {}}, lineage=lineage)


def written(one: WriteTarget, *batches: pa.RecordBatch, open_files_max: int = 100) -> list[ContentFile]:
    return written_all(one, batches, open_files_max=open_files_max)


def written_all(one: WriteTarget, batches: Iterable[pa.RecordBatch], *, open_files_max: int = 1) -> list[ContentFile]:
    with ParquetSink(one, name="00000-0", open_files_max=open_files_max) as sink:
        sink.write_all(batches)
        return sink.close()


def bound(file: ContentFile, metadata: TableMetadata) -> DataFile:
    return bind_content_file(file, metadata, where="file")


def rows(file: ContentFile, schema: Schema) -> list[Row]:
    data = Path(file.file_path).read_bytes()
    assert len(data) == file.file_size_in_bytes
    return [
        row
        for batch in read_parquet(data, location=file.file_path, schema=schema)
        for row in rows_of_batch(batch, schema)
    ]
