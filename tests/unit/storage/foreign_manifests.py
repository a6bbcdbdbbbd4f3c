"""Manifests as other writers lay them out: partition values in other units and types than firn writes, some of them no
values of their field's type.
"""

from __future__ import annotations

import io
import json
import uuid
from decimal import Decimal
from typing import Any, NamedTuple

import fastavro

from firn.model.foreign_value import ForeignValue
from firn.model.manifest import Status
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    FixedType,
    NestedField,
    StructType,
    Type,
)
from firn.storage.avro import compress, write_avro
from firn.storage.manifest_schema import manifest_schema
from firn.storage.manifests import EncodedManifest, manifest_header
from tests.strategies.manifests import added
from tests.unit.storage.manifest_writing import encode, replace

FOLDER = "s3://b/t/"

MILLIS = 1_735_689_600_000
ID = uuid.UUID(int=2**127 + 5)
DEC = DecimalType(7, 3)


def long(logical: str, **more: Any) -> dict[str, Any]:
    return {"type": "long", "logicalType": logical, **more}


def fixed(size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": f"fx{size}", "size": size, **more}


def decimal(size: int, precision: int, scale: int) -> dict[str, Any]:
    return fixed(size, logicalType="decimal", precision=precision, scale=scale)


def number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "big", signed=True)


class Case(NamedTuple):
    """A partition field of `type`, what a writer declared it as, what it stored, and which value that is."""

    type: Type
    written: Any
    stored: Any
    value: Any
    transform: str = "identity"
    gone: bool = False


GOOD = {
    "timestamp in milliseconds": Case(TIMESTAMP, long("timestamp-millis"), MILLIS, MILLIS * 1000),
    "timestamp in local milliseconds": Case(TIMESTAMP, long("local-timestamp-millis"), MILLIS, MILLIS * 1000),
    "timestamp in local microseconds": Case(TIMESTAMP, long("local-timestamp-micros"), MILLIS, MILLIS),
    "timestamp in local nanoseconds": Case(TIMESTAMP, long("local-timestamp-nanos"), MILLIS * 1000, MILLIS),
    "timestamp in nanoseconds": Case(TIMESTAMP, long("timestamp-nanos"), -MILLIS * 1000, -MILLIS),
    "timestamp beyond 64 bits": Case(TIMESTAMP, long("timestamp-millis"), 2**62, 2**63 - 1),
    "timestamp without a unit": Case(TIMESTAMP, "long", MILLIS, MILLIS),
    "timestamptz in milliseconds": Case(TIMESTAMPTZ, long("timestamp-millis"), -1, -1000),
    "timestamp_ns in microseconds": Case(TIMESTAMP_NS, long("timestamp-micros"), 7, 7000),
    "timestamp_ns in milliseconds": Case(TIMESTAMP_NS, long("timestamp-millis"), 7, 7_000_000),
    "timestamp_ns of a date": Case(TIMESTAMP_NS, {"type": "int", "logicalType": "date"}, 2, 2 * 86_400 * 10**9),
    "timestamp of a date": Case(TIMESTAMP, {"type": "int", "logicalType": "date"}, -1, -86_400 * 10**6),
    "time in milliseconds": Case(TIME, {"type": "int", "logicalType": "time-millis"}, 86_399_999, 86_399_999_000),
    "time in nanoseconds": Case(TIME, long("time-nanos"), 5_000, 5),
    "time as it is": Case(TIME, long("time-micros"), 5, 5),
    "date as a plain int": Case(DATE, "int", 19_000, 19_000),
    "date in milliseconds": Case(DATE, long("timestamp-millis"), -1, -1),
    "int as long": Case(INT, "long", -5, -5),
    "long as int": Case(LONG, "int", 5, 5),
    "float as double": Case(FLOAT, "double", 0.5, 0.5),
    "double as float": Case(DOUBLE, "float", 0.5, 0.5),
    "decimal of another scale": Case(DEC, decimal(4, 7, 1), number(15, 4), Decimal("1.500")),
    "decimal of a larger scale": Case(DEC, decimal(8, 12, 5), number(150_000, 8), Decimal("1.500")),
    "decimal of another precision": Case(DEC, decimal(9, 20, 3), number(1500, 9), Decimal("1.500")),
    "decimal as bytes": Case(
        DEC, {"type": "bytes", "logicalType": "decimal", "precision": 7, "scale": 3}, b"\x05\xdc", Decimal("1.500")
    ),
    "decimal without its annotation": Case(DEC, fixed(4), number(-1500, 4), Decimal("-1.500")),
    "uuid as text": Case(UUID, {"type": "string", "logicalType": "uuid"}, str(ID).upper(), ID),
    "uuid as plain text": Case(UUID, "string", str(ID), ID),
    "uuid as bytes": Case(UUID, "bytes", ID.bytes, ID),
    "uuid without its annotation": Case(UUID, fixed(16), ID.bytes, ID),
    "fixed as bytes": Case(FixedType(4), "bytes", b"abcd", b"abcd"),
    "binary as fixed": Case(BINARY, fixed(3), b"abc", b"abc"),
    "text as bytes": Case(STRING, "bytes", "ä".encode(), "ä"),
}
"""Values of their type, declared otherwise."""

