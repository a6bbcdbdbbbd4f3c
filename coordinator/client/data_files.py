"""Parquet files that a writer has written, described for an intent: metrics from the footers, partitions proven."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firn.coordinator.client.parquet_source import footer_of, open_source
from firn.coordinator.client.table_view import TableView
from firn.model.content_file import content_file_of
from firn.model.errors import InvalidInput
from firn.model.intent import ContentFile
from firn.model.name_mapping import NAME_MAPPING_PROPERTY, NameMapping, name_mapping_from_text
from firn.model.partitioning import PartitionField, partition_from_json, partition_type
from firn.model.schema import Schema
from firn.model.schema_projection import project
from firn.model.transforms import Void
from firn.model.types import Type
from firn.model.values import to_bytes
from firn.storage.arrow_rows import values_of
from firn.storage.files import FileStore
from firn.storage.parquet_columns import arrow_field_id
from firn.storage.parquet_files import read_parquet
from firn.storage.parquet_metrics import column_metrics, count_nans, infer_partition, parquet_data_file
from firn.storage.readable_parquet import check_readable

THREADS_MAX: Final = 8
Partition = Sequence[Any] | Mapping[str, Any]


def data_files_from_parquet(
    paths: Iterable[str | Path],
    table: TableView,
    *,
    partition: Partition | None = None,
    sort_order_id: int | None = None,
    files: FileStore | None = None,
) -> list[ContentFile]:
    """Describe Parquet files for an intent, in the order given.

    Reads the footers, the float columns in order to count NaN, and the texts, which must be UTF-8. `partition` is that
    of all files, in the JSON form of single values: a list in the order of the table's current spec, or a mapping by
    partition field name. Without it, it is proven for each file: from the footer where that is enough, else by reading
    the source columns. `sort_order_id` says that the rows are sorted so. `files` is where paths with a scheme other
    than ``file`` are read (`firn.storage.file_stores.open_files`); each path is registered as it is given here.

    Raises InvalidInput naming the file, for rows of two partitions also the rows; InvalidSchema for columns that do
    not fit the table; NotFound, CorruptFile, Unavailable.
    """
    reader = _Reader(table, partition=partition, sort_order_id=sort_order_id, files=files)
    locations = [_location(path) for path in paths]
    if len(locations) <= 1:
        return [reader.describe(location) for location in locations]
    with ThreadPoolExecutor(min(len(locations), THREADS_MAX), thread_name_prefix="firn-footers") as pool:
        return list(pool.map(reader.describe, locations))


class _Reader:
    """Describes files of one table. Threads may share it."""

    def __init__(
        self,
        table: TableView,
        *,
        partition: Partition | None,
        sort_order_id: int | None,
        files: FileStore | None,
    ) -> None:
        self._table = table
        self._schema = table.schema
        self._spec = table.spec
        self._files = files
        self._sort_order_id = sort_order_id
        self._partition = None if partition is None else _given(partition, table)
        self._mapping = _name_mapping(table)

    def describe(self, location: str) -> ContentFile:
        with open_source(location, self._files) as source:
            parquet, size = footer_of(source, location=location)
            self._require_ids(parquet.schema_arrow, location=location)
            check_readable(parquet, schema=self._schema, location=location, name_mapping=self._mapping)
            nans = count_nans(parquet, schema=self._schema, location=location, name_mapping=self._mapping)
            partition = self._partition
            if partition is None:
                partition = self._proven(parquet.metadata, nans, source, location=location)
            described = parquet_data_file(
                parquet.metadata,
                location=location,
                file_size=size,
                schema=self._schema,
                spec=self._spec,
                partition=partition,
                sort_order_id=self._sort_order_id,
                properties=self._table.metadata.properties,
                nan_counts=nans,
                name_mapping=self._mapping,
            )
        return content_file_of(described, self._table.metadata)

    def _require_ids(self, schema: pa.Schema, *, location: str) -> None:
        """Refuse a file whose columns other engines could not tell: neither ids in it nor a name mapping in the table.

        firn would find its columns by name; PyIceberg refuses to read such a table, others may read nulls.
        """
        if self._mapping is None and all(arrow_field_id(field) is None for field in schema):
            raise InvalidInput(
                f"its columns have no field ids, and the table has no {NAME_MAPPING_PROPERTY}",
                where=location,
                hint="write it with the schema firn.arrow_schema(table.schema)",
            )

    def _proven(
        self, footer: pq.FileMetaData, nans: Mapping[int, int], source: BinaryIO, *, location: str
    ) -> tuple[Any, ...]:
        proven = self._from_footer(footer, nans, location=location)
        if proven is None:
            source.seek(0)
            proven = self._from_rows(source, location=location)
        return proven

    def _from_footer(
        self, footer: pq.FileMetaData, nans: Mapping[int, int], *, location: str
    ) -> tuple[Any, ...] | None:
        """The partition, when the footer proves that there is one; None says only that it does not."""
        columns = column_metrics(footer, schema=self._schema, location=location, name_mapping=self._mapping)
        try:
            proven = infer_partition(columns, schema=self._schema, spec=self._spec, location=location, nan_counts=nans)
        except InvalidInput:
            return None
        # Footers say -0.0 … 0.0 for zeros of either sign; Iceberg keeps the two apart.
        return None if any(isinstance(value, float) and value == 0 for value in proven) else proven

    def _from_rows(self, source: BinaryIO, *, location: str) -> tuple[Any, ...]:
        """The partition of all rows, by reading the source columns."""
        fields = [field for field in self._spec.fields if not isinstance(field.parsed_transform, Void)]
        wanted = project(self._schema, {field.source_id for field in fields})
        batches = read_parquet(
            source, location=location, schema=wanted, name_mapping=self._mapping, table_schema=self._schema
        )
        found = {field.field_id: _OneValue(field, wanted, location=location) for field in fields}
        rows = 0
        for batch in batches:
            for one in found.values():
                one.take(batch, first_row=rows)
            rows += batch.num_rows
        return tuple(found[field.field_id].value if field.field_id in found else None for field in self._spec.fields)


class _OneValue:
    """Makes sure that all rows have one value of a partition field."""

    def __init__(self, field: PartitionField, schema: Schema, *, location: str) -> None:
        source = schema.field_by_id(field.source_id)
        path = schema.positions_by_id.get(field.source_id)
        if source is None or path is None:
            raise InvalidInput(f"partition field {field.name!r} has no column in the table", where=location)
        self._field = field
        self._source: Type = source.type
        self._path = path
        self._location = location
        self._seen: tuple[bytes | None, int] | None = None
        self.value: Any = None

    def take(self, batch: pa.RecordBatch, *, first_row: int) -> None:
        """The rows of a batch whose first is row `first_row` of the file; InvalidInput when they differ."""
        column = batch.column(self._path[0])
        for index in self._path[1:]:
            column = column.flatten()[index]
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        encoded = column.dictionary_encode(null_encoding="encode")
        result_type = self._field.parsed_transform.result_type(self._source)
        for position, value in enumerate(values_of(encoded.dictionary, self._source)):
            transformed = self._field.parsed_transform.apply(self._source, value)
            key = None if transformed is None else to_bytes(result_type, transformed)
            if self._seen is None:
                self._seen, self.value = (key, first_row + _row_of(encoded, position)), transformed
            elif self._seen[0] != key:
                self._refuse(transformed, first_row + _row_of(encoded, position), result_type)

    def _refuse(self, value: Any, row: int, type: Type) -> None:
        assert self._seen is not None
        human = self._field.parsed_transform.human
        raise InvalidInput(
            f"its rows are of several partitions: {self._field.name} ({self._field.transform}) is "
            f"{human(type, self.value)} in row {self._seen[1]} and {human(type, value)} in row {row}",
            where=self._location,
            hint="write one file for each partition",
        )


def _row_of(encoded: pa.DictionaryArray, position: int) -> int:
    """The first row that has the dictionary's value at `position`."""
    return int(pc.index(encoded.indices, pa.scalar(position, encoded.indices.type)).as_py())


def _location(path: str | Path) -> str:
    """As it is registered: what is not absolute is taken from where the writer is."""
    if isinstance(path, Path) or (":" not in path.split("/", 1)[0] and not path.startswith("/")):
        return str(Path(path).absolute())
    return path


def _given(partition: Partition, table: TableView) -> tuple[Any, ...]:
    struct = partition_type(table.spec, table.schema)
    members = dict(partition) if isinstance(partition, Mapping) else list(partition)
    return partition_from_json(struct, members)


def _name_mapping(table: TableView) -> NameMapping | None:
    text = table.metadata.properties.get(NAME_MAPPING_PROPERTY)
    return None if text is None else name_mapping_from_text(text)
