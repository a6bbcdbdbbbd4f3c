"""Whether other engines can read what a Parquet file stores, beyond that firn can.

A file may hold the table's columns in a form that firn reads and others do not: PyIceberg opens no column whose Arrow
type has another zone than UTC or a time in milliseconds, and ends over bytes that are no UTF-8. Such a file must not
come into a table, because every query of it would fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from firn.model.errors import CorruptFile, InvalidInput
from firn.model.name_mapping import NameMapping
from firn.model.schema import Schema
from firn.model.types import STRING, TIME
from firn.storage.parquet_columns import PARQUET_ERRORS, FileColumn, file_columns, file_fields

UTC_ZONES: Final = frozenset({"UTC", "+00:00", "Etc/UTC", "Z"})
"""Names of UTC that PyIceberg takes."""

_REWRITE: Final = "write it with the schema firn.arrow_schema(table.schema)"


def check_readable(
    source: pq.ParquetFile, *, schema: Schema, location: str, name_mapping: NameMapping | None = None
) -> None:
    """Raise InvalidInput for a column that other engines cannot read; reads the columns of texts."""
    columns = file_columns(source.metadata, schema=schema, location=location, name_mapping=name_mapping)
    leaves = _leaf_types(source.schema_arrow, location=location)
    for column in columns:
        reason = _unreadable(column, leaves[column.index])
        if reason is not None:
            raise InvalidInput(f"column {column.path!r} {reason}", where=location, hint=_REWRITE)
    check_texts(source, [one for one in columns if one.field.type == STRING], location=location)


def check_texts(source: pq.ParquetFile, columns: Sequence[FileColumn], *, location: str) -> None:
    """Raise InvalidInput for a column with a text that is not UTF-8, which Parquet's library does not look at."""
    if not columns:
        return
    try:
        batches = source.iter_batches(columns=[column.path for column in columns])
        for batch in batches:
            for values, name in zip(batch.columns, batch.schema.names, strict=True):
                _check_utf8(values, name, location=location)
    except PARQUET_ERRORS as refusal:
        raise CorruptFile(location, f"cannot read its rows: {refusal}") from refusal


def _check_utf8(values: pa.Array, name: str, *, location: str) -> None:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidInput(
            f"column {name!r} holds a text that is not UTF-8: {error}",
            where=location,
            hint="store bytes in a column of type binary",
        ) from error


def _unreadable(column: FileColumn, stored: pa.DataType) -> str | None:
    if pa.types.is_timestamp(stored) and stored.tz is not None and stored.tz not in UTC_ZONES:
        return f"is stored with the time zone {stored.tz}; Iceberg stores every timestamp with a zone in UTC"
    if column.field.type == TIME and not (pa.types.is_time64(stored) and stored.unit == "us"):
        return f"is stored as {stored}; Iceberg stores times in microseconds"
    return None


def _leaf_types(schema: pa.Schema, *, location: str) -> dict[int, pa.DataType]:
    return {
        one.leaf: one.type for field in file_fields(schema, location=location) for one in field.walk() if one.leaf >= 0
    }
