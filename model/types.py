"""Iceberg's data types as values, and their JSON form (table specification, "Schemas and Data Types", Appendix C).

Every type is a frozen struct that compares and hashes by value. `variant` and `unknown` are spelled like primitives
because their JSON form is a plain string; neither has a partition value or a bound of its own.

The JSON form of nested types carries default values, so it lives one module up, in `firn.model.type_json`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from firn.model.errors import InvalidSchema
from firn.model.spelling import did_you_mean

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

    def __hash__(self) -> int:
        # Defaults and `extra` may hold dicts; equal fields agree on what is hashed.
        return hash((self.field_id, self.name, self.type, self.required))


class StructType(msgspec.Struct, frozen=True):
    """A tuple of named fields."""

    fields: tuple[NestedField, ...]
    extra: dict[str, Any] = {}

    def __hash__(self) -> int:
        return hash((StructType, self.fields))

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
    extra: dict[str, Any] = {}

    @property
    def element_field(self) -> NestedField:
        """The element seen as a field, named ``element``."""
        return NestedField(field_id=self.element_id, name="element", type=self.element, required=self.element_required)

    def __hash__(self) -> int:
        return hash((ListType, self.element_id, self.element, self.element_required))

    def __str__(self) -> str:
        return f"list<{self.element}>"


class MapType(msgspec.Struct, frozen=True, kw_only=True):
    """A map whose keys and values have a field id each; keys are always required."""

    key_id: int
    key: Type
    value_id: int
    value: Type
    value_required: bool
    extra: dict[str, Any] = {}

    @property
    def key_field(self) -> NestedField:
        """The key seen as a field, named ``key`` and always required."""
        return NestedField(field_id=self.key_id, name="key", type=self.key, required=True)

    @property
    def value_field(self) -> NestedField:
        """The value seen as a field, named ``value``."""
        return NestedField(field_id=self.value_id, name="value", type=self.value, required=self.value_required)

    def __hash__(self) -> int:
        return hash((MapType, self.key_id, self.key, self.value_id, self.value, self.value_required))

    def __str__(self) -> str:
        return f"map<{self.key}, {self.value}>"


NestedType = StructType | ListType | MapType
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

_BY_NAME: Final[Mapping[str, PrimitiveType]] = {
    t.name: t
    for t in (
        BOOLEAN, INT, LONG, FLOAT, DOUBLE, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS,
        STRING, UUID, BINARY, UNKNOWN, VARIANT,
    )
}  # fmt: skip

_ELSEWHERE: Final = {
    "bigint": "long", "bool": "boolean", "bytes": "binary", "char": "string", "datetime": "timestamp",
    "int32": "int", "int64": "long", "integer": "int", "numeric": "decimal(38, 0)", "real": "float", "smallint": "int",
    "str": "string", "text": "string", "tinyint": "int", "varbinary": "binary", "varchar": "string",
}  # fmt: skip
"""What SQL, Arrow and Python call types, and their names here."""

V3_TYPES: Final = frozenset({"timestamp_ns", "timestamptz_ns", "unknown", "variant"})
"""Names of primitives that need format version 3 (geometry and geography do too)."""

DECIMAL_PRECISION_MAX: Final = 38
"""Digits in the widest decimal."""

FIXED_LENGTH_MAX: Final = 2**31 - 1
"""Bytes in the longest fixed."""

TYPE_TEXT_LENGTH_MAX: Final = 4096
"""Characters in the text of one type: only a geometry's CRS has a free part."""

DEFAULT_CRS: Final = "OGC:CRS84"
DEFAULT_ALGORITHM: Final = "spherical"
EDGE_ALGORITHMS: Final = frozenset({"spherical", "vincenty", "thomas", "andoyer", "karney"})
"""Ways to draw the edge between two points of a geography."""

_DECIMAL: Final = re.compile(r"decimal\(\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*\)", re.IGNORECASE)
_FIXED: Final = re.compile(r"fixed\[\s*([0-9]{1,10})\s*\]", re.IGNORECASE)
_GEOMETRY: Final = re.compile(r"geometry\s*(?:\(([^)]*)\))?", re.IGNORECASE)
_GEOGRAPHY: Final = re.compile(r"geography\s*(?:\(([^,)]*)(?:,([^)]*))?\))?", re.IGNORECASE)


