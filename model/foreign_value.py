"""Partition values that other writers have stored, where they are no values of the partition field's type.

Numbers beyond a type's range and bytes of another length stay what they are: they compare like any other value. The
rest is a `ForeignValue`, which keeps the type in which it was stored.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from firn.model.errors import InvalidInput
from firn.model.internal_values import DAY_MICROS, as_float, decimal_width
from firn.model.json_members import INT_MAX, INT_MIN
from firn.model.types import (
    BINARY,
    DATE,
    DECIMAL_PRECISION_MAX,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    UUID,
    DecimalType,
    FixedType,
    StructType,
    Type,
)

_UUID_BYTES: Final = 16


class ForeignValue(msgspec.Struct, frozen=True):
    """A value of `type` in a partition field of another type, or of one that is not known. It is never null.

    The value of a ``string`` is bytes where these are no UTF-8.
    """

    type: Type
    value: Any

    def __str__(self) -> str:
        return f"{self.type} {self.value.hex() if isinstance(self.value, bytes) else self.value}"


def stored_type(partition_type: StructType, partitions: Iterable[Sequence[Any]], *, exact: bool = False) -> StructType:
    """Return the type under which all these tuples can be stored without a change of any value.

    That is `partition_type`, but for fields with values that its Avro form cannot hold; `exact`: with values that are
    beyond the type's range. Raises InvalidInput where a field has values of types that cannot stand beside each other.
    """
    tuples = list(partitions)
    if any(len(one) != len(partition_type.fields) for one in tuples):
        return partition_type
    fields = []
    for position, field in enumerate(partition_type.fields):
        column = [one[position] for one in tuples if one[position] is not None]
        type_ = _common_type(field.type, column, exact=exact, where=f"partition.{field.name}")
        fields.append(field if type_ == field.type else msgspec.structs.replace(field, type=type_))
    return StructType(tuple(fields))


def value_in(type: Type, value: Any) -> Any:
    """Return a partition value as an internal value of `type`, the one that `stored_type` gives its field."""
    if isinstance(value, ForeignValue):
        if type == STRING and isinstance(value.value, bytes):
            return value.value.decode(errors="backslashreplace")
        return value_in(type, value.value)
    if isinstance(value, uuid.UUID) and type != UUID:
        return str(value) if type == STRING else value.bytes
    return value


def _common_type(declared: Type, column: Sequence[Any], *, exact: bool, where: str) -> Type:
    decimals = [value for value in column if isinstance(value, Decimal)]
    if isinstance(declared, DecimalType) and decimals:
        declared = _decimal_type(declared, decimals, exact=exact, where=where)
    if exact and declared == TIME and any(isinstance(value, int) and not 0 <= value < DAY_MICROS for value in column):
        declared = LONG
    needed = {_type_of(declared, value) for value in column}
    if not needed:
        return declared
    common = needed.pop()
    for other in needed:
        common = _wider(common, other, where=where)
    return common


def _type_of(declared: Type, value: Any) -> Type:
    """Return the type that holds one value: the declared one where that can."""
    if isinstance(value, ForeignValue):
        return value.type
    if declared in (INT, DATE) and isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
        return LONG
    if declared == FLOAT and isinstance(value, float) and not is_single(value):
        return DOUBLE
    if isinstance(declared, FixedType) and isinstance(value, bytes):
        return FixedType(len(value)) if value else BINARY
    return declared


def is_single(value: float) -> bool:
    """Return whether a number is one of 32 bits (NaN is)."""
    try:
        return value != value or as_float("float", value, "value") == value  # noqa: PLR0124 - NaN
    except InvalidInput:
        return False


def _decimal_type(declared: DecimalType, column: Sequence[Decimal], *, exact: bool, where: str) -> DecimalType:
    """Return the smallest decimal type that has the declared one's values and these."""
    scale, whole = declared.scale, declared.precision - declared.scale
    for value in column:
        exponent = value.as_tuple().exponent
        assert isinstance(exponent, int)
        scale = max(scale, -exponent)
        whole = max(whole, value.adjusted() + 1) if value else whole
    if whole + scale > DECIMAL_PRECISION_MAX:
        raise InvalidInput(f"decimals of {whole + scale} digits beside each other", where=where)
    fits = whole + scale <= declared.precision if exact else _fits(declared, whole)
    return declared if scale == declared.scale and fits else DecimalType(whole + scale, scale)


def _fits(declared: DecimalType, whole: int) -> bool:
    """Return whether numbers of so many digits before the point take no more bytes than the declared type has."""
    return decimal_width(whole + declared.scale) <= decimal_width(declared.precision)


def _wider(one: Type, other: Type, *, where: str) -> Type:
    """Return the type that holds the values of both."""
    both = {one, other}
    if both <= {INT, LONG, DATE}:
        return LONG
    if both == {FLOAT, DOUBLE}:
        return DOUBLE
    if both == {UUID, STRING}:
        return STRING
    if both == {STRING, BINARY}:
        return BINARY
    if all(type_ in (BINARY, UUID) or isinstance(type_, FixedType) for type_ in both):
        return FixedType(_UUID_BYTES) if both == {UUID, FixedType(_UUID_BYTES)} else BINARY
    raise InvalidInput(f"a {one} beside a {other}", where=where)
