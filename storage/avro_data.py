"""Rows in Avro data files (Appendix A, "Avro"): written with field ids, read by field id.

Rows are those of `firn.storage.arrow_rows`: dicts of field id to internal value.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from firn.model.errors import CorruptFile, InvalidInput, InvalidSchema, Unsupported
from firn.model.internal_values import DAY_MICROS, check_value, decimal_of, decimal_width, unscaled_of
from firn.model.name_mapping import NameMapping, name_mapping_of
from firn.model.schema import Schema, schema_to_json
from firn.model.table_properties import AVRO_COMPRESSION
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
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
)
from firn.model.variant import Variant
from firn.storage.avro import DEFAULT_LIMITS, AvroFile, AvroLimits, Codec, compress, encode_block, open_avro, write_avro
from firn.storage.avro_schema import AvroType, compile_schema
from firn.storage.avro_types import avro_schema_json, with_mapped_ids
from firn.storage.row_metrics import RowMetrics, WrittenFile

BLOCK_BYTES: Final = 1024 * 1024
"""Size at which a block is closed, before compression."""

CHUNK_ROWS: Final = 256
"""Rows that are encoded in one call; a block has at least one such chunk."""

Convert = Callable[[Any], Any]

_CODECS: Final[Mapping[str, Codec]] = {"gzip": "deflate", "zstd": "zstandard", "uncompressed": "null"}
_INTEGERS: Final = frozenset({INT, LONG, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS})
_TICKS: Final[Mapping[Type, int]] = {
    TIME: 10**6,
    TIMESTAMP: 10**6,
    TIMESTAMPTZ: 10**6,
    TIMESTAMP_NS: 10**9,
    TIMESTAMPTZ_NS: 10**9,
}
_PER_DAY: Final[Mapping[Type, int]] = {DATE: 1, TIMESTAMP: DAY_MICROS, TIMESTAMP_NS: DAY_MICROS * 1000}
_LOGICAL_TICKS: Final = {
    "time-millis": 10**3,
    "time-micros": 10**6,
    "timestamp-millis": 10**3,
    "timestamp-micros": 10**6,
    "timestamp-nanos": 10**9,
    "local-timestamp-millis": 10**3,
    "local-timestamp-micros": 10**6,
    "local-timestamp-nanos": 10**9,
}


# ---------------------------------------------------------------------------------------------------------------------
# Writing


class WrittenAvro(msgspec.Struct, frozen=True):
    """A finished file in memory and the metrics of its rows."""

    data: bytes
    metrics: RowMetrics

    def at(self, location: str) -> WrittenFile:
        """What a manifest entry says of the file, once it has a location."""
        return WrittenFile(location=location, file_format="avro", size=len(self.data))


def write_avro_rows(
    rows: Iterable[Mapping[int, Any]],
    schema: Schema,
    *,
    properties: Mapping[str, str] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> WrittenAvro:
    """The rows as a data file; `properties` are the table's, `metadata` goes into the header.

    Raises InvalidInput naming row and column for a value of another type, Unsupported for a codec or a type that
    cannot be written.
    """
    named = AVRO_COMPRESSION.of(properties or {}) or "gzip"
    codec = _CODECS.get(named.lower())
    if codec is None:
        raise Unsupported(f"cannot write Avro with codec {named[:40]!r}", hint=f"one of {', '.join(sorted(_CODECS))}")
    text = avro_schema_json(schema)
    compiled = compile_schema(text)
    encode = _struct_encoder(schema.struct)
    metrics = RowMetrics(schema)
    blocks: list[tuple[int, bytes]] = []
    parts: list[bytes] = []
    count = size = 0
    source = iter(rows)
    while chunk := list(islice(source, CHUNK_ROWS)):
        records = [_encoded_row(encode, row, metrics.row_count + at) for at, row in enumerate(chunk)]
        metrics.add(chunk)
        parts.append(encode_block(compiled, records))
        count += len(chunk)
        size += len(parts[-1])
        if size >= BLOCK_BYTES:
            blocks.append((count, compress(b"".join(parts), codec=codec)))
            parts, count, size = [], 0, 0
    if parts:
        blocks.append((count, compress(b"".join(parts), codec=codec)))
    header = {"iceberg.schema": msgspec.json.encode(schema_to_json(schema)).decode()} | dict(metadata or {})
    return WrittenAvro(write_avro(text, blocks, metadata=header, codec=codec), metrics)


def _encoded_row(encode: Convert, row: Mapping[int, Any], at: int) -> Any:
    try:
        return encode(row)
    except InvalidInput as refusal:
        raise InvalidInput(refusal.message, where=f"row {at}, {refusal.where}") from None


def _struct_encoder(type: StructType, *, where: str = "") -> Convert:
    members = [
        (field.field_id, f"f{field.field_id}", _field_encoder(field, where=f"{where}.{field.name}".lstrip(".")))
        for field in type.fields
        if field.type != UNKNOWN
    ]

    def encode(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise InvalidInput("a struct value must be a mapping of field id to value", where=where or "row")
        return {name: convert(value.get(field_id)) for field_id, name, convert in members}

    return encode


def _field_encoder(field: NestedField, *, where: str) -> Convert:
    convert = _encoder(field.type, where=where)
    required = field.required

    def encode(value: Any) -> Any:
        if value is None:
            if required:
                raise InvalidInput("null in a required column", where=where)
            return None
        return convert(value)

    return encode


def _encoder(type: Type, *, where: str) -> Convert:
    match type:
        case StructType():
            return _struct_encoder(type, where=where)
        case ListType():
            element = _field_encoder(type.element_field, where=f"{where}.element")
            return lambda value: [element(one) for one in _sequence(value, where)]
        case MapType():
            key = _field_encoder(type.key_field, where=f"{where}.key")
            item = _field_encoder(type.value_field, where=f"{where}.value")
            if type.key == STRING:
                return lambda value: {key(k): item(v) for k, v in _sequence(value, where)}
            return lambda value: [{"key": key(k), "value": item(v)} for k, v in _sequence(value, where)]
        case DecimalType(precision=precision):
            width = decimal_width(precision)
            return lambda value: unscaled_of(type, check_value(type, value, where=where), where).to_bytes(
                width, "big", signed=True
            )
    if type == VARIANT:
        return lambda value: {"x0": value.metadata, "x1": value.value}
    if type == UUID:
        return lambda value: check_value(type, value, where=where).bytes
    return lambda value: check_value(type, value, where=where)


def _sequence(value: Any, where: str) -> Sequence[Any]:
    if not isinstance(value, tuple | list):
        raise InvalidInput(f"{type(value).__name__} is not a list or map value", where=where)
    return value


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def read_avro_rows(
    data: bytes,
    *,
    location: str,
    schema: Schema,
    constants: Mapping[int, Any] | None = None,
    name_mapping: NameMapping | None = None,
    limits: AvroLimits = DEFAULT_LIMITS,
) -> Iterator[list[dict[int, Any]]]:
    """The rows of a file, in its order and in the columns of `schema`, a list for each block.

    Arguments as in `firn.storage.parquet_files.read_parquet`. Raises CorruptFile for a damaged file, InvalidSchema for
    columns that do not fit.
    """
    file = _with_ids(open_avro(data, location=location, limits=limits), schema=schema, name_mapping=name_mapping)
    decode = _struct_decoder(schema.struct, file.schema.root, constants=constants or {}, location=location)
    for block in file.read_blocks():
        try:
            yield [decode(record) for record in block]
        except (InvalidInput, ValueError) as refusal:
            raise CorruptFile(location, f"a value does not fit its column: {refusal}") from None


def _with_ids(file: AvroFile, *, schema: Schema, name_mapping: NameMapping | None) -> AvroFile:
    text = file.metadata.get("avro.schema", b"")
    mapping = name_mapping_of(schema) if name_mapping is None else name_mapping
    mapped = with_mapped_ids(text, mapping, where=file.location)
    return file if mapped is text else msgspec.structs.replace(file, schema=compile_schema(mapped))


def _struct_decoder(wanted: StructType, written: AvroType, *, constants: Mapping[int, Any], location: str) -> Convert:
    if written.kind != "record":
        raise InvalidSchema(f"a {written.kind} in the file is not {wanted}", where=location)
    members: list[tuple[int, str, Convert]] = []
    absent: dict[int, Any] = {}
    for field in wanted.fields:
        found = written.field(field.field_id)
        if found is None or field.type == UNKNOWN:
            absent[field.field_id] = _absent(field, constants, location=location)
        else:
            members.append((field.field_id, f"f{field.field_id}", _field_decoder(field, found, location=location)))
    order = [field.field_id for field in wanted.fields]

    def decode(record: Any) -> dict[int, Any]:
        values = absent | {field_id: convert(record[name]) for field_id, name, convert in members}
        return {field_id: values[field_id] for field_id in order}

    return decode


def _absent(field: NestedField, constants: Mapping[int, Any], *, location: str) -> Any:
    if field.field_id in constants:
        return constants[field.field_id]
    if field.required and field.initial_default is None and field.type != UNKNOWN:
        raise InvalidSchema(
            f"the file has no required column {field.name!r} (id {field.field_id}) and the table no default for it",
            where=location,
        )
    return field.initial_default


def _field_decoder(field: NestedField, written: AvroType, *, location: str) -> Convert:
    convert = _decoder(field, written, location=location)
    name, required = field.name, field.required

    def decode(value: Any) -> Any:
        if value is None:
            if required:
                raise InvalidInput("null in a required column", where=name)
            return None
        return convert(value)

    return decode


def _decoder(field: NestedField, written: AvroType, *, location: str) -> Convert:
    type = field.type
    if written.kind == "null":
        return lambda value: value
    match type:
        case StructType() if written.kind == "record":
            return _struct_decoder(type, written, constants={}, location=location)
        case ListType() if written.kind == "array" and written.items is not None:
            element = _field_decoder(type.element_field, written.items, location=location)
            return lambda value: tuple(element(one) for one in value)
        case MapType() if written.kind in ("map", "map-array") and written.items is not None:
            return _map_decoder(type, written, location=location)
    found = None if isinstance(type, StructType | ListType | MapType) else _leaf_decoder(type, written)
    if found is None:
        stored = written.kind if written.logical is None else f"{written.kind} ({written.logical})"
        raise InvalidSchema(
            f"column {field.name!r} (id {field.field_id}) is {stored} in the file and {type} in the table",
            where=location,
        )
    return found


def _map_decoder(type: MapType, written: AvroType, *, location: str) -> Convert:
    assert written.items is not None
    if written.kind == "map":
        key: Convert = _decoder(type.key_field, AvroType(kind="string", width=1), location=location)
        item = _field_decoder(type.value_field, written.items, location=location)
        return lambda value: tuple((key(k), item(v)) for k, v in value.items())
    (_, _, written_key), (_, _, written_value) = written.items.fields
    key = _field_decoder(type.key_field, written_key, location=location)
    item = _field_decoder(type.value_field, written_value, location=location)
    return lambda value: tuple((key(entry["key"]), item(entry["value"])) for entry in value)


def _leaf_decoder(type: Type, written: AvroType) -> Convert | None:
    kind = written.kind
    match type:
        case DecimalType(scale=scale):
            if kind not in ("fixed", "bytes") or written.logical != "decimal" or written.scale != scale:
                return None
            return _checked(type, lambda raw: decimal_of(int.from_bytes(raw, "big", signed=True), scale))
        case FixedType(length=length):
            return bytes if kind == "fixed" and written.size == length else None
        case GeometryType() | GeographyType():
            return bytes if kind == "bytes" else None
    if type in _INTEGERS:
        return _integer_decoder(type, written) if kind in ("int", "long") else None
    if type == VARIANT:
        two = kind == "record" and [one.kind for _, _, one in written.fields] == ["bytes", "bytes"]
        return _variant if two else None
    if type == UUID:
        if kind == "fixed" and written.size == 16:
            return lambda raw: uuid.UUID(bytes=raw)
        return uuid.UUID if kind == "string" and written.logical == "uuid" else None
    return _PLAIN.get((type, kind))


def _integer_decoder(type: Type, written: AvroType) -> Convert | None:
    if type in (INT, LONG):
        fits = written.logical is None and (type == LONG or written.kind == "int")
        return int if fits else None
    if written.logical == "date":
        factor = _PER_DAY.get(type)
    elif type == DATE or written.logical not in _LOGICAL_TICKS or written.logical.startswith("time-") != (type == TIME):
        factor = None
    else:
        factor, lost = divmod(_TICKS[type], _LOGICAL_TICKS[written.logical])
        factor = None if lost else factor
    return None if factor is None else _checked(type, lambda raw: raw * factor)


def _checked(type: Type, convert: Convert) -> Convert:
    return lambda raw: check_value(type, convert(raw))


def _variant(raw: Any) -> Variant:
    return Variant(raw["x0"], raw["x1"])


_PLAIN: Final[Mapping[tuple[Type, str], Convert]] = {
    (BOOLEAN, "boolean"): bool,
    (FLOAT, "float"): float,
    (DOUBLE, "float"): float,
    (DOUBLE, "double"): float,
    (STRING, "string"): str,
    (BINARY, "bytes"): bytes,
    (BINARY, "fixed"): bytes,
}
