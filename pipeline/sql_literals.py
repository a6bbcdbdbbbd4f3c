"""Internal values as constants in Spark's SQL."""

from __future__ import annotations

import uuid
from typing import Any, Final

from firn.model.errors import Unsupported
from firn.model.types import (
    DATE,
    DOUBLE,
    FLOAT,
    LONG,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    Type,
    is_nested,
)
from firn.model.values import value_to_json

_LONGS: Final = frozenset({LONG, TIME, TIMESTAMP_NS, TIMESTAMPTZ_NS})
_QUOTED: Final = {DATE: "DATE", TIMESTAMP: "TIMESTAMP_NTZ", TIMESTAMPTZ: "TIMESTAMP"}


def sql_literal(type: Type, value: Any) -> str:
    """The constant that a value of a column is, in the type that Spark reads it as; a uuid is its 16 bytes.

    Raises Unsupported for nested types.
    """
    if is_nested(type):
        raise Unsupported(f"a constant of type {type} is not written in SQL")
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | uuid.UUID):
        return f"X'{(value.bytes if isinstance(value, uuid.UUID) else value).hex()}'"
    if type in _LONGS:
        return f"{value}L" if value > -(2**63) else f"({value + 1}L - 1L)"
    if type in _QUOTED:
        return f"{_QUOTED[type]} '{value_to_json(type, value)}'"
    if type in (FLOAT, DOUBLE):
        return f"CAST('{value_to_json(type, value)}' AS {type})"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    return f"CAST({value} AS {type})"
