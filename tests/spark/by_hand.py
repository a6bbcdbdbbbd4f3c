"""Files that no Spark job wrote, made quickly: rows of a table of `COLUMNS`, and deletes as other engines make them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from firn.coordinator.client.intents import new_intent_id
from firn.model.content_file import content_file_of
from firn.model.datafile import DataFile
from firn.model.deletion_vector import DeletionVector
from firn.model.intent import ContentFile
from firn.model.outcome import Committed
from firn.model.partitioning import PartitionSpec
from firn.model.schema import Schema
from firn.model.types import StructType
from firn.pipeline.parquet_sink import ParquetSink
from firn.pipeline.write_target import WriteTarget
from firn.storage.data_files import NewFile
from firn.storage.equality_deletes import encode_equality_deletes
from firn.storage.manifest_reader import StoredManifests
from firn.storage.position_deletes import encode_position_deletes
from firn.storage.table_scan import plan_scan
from tests.spark.lake import Lake


def batch(first: int, stop: int) -> pa.RecordBatch:
    """The rows of `Lake.events`, without Spark."""
    ids = range(first, stop)
    return pa.record_batch(
        {
            "id": pa.array(ids, pa.int64()),
            "region": pa.array([("eu", "us", None)[i % 3] for i in ids], pa.string()),
            "ts": pa.array([i * 40_000_000_000 for i in ids], pa.int64()).cast(pa.timestamp("us", "UTC")),
            "amount": pa.array([Decimal(i * 25).scaleb(-2) for i in ids], pa.decimal128(9, 2)),
        }
    )


def written(lake: Lake, table: str, rows: pa.RecordBatch) -> list[ContentFile]:
    """One file for each partition, which nothing names yet."""
    target = WriteTarget.of(lake.view(table), run=new_intent_id(), files=lake.connection.files)
    with ParquetSink(target, name="00000-0") as sink:
        sink.write(rows)
        return sink.close()


def append_rows(lake: Lake, table: str, *parts: tuple[int, int]) -> None:
    """Append the rows of `batch` from each range, one commit a range."""
    for first, stop in parts:
        lake.client.append(table, written(lake, table, batch(first, stop))).committed(60)


def data_files(lake: Lake, table: str) -> list[DataFile]:
    """The live data files, by path."""
    plan = plan_scan(lake.view(table).metadata, files=StoredManifests(lake.connection.store()))
    return sorted((task.file for task in plan.tasks), key=lambda file: file.file_path)


def delete_files(lake: Lake, table: str) -> list[DataFile]:
    """The live delete files of the head, those that reach nothing among them."""
    metadata = lake.view(table).metadata
    head, stored = metadata.current_snapshot, StoredManifests(lake.connection.store())
    assert head is not None
    return [
        entry.data_file
        for manifest in stored.manifests(metadata, head)
        if manifest.content == "deletes"
        for entry in stored.entries(metadata, manifest)
        if entry.is_live
    ]


def delete_equal(
    lake: Lake,
    table: str,
    column: str,
    values: Iterable[Any],
    *,
    partition: tuple[Any, ...] = (),
    spec: PartitionSpec | None = None,
) -> Committed:
    """Commit an equality delete file for these values of a column, in the table's spec if no other is given."""
    view, name = lake.view(table), f"{uuid.uuid4()}-eq-deletes.parquet"
    new = NewFile(
        location=f"{view.location}/data/{name}",
        spec=view.spec if spec is None else spec,
        partition=partition,
    )
    field = view.schema.find_field(column)
    assert field is not None
    data, entry = encode_equality_deletes(
        [{field.field_id: value} for value in values],
        Schema(schema_id=0, struct=StructType((field,))),
        new,
        equality_ids=(field.field_id,),
    )
    return _commit(lake, table, data, entry)


def delete_positions(lake: Lake, table: str, positions: Mapping[str, Iterable[int]]) -> Committed:
    """Commit one file of positions for several data files of one partition."""
    view, name = lake.view(table), f"{uuid.uuid4()}-pos-deletes.parquet"
    live = {file.file_path: file for file in data_files(lake, table)}
    first = live[next(iter(positions))]
    spec = view.metadata.spec_by_id(first.spec_id)
    assert spec is not None
    new = NewFile(location=f"{view.location}/data/{name}", spec=spec, partition=first.partition)
    vectors = {path: DeletionVector.of(list(at)) for path, at in positions.items()}
    data, entry = encode_position_deletes(vectors, new)
    return _commit(lake, table, data, entry)


def _commit(lake: Lake, table: str, data: bytes, entry: DataFile) -> Committed:
    lake.connection.store().create(entry.file_path, data)
    view = lake.view(table)
    ticket = lake.client.row_delta(
        table,
        base_snapshot_id=view.snapshot_id,
        deletes=[content_file_of(entry, view.metadata)],
        isolation="snapshot",
    )
    return ticket.committed(60)
