"""How many distinct values columns have: theta sketches in a Puffin file, attached to a snapshot.

Spark reads the columns; every task makes a sketch of each, and the driver unites them. The bytes are those that
Iceberg's own Spark action makes, where a task meets the same rows in the same order; up to 4096 distinct values they
are the same in any order.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, IntegerType, StructField
from pyspark.sql.types import StructType as SparkStruct

from firn.coordinator.client.answers import Answer
from firn.coordinator.client.intents import new_intent_id
from firn.coordinator.client.table_view import TableView
from firn.model.errors import InvalidInput, NotFound
from firn.model.metadata import TableMetadata
from firn.model.operations.upkeep import SetStatistics
from firn.model.outcome import Rejected
from firn.model.puffin import PuffinMetadata
from firn.model.schema import Schema
from firn.model.snapshot import Snapshot
from firn.model.table_properties import METADATA_PATH
from firn.model.types import NestedField, Type
from firn.pipeline.alpha_sketch import AlphaSketch
from firn.pipeline.column_names import quoted
from firn.pipeline.connection import Connection
from firn.pipeline.file_removal import remove_files
from firn.pipeline.reads import read
from firn.pipeline.value_hashes import has_hashes, hashes_of
from firn.storage.puffin import Blob, encode_puffin
from firn.storage.theta import ThetaSketch, sketch_blob, sketch_from_bytes

PURPOSE: Final = "statistics"
CREATED_BY: Final = {"created-by": "firn"}

_FOUND: Final = SparkStruct([StructField("column", IntegerType()), StructField("sketch", BinaryType())])


class DistinctValues(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to the intent, and the estimates by column name; without a snapshot there is no answer."""

    answer: Answer | None
    estimates: dict[str, int] = {}
    location: str | None = None


def compute_statistics(
    spark: SparkSession,
    table: str,
    *,
    columns: Sequence[str] = (),
    snapshot_id: int | None = None,
    connection: Connection | None = None,
) -> DistinctValues:
    """Count the distinct values of columns in a snapshot (default: the head of ``main``), and attach the statistics.

    `columns` are dotted names; without any, all columns at the top whose values have a binary form. Nulls do not count.
    Raises NotFound for a snapshot or column that is not there, InvalidInput for a column that cannot be counted.
    """
    connection = Connection.of_spark(spark) if connection is None else connection
    view = connection.table(table)
    snapshot = _snapshot(view.metadata, snapshot_id)
    if snapshot is None:
        return DistinctValues(answer=None)
    fields = _fields(view.metadata, snapshot, columns)
    with connection.client().keeping(table, snapshot.snapshot_id, purpose=PURPOSE):
        sketches = _sketches(spark, view, snapshot, fields, connection)
    blobs = [
        sketch_blob(
            sketch,
            field_id=field.field_id,
            snapshot_id=snapshot.snapshot_id,
            sequence_number=snapshot.sequence_number,
        )
        for field, sketch in zip(fields.values(), sketches, strict=True)
    ]
    return _attached(connection, view, snapshot, dict(zip(fields, blobs, strict=True)))


def _snapshot(metadata: TableMetadata, snapshot_id: int | None) -> Snapshot | None:
    if snapshot_id is None:
        return metadata.current_snapshot
    found = metadata.snapshot_by_id(snapshot_id)
    if found is None:
        raise NotFound(f"snapshot {snapshot_id} does not exist")
    return found


def _schema(metadata: TableMetadata, snapshot: Snapshot) -> Schema:
    known: dict[int, Schema] = {one.schema_id: one for one in metadata.schemas}
    return metadata.current_schema if snapshot.schema_id is None else known[snapshot.schema_id]


def _fields(metadata: TableMetadata, snapshot: Snapshot, columns: Sequence[str]) -> dict[str, NestedField]:
    """The columns by name, in the schema of the snapshot."""
    schema = _schema(metadata, snapshot)
    if not columns:
        return {field.name: field for field in schema.fields if has_hashes(field.type)}
    found = {}
    for name in columns:
        field = schema.find_field(name)
        if field is None:
            raise NotFound(f"there is no column {name!r}")
        if not has_hashes(field.type):
            raise InvalidInput(f"values of type {field.type} cannot be counted", where=name)
        found[name] = field
    return found


def _sketches(
    spark: SparkSession,
    view: TableView,
    snapshot: Snapshot,
    fields: dict[str, NestedField],
    connection: Connection,
) -> list[ThetaSketch]:
    if not fields:
        return []
    rows = read(spark, view, columns=list(fields), snapshot_id=snapshot.snapshot_id, connection=connection)
    # Nested columns come inside of their structs.
    schema = _schema(view.metadata, snapshot)
    paths = [quoted(*schema.path(field.field_id)) for field in fields.values()]
    flat = rows.selectExpr(*(f"{path} AS c{at}" for at, path in enumerate(paths)))
    parts: list[list[ThetaSketch]] = [[] for _ in fields]
    counting = _Counting([field.type for field in fields.values()])
    for at, sketch in flat.mapInArrow(counting, _FOUND).toLocalIterator():
        parts[at].append(sketch_from_bytes(bytes(sketch), location=f"a task's sketch of column {at}"))
    return [ThetaSketch().union(*found) for found in parts]


class _Counting(msgspec.Struct, frozen=True):
    """What a task does: one sketch for each column of its rows."""

    types: list[Type]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sketches = [AlphaSketch() for _ in self.types]
        for batch in batches:
            for sketch, column, type_ in zip(sketches, batch.columns, self.types, strict=True):
                sketch.update(hashes_of(column, type_))
        yield pa.record_batch(
            [pa.array(range(len(sketches)), pa.int32()), pa.array([one.compact().to_bytes() for one in sketches])],
            names=_FOUND.fieldNames(),
        )


def _attached(connection: Connection, view: TableView, snapshot: Snapshot, blobs: dict[str, Blob]) -> DistinctValues:
    data, puffin = encode_puffin(blobs.values(), properties=CREATED_BY)
    metadata = view.metadata
    folder = (METADATA_PATH.of(metadata.properties) or f"{metadata.location.rstrip('/')}/metadata").rstrip("/")
    location = f"{folder}/{snapshot.snapshot_id}-{uuid.uuid4()}.stats"
    store = connection.store()
    store.create(location, data)
    intent = SetStatistics(
        intent_id=new_intent_id(),
        table=view.name,
        table_uuid=view.uuid,
        statistics=_statistics_file(location, data, puffin, snapshot),
        priority="maintenance",
    )
    answer = connection.client().submit(intent).result(connection.timeout_s)
    if isinstance(answer, Rejected):
        remove_files(store, [location])
    estimates = {name: int(blob.properties["ndv"]) for name, blob in blobs.items()}
    return DistinctValues(answer=answer, estimates=estimates, location=location)


def _statistics_file(location: str, data: bytes, puffin: PuffinMetadata, snapshot: Snapshot) -> dict[str, object]:
    """The REST ``StatisticsFile`` of a Puffin file."""
    footer_start = max((blob.end for blob in puffin.blobs), default=4)
    return {
        "snapshot-id": snapshot.snapshot_id,
        "statistics-path": location,
        "file-size-in-bytes": len(data),
        "file-footer-size-in-bytes": len(data) - footer_start,
        "blob-metadata": [
            {
                "type": blob.type,
                "snapshot-id": blob.snapshot_id,
                "sequence-number": blob.sequence_number,
                "fields": list(blob.fields),
                "properties": dict(blob.properties),
            }
            for blob in puffin.blobs
        ],
    }
