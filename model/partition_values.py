"""Partition values as keys: equal exactly where files are of one partition.

Iceberg's Java library compares them in the order in which the specification sorts floats (`StructLikeWrapper`, "Sort
Orders"): -0.0 is another partition than 0.0, and all NaNs are one. Python says the opposite of both.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Hashable, Iterable
from typing import Any, Final

_NAN: Final = b"nan"


def as_keys(values: Iterable[Any]) -> tuple[Hashable, ...]:
    """Values of one partition tuple, or of some of its fields, to be looked up and compared by."""
    return tuple([_float_bits(value) if isinstance(value, float) else value for value in values])


def _float_bits(value: float) -> bytes:
    return _NAN if math.isnan(value) else struct.pack("<d", value)


def has_zero(values: Iterable[Any]) -> bool:
    """Whether one of them is 0.0 or -0.0, which stands for both wherever the values themselves are keys."""
    return any(isinstance(value, float) and value == 0 for value in values)
