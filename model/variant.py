"""A variant value: semi-structured data in Parquet's binary variant encoding (table specification, v3 types)."""

from __future__ import annotations

import msgspec


class Variant(msgspec.Struct, frozen=True):
    """The two parts as every file format stores them; firn carries them without looking inside."""

    metadata: bytes
    value: bytes