BAD = {
    "decimal of more digits": Case(DEC, decimal(4, 7, 3), number(-10_000_000, 4), Decimal("-10000.000")),
    "decimal of more bytes": Case(DEC, decimal(6, 7, 3), number(10**12, 6), Decimal("1000000000.000")),
    "decimal of more places": Case(DEC, decimal(5, 9, 5), number(123_456, 5), Decimal("1.23456")),
    "decimal of 40 digits": Case(DEC, "bytes", number(10**40, 17), ForeignValue(BINARY, number(10**40, 17))),
    "time at midnight": Case(TIME, long("time-micros"), 86_400_000_000, 86_400_000_000),
    "time before the day": Case(TIME, long("time-micros"), -1, -1),
    "int past its width": Case(INT, "long", 2**40, 2**40),
    "date past its width": Case(DATE, "long", -(2**40), -(2**40)),
    "double in a float": Case(FLOAT, "double", 0.1, 0.1),
    "double beyond floats": Case(FLOAT, "double", 1e300, 1e300),
    "shorter fixed": Case(FixedType(4), fixed(3), b"abc", b"abc"),
    "longer fixed": Case(FixedType(4), "bytes", b"abcde", b"abcde"),
    "uuid of three bytes": Case(UUID, "bytes", b"abc", ForeignValue(BINARY, b"abc")),
    "uuid of three fixed bytes": Case(UUID, fixed(3), b"abc", ForeignValue(FixedType(3), b"abc")),
    "uuid that is no text of one": Case(UUID, "string", "nobody", ForeignValue(STRING, "nobody")),
    "text that is no UTF-8": Case(STRING, "string", b"caf\xe9", ForeignValue(STRING, b"caf\xe9")),
    "text of half a character": Case(STRING, "string", b"x\xf0\x9f\x98", ForeignValue(STRING, b"x\xf0\x9f\x98")),
    "bytes that are no text": Case(STRING, "bytes", b"caf\xe9", ForeignValue(BINARY, b"caf\xe9")),
    "text in a long": Case(LONG, "string", "x", ForeignValue(STRING, "x")),
    "flag in a text": Case(STRING, "boolean", True, ForeignValue(BOOLEAN, True)),
}
"""Values that are none of their field's type."""

