"""Partition tuples from what Avro stores to internal values (table specification, Appendix A, "Avro").

Decoded records carry the stored ints and bytes. Which values they stand for is decided by the type that the table
gives the partition field and by the writer's annotation: its unit of time, its scale, its way to store a uuid. What is
no value of the field's type stays readable, so that one such file does not stop those beside it
(`firn.model.foreign_value`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from firn.model.errors import InvalidInput
from firn.model.foreign_value import ForeignValue
from firn.model.internal_values import DAY_MICROS, decimal_of
from firn.model.json_members import LONG_MAX, LONG_MIN
from firn.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL_PRECISION_MAX,
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
    DecimalType,
    FixedType,
    PrimitiveType,
    StructType,
    Type,
)
from firn.storage.avro_schema import AvroType

Convert = Callable[[Any], Any]

_INTEGERS: Final = frozenset({"int", "long"})
_FLOATS: Final = frozenset({"float", "double"})
_BYTES: Final = frozenset({"bytes", "fixed"})
_TEXTS: Final = frozenset({"string", "bytes"})
_VALUES: Final = frozenset({"null", "boolean", "enum", "string"}) | _INTEGERS | _FLOATS | _BYTES

_UNSCALED_END: Final = 10**DECIMAL_PRECISION_MAX

_DAY_NANOS: Final = DAY_MICROS * 1000
_NANOS: Final[Mapping[str, int]] = {
    "time-millis": 10**6, "time-micros": 10**3, "time-nanos": 1,
    "timestamp-millis": 10**6, "timestamp-micros": 10**3, "timestamp-nanos": 1,
    "local-timestamp-millis": 10**6, "local-timestamp-micros": 10**3, "local-timestamp-nanos": 1,
    "date": _DAY_NANOS,
}  # fmt: skip
"""Nanoseconds in the unit of each of Avro's logical types."""

_UNITS: Final[Mapping[Type, int]] = {
    TIME: 10**3, TIMESTAMP: 10**3, TIMESTAMPTZ: 10**3, TIMESTAMP_NS: 1, TIMESTAMPTZ_NS: 1, DATE: _DAY_NANOS,
}  # fmt: skip
"""Nanoseconds in the unit of each type's internal values."""

_INTEGRAL: Final = frozenset({INT, LONG, *_UNITS})


class PartitionDecoder:
    """Reads partition tuples of one type out of records that were written under `written`.

    Values that are not of their field's type are read, too: as numbers and bytes beyond it, or as `ForeignValue`.
    `assumed` are the fields whose types are only assumed, since nobody knows their transforms.
    Raises InvalidInput when a field was written as something that is no single value.
    """

    def __init__(
        self, partition_type: StructType, written: AvroType | None, *, assumed: Collection[int] = frozenset()
    ) -> None:
        self._fields: list[tuple[str, Convert | None]] = []
        for field in partition_type.fields:
            found = written.field(field.field_id) if written is not None else None
            is_known = field.field_id not in assumed or (found is not None and found.kind == "string")
            type_ = field.type if is_known else UNKNOWN
            convert = None if found is None else _from_avro(type_, found, where=f"partition.{field.name}")
            self._fields.append((f"f{field.field_id}", convert))
        self._plain = [name for name, _ in self._fields] if not any(c for _, c in self._fields) else None

    def decode(self, record: Mapping[str, Any]) -> tuple[Any, ...]:
        """The tuple of one record; a field that was not written is None."""
        if self._plain is not None:
            return tuple([record.get(name) for name in self._plain])
        return tuple(
            [
                value if value is None or convert is None else convert(value)
                for value, convert in _pairs(record, self._fields)
            ]
        )


def _pairs(record: Mapping[str, Any], fields: Sequence[tuple[str, Convert | None]]) -> list[tuple[Any, Convert | None]]:
    return [(record.get(name), convert) for name, convert in fields]


def _from_avro(type: Type, written: AvroType, *, where: str) -> Convert | None:
    """How a stored value becomes an internal one; None where it is one already."""
    if written.kind not in _VALUES:
        raise InvalidInput(f"a {written.kind} for a field of type {type}", where=where)
    found = _conversion(type, written)
    return _as_written(written) if found is None else found[0]


def _conversion(type: Type, written: AvroType) -> tuple[Convert | None] | None:
    """How values written so become values of a type, None in it where they are some; None where they never do."""
    kind = written.kind
    if type in _INTEGRAL and kind in _INTEGERS:
        return (_of_unit(type, written),)
    if type == BOOLEAN and kind == "boolean":
        return (None,)
    if type in (FLOAT, DOUBLE) and kind in _FLOATS:
        return (None,)
    if type == STRING and kind in _TEXTS:
        return (_text if kind == "string" else _text_of_bytes,)
    if type == UUID and kind in _BYTES | _TEXTS:
        return (_uuid_of(written),)
    if isinstance(type, DecimalType) and kind in _BYTES:
        return (_decimal_of(type, written),)
    if (type == BINARY or isinstance(type, FixedType)) and kind in _BYTES:
        return (None,)
    return None


