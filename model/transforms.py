"""Transforms: what turns a column's value into a partition or sort value (table specification, "Partition Transforms").

A transform is a frozen value that compares by what it does. Values going in and out are internal values
(see `firn.model.datafile`); every transform answers None for None.

The strings of `human` are those that Iceberg's Java library puts into partition paths, so that both write the same
folders.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from firn.model.errors import InvalidInput, Unsupported
from firn.model.human_text import human_day, human_hour, human_month, human_value, human_year, year_and_month
from firn.model.internal_values import check_value, decimal_of, unscaled_of
from firn.model.iso_time import SECONDS_PER_DAY
from firn.model.json_members import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN
from firn.model.murmur import hash32
from firn.model.types import (
    DATE,
    INT,
    STRING,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    Type,
)

TRANSFORM_CHARS_MAX: Final = 1_000
"""Characters in the longest transform text that is accepted, known or not."""

TimeUnit = Literal["year", "month", "day", "hour"]

_FINENESS: Final[Mapping[TimeUnit, int]] = {"year": 0, "month": 1, "day": 2, "hour": 3}
_TICKS_PER_SECOND: Final[Mapping[str, int]] = {
    "timestamp": 10**6,
    "timestamptz": 10**6,
    "timestamp_ns": 10**9,
    "timestamptz_ns": 10**9,
}
_BUCKETED: Final = frozenset({"int", "long", "date", "time", "string", "uuid", "binary", *_TICKS_PER_SECOND})
_TRUNCATED: Final = frozenset({"int", "long", "string", "binary"})
_WITH_WIDTH: Final = re.compile(r"(bucket|truncate)\[([0-9]+)\]", re.IGNORECASE)


class _Base(msgspec.Struct, frozen=True):
    """What holds for a transform unless it says otherwise."""

    @property
    def preserves_order(self) -> bool:
        """Whether a ≤ b implies transform(a) ≤ transform(b)."""
        return False

    @property
    def dedup_name(self) -> str:
        """Two fields of one spec must not share both source column and this name: one would be redundant."""
        return str(self)

    def satisfies_order_of(self, other: Transform, source_type: Type | None = None) -> bool:
        """Whether rows ordered by this transform are ordered by `other` too.

        Without `source_type` truncation is taken to be of strings, as in Iceberg's Java library.
        """
        return self == other

    def human(self, type: Type, value: Any) -> str:
        """A *transformed* value for people and paths; `type` is the result type. ``null`` for None."""
        return human_value(type, value)

    def may_yield(self, type: Type, value: Any) -> bool:
        """Return whether some value of a column of `type` is transformed to `value`, which is of the result type.

        Null is always possible: any column may be null.
        """
        return True


class Identity(_Base, frozen=True):
    """The value itself."""

    def __str__(self) -> str:
        return "identity"

    @property
    def preserves_order(self) -> bool:
        return True

    def can_transform(self, type: Type) -> bool:
        """Whether columns of `type` are legal sources: every primitive but variant and geo types."""
        if isinstance(type, (StructType, ListType, MapType, GeometryType, GeographyType)):
            return False
        return type != PrimitiveType("variant")

    def result_type(self, type: Type) -> Type:
        """The type of transformed values."""
        return type

    def satisfies_order_of(self, other: Transform, source_type: Type | None = None) -> bool:
        return other.preserves_order

    def apply(self, type: Type, value: Any) -> Any:
        """`value`, in its normal form. Raises InvalidInput when it is not of `type`."""
        if value is None:
            return None
        _require(self, type)
        return check_value(type, value)


class Bucket(_Base, frozen=True):
    """Hash of the value, modulo `buckets` (1 … 2³¹-1)."""

    buckets: int

    def __str__(self) -> str:
        return f"bucket[{self.buckets}]"

    def can_transform(self, type: Type) -> bool:
        """Whether columns of `type` are legal sources (floats, booleans, nested, variant and geo types are not)."""
        return isinstance(type, (DecimalType, FixedType)) or (
            isinstance(type, PrimitiveType) and type.name in _BUCKETED
        )

    def result_type(self, type: Type) -> Type:
        """``int`` whatever the source."""
        return INT

    def apply(self, type: Type, value: Any) -> int | None:
        """The bucket, 0 ≤ b < `buckets`. Raises InvalidInput for a wrong type or value."""
        if value is None:
            return None
        _require(self, type)
        hashed = hash32(type, value)
        assert hashed is not None
        return (hashed & INT_MAX) % self.buckets

    def human(self, type: Type, value: Any) -> str:
        return human_value(INT, value)

    def may_yield(self, type: Type, value: Any) -> bool:
        return value is None or 0 <= value < self.buckets


class Truncate(_Base, frozen=True):
    """The value cut to `width` (1 … 2³¹-1): code points of a string, bytes of binary, else the multiple below."""

    width: int

    def __str__(self) -> str:
        return f"truncate[{self.width}]"

    @property
    def preserves_order(self) -> bool:
        return True

    def can_transform(self, type: Type) -> bool:
        """Whether columns of `type` are legal sources: int, long, decimal, string, binary."""
        return isinstance(type, DecimalType) or (isinstance(type, PrimitiveType) and type.name in _TRUNCATED)

    def result_type(self, type: Type) -> Type:
        """The source's type."""
        return type

    def satisfies_order_of(self, other: Transform, source_type: Type | None = None) -> bool:
        # A longer prefix orders shorter ones; a number's multiples order the multiples that they divide into.
        if not isinstance(other, Truncate):
            return False
        if isinstance(source_type, DecimalType) or source_type in {PrimitiveType("int"), PrimitiveType("long")}:
            return other.width % self.width == 0
        return other.width <= self.width

    def apply(self, type: Type, value: Any) -> Any:
        """The truncated value. Raises InvalidInput for a wrong type or value.

        Near the smallest int or long the multiple below is out of range; like the Java library we let it wrap
        around, because the files it wrote are there.
        """
        if value is None:
            return None
        _require(self, type)
        value = check_value(type, value)
        match type:
            case DecimalType(scale=scale):
                unscaled = unscaled_of(type, value, "value")
                return decimal_of(unscaled - unscaled % self.width, scale)
            case PrimitiveType(name="string" | "binary"):
                return value[: self.width]
            case _:
                half = INT_MAX + 1 if type == INT else LONG_MAX + 1
                return (value - value % self.width + half) % (2 * half) - half

    def may_yield(self, type: Type, value: Any) -> bool:
        if value is None or not self.can_transform(type):
            return True
        if isinstance(type, DecimalType) or type in {STRING, PrimitiveType("binary")}:
            return bool(self.apply(type, value) == value)
        least = INT_MIN if type == INT else LONG_MIN
        return bool(value % self.width == 0 or value == self.apply(type, least))  # which wraps around


