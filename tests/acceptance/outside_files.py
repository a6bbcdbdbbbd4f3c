"""Files as a writer without firn's library makes them: Parquet with field ids, deletes, deletion vectors, statistics.

Each data file has rows of one `cat` and one `region` and a range of ids of its own, so that what a filter or a replaced
partition must take is known without reading the file.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

SCHEMA: Final[dict[str, Any]] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "cat", "type": "int", "required": True},
        {"id": 3, "name": "region", "type": "int", "required": True},
    ],
}
BY_CAT: Final[dict[str, Any]] = {
    "spec-id": 0,
    "fields": [{"source-id": 2, "field-id": 1000, "name": "cat", "transform": "identity"}],
}

_PUFFIN: Final = b"PFA1"
_VECTOR: Final = b"\xd1\xd3\x39\x64"


def _column(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, nullable=False, metadata={"PARQUET:field_id": str(field_id)})


_ROWS: Final = pa.schema(
    [_column("id", pa.int64(), 1), _column("cat", pa.int32(), 2), _column("region", pa.int32(), 3)]
)
_IDS: Final = pa.schema([_column("id", pa.int64(), 1)])
_POSITIONS: Final = pa.schema([_column("file_path", pa.string(), 2147483546), _column("pos", pa.int64(), 2147483545)])


@dataclass(frozen=True)
class OutsideFile:
    """A file that was written, and all that a checker has to know of it.

    `ids` are those of its rows, for equality deletes those that they delete. Deletes by position are `positions` of the
    rows of `target`. `member` is the file as an intent names it.
    """

    path: str
    kind: str
    """``data``, ``equality`` or ``positions``."""
    cat: int
    region: int
    ids: tuple[int, ...]
    spec_fields: tuple[str, ...]
    member: dict[str, Any] = field(compare=False)
    target: str | None = None
    positions: frozenset[int] = frozenset()

    def value(self, column: str) -> int:
        """The one value of a column that all rows share."""
        return self.cat if column == "cat" else self.region


@dataclass(frozen=True)
class Layout:
    """A partition spec: its id, and the columns that it partitions by."""

    spec_id: int
    columns: tuple[str, ...]

    def partition(self, *, cat: int, region: int) -> list[int]:
        """The partition of rows with these values."""
        return [cat if column == "cat" else region for column in self.columns]


def data_file(path: Path, layout: Layout, *, cat: int, region: int, ids: Sequence[int]) -> OutsideFile:
    """Write a data file with these ids."""
    rows = {"id": ids, "cat": [cat] * len(ids), "region": [region] * len(ids)}
    _write(path, pa.table(rows, schema=_ROWS))
    member = {
        **_member(path, layout, len(ids), cat=cat, region=region),
        "value-counts": {"keys": [1, 2, 3], "values": [len(ids)] * 3},
        "null-value-counts": {"keys": [1, 2, 3], "values": [0] * 3},
        "lower-bounds": {"keys": [1, 2, 3], "values": [_long(min(ids)), _int(cat), _int(region)]},
        "upper-bounds": {"keys": [1, 2, 3], "values": [_long(max(ids)), _int(cat), _int(region)]},
    }
    return OutsideFile(
        path=str(path), kind="data", cat=cat, region=region, ids=tuple(ids), spec_fields=layout.columns, member=member
    )


def equality_deletes(path: Path, layout: Layout, *, cat: int, region: int, ids: Sequence[int]) -> OutsideFile:
    """Write equality deletes of these ids."""
    _write(path, pa.table({"id": ids}, schema=_IDS))
    member = {
        **_member(path, layout, len(ids), cat=cat, region=region),
        "content": "equality-deletes",
        "equality-ids": [1],
        "lower-bounds": {"keys": [1], "values": [_long(min(ids))]},
        "upper-bounds": {"keys": [1], "values": [_long(max(ids))]},
    }
    return OutsideFile(
        path=str(path), kind="equality", cat=cat, region=region, ids=tuple(ids), spec_fields=layout.columns,
        member=member,
    )  # fmt: skip


def position_deletes(path: Path, of: OutsideFile, positions: Iterable[int]) -> OutsideFile:
    """Write a position delete file of format v2 for one data file."""
    ordered = sorted(positions)
    _write(path, pa.table({"file_path": [of.path] * len(ordered), "pos": ordered}, schema=_POSITIONS))
    member = {
        "content": "position-deletes",
        "file-path": str(path),
        "file-format": "parquet",
        "spec-id": of.member["spec-id"],
        "partition": of.member["partition"],
        "record-count": len(ordered),
        "file-size-in-bytes": path.stat().st_size,
        "referenced-data-file": of.path,
    }
    return _deletes(path, of, ordered, member)


def deletion_vector(path: Path, of: OutsideFile, positions: Iterable[int]) -> OutsideFile:
    """Write a deletion vector of format v3 for one data file."""
    ordered = sorted(positions)
    body = _VECTOR + struct.pack("<Q", 1) + struct.pack("<I", 0) + BitMap(ordered).serialize()
    blob = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    about = {
        "type": "deletion-vector-v1",
        "fields": [2147483645],
        "snapshot-id": -1,
        "sequence-number": -1,
        "properties": {"referenced-data-file": of.path, "cardinality": str(len(ordered))},
    }
    size = puffin(path, blob, about)
    member = {
        "content": "position-deletes",
        "file-path": str(path),
        "file-format": "puffin",
        "spec-id": of.member["spec-id"],
        "partition": of.member["partition"],
        "record-count": len(ordered),
        "file-size-in-bytes": size,
        "referenced-data-file": of.path,
        "content-offset": len(_PUFFIN),
        "content-size-in-bytes": len(blob),
    }
    return _deletes(path, of, ordered, member)


def statistics(path: Path, *, snapshot_id: int, sequence_number: int) -> dict[str, Any]:
    """Write a statistics file of a snapshot; the member that names it in ``set-statistics``."""
    about = {
        "type": "outside-note-v1",
        "fields": [1],
        "snapshot-id": snapshot_id,
        "sequence-number": sequence_number,
    }
    blob = b"a note of somebody else"
    size = puffin(path, blob, about)
    footer = size - len(_PUFFIN) - len(blob)
    return {
        "snapshot-id": snapshot_id,
        "statistics-path": str(path),
        "file-size-in-bytes": size,
        "file-footer-size-in-bytes": footer,
        "blob-metadata": [about],
    }


def partition_statistics(path: Path, *, snapshot_id: int) -> dict[str, Any]:
    """Write a file of partition statistics; the member that names it in ``set-partition-statistics``."""
    row = {"partition": {"cat": 0}, "spec_id": 0, "data_record_count": 1, "data_file_count": 1}
    _write(path, pa.Table.from_pylist([row]))
    return {
        "snapshot-id": snapshot_id,
        "statistics-path": str(path),
        "file-size-in-bytes": path.stat().st_size,
    }


def manifest_copy(listed: dict[str, Any], path: Path) -> dict[str, Any]:
    """Write the live files of a manifest into another one; the member that names it in ``rewrite-manifests``."""
    with Path(listed["manifest_path"]).open("rb") as file:
        reader = fastavro.reader(file)
        schema: Any = reader.writer_schema
        about = reader.metadata
        found: list[Any] = list(reader)
    records = [record for record in found if record["status"] in (0, 1)]
    next_row_id = listed.get("first_row_id")
    for record in records:
        inherited = {"snapshot_id": "added_snapshot_id", "sequence_number": "sequence_number"}
        for name, of_list in (*inherited.items(), ("file_sequence_number", "sequence_number")):
            record[name] = listed[of_list] if record[name] is None else record[name]
        file = record["data_file"]
        if next_row_id is not None and file["content"] == 0 and file.get("first_row_id") is None:
            file["first_row_id"], next_row_id = next_row_id, next_row_id + file["record_count"]
        record["status"] = 0
    with path.open("wb") as out:
        kept = {name: value for name, value in about.items() if not name.startswith(("avro.", "firn."))}
        fastavro.writer(out, schema, records, codec="deflate", metadata=kept)
    written = {
        "manifest-path": str(path),
        "manifest-length": path.stat().st_size,
        "partition-spec-id": listed["partition_spec_id"],
        "files-count": len(records),
        "rows-count": sum(record["data_file"]["record_count"] for record in records),
    }
    return {**written, "content": "deletes"} if listed["content"] else written


def puffin(path: Path, blob: bytes, about: dict[str, Any]) -> int:
    """Write a Puffin file with one blob; its size."""
    footer = {"blobs": [{**about, "offset": len(_PUFFIN), "length": len(blob)}], "properties": {}}
    payload = json.dumps(footer).encode()
    tail = struct.pack("<iI", len(payload), 0) + _PUFFIN
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.write_bytes(_PUFFIN + blob + _PUFFIN + payload + tail)


def vector_positions(blob: bytes) -> frozenset[int]:
    """The positions in a deletion vector's blob; raises ValueError for one that is damaged."""
    (length,) = struct.unpack(">I", blob[:4])
    body, (crc,) = blob[4 : 4 + length], struct.unpack(">I", blob[4 + length : 8 + length])
    if body[:4] != _VECTOR or zlib.crc32(body) != crc or len(blob) != length + 8:
        raise ValueError("a deletion vector is damaged")
    (count,) = struct.unpack("<Q", body[4:12])
    if count == 0:
        return frozenset()
    (key,) = struct.unpack("<I", body[12:16])
    if count != 1 or key != 0:
        raise ValueError("the files of this programme have few rows")
    return frozenset(BitMap.deserialize(body[16:]))


def _deletes(path: Path, of: OutsideFile, positions: Sequence[int], member: dict[str, Any]) -> OutsideFile:
    return OutsideFile(
        path=str(path), kind="positions", cat=of.cat, region=of.region, ids=(), spec_fields=of.spec_fields,
        member=member, target=of.path, positions=frozenset(positions),
    )  # fmt: skip


def _member(path: Path, layout: Layout, count: int, *, cat: int, region: int) -> dict[str, Any]:
    return {
        "file-path": str(path),
        "file-format": "parquet",
        "spec-id": layout.spec_id,
        "partition": layout.partition(cat=cat, region=region),
        "record-count": count,
        "file-size-in-bytes": path.stat().st_size,
    }


def _write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def _long(value: int) -> str:
    return struct.pack("<q", value).hex()


def _int(value: int) -> str:
    return struct.pack("<i", value).hex()