def _of_unit(type: Type, written: AvroType) -> Convert | None:
    """Numbers of the writer's unit in the type's: of finer ones the whole units, as the type has no parts of them.

    Beyond what 64 bits hold, some 290 000 years from now, it is the last moment that they do.
    """
    own, theirs = _UNITS.get(type), _NANOS.get(written.logical or "")
    if own is None or theirs is None or own == theirs or (type == TIME) != (written.logical or "").startswith("time-"):
        return None

    return lambda stored: min(max(stored * theirs // own, LONG_MIN), LONG_MAX)


def _text(stored: str) -> str | ForeignValue:
    """A text as `firn.storage.avro` gives it, where bytes that are no UTF-8 stand for themselves."""
    if stored.isascii():
        return stored
    try:
        stored.encode()
    except UnicodeEncodeError:
        return ForeignValue(STRING, stored.encode(errors="surrogateescape"))
    return stored


def _text_of_bytes(stored: bytes) -> str | ForeignValue:
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return ForeignValue(BINARY, stored)


def _uuid_of(written: AvroType) -> Convert:
    foreign = _as_written(written)

    def convert(stored: bytes | str) -> uuid.UUID | ForeignValue:
        try:
            return uuid.UUID(stored) if isinstance(stored, str) else uuid.UUID(bytes=stored)
        except ValueError:
            return foreign(stored) if isinstance(stored, str) else _bytes(stored, written)

    return convert


def _decimal_of(type: DecimalType, written: AvroType) -> Convert:
    scale = written.scale if written.logical == "decimal" else type.scale

    def convert(stored: bytes) -> Decimal | ForeignValue:
        unscaled = int.from_bytes(stored, "big", signed=True)
        if abs(unscaled) >= _UNSCALED_END or not 0 <= scale <= DECIMAL_PRECISION_MAX:
            return _bytes(stored, written)
        return _with_scale(unscaled, scale, type.scale)

    return convert


def _with_scale(unscaled: int, scale: int, wanted: int) -> Decimal:
    """A decimal with the wanted scale, or with more where it needs more."""
    while scale > wanted and unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale - 1
    more = max(wanted - scale, 0)
    return decimal_of(unscaled * 10**more, scale + more)


def _as_written(written: AvroType) -> Convert:
    """Values in the type that their writer declared, for a field that has another, or none that is known."""
    type = _declared_type(written)
    if type == STRING:
        return lambda stored: one if isinstance(one := _text(stored), ForeignValue) else ForeignValue(STRING, one)
    if isinstance(type, DecimalType):
        decimal = _decimal_of(type, written)
        return lambda stored: one if isinstance(one := decimal(stored), ForeignValue) else ForeignValue(type, one)
    if type == UUID:
        return lambda stored: ForeignValue(UUID, uuid.UUID(bytes=stored))
    of_unit = _of_unit(type, written)
    return lambda stored: ForeignValue(type, stored if of_unit is None else of_unit(stored))


def _declared_type(written: AvroType) -> Type:
    """The type that a writer's annotation names; the plain one where it has none or one that does not fit."""
    kind, logical = written.kind, written.logical or ""
    if kind in _INTEGERS and logical in _NANOS:
        return _time_type(logical, zoned=written.zoned is True)
    if kind == "fixed" and logical == "uuid" and written.size == 16:
        return UUID
    if kind in _BYTES and logical == "decimal" and _is_decimal(written):
        return DecimalType(written.precision, written.scale)
    match kind:
        case "fixed":
            return FixedType(written.size) if written.size else BINARY
        case "bytes":
            return BINARY
        case "enum":
            return INT
        case "null":
            return UNKNOWN
    return PrimitiveType(kind)


def _is_decimal(written: AvroType) -> bool:
    return 0 <= written.scale <= written.precision and 1 <= written.precision <= DECIMAL_PRECISION_MAX


def _time_type(logical: str, *, zoned: bool) -> Type:
    if logical == "date":
        return DATE
    if logical.startswith("time-"):
        return TIME
    if logical.endswith("nanos"):
        return TIMESTAMPTZ_NS if zoned else TIMESTAMP_NS
    return TIMESTAMPTZ if zoned else TIMESTAMP


def _bytes(stored: bytes, written: AvroType) -> ForeignValue:
    return ForeignValue(FixedType(len(stored)) if written.kind == "fixed" and stored else BINARY, stored)
