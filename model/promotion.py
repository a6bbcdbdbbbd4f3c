"""Which type a column may be changed to without rewriting its files (table specification, "Schema Evolution")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from firn.model.internal_values import DAY_MICROS, check_value
from firn.model.types import (
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    TIMESTAMP,
    TIMESTAMP_NS,
    UNKNOWN,
    DecimalType,
    Type,
    is_primitive,
)

_EVERY_VERSION: Final[Mapping[Type, frozenset[Type]]] = {INT: frozenset({LONG}), FLOAT: frozenset({DOUBLE})}
_FROM_V3: Final[Mapping[Type, frozenset[Type]]] = {DATE: frozenset({TIMESTAMP, TIMESTAMP_NS})}

_SAME_RESULT_FOR_DATE: Final = frozenset({"void", "year", "month", "day"})
"""Transforms that give a date and the midnight that it is promoted to the same partition value."""


def can_promote(*, source: Type, target: Type, format_version: int) -> bool:
    """Whether a column of type `source` may become `target` (the same type always may).

    Widening a decimal keeps its scale. Format version 3 adds date to timestamp and timestamp_ns, and ``unknown`` to
    any type; timestamps with zone are never reached from a date.
    """
    if source == target:
        return True
    if isinstance(source, DecimalType) and isinstance(target, DecimalType):
        return target.scale == source.scale and target.precision > source.precision
    if target in _EVERY_VERSION.get(source, frozenset()):
        return True
    if format_version < 3:
        return False
    # `unknown` has no files to be read back, so that even nested types could follow; our updates change primitives.
    return source == UNKNOWN or target in _FROM_V3.get(source, frozenset())


def refusal(*, source: Type, target: Type, format_version: int) -> str | None:
    """Why `can_promote` says no, in words that end a sentence; None when it says yes."""
    if can_promote(source=source, target=target, format_version=format_version):
        return None
    if can_promote(source=source, target=target, format_version=3):
        return f"needs format version 3, the table has {format_version}"
    if isinstance(source, DecimalType) and isinstance(target, DecimalType):
        return "the scale of a decimal is fixed" if target.scale != source.scale else "a decimal cannot get narrower"
    if not is_primitive(source):
        return "only primitive types are promoted"
    return "the specification has no such promotion"


def transforms_that_block(*, source: Type, target: Type, transforms: Iterable[str]) -> list[str]:
    """Those of the column's partition `transforms` that would give other values after the promotion.

    A date that becomes a timestamp keeps its year, month and day; its bucket, its identity and what firn does not know
    change, and with them the partition that its rows belong to.
    """
    if source != DATE or source == target:
        return []
    return [t for t in transforms if t.strip().lower() not in _SAME_RESULT_FOR_DATE]


def promote_value(*, source: Type, target: Type, value: Any, where: str = "value") -> Any:
    """An internal value of `source` as one of `target`, for a promotion that `can_promote` allows; None stays None.

    Days become midnights, decimals and numbers stay what they are. Raises InvalidInput when a date lies outside the
    range of a timestamp in nanoseconds (years 1677 to 2262).
    """
    if value is None or source == target:
        return value
    if source == DATE:
        value *= DAY_MICROS if target == TIMESTAMP else DAY_MICROS * 1000
    return check_value(target, value, where=where)
