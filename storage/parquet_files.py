"""Rows in Parquet: written with field ids and full metrics, read by field id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from firn.model.datafile import DataFile
from firn.model.errors import CorruptFile, InvalidInput, Unsupported
from firn.model.metrics_modes import MetricsModes
from firn.model.name_mapping import NameMapping
from firn.model.partitioning import PartitionSpec
from firn.model.schema import Schema, schema_to_json
from firn.model.table_properties import (
    PARQUET_COMPRESSION,
    PARQUET_COMPRESSION_LEVEL,
    PARQUET_COMPRESSION_NEW_TABLES,
    PARQUET_DICTIONARY_BYTES,
    PARQUET_PAGE_BYTES,
    IntProperty,
)
from firn.model.types import DOUBLE, FLOAT, UNKNOWN, VARIANT, StructType
from firn.storage.arrow_projection import needed_leaves, project_batch
from firn.storage.parquet_columns import PARQUET_ERRORS, FileField, file_fields, with_field_ids
from firn.storage.parquet_dictionaries import dictionary_columns
from firn.storage.parquet_footer import check_not_encrypted
from firn.storage.parquet_metrics import nans_in, parquet_data_file
from firn.storage.parquet_schema import arrow_schema

ROW_GROUP_ROWS: Final = 1024 * 1024
"""Rows in one row group, unless a batch is larger."""

ZSTD_LEVEL: Final = 3

READ_BATCH_ROWS: Final = 64 * 1024
"""Rows in one batch that is read."""

FOOTER_BYTES_MAX: Final = 256 * 1024 * 1024
"""Largest string and largest container, in bytes and items, that a footer may hold."""

_CODECS: Final = {"uncompressed": "none", "none": "none", "snappy": "snappy", "gzip": "gzip", "zstd": "zstd",
                  "lz4": "lz4", "lz4_raw": "lz4", "brotli": "brotli"}  # fmt: skip


class WrittenParquet(msgspec.Struct, frozen=True, kw_only=True):
    """A finished file: its footer, its size in bytes and what was counted while it was written."""

    metadata: pq.FileMetaData
    size: int
    nan_counts: dict[int, int]
    schema: Schema

    def data_file(
        self,
        location: str,
        *,
        spec: PartitionSpec,
        partition: tuple[Any, ...] | None = None,
        sort_order_id: int | None = None,
        properties: Mapping[str, str] | None = None,
        modes: MetricsModes | None = None,
    ) -> DataFile:
        """The manifest entry of the file at `location`; arguments as in `parquet_data_file`."""
        return parquet_data_file(
            self.metadata,
            location=location,
            file_size=self.size,
            schema=self.schema,
            spec=spec,
            partition=partition,
            sort_order_id=sort_order_id,
            properties=properties,
            nan_counts=self.nan_counts,
            modes=modes,
        )


class ParquetFileWriter:
    """Writes batches of one schema to a file object; `close` gives what a manifest needs.

    Batches must be in the Arrow schema of `schema` (`arrow_schema`, `batch_of_rows`). `properties` are the table's:
    ``write.parquet.compression-codec``, its level, and page and dictionary sizes are used. Columns of type unknown are
    left out, as the specification asks.
    Raises Unsupported for a variant column, which Arrow cannot mark as one.
    """

    def __init__(self, sink: BinaryIO, schema: Schema, *, properties: Mapping[str, str] | None = None) -> None:
        _check_writable(schema)
        self._schema = schema
        self._kept = [index for index, field in enumerate(schema.fields) if field.type != UNKNOWN]
        arrow = arrow_schema(schema)
        self._arrow = pa.schema([arrow.field(index) for index in self._kept]).with_metadata(
            {"iceberg.schema": msgspec.json.encode(schema_to_json(schema))}
        )
        self._sink = sink
        self._floats = list(_float_paths(schema))
        self._nans = {field_id: 0 for field_id, _ in self._floats}
        self._settings: dict[str, Any] = {
            "compression": _codec(properties or {}),
            "compression_level": _compression_level(properties or {}),
            "data_page_size": PARQUET_PAGE_BYTES.of(properties or {}),
            "dictionary_pagesize_limit": PARQUET_DICTIONARY_BYTES.of(properties or {}),
            "store_schema": False,
            "store_decimal_as_integer": True,
            "write_page_checksum": True,
        }
        self._writer: pq.ParquetWriter | None = None

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add rows; InvalidInput if the batch has another schema."""
        try:
            table = pa.table(
                [batch.column(index) for index in self._kept], schema=self._arrow.remove_metadata()
            ).replace_schema_metadata(self._arrow.metadata)
            self._begun(table).write_table(table, row_group_size=ROW_GROUP_ROWS)
        except (pa.ArrowInvalid, pa.ArrowTypeError, IndexError, ValueError) as refusal:
            raise InvalidInput(f"the batch does not have the table's schema: {refusal}") from refusal
        for field_id, path in self._floats:
            self._nans[field_id] += _nans_at(batch, path)

    def close(self) -> WrittenParquet:
        """Write the footer; the file object is left open."""
        writer = self._begun(None)
        writer.close()
        return WrittenParquet(
            metadata=writer.writer.metadata, size=self._sink.tell(), nan_counts=self._nans, schema=self._schema
        )

    def _begun(self, first: pa.Table | None) -> pq.ParquetWriter:
        """The writer, which is made for the first rows: they say which columns are worth a dictionary."""
        if self._writer is None:
            # Iceberg's Java reader (1.11) fails over plain decimals of a column that has a default.
            always = {field.name for field in self._schema.fields if field.initial_default is not None}
            dictionaries = [] if first is None else dictionary_columns(first, always=always)
            self._writer = pq.ParquetWriter(
                self._sink, self._arrow, use_dictionary=dictionaries or False, **self._settings
            )
            # Without the Arrow schema its metadata is not written either; other Iceberg readers look for the table's.
            self._writer.add_key_value_metadata(self._arrow.metadata)
        return self._writer


