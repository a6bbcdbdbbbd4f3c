"""How rows are brought to tasks before they are written: by partition and sort order, as the table asks.

`write.distribution-mode` says whether rows are left where they are (``none``), brought together by partition
(``hash``), or also ranged by the sort order (``range``). Rows are sorted within tasks by partition, so that few files
are open at once, then by the sort order.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyspark.sql.functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import Column, DataFrame

from firn.model.errors import InvalidInput, Unsupported
from firn.model.partitioning import PartitionSpec
from firn.model.schema import Schema
from firn.model.sorting import SortOrder
from firn.model.transforms import Bucket, Identity, TimeTransform, Transform, Truncate, Void
from firn.model.types import (
    DATE,
    INT,
    LONG,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UUID,
    DecimalType,
    Type,
)
from firn.pipeline.column_names import quoted
from firn.pipeline.write_properties import DISTRIBUTION_MODE, DISTRIBUTION_MODES

ZERO_SEED: Final = -1_693_959_553
"""The integer whose hash in Spark (Murmur3, seed 42) is 0. Spark seeds the hash of a second value with that of the
first, so `hash(ZERO_SEED, x)` is the hash of x with seed 0, which is Iceberg's."""

_NANOSECONDS: Final = (TIMESTAMP_NS, TIMESTAMPTZ_NS)


def distribution_mode(*, spec: PartitionSpec, order: SortOrder, asked: str | None) -> str:
    """The mode that is asked for, else ``range`` for a sorted table, ``hash`` for a partitioned one, else ``none``.

    Raises InvalidInput for a mode that there is not.
    """
    if asked:
        if asked.lower() not in DISTRIBUTION_MODES:
            raise InvalidInput(f"is one of {', '.join(DISTRIBUTION_MODES)}", where=DISTRIBUTION_MODE.name)
        return asked.lower()
    if order.is_sorted:
        return "range"
    return "hash" if _partitioned(spec) else "none"


def distribute(
    rows: DataFrame, *, schema: Schema, spec: PartitionSpec, order: SortOrder, mode: str, tasks: int | None = None
) -> DataFrame:
    """`rows`, whose columns are named as those of `schema`, brought to tasks and sorted in them.

    `tasks` is how many there are to be, None for as many as Spark is set to.
    """
    number = () if tasks is None else (tasks,)
    keys = partition_keys(rows, schema=schema, spec=spec)
    sort = list(_sort_columns(rows, schema, order))
    if mode == "range" and (keys or sort):
        rows = rows.repartitionByRange(*number, *keys, *sort)
    elif mode == "hash" and keys:
        rows = rows.repartition(*number, *keys)
    return rows.sortWithinPartitions(*keys, *sort) if sort or (keys and mode != "none") else rows


def partition_keys(rows: DataFrame, *, schema: Schema, spec: PartitionSpec) -> list[Column]:
    """Columns that tell rows of one partition from those of others."""
    return [
        found
        for field in spec.fields
        if (found := key_column(rows, schema, field.source_id, field.parsed_transform)) is not None
    ]


def _partitioned(spec: PartitionSpec) -> bool:
    return any(not isinstance(field.parsed_transform, Void) for field in spec.fields)


def _sort_columns(rows: DataFrame, schema: Schema, order: SortOrder) -> Iterator[Column]:
    for field in order.fields:
        found = key_column(rows, schema, field.source_id, field.parsed_transform)
        if found is None:
            continue
        first = field.null_order == "nulls-first"
        if field.direction == "asc":
            yield found.asc_nulls_first() if first else found.asc_nulls_last()
        else:
            yield found.desc_nulls_first() if first else found.desc_nulls_last()


def key_column(rows: DataFrame, schema: Schema, source_id: int, transform: Transform) -> Column | None:
    """A column that tells rows of one transformed value from those of others, in its order; None if there is only one.

    Its values need not be the transform's own.
    """
    field = schema.field_by_id(source_id)
    if field is None or isinstance(transform, Void):
        return None
    path = schema.path(source_id)
    if path[0].lower() not in (one.lower() for one in rows.columns):
        return None
    column = rows[quoted(*path)]
    match transform:
        case Identity():
            return column
        case Bucket(buckets=buckets):
            return _bucket(column, field.type, buckets)
        case Truncate(width=width):
            return _truncated(column, field.type, width)
        case TimeTransform(unit=unit):
            return _time(column, field.type, unit)
    raise Unsupported(f"cannot partition or sort by the unknown transform {transform}")


def _truncated(column: Column, type: Type, width: int) -> Column:
    if type in (INT, LONG):
        return F.coalesce(F.try_subtract(column, F.pmod(column, F.lit(width))), column)  # at the least of all longs
    if isinstance(type, DecimalType):
        return F.floor(column / F.lit(width / 10**type.scale))
    return F.substring(column, 1, width)


def _time(column: Column, type: Type, unit: str) -> Column:
    """Days or hours by arithmetic, which no session time zone changes; months and years of those days."""
    if type == TIMESTAMP:
        if unit == "hour":
            return F.date_trunc(unit, column)
        days = F.to_date(column)
        return days if unit == "day" else F.trunc(days, unit)
    if type == DATE:
        return column if unit == "day" else F.trunc(column, unit)
    micros = F.floor(column / F.lit(1000)) if type in _NANOSECONDS else F.unix_micros(column)
    if unit == "hour":
        return F.floor(micros / F.lit(3_600_000_000))
    days = F.date_from_unix_date(F.floor(micros / F.lit(86_400_000_000)).cast("int"))
    return days if unit == "day" else F.trunc(days, unit)


def _bucket(column: Column, type: Type, buckets: int) -> Column:
    """The bucket, in Spark for what is a long underneath, in Python for texts, decimals and bytes."""
    longs: Column | None = None
    if type in (INT, LONG, TIME):
        longs = column.cast("bigint")
    elif type == DATE:
        longs = F.unix_date(column).cast("bigint")
    elif type == TIMESTAMPTZ:
        longs = F.unix_micros(column)
    elif type in _NANOSECONDS:
        longs = F.floor(column / F.lit(1000))
    if longs is not None:
        hashed = F.hash(F.lit(ZERO_SEED), longs).bitwiseAND(F.lit(2**31 - 1))
        return F.when(longs.isNotNull(), F.pmod(hashed, F.lit(buckets)))
    return _bucket_in_python(type, buckets)(column)


def _bucket_in_python(type: Type, buckets: int) -> Callable[[Column], Column]:
    bucket = Bucket(buckets)
    # A lambda, because Spark reads type hints, and warns of those that it has no use for.
    return F.udf(lambda value: bucket.apply(type, _internal(value, type)), "int")


def _internal(value: Any, type: Type) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    return uuid.UUID(value) if type == UUID and isinstance(value, str) else value
