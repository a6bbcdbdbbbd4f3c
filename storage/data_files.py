"""Content files of any format: rows to bytes and a manifest entry, and bytes to rows."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from firn.model.amounts import plural
from firn.model.datafile import DataFile, FileFormat
from firn.model.errors import InvalidInput, Unsupported
from firn.model.metrics_modes import MetricsModes
from firn.model.name_mapping import NameMapping
from firn.model.partitioning import UNPARTITIONED, PartitionSpec
from firn.model.schema import Schema
from firn.storage.arrow_rows import Row, batch_of_rows, rows_of_batch
from firn.storage.avro_data import read_avro_rows, write_avro_rows
from firn.storage.orc_data import read_orc_rows, write_orc_rows
from firn.storage.parquet_files import ParquetFileWriter, read_parquet

DATA_FILE_BYTES_MAX: Final = 2 * 1024 * 1024 * 1024
"""Largest content file, in bytes, that is read whole."""

WRITE_ROWS: Final = 64 * 1024
"""Rows that are turned into one Arrow batch."""


class NewFile(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller decides about a file to be written.

    `partition` is the tuple of internal values in the order of `spec`; `properties` are the table's; `modes`, if given,
    says what metrics are kept instead of them.
    """

    location: str
    file_format: FileFormat = "parquet"
    spec: PartitionSpec = UNPARTITIONED
    partition: tuple[Any, ...] = ()
    sort_order_id: int | None = None
    properties: Mapping[str, str] = {}
    modes: MetricsModes | None = None


def encode_rows(rows: Iterable[Mapping[int, Any]], schema: Schema, new: NewFile) -> tuple[bytes, DataFile]:
    """The rows as a file of the asked format, and its manifest entry with full metrics.

    Raises InvalidInput for a value or partition that does not fit, Unsupported for what the format cannot hold.
    """
    match new.file_format:
        case "parquet":
            return _encode_parquet(rows, schema, new)
        case "avro":
            avro = write_avro_rows(rows, schema, properties=new.properties)
            data, metrics, written = avro.data, avro.metrics, avro.at(new.location)
        case "orc":
            orc = write_orc_rows(rows, schema)
            data, metrics, written = orc.data, orc.metrics, orc.at(new.location)
        case _:
            raise Unsupported(f"rows are not written to {new.file_format} files", where=new.location)
    entry = metrics.data_file(
        written,
        spec=new.spec,
        partition=new.partition,
        sort_order_id=new.sort_order_id,
        properties=new.properties,
        modes=new.modes,
    )
    return data, entry


def _encode_parquet(rows: Iterable[Mapping[int, Any]], schema: Schema, new: NewFile) -> tuple[bytes, DataFile]:
    if len(new.partition) != len(new.spec.fields):
        raise InvalidInput(
            f"{plural(len(new.partition), 'partition value')} for {plural(len(new.spec.fields), 'partition field')}",
            where=new.location,
        )
    sink = io.BytesIO()
    writer = ParquetFileWriter(sink, schema, properties=new.properties)
    source = iter(rows)
    while chunk := list(islice(source, WRITE_ROWS)):
        writer.write(batch_of_rows(chunk, schema))
    entry = writer.close().data_file(
        new.location,
        spec=new.spec,
        partition=new.partition,
        sort_order_id=new.sort_order_id,
        properties=new.properties,
        modes=new.modes,
    )
    return sink.getvalue(), entry


def decode_rows(
    data: bytes,
    *,
    file_format: FileFormat,
    location: str,
    schema: Schema,
    constants: Mapping[int, Any] | None = None,
    name_mapping: NameMapping | None = None,
) -> Iterator[list[Row]]:
    """The rows of a file in its order and in the columns of `schema`, some at a time.

    `constants` are internal values, by field id, of columns that the file does not have. Raises CorruptFile for a
    damaged file, InvalidSchema for columns that do not fit.
    """
    match file_format:
        case "parquet":
            batches = read_parquet(
                data, location=location, schema=schema, constants=constants, name_mapping=name_mapping
            )
            return (rows_of_batch(batch, schema, location=location) for batch in batches)
        case "avro":
            return read_avro_rows(
                data, location=location, schema=schema, constants=constants, name_mapping=name_mapping
            )
        case "orc":
            return read_orc_rows(data, location=location, schema=schema, constants=constants, name_mapping=name_mapping)
        case _:
            raise Unsupported(f"a {file_format} file holds no rows", where=location)
