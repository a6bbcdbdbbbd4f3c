"""Statistics files of tables, written as engines write them, and what an intent says of them."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from firn.model.puffin import THETA_SKETCH
from firn.storage.files import FileStore
from firn.storage.puffin import Blob, encode_puffin

COLUMNS = pa.table({
    "partition": pa.array([{"region": "eu"}], pa.struct([("region", pa.string())])),
    "spec_id": pa.array([0], pa.int32()),
    "data_record_count": pa.array([10], pa.int64()),
    "data_file_count": pa.array([1], pa.int32()),
})  # fmt: skip
PARTITION = {"type": "record", "name": "p", "fields": [{"name": "region", "type": "string"}]}
AVRO_TYPES: dict[str, Any] = {
    "partition": PARTITION, "spec_id": "int", "data_record_count": "long", "data_file_count": "int",
}  # fmt: skip


def sketch(snapshot_id: int, *, column: int = 1, ndv: int = 3) -> Blob:
    """A blob of distinct values of one column; its content is not looked at."""
    return Blob(
        type=THETA_SKETCH, fields=(column,), data=b"sketch", snapshot_id=snapshot_id, sequence_number=1,
        properties={"ndv": str(ndv)},
    )  # fmt: skip


def write_statistics(files: FileStore, path: str, snapshot_id: int, *blobs: Blob) -> dict[str, Any]:
    """Write a Puffin file, and return the members by which an intent attaches it."""
    data, puffin = encode_puffin(blobs or [sketch(snapshot_id)])
    files.create(path, data)
    footer_start = max((blob.end for blob in puffin.blobs), default=4)
    return {
        "snapshot-id": snapshot_id, "statistics-path": path, "file-size-in-bytes": len(data),
        "file-footer-size-in-bytes": len(data) - footer_start,
        "blob-metadata": [
            {
                "type": blob.type, "snapshot-id": blob.snapshot_id, "sequence-number": blob.sequence_number,
                "fields": list(blob.fields), "properties": blob.properties,
            }
            for blob in puffin.blobs
        ],
    }  # fmt: skip


def write_partition_statistics(
    files: FileStore, path: str, snapshot_id: int, *, kind: str = "parquet", **options: Any
) -> dict[str, Any]:
    """Write partition statistics in a format, and return the members by which an intent attaches them."""
    data = partition_statistics(kind, **options)
    files.create(path, data)
    return {"snapshot-id": snapshot_id, "statistics-path": path, "file-size-in-bytes": len(data)}


def partition_statistics(kind: str, *, without: str | None = None, **options: Any) -> bytes:
    """The bytes of partition statistics, `without` one of their columns."""
    sink = io.BytesIO()
    table = COLUMNS if without is None else COLUMNS.drop_columns([without])
    match kind:
        case "parquet":
            pq.write_table(table, sink, **options)
        case "orc":
            orc.write_table(table, sink, **options)
        case "avro":
            fields = [{"name": name, "type": AVRO_TYPES[name]} for name in table.column_names]
            schema = {"type": "record", "name": "statistics", "fields": fields}
            fastavro.writer(sink, schema, table.to_pylist(), **options)
    return sink.getvalue()
