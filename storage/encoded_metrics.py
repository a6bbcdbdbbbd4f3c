"""The metrics of a data file as the bytes that a manifest has of them, mostly made by the writer of the file.

They are the fields of an Avro `data_file` record from column sizes (108) to sort order (140), in the order and with
the types of `firn.storage.manifest_schema`. These depend on no schema, partition spec or snapshot and are the same in
v2 and v3, so that such bytes cannot be out of date. What a commit depends on (location, partition, rows, size) is not
in them.

Every byte is checked at the door, because no reader could decode a manifest with damaged ones. A few expressions
recognise the layout of most files (`is_plain`); all others are decoded (`with_metrics`), and encoded anew before they
are written (`firn.storage.wire_metrics.in_plain_form`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NoReturn

import msgspec

from firn.model.datafile import DataFile
from firn.model.errors import InvalidInput
from firn.model.json_members import INT_MAX
from firn.storage.avro import decode_record
from firn.storage.avro_numbers import LONG_MAX
from firn.storage.avro_schema import compile_schema
from firn.storage.avro_steps import Step, array, short_bytes
from firn.storage.manifest_schema import metrics_schema

BOUND_BYTES_MAX: Final = 64 * 1024
"""Longest bound accepted: longer ones belong truncated."""

_SCHEMA: Final = compile_schema(metrics_schema())
_COUNT_FIELDS: Final = ("f108", "f109", "f110", "f137")
_BOUND_FIELDS: Final = ("f125", "f128")
_OPTIONAL: Final = b"(?>\\x00|\\x02%s)"


def with_metrics(file: DataFile) -> DataFile:
    """Return the file with its encoded metrics in its fields.

    Raises InvalidInput where the bytes are no metrics: undecodable, negative ids and counts, a column twice in a map,
    bounds longer than `BOUND_BYTES_MAX`.
    """
    if file.encoded is None:
        return file
    return msgspec.structs.replace(file, encoded=None, **_members(file.encoded))


# ---------------------------------------------------------------------------------------------------------------------
# What most look like


def _evens(first: int) -> bytes:
    return b"[%s]" % b"".join(b"\\x%02x" % byte for byte in range(first, first + 0x80, 2))


def _natural(bytes_max: int) -> bytes:
    """A number that is not negative: zigzag makes it even."""
    return rb"(?>%s|%s[\x80-\xff]{0,%d}+[\x00-\x7f])" % (_evens(0), _evens(0x80), bytes_max - 2)


def _never(content: bytes, at: int) -> NoReturn:
    raise ValueError(f"nothing plain at {at} of {len(content)} bytes")


_ID: Final = _natural(4)
_COUNT: Final = _natural(9)


def _listed(item: bytes) -> bytes:
    """Arrays of up to a few items in one block."""
    more = b"|".join(rb"\x%02x(?:%s){%d}+\x00" % (2 * n, item, n) for n in range(1, 64))
    return rb"(?>\x00|" + more + b")"


_COUNTS: Final = re.compile(b"(?:%s){4}+" % (_OPTIONAL % _listed(_ID + _COUNT)), re.DOTALL)
_skip_bounds: Final = array(Step(_never, _ID + short_bytes())).skip
_REST: Final = re.compile(
    b"".join((_OPTIONAL % short_bytes(), _OPTIONAL % _listed(_COUNT), rb"\x00", _OPTIONAL % _ID)), re.DOTALL
)
"""Key metadata, split offsets, no equality ids, sort order."""


def is_plain(encoded: bytes) -> bool:
    """Whether these are metrics laid out like most; others may be metrics, too."""
    counts = _COUNTS.match(encoded)
    if counts is None:
        return False
    at = counts.end()
    try:
        for _ in _BOUND_FIELDS:
            mark = encoded[at]
            at += 1
            if mark == 2:
                at = _skip_bounds(encoded, at)
            elif mark:
                return False
    except (ValueError, IndexError):
        return False
    return _REST.fullmatch(encoded, at) is not None


# ---------------------------------------------------------------------------------------------------------------------
# All others


def _members(encoded: bytes) -> dict[str, Any]:
    """The fields of `DataFile` that these bytes say."""
    record = decode_record(_SCHEMA, encoded)
    counts = [_map(record[name]) for name in _COUNT_FIELDS]
    bounds = [_map(record[name]) for name in _BOUND_FIELDS]
    lists = [None if record[name] is None else tuple(record[name]) for name in ("f132", "f135")]
    sort_order_id = record["f140"]
    _require_naturals((key for one in (*counts, *bounds) for key in one or ()), most=INT_MAX, what="a column id")
    _require_naturals((n for one in counts for n in (one or {}).values()), most=LONG_MAX, what="a count")
    _require_naturals(lists[0] or (), most=LONG_MAX, what="an offset")
    _require_naturals((*(lists[1] or ()), sort_order_id or 0), most=INT_MAX, what="an id")
    longest = max((len(bound) for one in bounds for bound in (one or {}).values()), default=0)
    if longest > BOUND_BYTES_MAX:
        raise InvalidInput(f"a bound has {longest} bytes, at most {BOUND_BYTES_MAX}")
    return {
        "column_sizes": counts[0],
        "value_counts": counts[1],
        "null_value_counts": counts[2],
        "nan_value_counts": counts[3],
        "lower_bounds": bounds[0],
        "upper_bounds": bounds[1],
        "key_metadata": record["f131"],
        "split_offsets": lists[0],
        "equality_ids": lists[1],
        "sort_order_id": sort_order_id,
    }


def _map(pairs: list[dict[str, Any]] | None) -> dict[int, Any] | None:
    if pairs is None:
        return None
    found = {pair["key"]: pair["value"] for pair in pairs}
    if len(found) < len(pairs):
        raise InvalidInput("a column stands twice in a map")
    return found


def _require_naturals(numbers: Iterable[int], *, most: int, what: str) -> None:
    for number in numbers:
        if not 0 <= number <= most:
            raise InvalidInput(f"{number} is not {what}")
