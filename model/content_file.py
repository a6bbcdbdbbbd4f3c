"""Binding of content files on the wire to a table: `ContentFile` (REST JSON) ↔ `DataFile` (what a manifest holds)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from firn.model.datafile import DataFile
from firn.model.errors import FirnError, InvalidIntent
from firn.model.intent import ContentFile, CountMap, ValueMap
from firn.model.metadata import TableMetadata
from firn.model.partitioning import (
    PartitionSpec,
    check_writable,
    partition_from_json,
    partition_to_json,
    partition_type,
)
from firn.model.schema import Schema

T = TypeVar("T")

_HEX_BYTES_MAX: Final = 64 * 1024
"""Longest bound accepted, in bytes: longer ones belong truncated."""

_BINDINGS_KEPT_MAX: Final = 1_000
_PARTITIONS_KEPT_MAX: Final = 10_000
_PLAIN: Final = frozenset({str, int, bool, type(None)})
"""Types of JSON values that are equal only where they mean the same."""


def bind_content_file(file: ContentFile, metadata: TableMetadata, *, where: str) -> DataFile:
    """The data file that `file` describes in a table with this metadata.

    Raises InvalidIntent (``unknown-spec``, ``unknown-column``, ``invalid-partition``, ``invalid-field``).
    """
    return _bound(file, bind_partition(file, metadata, where=where), where=where)


def bind_partition(file: ContentFile, metadata: TableMetadata, *, where: str) -> tuple[Any, ...]:
    """The file's partition tuple in a table with this metadata.

    Raises InvalidIntent (``unknown-spec``, ``unknown-column``, ``invalid-partition``).
    """
    return _required(metadata, file.spec_id, where=where).partition(file.partition, where=where)


def bind_partitions(files: Sequence[ContentFile], metadata: TableMetadata, *, where: str) -> list[tuple[Any, ...]]:
    """As `bind_partition`, for many files at once; an error does not say which of them it is about."""
    bindings: dict[int, _Binding] = {}
    for file in files:
        if file.spec_id not in bindings:
            bindings[file.spec_id] = _required(metadata, file.spec_id, where=where)
    return [bindings[file.spec_id].partition(file.partition, where=where) for file in files]


def with_bytes(kind: Callable[..., T], file: ContentFile, encoded: bytes | None, partition: tuple[Any, ...]) -> T:
    """The data file that `file` describes as a `kind` of its own, with this partition; of metrics only bytes."""
    return kind(
        content=file.content,
        file_path=file.file_path,
        file_format=file.file_format,
        spec_id=file.spec_id,
        partition=partition,
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        referenced_data_file=file.referenced_data_file,
        content_offset=file.content_offset,
        content_size_in_bytes=file.content_size_in_bytes,
        encoded=encoded,
    )


def unpartitioned(file: ContentFile, *, where: str) -> DataFile:
    """The data file that `file` describes, whatever table it is for, without its partition. Raises InvalidInput."""
    return _bound(file, (), where=where)


def _bound(file: ContentFile, partition: tuple[Any, ...], *, where: str) -> DataFile:
    return msgspec.structs.replace(
        with_bytes(DataFile, file, file.encoded, partition),
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
    )


def content_file_of(file: DataFile, metadata: TableMetadata) -> ContentFile:
    """Return the wire form of a data file of this table, with the table and its current schema as the file's origin."""
    binding = _binding(metadata, file.spec_id)
    assert binding is not None
    return ContentFile(
        content=file.content,
        file_path=file.file_path,
        file_format=file.file_format,
        spec_id=file.spec_id,
        partition=tuple(partition_to_json(binding.struct, file.partition)),
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
        encoded=file.encoded,
        table_uuid=metadata.table_uuid or None,
        schema_id=metadata.current_schema_id,
    )


class _Binding:
    """Partition tuples of one spec of one table: what was bound before is not looked at again."""

    def __init__(self, spec: PartitionSpec, schemas: tuple[Schema, ...], *, current_schema_id: int) -> None:
        self.spec = spec
        self.schemas = schemas
        self._schema = next(s for s in schemas if s.schema_id == current_schema_id)
        self.struct = partition_type(spec, self._schema, older=schemas)
        self._bound: dict[tuple[tuple[type, ...], tuple[Any, ...]], tuple[Any, ...]] = {}

    def partition(self, values: tuple[Any, ...], *, where: str) -> tuple[Any, ...]:
        """The tuple of internal values, which may be written with this spec."""
        kinds = tuple(map(type, values))  # True equals 1
        plain = _PLAIN.issuperset(kinds)
        if plain and (known := self._bound.get((kinds, values))) is not None:
            return known
        try:
            bound = partition_from_json(self.struct, list(values), where=f"{where}.partition")
            check_writable(self.spec, bound, schema=self._schema, older=self.schemas, where=f"{where}.partition")
        except FirnError as error:
            raise InvalidIntent(
                str(error), rule="invalid-partition", hint=f"spec {self.spec.spec_id} wants {self.struct}"
            ) from error
        if plain and len(self._bound) < _PARTITIONS_KEPT_MAX:
            self._bound[kinds, values] = bound
        return bound


def _required(metadata: TableMetadata, spec_id: int, *, where: str) -> _Binding:
    binding = _binding(metadata, spec_id)
    if binding is None:
        known = ", ".join(str(s.spec_id) for s in metadata.partition_specs)
        raise InvalidIntent(
            f"the table has no partition spec {spec_id}, it has {known}", rule="unknown-spec", where=f"{where}.spec-id"
        )
    return binding


_bindings: Final[dict[tuple[int, int, int], _Binding]] = {}


def _binding(metadata: TableMetadata, spec_id: int) -> _Binding | None:
    """The binding of a spec, kept as long as specs and schemas are the very same; None for a spec that is not there."""
    spec = metadata.spec_by_id(spec_id)
    if spec is None:
        return None
    key = (id(spec), id(metadata.schemas), metadata.current_schema_id)
    known = _bindings.get(key)
    if known is not None and known.spec is spec and known.schemas is metadata.schemas:
        return known
    if len(_bindings) >= _BINDINGS_KEPT_MAX:
        _bindings.clear()
    made = _bindings[key] = _Binding(spec, metadata.schemas, current_schema_id=metadata.current_schema_id)
    return made


def _counts(counts: CountMap | None) -> dict[int, int] | None:
    return None if counts is None else dict(zip(counts.keys, counts.values, strict=True))


def _bounds(bounds: ValueMap | None, *, where: str) -> dict[int, bytes] | None:
    if bounds is None:
        return None
    values = bounds.values
    if values and len(max(values, key=len)) <= 2 * _HEX_BYTES_MAX:
        try:
            return dict(zip(bounds.keys, map(bytes.fromhex, values), strict=True))
        except ValueError:
            return _hex_bounds(bounds, where=where)
    return _hex_bounds(bounds, where=where)


def _hex_bounds(bounds: ValueMap, *, where: str) -> dict[int, bytes]:
    """One by one, so that an error says which it is."""
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
