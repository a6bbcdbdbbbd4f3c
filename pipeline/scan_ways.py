"""Which way each planned file is read: by Spark itself, or by firn's reader in Python tasks.

Spark reads Parquet by field id, and that is fast. It does not read Avro or ORC by id, compares floats and UUIDs in
equality deletes in another way, and would misread a few rare things; those files go through firn, one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from firn.model.datafile import DataFile
from firn.model.errors import CorruptFile
from firn.model.metadata import TableMetadata
from firn.model.reserved import is_reserved_id
from firn.model.scan_plan import FileScanTask
from firn.model.schema import Schema
from firn.model.table_properties import NAME_MAPPING
from firn.model.transforms import Identity
from firn.model.types import (
    DATE,
    DOUBLE,
    FLOAT,
    TIMESTAMP,
    TIMESTAMP_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    GeographyType,
    GeometryType,
    Type,
    is_primitive,
)
from firn.pipeline.deleted_values import equality_ids
from firn.storage.files import FileStore
from firn.storage.parquet_columns import PARQUET_ERRORS, arrow_field_id
from firn.storage.scan_rows import every_column

_NOT_COMPARED: Final = frozenset({FLOAT, DOUBLE, UUID, UNKNOWN, VARIANT})
THREADS_MAX: Final = 16
FOOTER_GUESS_BYTES: Final = 64 * 1024
"""Bytes read at once from the end of a file; a footer mostly fits."""

PATTERN_CHARACTERS: Final = frozenset("{}[]*?\\")
"""What makes a path a pattern for Spark. Told not to look for what it matches, it reads every file once more for it."""

_TAIL_BYTES: Final = 8


class Ways(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of a scan by the way they are read."""

    native: list[FileScanTask]
    through_firn: list[FileScanTask]


def ways_of(tasks: Iterable[FileScanTask], *, metadata: TableMetadata, projection: Schema, files: FileStore) -> Ways:
    """Sort the tasks of a scan that reads the columns of `projection`.

    Looks into footers only for tables with a name mapping, whose files may be without field ids.
    """
    ways = Ways(native=[], through_firn=[])
    maybe: list[FileScanTask] = []
    whole = _is_native_schema(projection, metadata)
    comparable = _comparable(metadata)
    for task in tasks:
        (maybe if whole and _is_native_file(task, projection, comparable) else ways.through_firn).append(task)
    if NAME_MAPPING.of(metadata.properties) is None or not maybe:
        ways.native.extend(maybe)
        return ways
    with ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="firn-footers") as pool:
        has_ids = pool.map(lambda task: _has_field_ids(task.file, files), maybe)
        for task, has in zip(maybe, has_ids, strict=True):
            (ways.native if has else ways.through_firn).append(task)
    return ways


def _is_native_schema(projection: Schema, metadata: TableMetadata) -> bool:
    """Whether Spark has the columns' types, and shows values of files from before a change of type rightly."""
    before: Mapping[int, set[Type]] = _types_before(metadata)
    for field_id, field in projection.fields_by_id.items():
        nested = projection.parent_id(field_id) is not None
        if field.type in (VARIANT, UNKNOWN) or isinstance(field.type, GeometryType | GeographyType):
            return False
        if nested and (field.type == UUID or field.initial_default is not None):
            return False
        if field.type in (TIMESTAMP, TIMESTAMP_NS) and DATE in before.get(field_id, ()):
            return False
    return True


def _types_before(metadata: TableMetadata) -> dict[int, set[Type]]:
    found: dict[int, set[Type]] = {}
    for schema in metadata.schemas:
        for field_id, field in schema.fields_by_id.items():
            if field.type == DATE:
                found.setdefault(field_id, set()).add(field.type)
    return found


def _comparable(metadata: TableMetadata) -> frozenset[int]:
    """The columns by which Spark tells deleted rows as Iceberg does: at the top, and of types that it has."""
    every = every_column(metadata.current_schema, metadata.schemas)
    before = _types_before(metadata)
    return frozenset(
        field.field_id
        for field in every.fields
        if is_primitive(field.type)
        and field.type not in _NOT_COMPARED
        and not isinstance(field.type, GeometryType | GeographyType)
        and not (field.type != DATE and DATE in before.get(field.field_id, ()))
    )


def _is_native_file(task: FileScanTask, projection: Schema, comparable: frozenset[int]) -> bool:
    file = task.file
    name = file.file_path.rsplit("/", 1)[-1]
    if file.file_format != "parquet" or name.startswith(("_", ".")):  # which Spark takes for hidden
        return False
    if not PATTERN_CHARACTERS.isdisjoint(file.file_path):
        return False
    keys = {i for ids in equality_ids([task]) for i in ids}
    if not keys <= comparable:
        return False
    # A migrated Hive table's files lack their partition columns. Metrics prove that a column is there.
    there = {*(file.column_sizes or ()), *(file.value_counts or ())}
    return all(
        field.source_id in there or file.record_count == 0
        for field in task.spec.fields
        if isinstance(field.parsed_transform, Identity)
        and (field.source_id in projection.fields_by_id or field.source_id in keys)
        and not is_reserved_id(field.source_id)
    )


def _has_field_ids(file: DataFile, files: FileStore) -> bool:
    """Whether every column at the top has one, by the footer. Raises CorruptFile for a file that is too short."""
    tail = _end(file, FOOTER_GUESS_BYTES, files)
    length = int.from_bytes(tail[-_TAIL_BYTES:-4], "little") + _TAIL_BYTES
    if length > len(tail):
        tail = _end(file, length, files)
    try:
        schema = pq.read_schema(pa.BufferReader(tail))
    except PARQUET_ERRORS as refusal:
        raise CorruptFile(file.file_path, f"not a Parquet file: {refusal}") from refusal
    return all(arrow_field_id(field) is not None for field in schema)


def _end(file: DataFile, length: int, files: FileStore) -> bytes:
    length = min(length, file.file_size_in_bytes)
    return files.read_range(file.file_path, offset=file.file_size_in_bytes - length, length=length)
