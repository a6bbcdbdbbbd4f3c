"""Which columns of a Parquet file are worth a dictionary: those whose values repeat.

Arrow begins every column with a dictionary and gives it up when it is full; what it has written by then stays in the
file. A column of unique values is larger so, by up to a half, and slower to write. So some values are looked at first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

FEW_ROWS: Final = 1_000
"""Of fewer rows every column gets a dictionary: it is small."""

SAMPLE_VALUES: Final = 64 * 1024
"""Values of a column that are looked at, in `SAMPLE_PLACES` places of a row group."""

SAMPLE_PLACES: Final = 8

_LENGTH_BYTES: Final = 4
"""Bytes that Parquet puts before a value of any length."""


def dictionary_columns(rows: pa.Table, *, always: Collection[str] = ()) -> list[str]:
    """The paths of columns, as Parquet names them, that a dictionary makes smaller as far as some of `rows` tell.

    Columns inside others are among them unseen, and so are those named in `always`.
    """
    sample = _sample(rows)
    found: list[str] = []
    for field, column in zip(rows.schema, sample.columns, strict=True):
        if pa.types.is_nested(_storage(field.type)):
            found += _leaves(field.type, field.name)
        elif field.name in always or rows.num_rows < FEW_ROWS or _repeats(column):
            found.append(field.name)
    return found


def _sample(rows: pa.Table) -> pa.Table:
    if rows.num_rows <= SAMPLE_VALUES:
        return rows
    length = SAMPLE_VALUES // SAMPLE_PLACES
    last = rows.num_rows - length
    return pa.concat_tables([rows.slice(last * place // (SAMPLE_PLACES - 1), length) for place in range(SAMPLE_PLACES)])


def _repeats(column: pa.ChunkedArray) -> bool:
    """Whether a dictionary and the numbers of its entries take fewer bytes than the values."""
    values = pa.chunked_array([_stored(chunk) for chunk in column.chunks], _storage(column.type)).drop_null()
    if pa.types.is_boolean(values.type):
        return False  # which take a bit each
    if len(values) == 0:
        return True
    distinct = pc.unique(values)
    index_bytes = len(values) * max(1, (len(distinct) - 1).bit_length()) / 8
    return _bytes(distinct) + index_bytes < _bytes(values)


def _bytes(values: pa.Array | pa.ChunkedArray) -> int:
    """As many as Parquet takes for the values as they are."""
    type = values.type
    if pa.types.is_primitive(type) or pa.types.is_decimal(type) or pa.types.is_fixed_size_binary(type):
        return int(len(values) * type.bit_width // 8)
    return int(pc.sum(pc.binary_length(values)).as_py()) + _LENGTH_BYTES * len(values)


def _storage(type: pa.DataType) -> pa.DataType:
    return type.storage_type if isinstance(type, pa.BaseExtensionType) else type


def _stored(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _leaves(type: pa.DataType, path: str) -> Iterator[str]:
    """The paths of the columns inside a column."""
    if pa.types.is_struct(type):
        for index in range(type.num_fields):
            yield from _leaves(type.field(index).type, f"{path}.{type.field(index).name}")
    elif pa.types.is_list(type):
        yield from _leaves(type.value_type, f"{path}.list.{type.value_field.name}")
    elif pa.types.is_map(type):
        yield from _leaves(type.key_type, f"{path}.key_value.{type.key_field.name}")
        yield from _leaves(type.item_type, f"{path}.key_value.{type.item_field.name}")
    else:
        yield path
