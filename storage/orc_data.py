"""Rows in ORC data files (Appendix A, "ORC"): written with ids as type attributes, read by them.

Rows are those of `firn.storage.arrow_rows`: dicts of field id to internal value. Needs the optional package pyorc.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any, Final

import msgspec

from firn.model.errors import CorruptFile, InvalidInput, InvalidSchema, Unsupported
from firn.model.internal_values import DAY_MICROS, check_value, unscaled_of
from firn.model.name_mapping import NameMapping, name_mapping_of
from firn.model.schema import Schema, schema_to_json
from firn.model.types import (
    DATE,
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
from firn.storage.orc_types import (
    LONG_TYPE,
    STRUCT_TYPE,
    OrcField,
    orc_fields,
    orc_struct,
    pyorc,
    require_pyorc,
    with_mapped_ids,
)
from firn.storage.row_metrics import RowMetrics, WrittenFile

READ_ROWS: Final = 4096
"""Rows that are handed on together when reading."""

WRITE_ROWS: Final = 1024
"""Rows whose metrics are counted together when writing."""

Convert = Callable[[Any], Any]

_NANOS: Final = 10**9
_PER_NANOS: Final[Mapping[Type, int]] = {TIMESTAMP: 1000, TIMESTAMPTZ: 1000, TIMESTAMP_NS: 1, TIMESTAMPTZ_NS: 1}


class _Timestamps:
    """Timestamps as nanoseconds since 1970, whole: Python's own end at microseconds and at the year 9999."""

    @staticmethod
    def from_orc(seconds: int, nanoseconds: int, _timezone: Any) -> int:
        return seconds * _NANOS + nanoseconds

    @staticmethod
    def to_orc(value: int, _timezone: Any) -> tuple[int, int]:
        return divmod(value, _NANOS)


class _Days:
    """Dates as days since 1970."""

    @staticmethod
    def from_orc(days: int) -> int:
        return days

    @staticmethod
    def to_orc(days: int) -> int:
        return days


class _Decimals:
    """Decimals read as text, written unscaled."""

    @staticmethod
    def from_orc(text: str) -> str:
        return text

    @staticmethod
    def to_orc(_precision: int, _scale: int, unscaled: int) -> int:
        return unscaled


def _converters() -> dict[Any, Any]:
    kinds = pyorc.TypeKind
    return {
        kinds.TIMESTAMP: _Timestamps,
        kinds.TIMESTAMP_INSTANT: _Timestamps,
        kinds.DATE: _Days,
        kinds.DECIMAL: _Decimals,
    }


# ---------------------------------------------------------------------------------------------------------------------
# Writing


class WrittenOrc(msgspec.Struct, frozen=True):
    """A finished file in memory, where its stripes start (bytes) and the metrics of its rows."""

    data: bytes
    split_offsets: tuple[int, ...]
    metrics: RowMetrics

    def at(self, location: str) -> WrittenFile:
        """What a manifest entry says of the file, once it has a location."""
        return WrittenFile(location=location, file_format="orc", size=len(self.data), split_offsets=self.split_offsets)


def write_orc_rows(rows: Iterable[Mapping[int, Any]], schema: Schema) -> WrittenOrc:
    """The rows as a data file.

    Raises InvalidInput naming row and column for a value of another type, Unsupported for what the library cannot
    write, Misconfigured where it is not installed.
    """
    require_pyorc()
    encode = _struct_encoder(schema.struct)
    metrics = RowMetrics(schema)
    sink = io.BytesIO()
    writer = pyorc.Writer(sink, orc_struct(schema.struct), converters=_converters())
    writer.set_user_metadata(**{"iceberg.schema": msgspec.json.encode(schema_to_json(schema))})
    source = iter(rows)
    while chunk := list(islice(source, WRITE_ROWS)):
        for at, row in enumerate(chunk, start=metrics.row_count):
            try:
                writer.write(encode(row))
            except InvalidInput as refusal:
                raise type(refusal)(refusal.message, where=f"row {at}, {refusal.where}") from None
        metrics.add(chunk)
    writer.close()
    data = sink.getvalue()
    stripes = pyorc.Reader(io.BytesIO(data)).iter_stripes()
    return WrittenOrc(data, tuple(stripe.bytes_offset for stripe in stripes), metrics)


