"""Iceberg's data types as values, and their JSON form (table specification, "Schemas and Data Types", Appendix C).

Every type is a frozen struct that compares and hashes by value. `variant` and `unknown` are spelled like primitives
because their JSON form is a plain string; neither has a partition value or a bound of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from firn.model.errors import InvalidSchema

TYPE_DEPTH_MAX: Final = 64
"""Levels of nesting accepted when reading a schema: deeper input is refused, not recursed into."""


class PrimitiveType(msgspec.Struct, frozen=True):
    """A type that is its name alone: ``long``, ``timestamptz``, ``variant`` …"""

    name: str

    def __str__(self) -> str:
        return self.name


class DecimalType(msgspec.Struct, frozen=True):
    """Fixed-point decimal; `precision` is at most 38 digits, `scale` of them after the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


class FixedType(msgspec.Struct, frozen=True):
    """Byte array of exactly `length` bytes."""

    length: int

    def __str__(self) -> str:
        return f"fixed[{self.length}]"


class GeometryType(msgspec.Struct, frozen=True):
    """Geospatial features with linear edges (v3); `crs` None stands for the default ``OGC:CRS84``."""

    crs: str | None = None

    def __str__(self) -> str:
        return "geometry" if self.crs is None else f"geometry({self.crs})"


class GeographyType(msgspec.Struct, frozen=True):
    """Geospatial features on an ellipsoid (v3); None stands for the defaults ``OGC:CRS84`` and ``spherical``."""

    crs: str | None = None
    algorithm: str | None = None

    def __str__(self) -> str:
        if self.algorithm is not None:
            return f"geography({self.crs or 'OGC:CRS84'}, {self.algorithm})"
        return "geography" if self.crs is None else f"geography({self.crs})"


class NestedField(msgspec.Struct, frozen=True, kw_only=True):
    """One named field of a struct. Defaults are held as internal values (see `firn.model.values`)."""

    field_id: int
    name: str
    type: Type
    required: bool
    doc: str | None = None
    initial_default: Any = None
    write_default: Any = None
    extra: dict[str, Any] = {}


class StructType(msgspec.Struct, frozen=True):
    """A tuple of named fields."""

    fields: tuple[NestedField, ...]

    def __str__(self) -> str:
        inner = ", ".join(
            f"{f.field_id}: {f.name}: {'required' if f.required else 'optional'} {f.type}" for f in self.fields
        )
        return f"struct<{inner}>"


class ListType(msgspec.Struct, frozen=True, kw_only=True):
    """A list whose elements share one field id."""

    element_id: int
    element: Type
    element_required: bool

    def __str__(self) -> str:
        return f"list<{self.element}>"


class MapType(msgspec.Struct, frozen=True, kw_only=True):
    """A map whose keys and values have a field id each; keys are always required."""

    key_id: int
    key: Type
    value_id: int
    value: Type
    value_required: bool

    def __str__(self) -> str:
        return f"map<{self.key}, {self.value}>"


Type = PrimitiveType | DecimalType | FixedType | GeometryType | GeographyType | StructType | ListType | MapType

BOOLEAN: Final = PrimitiveType("boolean")
INT: Final = PrimitiveType("int")
LONG: Final = PrimitiveType("long")
FLOAT: Final = PrimitiveType("float")
DOUBLE: Final = PrimitiveType("double")
DATE: Final = PrimitiveType("date")
TIME: Final = PrimitiveType("time")
TIMESTAMP: Final = PrimitiveType("timestamp")
TIMESTAMPTZ: Final = PrimitiveType("timestamptz")
TIMESTAMP_NS: Final = PrimitiveType("timestamp_ns")
TIMESTAMPTZ_NS: Final = PrimitiveType("timestamptz_ns")
STRING: Final = PrimitiveType("string")
UUID: Final = PrimitiveType("uuid")
BINARY: Final = PrimitiveType("binary")
UNKNOWN: Final = PrimitiveType("unknown")
VARIANT: Final = PrimitiveType("variant")

_BY_NAME: Final = {
    t.name: t
    for t in (
        BOOLEAN, INT, LONG, FLOAT, DOUBLE, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS,
        STRING, UUID, BINARY, UNKNOWN, VARIANT,
    )
}  # fmt: skip

V3_TYPES: Final = frozenset({"timestamp_ns", "timestamptz_ns", "unknown", "variant"})
"""Names of primitives that need format version 3 (geometry and geography do too)."""