def _codec(properties: Mapping[str, str]) -> str:
    name = PARQUET_COMPRESSION.of(properties) or PARQUET_COMPRESSION_NEW_TABLES
    codec = _CODECS.get(name.lower())
    if codec is None:
        raise InvalidInput(
            f"unknown codec {name[:40]!r}, expected one of {', '.join(sorted(_CODECS))}",
            where=f"properties.{PARQUET_COMPRESSION.name}",
        )
    return codec


def _compression_level(properties: Mapping[str, str]) -> int | None:
    """The level, where the codec has levels: the one that is set, else of zstd what Iceberg's library takes."""
    codec = _codec(properties)
    if codec not in {"gzip", "zstd", "brotli"}:
        return None
    if PARQUET_COMPRESSION_LEVEL.of(properties) is None:
        return ZSTD_LEVEL if codec == "zstd" else None
    return IntProperty(PARQUET_COMPRESSION_LEVEL.name, 0, -7, 22).of(properties)


def _check_writable(schema: Schema) -> None:
    for field_id, field in schema.fields_by_id.items():
        name = schema.column_name(field_id)
        if field.type == VARIANT:
            raise Unsupported(
                f"cannot write variant column {name!r} to Parquet", hint="write it with Spark, or as Avro"
            )
        if field.type == UNKNOWN and schema.parent_id(field_id) is not None:
            raise Unsupported(f"cannot write column {name!r} of type unknown inside another one to Parquet")
        if isinstance(field.type, StructType) and not field.type.fields:
            raise Unsupported(f"cannot write the empty struct {name!r} to Parquet")


def _float_paths(schema: Schema) -> Iterator[tuple[int, tuple[int, ...]]]:
    for field_id, path in schema.positions_by_id.items():
        if schema.fields_by_id[field_id].type in (FLOAT, DOUBLE):
            yield field_id, path


def _nans_at(batch: pa.RecordBatch | pa.Table, path: tuple[int, ...]) -> int:
    column = batch.column(path[0])
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    total = 0
    for chunk in chunks:
        values = chunk
        for index in path[1:]:
            values = values.flatten()[index]
        total += nans_in(values)
    return total


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def read_parquet(
    source: BinaryIO | pa.NativeFile | bytes,
    *,
    location: str,
    schema: Schema,
    constants: Mapping[int, Any] | None = None,
    name_mapping: NameMapping | None = None,
    table_schema: Schema | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, in its order, as batches in the Arrow schema of `schema`, which may be any projection.

    `constants` are internal values, by field id, of columns that the file does not have (identity partition values).
    `table_schema` is what names in a file without ids mean, `schema` if not given. Raises CorruptFile for a file that
    is damaged, InvalidSchema for columns that do not fit.
    """
    file = open_parquet(source, location=location)
    fields = with_field_ids(
        file_fields(file.schema_arrow, location=location),
        schema=schema if table_schema is None else table_schema,
        name_mapping=name_mapping,
    )
    leaves = sorted(needed_leaves(fields, schema))
    paths = [file.metadata.schema.column(leaf).path for leaf in leaves]
    selected = _selected(fields, frozenset(leaves))
    batches = file.iter_batches(batch_size=READ_BATCH_ROWS, columns=paths, use_threads=False)
    while True:
        try:
            batch = next(batches, None)
        except PARQUET_ERRORS as refusal:
            raise CorruptFile(location, f"cannot read its rows: {refusal}") from refusal
        if batch is None:
            return
        yield project_batch(
            _in_order(batch, selected, location=location),
            selected,
            schema=schema,
            constants=constants or {},
            location=location,
        )


def open_parquet(source: BinaryIO | pa.NativeFile | bytes, *, location: str) -> pq.ParquetFile:
    """Open a file and read its footer; CorruptFile if it is none, Unsupported if it is encrypted."""
    opened = pa.BufferReader(source) if isinstance(source, bytes) else source
    try:
        check_not_encrypted(opened, location=location)
        return pq.ParquetFile(
            opened,
            thrift_string_size_limit=FOOTER_BYTES_MAX,
            thrift_container_size_limit=FOOTER_BYTES_MAX,
            page_checksum_verification=True,
            coerce_int96_timestamp_unit="us",
        )
    except PARQUET_ERRORS as refusal:
        raise CorruptFile(location, f"not a Parquet file: {refusal}") from refusal


def _selected(fields: tuple[FileField, ...], leaves: frozenset[int]) -> tuple[FileField, ...]:
    """The fields that are left when only these leaves are read, as the batches have them."""
    kept = []
    for field in fields:
        if field.kind == "leaf":
            if field.leaf in leaves:
                kept.append(field)
            continue
        children = _selected(field.children, leaves)
        if children:
            kept.append(msgspec.structs.replace(field, children=children))
    return tuple(kept)


def _in_order(batch: pa.RecordBatch, fields: tuple[FileField, ...], *, location: str) -> pa.RecordBatch:
    """The batch with its columns in the order of `fields`."""
    names = [field.name for field in fields]
    if batch.schema.names == names:
        return batch
    if sorted(batch.schema.names) != sorted(names) or len(set(names)) != len(names):
        raise CorruptFile(location, "two columns of one name cannot be told apart")
    return batch.select(names)
