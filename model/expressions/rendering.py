"""How names, constants and predicates are spelled in messages: close to SQL, never parsed back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from firn.model.types import DecimalType, FixedType, PrimitiveType, Type
from firn.model.values import value_to_json

VALUES_MAX: Final = 10
"""Constants of one `in` that are spelled out."""

TEXT_CHARS_MAX: Final = 100
"""Characters of one string or binary constant that are spelled out."""

_SYMBOLS: Final[Mapping[str, str]] = {
    "is-null": "is null", "not-null": "is not null", "is-nan": "is nan", "not-nan": "is not nan",
    "lt": "<", "lt-eq": "<=", "gt": ">", "gt-eq": ">=", "eq": "=", "not-eq": "!=",
    "starts-with": "starts with", "not-starts-with": "not starts with", "in": "in", "not-in": "not in",
}  # fmt: skip
_PLAIN_NAME: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_KEYWORDED: Final = frozenset({"date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns", "uuid"})


def render_name(name: str) -> str:
    """A column's name, quoted unless it is made of plain words."""
    if _PLAIN_NAME.fullmatch(name):
        return name
    return '"' + name.replace('"', '""') + '"'


def render_value(value: Any, type: Type | None) -> str:
    """A constant; `value` is an internal value of `type`, or with None a bool, int, float or str."""
    match type:
        case PrimitiveType(name="binary") | FixedType():
            return "X" + _quoted(value_to_json(type, value))
        case PrimitiveType(name=name) if name in _KEYWORDED:
            return f"{name} {_quoted(value_to_json(type, value))}"
        case DecimalType():
            return format(value, "f")
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str) else str(value)


def render_predicate(op: str, term: str, shown: Sequence[str], *, count: int) -> str:
    """``ts >= timestamp '2026-01-01T00:00:00'``; `shown` are the first of `count` constants, spelled out."""
    symbol = _SYMBOLS[op]
    if op not in {"in", "not-in"}:
        return " ".join([term, symbol, *shown])
    more = f", … {count} in all" if count > VALUES_MAX else ""
    return f"{term} {symbol} ({', '.join(shown[:VALUES_MAX])}{more})"


def _quoted(text: str) -> str:
    shown = text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}…"
    return "'" + shown.replace("'", "''") + "'"