OPEN = {
    f"{why} {name}": Case(type, written, stored, ForeignValue(kind, value), transform, gone)
    for why, type, transform, gone in (
        ("column that is gone:", LONG, "identity", True),
        ("unknown transform:", LONG, "zorder[4]", False),
    )
    for name, written, stored, kind, value in (
        ("int", "int", 7, INT, 7),
        ("long", "long", 2**40, LONG, 2**40),
        ("date", {"type": "int", "logicalType": "date"}, 7, DATE, 7),
        ("timestamp", long("timestamp-micros", **{"adjust-to-utc": False}), 7, TIMESTAMP, 7),
        ("timestamptz", long("timestamp-micros", **{"adjust-to-utc": True}), 7, TIMESTAMPTZ, 7),
        ("milliseconds", long("timestamp-millis"), 7, TIMESTAMP, 7000),
        ("double", "double", 0.1, DOUBLE, 0.1),
        ("decimal", decimal(4, 7, 3), number(1500, 4), DEC, Decimal("1.500")),
        ("uuid", fixed(16, logicalType="uuid"), ID.bytes, UUID, ID),
        ("fixed", fixed(3), b"abc", FixedType(3), b"abc"),
        ("bytes", "bytes", b"abc", BINARY, b"abc"),
        ("flag", "boolean", True, BOOLEAN, True),
        ("bad text", "string", b"\xff", STRING, b"\xff"),
    )
} | {"column that is gone: text": Case(LONG, "string", "x", ForeignValue(STRING, "x"), gone=True)}
"""Values of fields whose type the table does not know."""

CASES = {**GOOD, **BAD, **OPEN}


def tables(case: Case) -> tuple[PartitionSpec, Schema]:
    """The spec and the schema of a case."""
    spec = PartitionSpec(
        spec_id=7,
        fields=(PartitionField(source_ids=(1,), field_id=1000, name="p", transform=case.transform),),
    )
    column = NestedField(field_id=1, name="c", type=case.type, required=False)
    other = NestedField(field_id=2, name="d", type=LONG, required=False)
    return spec, Schema(schema_id=0, struct=StructType((other,) if case.gone else (column, other)))


def foreign(case: Case, *stored: Any, folder: str = FOLDER) -> EncodedManifest:
    """A manifest whose files a, b, … have these partition values, as another writer lays it out."""
    spec, schema = tables(case)
    root = json.loads(manifest_schema(StructType(()), 2))
    record = root["fields"][-1]["type"]
    partition = next(f["type"] for f in record["fields"] if f["field-id"] == 102)
    partition["fields"] = [{"name": "p", "type": ["null", case.written], "default": None, "field-id": 1000}]
    declared = json.dumps(root).encode()
    physical = json.loads(declared)
    plain_partition = next(f["type"] for f in physical["fields"][-1]["type"]["fields"] if f["field-id"] == 102)
    plain_partition["fields"][0]["type"] = ["null", plain(case.written)]
    parsed = fastavro.parse_schema(physical)
    content = io.BytesIO()
    for position, value in enumerate(stored):
        file = {"content": 0, "file_path": f"{folder}{chr(97 + position)}", "file_format": "PARQUET",
                "partition": {"p": value}, "record_count": 10, "file_size_in_bytes": 100}  # fmt: skip
        entry = {"status": int(Status.ADDED), "snapshot_id": 5, "sequence_number": 3, "data_file": file}
        fastavro.schemaless_writer(content, parsed, entry)
    header = manifest_header(schema, spec, content="data", format_version=2)
    data = write_avro(
        declared, [(len(stored), compress(content.getvalue(), codec="deflate"))], metadata=header, codec="deflate"
    )
    model = encode([added(f"{folder}/{n}", spec_id=0, partition=(1, 1)) for n in range(len(stored))])
    return replace(model, data=data, spec_id=7, partitions=None)


def plain(written: Any) -> Any:
    """The type without its annotation; text may be any bytes."""
    kind = written["type"] if isinstance(written, dict) else written
    if kind == "string":
        return "bytes"
    return {"type": "fixed", "name": written["name"], "size": written["size"]} if kind == "fixed" else kind


def stored_bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value
