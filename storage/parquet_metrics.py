"""From a Parquet footer to a manifest entry: counts, sizes, bounds, split offsets and the partition of a data file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firn.model.amounts import plural
from firn.model.bounds import GeoBound, truncate_lower, truncate_upper
from firn.model.datafile import DataFile
from firn.model.errors import CorruptFile, InvalidInput, InvalidSchema
from firn.model.metrics_modes import MetricsMode, MetricsModes, metrics_modes
from firn.model.name_mapping import NameMapping
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.transforms import UnknownTransform, Void
from firn.model.types import DOUBLE, FLOAT, GeometryType, Type
from firn.model.values import to_bytes
from firn.storage.parquet_columns import PARQUET_ERRORS, FileColumn, file_columns
from firn.storage.parquet_footer import Box, Chunk, read_footer
from firn.storage.parquet_values import Decode, decoder, lower_of, upper_of


class ColumnMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """What a footer says about one column, over all row groups.

    `size` is bytes as stored, `values` counts nulls too; None is not known. Bounds are internal values, not truncated.
    """

    type: Type
    repeated: bool
    size: int
    values: int
    nulls: int | None
    lower: Any
    upper: Any


def parquet_data_file(  # noqa: PLR0913 - one argument for each thing that a footer does not know
    metadata: pq.FileMetaData,
    *,
    location: str,
    file_size: int,
    schema: Schema,
    spec: PartitionSpec,
    partition: tuple[Any, ...] | None = None,
    sort_order_id: int | None = None,
    properties: Mapping[str, str] | None = None,
    nan_counts: Mapping[int, int] | None = None,
    modes: MetricsModes | None = None,
    name_mapping: NameMapping | None = None,
) -> DataFile:
    """The manifest entry of a data file with this footer.

    `file_size` is bytes; `partition` the tuple of internal values, None to have `infer_partition` find it;
    `properties` the table's, which say what metrics are kept (`modes`, if given, says it instead); `nan_counts` by
    field id, where the writer counted them (`count_nans`); `name_mapping` as in `with_field_ids`.

    Raises InvalidSchema when a column cannot hold the table's field or none is the table's, InvalidInput for a missing
    required column, nulls in one, or a partition that does not fit.
    """
    columns = column_metrics(metadata, schema=schema, location=location, name_mapping=name_mapping)
    if metadata.num_columns and not columns:
        raise InvalidSchema("none of the file's columns is a column of the table", where=location)
    check_required(columns, schema=schema, location=location)
    if partition is None:
        partition = infer_partition(columns, schema=schema, spec=spec, location=location, nan_counts=nan_counts)
    elif len(partition) != len(spec.fields):
        raise InvalidInput(
            f"{plural(len(partition), 'partition value')} for {plural(len(spec.fields), 'partition field')}",
            where=location,
        )
    modes = metrics_modes(properties or {}, schema) if modes is None else modes
    kept = [(i, one, modes.of(i)) for i, one in columns.items() if not one.repeated and modes.of(i).has_counts]
    nans = nan_counts or {}
    return DataFile(
        file_path=location,
        file_format="parquet",
        spec_id=spec.spec_id,
        partition=partition,
        record_count=metadata.num_rows,
        file_size_in_bytes=file_size,
        column_sizes={i: one.size for i, one in columns.items() if modes.of(i).has_counts},
        value_counts={i: one.values for i, one, _ in kept},
        null_value_counts={i: one.nulls for i, one, _ in kept if one.nulls is not None},
        nan_value_counts={i: nans[i] for i, one, _ in kept if i in nans and one.type in (FLOAT, DOUBLE)},
        lower_bounds=_encoded({i: (one.type, _lower(one, mode)) for i, one, mode in kept}),
        upper_bounds=_encoded({i: (one.type, _upper(one, mode)) for i, one, mode in kept}),
        split_offsets=split_offsets(metadata, location=location),
        sort_order_id=sort_order_id,
    )


def _lower(column: ColumnMetrics, mode: MetricsMode) -> Any:
    if mode.kind == "truncate" and column.lower is not None:
        return truncate_lower(column.type, column.lower, mode.length)
    return column.lower if mode.kind == "full" else None


def _upper(column: ColumnMetrics, mode: MetricsMode) -> Any:
    if mode.kind == "truncate" and column.upper is not None:
        return truncate_upper(column.type, column.upper, mode.length)
    return column.upper if mode.kind == "full" else None


def _encoded(bounds: dict[int, tuple[Type, Any]]) -> dict[int, bytes]:
    return {
        i: value.to_bytes() if isinstance(value, GeoBound) else to_bytes(type, value)
        for i, (type, value) in bounds.items()
        if value is not None
    }


def column_metrics(
    metadata: pq.FileMetaData, *, schema: Schema, location: str, name_mapping: NameMapping | None = None
) -> dict[int, ColumnMetrics]:
    """Metrics by field id of all columns that hold fields of `schema`; InvalidSchema for one that cannot."""
    columns = file_columns(metadata, schema=schema, location=location, name_mapping=name_mapping)
    footer = read_footer(metadata, location=location)
    return {
        column.field.field_id: _column_metrics(column, footer.chunks(column.index), location=location)
        for column in columns
    }


def _column_metrics(column: FileColumn, chunks: list[Chunk], *, location: str) -> ColumnMetrics:
    decode = decoder(column, location=location)
    nulls: int | None = 0
    lowers: list[Any] = []
    uppers: list[Any] = []
    for chunk in chunks:
        if chunk.physical != column.physical:
            raise CorruptFile(
                location, f"column {column.path!r} is {chunk.physical} in a row group, {column.physical} in the schema"
            )
        chunk_nulls = 0 if column.required else chunk.nulls
        nulls = None if nulls is None or chunk_nulls is None else nulls + chunk_nulls
        if chunk_nulls == chunk.values:
            continue
        low, high = (None, None) if column.repeated else _chunk_bounds(column, chunk, decode)
        lowers.append(low)
        uppers.append(high)
    # One NaN spoils both: whoever wrote it let it take part in finding the other.
    spoilt = column.field.type in (FLOAT, DOUBLE) and (None in lowers or None in uppers)
    return ColumnMetrics(
        type=column.field.type,
        repeated=column.repeated,
        size=sum(chunk.size for chunk in chunks),
        values=sum(chunk.values for chunk in chunks),
        nulls=nulls,
        lower=None if spoilt or None in lowers else _outermost(lowers, min),
        upper=None if spoilt or None in uppers else _outermost(uppers, max),
    )


def _chunk_bounds(column: FileColumn, chunk: Chunk, decode: Decode | None) -> tuple[Any, Any]:
    if isinstance(column.field.type, GeometryType):
        return _corners(chunk.box)
    if decode is None or (chunk.as_signed and not column.logical.get("isSigned", True)):
        return None, None
    return (
        None if chunk.low is None else lower_of(decode, chunk.low),
        None if chunk.high is None else upper_of(decode, chunk.high),
    )


def _corners(box: Box | None) -> tuple[GeoBound | None, GeoBound | None]:
    """The corners of a box; none of one that is inside out, which for planar geometries means nothing."""
    ranges = [] if box is None else [one for one in (box.x, box.y, box.z, box.m) if one is not None]
    if box is None or any(low > high for low, high in ranges):
        return None, None
    low, high = (
        GeoBound(
            x=box.x[at],
            y=box.y[at],
            z=None if box.z is None else box.z[at],
            m=None if box.m is None else box.m[at],
        )
        for at in (0, 1)
    )
    return low, high


def _outermost(bounds: list[Any], outer: Callable[..., Any]) -> Any:
    """The lowest or highest bound; of corners that of each coordinate by itself."""
    if not bounds or not isinstance(bounds[0], GeoBound):
        return outer(bounds, default=None)
    by_axis = {
        axis: [value for value in (getattr(one, axis) for one in bounds) if value is not None] for axis in "xyzm"
    }
    return GeoBound(**{axis: outer(values) for axis, values in by_axis.items() if values})


def check_required(columns: Mapping[int, ColumnMetrics], *, schema: Schema, location: str) -> None:
    """Raise InvalidInput when a required column at the top has nulls, or is missing and has no initial default."""
    for field in schema.fields:
        column = columns.get(field.field_id)
        if not field.required:
            continue
        if column is not None and column.nulls:
            raise InvalidInput(f"required column {field.name!r} has {plural(column.nulls, 'null')}", where=location)
        missing = not any(_belongs(schema, i, to=field.field_id) for i in columns)
        if missing and field.initial_default is None:
            raise InvalidInput(f"required column {field.name!r} is missing", where=location)


def _belongs(schema: Schema, field_id: int, *, to: int) -> bool:
    at: int | None = field_id
    while at is not None and at != to:
        at = schema.parent_id(at)
    return at is not None


def split_offsets(metadata: pq.FileMetaData, *, location: str) -> tuple[int, ...]:
    """Where each row group starts, ascending bytes: places to split a scan at; CorruptFile for a damaged footer."""
    groups = read_footer(metadata, location=location).row_groups
    return tuple(sorted(group[0].start for group in groups if group))


# ---------------------------------------------------------------------------------------------------------------------
# Partitions


def infer_partition(
    columns: Mapping[int, ColumnMetrics],
    *,
    schema: Schema,
    spec: PartitionSpec,
    location: str,
    nan_counts: Mapping[int, int] | None = None,
) -> tuple[Any, ...]:
    """The partition tuple that all rows of a file share, proven from its footer (`column_metrics`).

    Raises InvalidInput naming the column when the footer shows rows of several partitions or cannot prove that there
    is one; the caller must then state the partition.
    """
    return tuple(
        _partition_value(field, columns, schema=schema, location=location, nan_counts=nan_counts or {})
        for field in spec.fields
    )


def _partition_value(
    field: PartitionField,
    columns: Mapping[int, ColumnMetrics],
    *,
    schema: Schema,
    location: str,
    nan_counts: Mapping[int, int],
) -> Any:
    transform = field.parsed_transform
    if isinstance(transform, Void):
        return None
    source = schema.field_by_id(field.source_id)
    if source is None or isinstance(transform, UnknownTransform):
        raise _unproven(field, "its column or transform is not known", location)
    column = columns.get(field.source_id)
    if column is None:
        return transform.apply(source.type, source.initial_default)
    if column.nulls == column.values:
        return None
    if column.nulls is None:
        raise _unproven(field, f"the footer does not count nulls of column {source.name!r}", location)
    if column.nulls:
        raise _unproven(field, f"column {source.name!r} has nulls and other values", location)
    if column.lower is None or column.upper is None:
        raise _unproven(field, f"the footer has no bounds of column {source.name!r}", location)
    if column.type in (FLOAT, DOUBLE) and nan_counts.get(field.source_id) != 0:
        raise _unproven(field, f"column {source.name!r} may hold NaN", location)
    if not transform.preserves_order and column.lower != column.upper:
        raise _unproven(field, f"column {source.name!r} holds several values", location)
    low, high = transform.apply(source.type, column.lower), transform.apply(source.type, column.upper)
    if low != high:
        raise _unproven(field, f"column {source.name!r} holds values of several partitions", location)
    if isinstance(low, float) and low == 0:  # footers say -0.0 to 0.0 of any zeros, which are two partitions
        raise _unproven(field, f"column {source.name!r} holds zeros, and the footer does not tell their sign", location)
    return low


def _unproven(field: PartitionField, reason: str, location: str) -> InvalidInput:
    return InvalidInput(
        f"cannot tell the value of partition field {field.name!r} ({field.transform}): {reason}",
        where=location,
        hint="give the partition with the file",
    )


# ---------------------------------------------------------------------------------------------------------------------
# NaN counts


def count_nans(
    source: pq.ParquetFile, *, schema: Schema, location: str, name_mapping: NameMapping | None = None
) -> dict[int, int]:
    """NaN values by field id of the float columns outside lists and maps, by reading those columns.

    Parquet footers do not count them, so a file that is not just being written has to be read for it.
    """
    floats = [
        column
        for column in file_columns(source.metadata, schema=schema, location=location, name_mapping=name_mapping)
        if column.field.type in (FLOAT, DOUBLE) and not column.repeated
    ]
    counts = {column.field.field_id: 0 for column in floats}
    if not floats:
        return counts
    try:
        for batch in source.iter_batches(columns=[column.path for column in floats]):
            for column in floats:
                counts[column.field.field_id] += _nans_at(batch, column.names)
    except PARQUET_ERRORS as refusal:
        raise CorruptFile(location, f"cannot read its rows: {refusal}") from refusal
    return counts


def _nans_at(batch: pa.RecordBatch, names: tuple[str, ...]) -> int:
    values = batch.column(names[0])
    for name in names[1:]:
        values = pc.struct_field(values, name)
    return nans_in(values)


def nans_in(values: pa.Array | pa.ChunkedArray) -> int:
    """NaN values of a float array; nulls are none."""
    return int(pc.sum(pc.is_nan(values)).as_py() or 0)