def type_from_text(text: str, *, where: str = "type") -> Type:
    """The type that a JSON string names, in whatever case, as Java reads it; blanks around parameters are allowed.

    An explicit default CRS or algorithm reads as the default, and either may be quoted, as PyIceberg writes them.
    Raises InvalidSchema for anything else.
    """
    known = _BY_NAME.get(text)
    if known is not None:
        return known
    if len(text) > TYPE_TEXT_LENGTH_MAX:
        raise InvalidSchema(f"a type's text of {len(text)} characters, over {TYPE_TEXT_LENGTH_MAX}", where=where)
    if (known := _BY_NAME.get(text.lower())) is not None:
        return known
    if found := _DECIMAL.fullmatch(text):
        return _decimal(int(found[1]), int(found[2]), where)
    if found := _FIXED.fullmatch(text):
        length = int(found[1])
        if not 1 <= length <= FIXED_LENGTH_MAX:
            raise InvalidSchema(f"fixed[{length}] is not between 1 and {FIXED_LENGTH_MAX} bytes", where=where)
        return FixedType(length)
    if found := _GEOMETRY.fullmatch(text):
        return GeometryType(_crs(found[1], text, where))
    if found := _GEOGRAPHY.fullmatch(text):
        return GeographyType(_crs(found[1], text, where), _algorithm(found[2], where))
    raise InvalidSchema(f"unknown type {text[:80]!r}", where=where, hint=_meant(text))


def _meant(text: str) -> str:
    """What to write instead of a type that there is not."""
    name = text.partition("(")[0].strip().lower()
    elsewhere = _ELSEWHERE.get(name)
    if elsewhere is not None:
        return f"did you mean {elsewhere!r}?"
    return (
        did_you_mean(name, _BY_NAME)
        or f"there are {', '.join(_BY_NAME)}, decimal(9, 2), fixed[16], geometry, geography"
    )


def _decimal(precision: int, scale: int, where: str) -> DecimalType:
    if not 1 <= precision <= DECIMAL_PRECISION_MAX:
        raise InvalidSchema(f"decimal precision {precision} is not between 1 and {DECIMAL_PRECISION_MAX}", where=where)
    if scale > precision:
        raise InvalidSchema(f"decimal scale {scale} is over the precision {precision}", where=where)
    return DecimalType(precision, scale)


def _crs(crs: str | None, text: str, where: str) -> str | None:
    if crs is None:
        return None
    crs = _unquoted(crs)
    if not crs:
        raise InvalidSchema(f"{text!r} has an empty coordinate reference system", where=where)
    return None if crs.upper() == DEFAULT_CRS else crs


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"" else text


def _algorithm(algorithm: str | None, where: str) -> str | None:
    if algorithm is None:
        return None
    algorithm = _unquoted(algorithm)
    lowered = algorithm.lower()
    if lowered not in EDGE_ALGORITHMS:
        raise InvalidSchema(
            f"unknown edge algorithm {algorithm!r}", where=where, hint=f"one of {', '.join(sorted(EDGE_ALGORITHMS))}"
        )
    return None if lowered == DEFAULT_ALGORITHM else lowered


def child_fields(of: Type) -> tuple[NestedField, ...]:
    """What a nested type directly contains, as fields; nothing for the others."""
    match of:
        case StructType():
            return of.fields
        case ListType():
            return (of.element_field,)
        case MapType():
            return (of.key_field, of.value_field)
        case _:
            return ()


def is_nested(of: Type) -> bool:
    """Whether this is a struct, list or map."""
    return isinstance(of, NestedType)


def is_primitive(of: Type) -> bool:
    """Whether the specification calls this primitive: neither nested nor a variant."""
    return not isinstance(of, NestedType) and of != VARIANT


def needs_v3(of: Type) -> bool:
    """Whether this type by itself (not what it contains) was added by format version 3."""
    match of:
        case PrimitiveType():
            return of.name in V3_TYPES
        case GeometryType() | GeographyType():
            return True
        case _:
            return False
