"""Batches cut by partition: rows of one partition together, in their order.

Transforms are computed over whole columns: by arithmetic where the values are integers underneath, else once for each
distinct value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firn.model.errors import Unsupported
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.transforms import Bucket, Identity, TimeTransform, Transform, Truncate, UnknownTransform, Void
from firn.model.types import DATE, INT, LONG, TIME, TIMESTAMP, TIMESTAMP_NS, TIMESTAMPTZ, TIMESTAMPTZ_NS, Type
from firn.storage.arrow_rows import values_of

Longs = npt.NDArray[np.int64]

_TICKS_PER_DAY: Final[Mapping[Type, int]] = {
    DATE: 1,
    TIMESTAMP: 86_400 * 10**6,
    TIMESTAMPTZ: 86_400 * 10**6,
    TIMESTAMP_NS: 86_400 * 10**9,
    TIMESTAMPTZ_NS: 86_400 * 10**9,
}
_INTEGERS: Final = frozenset({INT, LONG, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS})
_FOUR_BYTES: Final = frozenset({INT, DATE})


class PartitionRows(msgspec.Struct, frozen=True):
    """Rows of one partition; `values` is its tuple of internal values."""

    values: tuple[Any, ...]
    rows: pa.RecordBatch


class PartitionSplitter:
    """Cuts batches in the Arrow schema of `schema` by a partition spec.

    Raises Unsupported for a spec with a transform that is not known.
    """

    def __init__(self, spec: PartitionSpec, schema: Schema) -> None:
        self._fields = [_Field(field, schema) for field in spec.fields]

    def split(self, batch: pa.RecordBatch) -> Iterator[PartitionRows]:
        """The rows of each partition that the batch has rows of."""
        if batch.num_rows == 0:
            return
        columns = [field.encode(batch) for field in self._fields]
        codes: Longs = np.zeros(batch.num_rows, np.int64)
        for column_codes, values in columns:
            if len(values) > 1:  # most batches of rows that come partition by partition have one value
                codes = np.unique(codes * len(values) + column_codes, return_inverse=True)[1].astype(np.int64)
        if not columns or codes.max() == 0:
            yield PartitionRows(tuple(values[int(column[0])] for column, values in columns), batch)
            return
        order = np.argsort(codes, kind="stable")
        ordered = codes[order]
        rows = batch.take(pa.array(order))
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], len(ordered)], strict=True):
            first = int(order[start])
            partition = tuple(values[int(column[first])] for column, values in columns)
            yield PartitionRows(partition, rows.slice(start, stop - start))


class _Field:
    """One partition field: its column, and its values for a batch as codes into a list of distinct values."""

    def __init__(self, field: PartitionField, schema: Schema) -> None:
        self._transform = field.parsed_transform
        if isinstance(self._transform, UnknownTransform):
            raise Unsupported(f"cannot partition by the unknown transform {field.transform!r}")
        source = schema.field_by_id(field.source_id)
        position = schema.position(field.source_id)
        if not isinstance(self._transform, Void) and (source is None or position is None):
            raise Unsupported(f"partition field {field.name!r} has no column in the table")
        self._type = None if source is None else source.type
        self._path = position or ()

    def encode(self, batch: pa.RecordBatch) -> tuple[Longs, list[Any]]:
        if self._type is None or isinstance(self._transform, Void):
            return np.zeros(batch.num_rows, np.int64), [None]
        array = batch.column(self._path[0])
        for index in self._path[1:]:
            array = array.flatten()[index]
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if self._type in _INTEGERS:
            return _of_integers(array, self._type, self._transform)
        return _of_distinct(array, self._type, self._transform)


def _of_distinct(array: pa.Array, type: Type, transform: Transform) -> tuple[Longs, list[Any]]:
    """Codes and values by applying the transform once to each distinct value of the column."""
    encoded = array.dictionary_encode(null_encoding="encode")
    by_key: dict[Any, int] = {}
    values: list[Any] = []
    codes = []
    for value in values_of(encoded.dictionary, type):
        transformed = transform.apply(type, value)
        key = _key(transformed)
        if key not in by_key:
            by_key[key] = len(values)
            values.append(transformed)
        codes.append(by_key[key])
    return np.asarray(codes, np.int64)[encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)], values


def _key(value: Any) -> Any:
    """Equal values of one type, but -0.0 and 0.0 apart and every NaN together."""
    return value if not isinstance(value, float) else "nan" if value != value else (value, str(value))  # noqa: PLR0124


def _of_integers(array: pa.Array, type: Type, transform: Transform) -> tuple[Longs, list[Any]]:
    """Codes and values of a column of integers, whatever they mean, by arithmetic over all of it."""
    dead = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    integers = array.view(pa.int32() if type in _FOUR_BYTES else pa.int64())
    longs = (integers if dead is None else integers.fill_null(0)).to_numpy().astype(np.int64)
    match transform:
        case Bucket(buckets=buckets):
            transformed = bucket_of_longs(longs // 1000 if type in (TIMESTAMP_NS, TIMESTAMPTZ_NS) else longs, buckets)
        case TimeTransform(unit=unit):
            transformed = longs // (_TICKS_PER_DAY[type] // 24 if unit == "hour" else _TICKS_PER_DAY[type])
        case Truncate(width=width):
            transformed = longs // width * width
        case _:
            assert isinstance(transform, Identity)
            transformed = longs
    values: list[Any]
    if transformed.min() == transformed.max():
        codes, values = np.zeros(len(transformed), np.int64), [int(transformed[0])]
    else:
        distinct, inverse = np.unique(transformed, return_inverse=True)
        codes, values = inverse.astype(np.int64), distinct.tolist()
    if isinstance(transform, TimeTransform) and transform.unit in {"month", "year"}:
        values = [transform.apply(DATE, day) for day in values]
    elif isinstance(transform, Truncate) and type == INT:
        values = [(value + 2**31) % 2**32 - 2**31 for value in values]
    if dead is not None:
        codes = np.where(dead, len(values), codes)
        values.append(None)
    return _merged(codes, values)


def _merged(codes: Longs, values: list[Any]) -> tuple[Longs, list[Any]]:
    """One code for each value: several days are one month."""
    unique = list(dict.fromkeys(values))
    if len(unique) == len(values):
        return codes, values
    places = {value: at for at, value in enumerate(unique)}
    return np.asarray([places[value] for value in values], np.int64)[codes], unique


def bucket_of_longs(longs: Longs, buckets: int) -> Longs:
    """Murmur3 (32 bits, x86, seed 0) of 8-byte integers, as the bucket transform has it."""
    bits = longs.view(np.uint64)
    state = np.zeros(len(longs), np.uint32)
    for shift in (0, 32):
        block = ((bits >> np.uint64(shift)) & np.uint64(0xFFFF_FFFF)).astype(np.uint32)
        block *= np.uint32(0xCC9E2D51)
        block = (block << np.uint32(15)) | (block >> np.uint32(17))
        block *= np.uint32(0x1B873593)
        state ^= block
        state = (state << np.uint32(13)) | (state >> np.uint32(19))
        state = state * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(8)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state ^= state >> np.uint32(shift)
        state *= np.uint32(factor)
    state ^= state >> np.uint32(16)
    return (state & np.uint32(0x7FFF_FFFF)).astype(np.int64) % buckets