class TimeTransform(_Base, frozen=True):
    """Whole years, months, days or hours since 1970-01-01T00:00:00, rounded down before it too."""

    unit: TimeUnit

    def __str__(self) -> str:
        return self.unit

    @property
    def preserves_order(self) -> bool:
        return True

    @property
    def dedup_name(self) -> str:
        return "time"

    def can_transform(self, type: Type) -> bool:
        """Whether columns of `type` are legal sources: timestamps, and dates for all but hours."""
        if type == DATE:
            return self.unit != "hour"
        return isinstance(type, PrimitiveType) and type.name in _TICKS_PER_SECOND

    def result_type(self, type: Type) -> Type:
        """``date`` for days, else ``int``."""
        return DATE if self.unit == "day" else INT

    def satisfies_order_of(self, other: Transform, source_type: Type | None = None) -> bool:
        return isinstance(other, TimeTransform) and _FINENESS[other.unit] <= _FINENESS[self.unit]

    def apply(self, type: Type, value: Any) -> int | None:
        """The unit's number. Raises InvalidInput for a wrong type or value, or hours beyond an int."""
        if value is None:
            return None
        _require(self, type)
        assert isinstance(type, PrimitiveType)
        value = check_value(type, value)
        if self.unit == "hour":
            return _as_int(self, value // (3_600 * _TICKS_PER_SECOND[type.name]))
        days = value if type == DATE else value // (SECONDS_PER_DAY * _TICKS_PER_SECOND[type.name])
        if self.unit == "day":
            return _as_int(self, days)
        year, month = year_and_month(days)
        return year - 1970 if self.unit == "year" else (year - 1970) * 12 + month - 1

    def human(self, type: Type, value: Any) -> str:
        if value is None:
            return "null"
        shown = {"year": human_year, "month": human_month, "day": human_day, "hour": human_hour}[self.unit]
        return shown(value)

    def may_yield(self, type: Type, value: Any) -> bool:
        if value is None or not self.can_transform(type):
            return True
        if type != DATE and self.unit == "hour":
            assert isinstance(type, PrimitiveType)
            ticks = 3_600 * _TICKS_PER_SECOND[type.name]
            return bool(LONG_MIN // ticks <= value <= LONG_MAX // ticks)
        least, most = (INT_MIN, INT_MAX) if type == DATE else (LONG_MIN, LONG_MAX)
        return bool(self.apply(type, least) <= value <= self.apply(type, most))


class Void(_Base, frozen=True):
    """Always null: what a removed field of a v1 spec becomes."""

    def __str__(self) -> str:
        return "void"

    def can_transform(self, type: Type) -> bool:
        """True: any column, nested ones and those that are gone included."""
        return True

    def result_type(self, type: Type) -> Type:
        """The source's type."""
        return type

    def apply(self, type: Type, value: Any) -> None:
        """None."""
        return

    def human(self, type: Type, value: Any) -> str:
        return "null"

    def may_yield(self, type: Type, value: Any) -> bool:
        return value is None


class UnknownTransform(_Base, frozen=True):
    """A transform of a newer specification, kept as its text; readers ignore it, writers must not write with it."""

    text: str

    def __str__(self) -> str:
        return self.text

    def can_transform(self, type: Type) -> bool:
        """True: nothing is known that speaks against it."""
        return True

    def result_type(self, type: Type) -> Type:
        """``string``, as the Java library assumes."""
        return STRING

    def apply(self, type: Type, value: Any) -> Any:
        """None for None; raises Unsupported otherwise."""
        if value is None:
            return None
        raise Unsupported(
            f"cannot apply the unknown transform {self.text!r}", hint="its table can be read, not written"
        )


Transform = Identity | Bucket | Truncate | TimeTransform | Void | UnknownTransform

IDENTITY: Final = Identity()
VOID: Final = Void()

_BY_NAME: Final[Mapping[str, Transform]] = {
    "identity": IDENTITY,
    "void": VOID,
    "year": TimeTransform("year"),
    "month": TimeTransform("month"),
    "day": TimeTransform("day"),
    "hour": TimeTransform("hour"),
}


@functools.lru_cache(maxsize=1024)
def parse_transform(text: str) -> Transform:
    """The transform that `text` names, whatever its case; what is not known becomes an UnknownTransform.

    Raises InvalidInput for a width or number of buckets that is not 1 … 2³¹-1, and for an empty or overlong text.
    """
    if not 0 < len(text) <= TRANSFORM_CHARS_MAX:
        raise InvalidInput(f"a transform has 1 … {TRANSFORM_CHARS_MAX} characters, this has {len(text)}")
    found = _WITH_WIDTH.fullmatch(text)
    if found is None:
        return _BY_NAME.get(text.lower()) or UnknownTransform(text)
    digits = found[2].lstrip("0")
    is_bucket = found[1].lower() == "bucket"
    if not digits or len(digits) > 10 or int(digits) > INT_MAX:
        name = "number of buckets" if is_bucket else "truncate width"
        raise InvalidInput(f"{found[2][:20]} is no {name}", hint=f"1 … {INT_MAX}")
    return Bucket(int(digits)) if is_bucket else Truncate(int(digits))


def default_name(transform: Transform, column: str) -> str:
    """The name of a partition field that nobody named: ``ts_day``, ``id_bucket_16``, ``data_trunc_8``."""
    match transform:
        case Identity():
            return column
        case Bucket(buckets=buckets):
            return f"{column}_bucket_{buckets}"
        case Truncate(width=width):
            return f"{column}_trunc_{width}"
        case TimeTransform(unit=unit):
            return f"{column}_{unit}"
        case Void():
            return f"{column}_null"
        case UnknownTransform(text=text):
            raise Unsupported(f"cannot partition by the unknown transform {text!r}")


def _require(transform: Transform, type: Type) -> None:
    if not transform.can_transform(type):
        raise InvalidInput(f"{transform} does not take values of type {type}")


def _as_int(transform: Transform, value: int) -> int:
    if not INT_MIN <= value <= INT_MAX:
        raise InvalidInput(f"the {transform} of this timestamp, {value}, does not fit in an int")
    return value
