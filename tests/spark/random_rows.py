"""Schemas and rows by chance, of everything that Spark can be given, with the awkward values often."""

from __future__ import annotations

import uuid
from decimal import Decimal
from itertools import count
from random import Random
from typing import Any, Final

from firn.model.field_ids import with_ids
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
    TIMESTAMPTZ_NS,
    UUID,
    DecimalType,
    FixedType,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
)
from firn.storage.arrow_rows import Row
from tests.strategies.expressions import AWKWARD

SHOWN_BY_SPARK: Final[tuple[Type, ...]] = (
    BOOLEAN, INT, LONG, FLOAT, DOUBLE, DATE, TIMESTAMP, TIMESTAMPTZ, STRING, UUID, BINARY, FixedType(3),
    DecimalType(4, 1), DecimalType(9, 2), DecimalType(18, 5), DecimalType(38, 6),
)  # fmt: skip
"""Types that Iceberg's runtime shows in Spark."""

OTHERS: Final[tuple[Type, ...]] = (TIME, TIMESTAMP_NS, TIMESTAMPTZ_NS)
KEYS: Final[tuple[Type, ...]] = (STRING, INT, LONG, DATE, DecimalType(9, 2))

NAMES: Final = ("plain", "Capital", "with space", "ünï", "select", "a-b", "_under", "long_" * 8, "n1", "n2", "n3")
TEXTS: Final = ["", "a", "ab", "abc", "b", "eu", "us", "it's", "100%", "a/b c", "\\n", "*?", "\ue000", "\U0001f600x"]

_DAYS: Final = [-719_162, -366, -365, -32, -31, -1, 0, 1, 31, 365, 20_000, 20_031, 2_932_896]
"""From 0001-01-01 to 9999-12-31: what Python's dates can tell."""


def _times(ticks: int, *, days: list[int]) -> list[int]:
    return [day * 86_400 * ticks + rest for day in days for rest in (0, 1, 3_600 * ticks)]


VALUES: Final[dict[Type, list[Any]]] = {
    **AWKWARD,
    DATE: _DAYS,
    TIMESTAMP: _times(10**6, days=_DAYS),
    TIMESTAMPTZ: _times(10**6, days=_DAYS),
    TIMESTAMP_NS: _times(10**9, days=_DAYS[1:-1]),
    TIMESTAMPTZ_NS: _times(10**9, days=_DAYS[1:-1]),
    STRING: TEXTS,
    UUID: [uuid.UUID(int=n) for n in (0, 1, 2**64, 2**127 - 1, 2**127, 2**128 - 1)],
}


def random_schema(dice: Random, *, types: tuple[Type, ...]) -> Schema:
    """The column ``id``, which operations go by, and a few others; ids are numbered as a new table numbers them."""
    names = dice.sample(NAMES, dice.randint(2, 5))
    fields = [
        NestedField(field_id=0, name="id", type=LONG, required=dice.random() < 0.3),
        *(random_field(dice, name, types=types, depth=2) for name in names),
    ]
    struct = with_ids(StructType(tuple(fields)), _numbered())
    assert isinstance(struct, StructType)
    return Schema(schema_id=0, struct=struct)


def _numbered() -> Any:
    numbers = count(1)
    return lambda _old: next(numbers)


def random_field(
    dice: Random, name: str, *, types: tuple[Type, ...], depth: int, required: bool | None = None
) -> NestedField:
    """A field whose type has at most `depth` levels inside."""
    required = dice.random() < 0.2 if required is None else required
    return NestedField(field_id=0, name=name, type=random_type(dice, types=types, depth=depth), required=required)


def random_type(dice: Random, *, types: tuple[Type, ...], depth: int) -> Type:
    """A type without field ids."""
    kind = dice.random() if depth else 1.0
    if kind < 0.2:
        names = dice.sample(NAMES, dice.randint(1, 3))
        return StructType(tuple(random_field(dice, name, types=types, depth=depth - 1) for name in names))
    if kind < 0.3:
        element = random_type(dice, types=types, depth=depth - 1)
        return ListType(element_id=0, element=element, element_required=dice.random() < 0.3)
    if kind < 0.4:
        value = random_type(dice, types=types, depth=depth - 1)
        key = dice.choice(KEYS)
        return MapType(key_id=0, key=key, value_id=0, value=value, value_required=dice.random() < 0.3)
    return dice.choice(types)


def random_row(dice: Random, schema: Schema, *, id: int) -> Row:
    """A row by field id, with this id."""
    row = _struct(dice, schema.struct)
    return {**row, schema.fields[0].field_id: id}


def _struct(dice: Random, struct: StructType) -> Row:
    return {field.field_id: random_value(dice, field) for field in struct.fields}


def random_value(dice: Random, field: NestedField) -> Any:
    """An internal value of the field, null now and then where that is allowed."""
    return None if not field.required and dice.random() < 0.2 else _value(dice, field.type)


def _value(dice: Random, type: Type) -> Any:
    match type:
        case StructType():
            return _struct(dice, type)
        case ListType():
            return tuple(random_value(dice, type.element_field) for _ in range(dice.randint(0, 3)))
        case MapType():
            keys = {_value(dice, type.key) for _ in range(dice.randint(0, 3))}
            return tuple((key, random_value(dice, type.value_field)) for key in sorted(keys))
        case DecimalType(precision=precision, scale=scale):
            # The least of all truncated to an even number has one digit too many: it is refused in such a partition.
            unscaled = dice.choice([0, 1, -1, 25, -(10**precision) + 2, 10**precision - 1])
            return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
    return dice.choice(VALUES[type])
