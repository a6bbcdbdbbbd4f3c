"""Position delete files: rows deleted by the location of their data file and their position in it (v2).

In memory the deletes of one data file are a `DeletionVector`, whatever form they were stored in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import pyarrow.compute as pc

from firn.model.datafile import DataFile, FileFormat
from firn.model.deletion_vector import DeletionVector
from firn.model.errors import CorruptFile, InvalidInput
from firn.model.metrics_modes import DEFAULT, FULL, MetricsModes
from firn.model.reserved import (
    DELETE_FILE_PATH_ID,
    DELETE_FILE_POS_ID,
    DELETE_FILE_ROW_ID,
    POSITION_DELETES,
    position_deletes_with_rows,
)
from firn.model.schema import Schema
from firn.storage.data_files import NewFile, decode_rows, encode_rows
from firn.storage.parquet_files import read_parquet

POSITIONS_MAX: Final = 100_000_000
"""Most deletes that one file may hold."""

DeletedRows = Mapping[tuple[str, int], Mapping[int, Any]]
"""Deleted rows, as field ids to internal values, by data file and position."""

_SCHEMA: Final = Schema(schema_id=0, struct=POSITION_DELETES)
_MODES: Final = MetricsModes(DEFAULT, {DELETE_FILE_PATH_ID: FULL, DELETE_FILE_POS_ID: FULL})


def encode_position_deletes(
    deletes: Mapping[str, DeletionVector],
    new: NewFile,
    *,
    row_schema: Schema | None = None,
    rows: DeletedRows | None = None,
) -> tuple[bytes, DataFile]:
    """A delete file for the positions of some data files (by location), and its manifest entry.

    With `row_schema` the file also holds the deleted rows, of which `rows` must have every one. A file that deletes
    from one data file says so (`referenced_data_file`, bounds that are not truncated); one that deletes from several
    has no bounds of paths, which would only mislead. Raises InvalidInput for no deletes at all or a missing row.
    """
    named = {path: vector for path, vector in deletes.items() if vector}
    if not named:
        raise InvalidInput("a position delete file needs deletes", where=new.location)
    struct = POSITION_DELETES if row_schema is None else position_deletes_with_rows(row_schema.struct)
    schema = Schema(schema_id=0, struct=struct)
    data, entry = encode_rows(
        _sorted_rows(named, rows if row_schema is not None else None, location=new.location),
        schema,
        msgspec.structs.replace(new, modes=_MODES, sort_order_id=None),
    )
    return data, _as_delete_file(entry, data_file=next(iter(named)) if len(named) == 1 else None)


def _sorted_rows(
    deletes: Mapping[str, DeletionVector], rows: DeletedRows | None, *, location: str
) -> Iterator[dict[int, Any]]:
    # Java compares paths as UTF-8 bytes would; so does Python's order of code points.
    for path in sorted(deletes):
        for position in deletes[path]:
            out: dict[int, Any] = {DELETE_FILE_PATH_ID: path, DELETE_FILE_POS_ID: position}
            if rows is not None:
                row = rows.get((path, position))
                if row is None:
                    raise InvalidInput(f"no deleted row for position {position} of {path}", where=location)
                out[DELETE_FILE_ROW_ID] = row
            yield out


def _as_delete_file(entry: DataFile, *, data_file: str | None) -> DataFile:
    """The entry as that of a delete file: counts of path and position say nothing, bounds only of a single file."""
    keys = {DELETE_FILE_PATH_ID, DELETE_FILE_POS_ID}
    dropped = set() if data_file is not None else keys
    return msgspec.structs.replace(
        entry,
        content="position-deletes",
        value_counts=_without(entry.value_counts, keys),
        null_value_counts=_without(entry.null_value_counts, keys),
        lower_bounds=_without(entry.lower_bounds, dropped),
        upper_bounds=_without(entry.upper_bounds, dropped),
        referenced_data_file=data_file,
    )


def _without(metrics: dict[int, Any] | None, ids: set[int]) -> dict[int, Any] | None:
    return {i: value for i, value in (metrics or {}).items() if i not in ids} or None


def decode_position_deletes(
    data: bytes, *, file_format: FileFormat, location: str, data_file: str | None = None
) -> dict[str, DeletionVector]:
    """The deleted positions of every data file that the file names, or of `data_file` only.

    Raises CorruptFile for a damaged file, or a position that cannot be.
    """
    if file_format == "parquet":
        parts = _parquet_parts(data, location=location)
    else:
        parts = _row_parts(data, file_format=file_format, location=location)
    vectors: dict[str, list[DeletionVector]] = {}
    total = 0
    for path, positions in parts:
        total += len(positions)
        if total > POSITIONS_MAX:
            raise CorruptFile(location, f"more than {POSITIONS_MAX} position deletes")
        if data_file is not None and path != data_file:
            continue
        try:
            vectors.setdefault(path, []).append(DeletionVector.of(positions))
        except InvalidInput as refusal:
            raise CorruptFile(location, str(refusal)) from None
    return {path: DeletionVector.of(()).union(*parts) for path, parts in vectors.items()}


def _parquet_parts(data: bytes, *, location: str) -> Iterator[tuple[str, list[int]]]:
    for batch in read_parquet(data, location=location, schema=_SCHEMA):
        paths, positions = batch.columns
        for path in pc.unique(paths):
            yield path.as_py(), positions.filter(pc.equal(paths, path)).to_pylist()


def _row_parts(data: bytes, *, file_format: FileFormat, location: str) -> Iterator[tuple[str, list[int]]]:
    for rows in decode_rows(data, file_format=file_format, location=location, schema=_SCHEMA):
        by_path: dict[str, list[int]] = {}
        for row in rows:
            by_path.setdefault(row[DELETE_FILE_PATH_ID], []).append(row[DELETE_FILE_POS_ID])
        yield from by_path.items()
