"""The files that every row commits: 20 columns, each with all its metrics, partitioned by day.

Only what a manifest says of them exists. Neither firn nor a peer opens a data file in order to commit it.
"""

from __future__ import annotations

import random
import struct
from typing import Any, Final

import msgspec

from firn.model.intent import ContentFile, CountMap, ValueMap

COLUMNS: Final = {
    **{f"count_{n}": "long" for n in range(8)},
    **{f"share_{n}": "double" for n in range(6)},
    **{f"name_{n}": "string" for n in range(5)},
    "ts": "timestamptz",
}
SCHEMA: Final[dict[str, Any]] = {
    "type": "struct",
    "fields": [
        {"id": n, "name": name, "type": type_, "required": False} for n, (name, type_) in enumerate(COLUMNS.items(), 1)
    ],
}
TS_ID: Final = len(COLUMNS)
SPEC: Final[dict[str, Any]] = {
    "spec-id": 0,
    "fields": [{"source-id": TS_ID, "field-id": 1000, "name": "ts_day", "transform": "day"}],
}

FIRST_DAY: Final = 20_454
"""2026-01-01, in days since 1970-01-01."""

DAY_US: Final = 86_400_000_000


class FileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a manifest says of one Parquet file, by field id; bounds in Iceberg's binary form."""

    day: int
    records: int
    size: int
    column_sizes: dict[int, int]
    value_counts: dict[int, int]
    null_counts: dict[int, int]
    nan_counts: dict[int, int]
    lower: dict[int, bytes]
    upper: dict[int, bytes]


def make_facts(rng: random.Random) -> FileFacts:
    """Facts as those of a file of some thousand rows."""
    day, records = FIRST_DAY + rng.randrange(30), rng.randrange(1_000, 20_000)
    types = dict(enumerate(COLUMNS.values(), 1))
    bounds = {number: _bounds(type_, day=day, rng=rng) for number, type_ in types.items()}
    return FileFacts(
        day=day,
        records=records,
        size=rng.randrange(100_000, 5_000_000),
        column_sizes={number: rng.randrange(1_000, 90_000) for number in types},
        value_counts=dict.fromkeys(types, records),
        null_counts={number: rng.randrange(50) for number in types},
        nan_counts={number: 0 for number, type_ in types.items() if type_ == "double"},
        lower={number: low for number, (low, _) in bounds.items()},
        upper={number: high for number, (_, high) in bounds.items()},
    )


def content_file(facts: FileFacts, path: str) -> ContentFile:
    """The file as an intent names it."""
    return ContentFile(
        file_path=path,
        file_format="parquet",
        spec_id=0,
        partition=(facts.day,),
        record_count=facts.records,
        file_size_in_bytes=facts.size,
        column_sizes=_counts(facts.column_sizes),
        value_counts=_counts(facts.value_counts),
        null_value_counts=_counts(facts.null_counts),
        nan_value_counts=_counts(facts.nan_counts),
        lower_bounds=_values(facts.lower),
        upper_bounds=_values(facts.upper),
        split_offsets=(4,),
    )


def _bounds(type_: str, *, day: int, rng: random.Random) -> tuple[bytes, bytes]:
    if type_ == "double":
        low, high = sorted((rng.random(), rng.random()))
        return struct.pack("<d", low), struct.pack("<d", high)
    if type_ == "string":
        first, last = sorted((f"{rng.getrandbits(64):016x}", f"{rng.getrandbits(64):016x}"))
        return first.encode(), last.encode()
    first_us, span = (day * DAY_US, DAY_US) if type_ == "timestamptz" else (0, 1 << 40)
    early, late = sorted((rng.randrange(span), rng.randrange(span)))
    return struct.pack("<q", first_us + early), struct.pack("<q", first_us + late)


def _counts(counts: dict[int, int]) -> CountMap:
    return CountMap(keys=tuple(counts), values=tuple(counts.values()))


def _values(values: dict[int, bytes]) -> ValueMap:
    return ValueMap(keys=tuple(values), values=tuple(value.hex() for value in values.values()))
