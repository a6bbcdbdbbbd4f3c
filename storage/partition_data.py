"""Partition tuples from what Avro stores to internal values (table specification, Appendix A, "Avro").

Decoded records carry the stored ints and bytes; which logical value they stand for is decided by the type that the
table gives the partition field, and by the writer's annotation where the table no longer knows the source column.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from firn.model.errors import InvalidInput
from firn.model.internal_values import decimal_of
from firn.model.types import DecimalType, FixedType, PrimitiveType, StructType, Type
from firn.storage.avro_schema import AvroType

Convert = Callable[[Any], Any]

_INTEGERS: Final = frozenset({"int", "long"})
_FLOATS: Final = frozenset({"float", "double"})
_BYTES: Final = frozenset({"bytes", "fixed"})
_INTEGRAL_TYPES: Final = {
    "int": "int", "date": "int", "long": "long", "time": "long",
    "timestamp": "long", "timestamptz": "long", "timestamp_ns": "long", "timestamptz_ns": "long",
}  # fmt: skip


class PartitionDecoder:
    """Reads partition tuples of one type out of records that were written under `written`.

    Raises InvalidInput when the written types cannot hold the table's.
    """

    def __init__(self, partition_type: StructType, written: AvroType | None) -> None:
        self._fields: list[tuple[str, Convert | None]] = []
        for field in partition_type.fields:
            found = written.field(field.field_id) if written is not None else None
            convert = None if found is None else _from_avro(field.type, found, where=f"partition.{field.name}")
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
    if type == PrimitiveType("unknown"):  # the source column is gone from every schema
        return _from_annotation(written)
    expected, convert = _expectation(type, written)
    if written.kind != "null" and written.kind not in expected:
        raise InvalidInput(f"a {written.kind} for a field of type {type}", where=where)
    return convert


def _expectation(type: Type, written: AvroType) -> tuple[frozenset[str], Convert | None]:
    match type:
        case PrimitiveType(name=name) if name in _INTEGRAL_TYPES:
            return _INTEGERS, None
        case PrimitiveType(name="boolean"):
            return frozenset({"boolean"}), None
        case PrimitiveType(name="float" | "double"):
            return _FLOATS, None
        case PrimitiveType(name="string"):
            return frozenset({"string"}), None
        case PrimitiveType(name="uuid"):
            return frozenset({"fixed", "bytes", "string"}), _uuid
        case DecimalType(scale=scale):
            if written.logical == "decimal":
                scale = written.scale
            return _BYTES, lambda stored: decimal_of(int.from_bytes(stored, "big", signed=True), scale)
        case PrimitiveType(name="binary") | FixedType():
            return _BYTES, None
    return frozenset(), None


def _from_annotation(written: AvroType) -> Convert | None:
    match written.logical:
        case "uuid":
            return _uuid
        case "decimal":
            return lambda stored: decimal_of(int.from_bytes(stored, "big", signed=True), written.scale)
    return None


def _uuid(stored: bytes | str) -> uuid.UUID:
    return uuid.UUID(stored) if isinstance(stored, str) else uuid.UUID(bytes=stored)