def _struct_encoder(type: StructType, *, where: str = "") -> Convert:
    members = [
        (field.field_id, _field_encoder(field, where=f"{where}.{field.name}".lstrip(".")))
        for field in type.fields
        if field.type != UNKNOWN
    ]

    def encode(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise InvalidInput("a struct value must be a mapping of field id to value", where=where or "row")
        return tuple([convert(value.get(field_id)) for field_id, convert in members])

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
            return _map_encoder(type, where=where)
        case DecimalType():
            return lambda value: unscaled_of(type, check_value(type, value, where=where), where)
    if type in _PER_NANOS:
        return _timestamp_encoder(type, where=where)
    if type == VARIANT:
        return lambda value: (value.metadata, value.value)
    if type == UUID:
        return lambda value: check_value(type, value, where=where).bytes
    return lambda value: check_value(type, value, where=where)


def _map_encoder(type: MapType, *, where: str) -> Convert:
    key = _field_encoder(type.key_field, where=f"{where}.key")
    item = _field_encoder(type.value_field, where=f"{where}.value")

    def encode(value: Any) -> Any:
        try:
            return {key(k): item(v) for k, v in _sequence(value, where)}
        except TypeError:
            raise Unsupported("the ORC library has no maps with lists or maps in their keys", where=where) from None

    return encode


def _timestamp_encoder(type: Type, *, where: str) -> Convert:
    factor = _PER_NANOS[type]

    def encode(value: Any) -> int:
        nanos: int = check_value(type, value, where=where) * factor
        if -_NANOS < nanos < 0 and nanos % _NANOS > 999_999:
            # ORC stores whole seconds rounded towards zero and the rest without a sign.
            raise Unsupported("ORC cannot hold moments within the last second before 1970", where=where)
        return nanos

    return encode


def _sequence(value: Any, where: str) -> Sequence[Any]:
    if not isinstance(value, tuple | list):
        raise InvalidInput(f"{type(value).__name__} is not a list or map value", where=where)
    return value


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def read_orc_rows(
    data: bytes,
    *,
    location: str,
    schema: Schema,
    constants: Mapping[int, Any] | None = None,
    name_mapping: NameMapping | None = None,
) -> Iterator[list[dict[int, Any]]]:
    """The rows of a file, in its order and in the columns of `schema`, some at a time.

    Arguments as in `firn.storage.parquet_files.read_parquet`. Raises CorruptFile for a damaged file, InvalidSchema for
    columns that do not fit, Misconfigured where the library is not installed.
    """
    require_pyorc()
    mapping = name_mapping_of(schema) if name_mapping is None else name_mapping
    try:
        root = with_mapped_ids(orc_fields(pyorc.Reader(io.BytesIO(data)).schema, location=location), mapping)
        kept = _kept(root, schema)
        decode = _struct_decoder(
            schema.struct,
            msgspec.structs.replace(root, children=tuple(root.children[at] for at in kept)),
            constants=constants or {},
            location=location,
        )
        reader = pyorc.Reader(io.BytesIO(data), column_indices=kept or [0], converters=_converters())
        while chunk := reader.read(READ_ROWS):
            yield [decode(record) for record in chunk]
    except (pyorc.ORCError, ValueError, RuntimeError, OverflowError) as refusal:
        raise CorruptFile(location, f"cannot read it as ORC: {refusal}") from None
    except InvalidInput as refusal:
        if isinstance(refusal, InvalidSchema):
            raise
        raise CorruptFile(location, f"a value does not fit its column: {refusal}") from None


def _kept(root: OrcField, schema: Schema) -> list[int]:
    """Positions of the columns at the top that are wanted, ascending, as the library returns them."""
    wanted = {field.field_id for field in schema.fields if field.type != UNKNOWN}
    return [at for at, child in enumerate(root.children) if child.field_id in wanted]


def _struct_decoder(wanted: StructType, written: OrcField, *, constants: Mapping[int, Any], location: str) -> Convert:
    members: list[tuple[int, int, Convert]] = []
    absent: dict[int, Any] = {}
    for field in wanted.fields:
        found = None if field.type == UNKNOWN else written.child(field.field_id)
        if found is None:
            absent[field.field_id] = _absent(field, constants, location=location)
        else:
            members.append((field.field_id, found[0], _field_decoder(field, found[1], location=location)))
    order = [field.field_id for field in wanted.fields]

    def decode(record: Any) -> dict[int, Any]:
        values = absent | {field_id: convert(record[at]) for field_id, at, convert in members}
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


def _field_decoder(field: NestedField, written: OrcField, *, location: str) -> Convert:
    convert = _decoder(field, written, location=location)
    name, required = field.name, field.required

    def decode(value: Any) -> Any:
        if value is None:
            if required:
                raise InvalidInput("null in a required column", where=name)
            return None
        return convert(value)

    return decode


def _decoder(field: NestedField, written: OrcField, *, location: str) -> Convert:
    type = field.type
    match type:
        case StructType() if written.kind == "struct":
            return _struct_decoder(type, written, constants={}, location=location)
        case ListType() if written.kind == "list":
            element = _field_decoder(type.element_field, written.children[0], location=location)
            return lambda value: tuple(element(one) for one in value)
        case MapType() if written.kind == "map":
            key = _field_decoder(type.key_field, written.children[0], location=location)
            item = _field_decoder(type.value_field, written.children[1], location=location)
            return lambda value: tuple((key(k), item(v)) for k, v in value.items())
    found = None if isinstance(type, StructType | ListType | MapType) else _leaf_decoder(type, written)
    if found is None:
        raise InvalidSchema(
            f"column {field.name!r} (id {field.field_id}) is {written.kind} in the file and {type} in the table",
            where=location,
        )
    return found


def _leaf_decoder(type: Type, written: OrcField) -> Convert | None:
    kind = written.kind
    match type:
        case DecimalType(scale=scale, precision=precision):
            fits = kind == "decimal" and written.scale == scale and written.precision <= precision
            return (lambda raw: check_value(type, Decimal(raw))) if fits else None
        case FixedType() | GeometryType() | GeographyType():
            return (lambda raw: check_value(type, raw)) if kind == "binary" else None
    if type in _PER_NANOS:
        return _timestamp_decoder(type, kind)
    if type in (LONG, TIME):
        as_time = written.attributes.get(LONG_TYPE) == "TIME"
        fits = (kind == "long" and as_time == (type == TIME)) or (type == LONG and kind in ("byte", "short", "int"))
        return (lambda raw: check_value(type, raw)) if fits else None
    if type == VARIANT:
        fits = kind == "struct" and written.attributes.get(STRUCT_TYPE, "VARIANT") == "VARIANT"
        return _variant if fits and [one.name for one in written.children] == ["metadata", "value"] else None
    if type == UUID:
        return _uuid if kind == "binary" else None
    return (lambda raw: raw) if kind in _KINDS.get(str(type), ()) else None


_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "boolean": ("boolean",),
    str(INT): ("byte", "short", "int"),
    "float": ("float",),
    "double": ("float", "double"),
    str(DATE): ("date",),
    str(STRING): ("string", "char", "varchar"),
    "binary": ("binary",),
}


def _timestamp_decoder(type: Type, kind: str) -> Convert | None:
    if kind == "date" and type in (TIMESTAMP, TIMESTAMP_NS):
        factor = DAY_MICROS if type == TIMESTAMP else DAY_MICROS * 1000
        return lambda days: check_value(type, days * factor)
    zoned = type in (TIMESTAMPTZ, TIMESTAMPTZ_NS)
    if kind != ("timestamp_instant" if zoned else "timestamp"):
        return None
    unit = _PER_NANOS[type]
    return lambda nanos: check_value(type, nanos // unit)


def _variant(raw: Any) -> Variant:
    return Variant(raw[0], raw[1])


def _uuid(raw: bytes) -> uuid.UUID:
    if len(raw) != 16:
        raise InvalidInput(f"{len(raw)} bytes for a uuid")
    return uuid.UUID(bytes=raw)
