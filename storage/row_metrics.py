"""Metrics of a file counted from its rows while it is written, for formats whose footer does not give them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from firn.model.amounts import plural
from firn.model.bounds import truncate_lower, truncate_upper
from firn.model.datafile import DataFile, FileFormat
from firn.model.errors import InvalidInput
from firn.model.metrics_modes import MetricsMode, MetricsModes, metrics_modes
from firn.model.partitioning import PartitionSpec
from firn.model.schema import Schema
from firn.model.types import (
    DOUBLE,
    FLOAT,
    UNKNOWN,
    VARIANT,
    GeographyType,
    GeometryType,
    Type,
    is_nested,
)
from firn.model.values import to_bytes


class _Column:
    """What is known so far of one column outside lists and maps; `path` leads to it by field ids."""

    def __init__(self, path: tuple[int, ...], type: Type) -> None:
        self.path = path
        self.type = type
        self.nulls = 0
        self.nans = 0
        self.lower: Any = None
        self.upper: Any = None
        self._floating = type in (FLOAT, DOUBLE)
        self._ordered = type not in (UNKNOWN, VARIANT) and not isinstance(type, GeometryType | GeographyType)

    def add(self, values: list[Any]) -> None:
        present = [value for value in values if value is not None]
        self.nulls += len(values) - len(present)
        if self._floating:
            numbers = [value for value in present if not math.isnan(value)]
            self.nans += len(present) - len(numbers)
            present = numbers
        if not present or not self._ordered:
            return
        low, high = min(present), max(present)
        self.lower = low if self.lower is None or low < self.lower else self.lower
        self.upper = high if self.upper is None or high > self.upper else self.upper

    def lower_bound(self, mode: MetricsMode) -> bytes | None:
        value = self.lower
        if value is None or not mode.has_bounds:
            return None
        if self._floating and value == 0.0:
            value = -0.0  # the outer of the two zeros
        if mode.kind == "truncate":
            value = truncate_lower(self.type, value, mode.length)
        return to_bytes(self.type, value)

    def upper_bound(self, mode: MetricsMode) -> bytes | None:
        value = self.upper
        if value is None or not mode.has_bounds:
            return None
        if self._floating and value == 0.0:
            value = 0.0
        if mode.kind == "truncate":
            value = truncate_upper(self.type, value, mode.length)
        return None if value is None else to_bytes(self.type, value)


class RowMetrics:
    """Counts rows, nulls and NaNs and finds bounds of every column outside lists and maps."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._rows = 0
        self._columns = {
            field_id: _Column(_id_path(schema, field_id), schema.fields_by_id[field_id].type)
            for field_id in schema.positions_by_id
            if not is_nested(schema.fields_by_id[field_id].type)
        }

    @property
    def row_count(self) -> int:
        """Rows so far."""
        return self._rows

    def add(self, rows: Iterable[Mapping[int, Any]]) -> None:
        """Count some rows, which are field ids to internal values of the schema."""
        rows = list(rows)
        self._rows += len(rows)
        for column in self._columns.values():
            column.add([_at(row, column.path) for row in rows])

    def data_file(
        self,
        written: WrittenFile,
        *,
        spec: PartitionSpec,
        partition: tuple[Any, ...] = (),
        sort_order_id: int | None = None,
        properties: Mapping[str, str] | None = None,
        modes: MetricsModes | None = None,
    ) -> DataFile:
        """The manifest entry of the file that these rows were written to; arguments as in `parquet_data_file`."""
        if len(partition) != len(spec.fields):
            raise InvalidInput(
                f"{plural(len(partition), 'partition value')} for {plural(len(spec.fields), 'partition field')}",
                where=written.location,
            )
        modes = metrics_modes(properties or {}, self._schema) if modes is None else modes
        kept = [(i, one, modes.of(i)) for i, one in self._columns.items() if modes.of(i).has_counts]
        lower = {i: one.lower_bound(mode) for i, one, mode in kept}
        upper = {i: one.upper_bound(mode) for i, one, mode in kept}
        return DataFile(
            file_path=written.location,
            file_format=written.file_format,
            spec_id=spec.spec_id,
            partition=partition,
            record_count=self._rows,
            file_size_in_bytes=written.size,
            column_sizes={i: n for i, n in written.column_sizes.items() if modes.of(i).has_counts} or None,
            value_counts=dict.fromkeys((i for i, _, _ in kept), self._rows),
            null_value_counts={i: one.nulls for i, one, _ in kept},
            nan_value_counts={i: one.nans for i, one, _ in kept if one.type in (FLOAT, DOUBLE)},
            lower_bounds={i: bound for i, bound in lower.items() if bound is not None},
            upper_bounds={i: bound for i, bound in upper.items() if bound is not None},
            split_offsets=written.split_offsets or None,
            sort_order_id=sort_order_id,
        )


class WrittenFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a writer knows of its finished file; sizes and offsets are bytes."""

    location: str
    file_format: FileFormat
    size: int
    column_sizes: dict[int, int] = {}
    split_offsets: tuple[int, ...] = ()


def _id_path(schema: Schema, field_id: int) -> tuple[int, ...]:
    path = [field_id]
    while (parent := schema.parent_id(path[0])) is not None:
        path.insert(0, parent)
    return tuple(path)


def _at(row: Mapping[int, Any], path: tuple[int, ...]) -> Any:
    value: Any = row
    for field_id in path:
        if value is None:
            return None
        value = value.get(field_id)
    return value
