"""Binding of content files on the wire to a table: `ContentFile` (REST JSON) ↔ `DataFile` (what a manifest holds)."""

from __future__ import annotations

from typing import Final

from firn.model.datafile import DataFile
from firn.model.errors import FirnError, InvalidIntent
from firn.model.intent import ContentFile, CountMap, ValueMap
from firn.model.metadata import TableMetadata
from firn.model.partitioning import check_writable, partition_from_json, partition_to_json, partition_type
from firn.model.types import StructType

_HEX_BYTES_MAX: Final = 64 * 1024
"""Longest bound accepted, in bytes: longer ones belong truncated."""


def bind_content_file(file: ContentFile, metadata: TableMetadata, *, where: str) -> DataFile:
    """The data file that `file` describes in a table with this metadata.

    Raises InvalidIntent (``unknown-spec``, ``unknown-column``, ``invalid-partition``, ``invalid-field``).
    """
    spec = next((s for s in metadata.partition_specs if s.spec_id == file.spec_id), None)
    if spec is None:
        known = ", ".join(str(s.spec_id) for s in metadata.partition_specs)
        raise InvalidIntent(
            f"the table has no partition spec {file.spec_id}, it has {known}",
            rule="unknown-spec",
            where=f"{where}.spec-id",
        )
    partition_struct = _partition_struct(metadata, file.spec_id)
    try:
        partition = partition_from_json(partition_struct, list(file.partition), where=f"{where}.partition")
        check_writable(spec, partition, where=f"{where}.partition")
    except FirnError as error:
        raise InvalidIntent(
            str(error), rule="invalid-partition", hint=f"spec {file.spec_id} wants {partition_struct}"
        ) from error
    return DataFile(
        content=file.content,
        file_path=file.file_path,
        file_format=file.file_format,
        spec_id=file.spec_id,
        partition=partition,
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        column_sizes=_counts(file.column_sizes),
        value_counts=_counts(file.value_counts),
        null_value_counts=_counts(file.null_value_counts),
        nan_value_counts=_counts(file.nan_value_counts),
        lower_bounds=_bounds(file.lower_bounds, where=f"{where}.lower-bounds"),
        upper_bounds=_bounds(file.upper_bounds, where=f"{where}.upper-bounds"),
        key_metadata=None if file.key_metadata is None else _hex(file.key_metadata, where=f"{where}.key-metadata"),
        split_offsets=file.split_offsets,
        equality_ids=file.equality_ids,
        sort_order_id=file.sort_order_id,
        referenced_data_file=file.referenced_data_file,
        content_offset=file.content_offset,
        content_size_in_bytes=file.content_size_in_bytes,
    )


def content_file_of(file: DataFile, metadata: TableMetadata) -> ContentFile:
    """The wire form of a data file of this table."""
    partition_struct = _partition_struct(metadata, file.spec_id)
    return ContentFile(
        content=file.content,
        file_path=file.file_path,
        file_format=file.file_format,
        spec_id=file.spec_id,
        partition=tuple(partition_to_json(partition_struct, file.partition)),
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        column_sizes=_count_map(file.column_sizes),
        value_counts=_count_map(file.value_counts),
        null_value_counts=_count_map(file.null_value_counts),
        nan_value_counts=_count_map(file.nan_value_counts),
        lower_bounds=_value_map(file.lower_bounds),
        upper_bounds=_value_map(file.upper_bounds),
        key_metadata=None if file.key_metadata is None else file.key_metadata.hex(),
        split_offsets=file.split_offsets,
        equality_ids=file.equality_ids,
        sort_order_id=file.sort_order_id,
        referenced_data_file=file.referenced_data_file,
        content_offset=file.content_offset,
        content_size_in_bytes=file.content_size_in_bytes,
    )


def _partition_struct(metadata: TableMetadata, spec_id: int) -> StructType:
    spec = next(s for s in metadata.partition_specs if s.spec_id == spec_id)
    schema = next(s for s in metadata.schemas if s.schema_id == metadata.current_schema_id)
    return partition_type(spec, schema, older=metadata.schemas)


def _counts(counts: CountMap | None) -> dict[int, int] | None:
    return None if counts is None else dict(zip(counts.keys, counts.values, strict=True))


def _bounds(bounds: ValueMap | None, *, where: str) -> dict[int, bytes] | None:
    if bounds is None:
        return None
    return {k: _hex(v, where=where) for k, v in zip(bounds.keys, bounds.values, strict=True)}


def _hex(text: str, *, where: str) -> bytes:
    if len(text) > 2 * _HEX_BYTES_MAX:
        raise InvalidIntent(f"has {len(text) // 2} bytes, at most {_HEX_BYTES_MAX}", rule="invalid-field", where=where)
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise InvalidIntent(f"{text[:40]!r} is not hexadecimal", rule="invalid-field", where=where) from None


def _count_map(counts: dict[int, int] | None) -> CountMap | None:
    return None if counts is None else CountMap(tuple(counts), tuple(counts.values()))


def _value_map(bounds: dict[int, bytes] | None) -> ValueMap | None:
    return None if bounds is None else ValueMap(tuple(bounds), tuple(b.hex() for b in bounds.values()))
