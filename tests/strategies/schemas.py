"""Types, schemas and internal values for property tests: everything the format has, at sizes that stay quick."""

from __future__ import annotations

import uuid
from decimal import Decimal
from itertools import count
from typing import Any

import msgspec
from hypothesis import strategies as st

from firn.model.field_ids import with_ids
from firn.model.internal_values import DAY_MICROS
from firn.model.schema import Schema
from firn.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    EDGE_ALGORITHMS,
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
    PrimitiveType,
    StructType,
    Type,
)
from firn.model.values import value_to_json

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="."), min_size=1, max_size=6)

DECIMALS = st.integers(1, 38).flatmap(lambda p: st.builds(DecimalType, st.just(p), st.integers(0, p)))
FIXED = st.builds(FixedType, st.integers(1, 20))
CRS = st.sampled_from(["EPSG:4326", "srid:0", "IGNF:ATI"]) | st.none()
GEOSPATIAL = st.builds(GeometryType, CRS) | st.builds(
    GeographyType, CRS, st.sampled_from(sorted(EDGE_ALGORITHMS - {"spherical"})) | st.none()
)
V1_PLAIN = st.sampled_from(
    [BOOLEAN, INT, LONG, FLOAT, DOUBLE, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, STRING, UUID, BINARY]
)
V3_PLAIN = st.sampled_from([TIMESTAMP_NS, TIMESTAMPTZ_NS])

PRIMITIVES_V1 = V1_PLAIN | DECIMALS | FIXED
"""Primitive types of every format version."""

PRIMITIVES_WITH_VALUES = PRIMITIVES_V1 | V3_PLAIN
"""Primitive types that have values of their own in bounds, partitions and defaults."""

LEAVES = PRIMITIVES_WITH_VALUES | GEOSPATIAL | st.sampled_from([UNKNOWN, VARIANT])
"""All types that contain no other."""


def values(type: Type) -> st.SearchStrategy[Any]:
    """Internal values of a primitive type, never None; floats include NaN, infinities and both zeros."""
    match type:
        case DecimalType(precision=p, scale=s):
            return st.integers(-(10**p) + 1, 10**p - 1).map(
                lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -s))
            )
        case FixedType(length=n):
            return st.binary(min_size=n, max_size=n)
        case PrimitiveType(name=name):
            return {
                "boolean": st.booleans(),
                "int": INTS,
                "date": INTS,
                "float": st.floats(width=32),
                "double": st.floats(),
                "time": st.integers(0, DAY_MICROS - 1),
                "string": TEXT,
                "binary": st.binary(max_size=8),
                "uuid": st.uuids(allow_nil=True) | st.just(uuid.UUID(int=2**128 - 1)),
            }.get(name, LONGS)
    raise TypeError(type)


TYPED_VALUES = PRIMITIVES_WITH_VALUES.flatmap(lambda t: st.tuples(st.just(t), values(t)))
"""Pairs of a primitive type and one of its values."""


def _nested(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    lists = st.builds(
        lambda e, r: ListType(element_id=0, element=e, element_required=r and e != UNKNOWN), inner, st.booleans()
    )
    keys = inner.filter(lambda t: t != UNKNOWN)
    maps = st.builds(
        lambda k, v, r: MapType(key_id=0, key=k, value_id=0, value=v, value_required=r and v != UNKNOWN),
        keys,
        inner,
        st.booleans(),
    )
    return lists | maps | structs(inner)


@st.composite
def _field(draw: st.DrawFn, name: str, inner: st.SearchStrategy[Type], *, defaults: bool) -> NestedField:
    type = draw(inner)
    initial = written = None
    if defaults and _has_values(type):
        initial, written = draw(st.none() | _finite(type)), draw(st.none() | _finite(type))
    return NestedField(
        field_id=0,
        name=name,
        type=type,
        required=type != UNKNOWN and draw(st.booleans()),
        doc=draw(st.none() | TEXT),
        initial_default=initial,
        write_default=written,
        extra=draw(st.sampled_from([{}, {}, {"x-kept": [1, {"a": None}]}])),
    )


def _has_values(type: Type) -> bool:
    return isinstance(type, DecimalType | FixedType) or (
        isinstance(type, PrimitiveType) and type not in (UNKNOWN, VARIANT)
    )


def _finite(type: Type) -> st.SearchStrategy[Any]:
    """Values that JSON has numbers for, so that equal schemas compare equal."""
    return values(type).filter(lambda v: not isinstance(v, float) or isinstance(value_to_json(type, v), float))


@st.composite
def structs(
    draw: st.DrawFn, inner: st.SearchStrategy[Type], *, max_fields: int = 4, defaults: bool = False
) -> StructType:
    """Struct types whose field ids are all 0."""
    names = draw(st.lists(NAMES, min_size=1, max_size=max_fields, unique=True))
    return StructType(tuple(draw(_field(name, inner, defaults=defaults)) for name in names))


def types(leaves: st.SearchStrategy[Type] = LEAVES) -> st.SearchStrategy[Type]:
    """Types of every kind with ids from 1 on."""
    return st.recursive(leaves, _nested, max_leaves=6).map(lambda t: with_ids(t, _fresh()))


def _fresh() -> Any:
    ids = count(1)
    return lambda _old: next(ids)


@st.composite
def schemas(
    draw: st.DrawFn, leaves: st.SearchStrategy[Type] = LEAVES, *, max_fields: int = 5, defaults: bool = True
) -> Schema:
    """Schemas of valid names and ids; identifier fields are some of the columns that may be, at the top."""
    inner = st.recursive(leaves, _nested, max_leaves=4)
    struct = with_ids(draw(structs(inner, max_fields=max_fields, defaults=defaults)), _fresh())
    assert isinstance(struct, StructType)
    candidates = [
        f.field_id for f in struct.fields if f.required and _has_values(f.type) and f.type not in (FLOAT, DOUBLE)
    ]
    identifiers = draw(st.lists(st.sampled_from(candidates), unique=True, max_size=2)) if candidates else []
    return Schema(
        schema_id=draw(st.integers(0, 5)),
        struct=struct,
        identifier_field_ids=tuple(identifiers),
        extra=draw(st.sampled_from([{}, {"x-kept": "yes"}])),
    )


def schemas_v1() -> st.SearchStrategy[Schema]:
    """Schemas that every format version may hold."""
    return schemas(PRIMITIVES_V1, defaults=False).map(lambda s: msgspec.structs.replace(s, extra={}))
