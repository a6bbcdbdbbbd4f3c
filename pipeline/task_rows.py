"""The live rows of one planned file, in a task: as Arrow batches where that is possible, else row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firn.model.amounts import plural
from firn.model.errors import CorruptFile
from firn.model.metadata import TableMetadata
from firn.model.name_mapping import NameMapping, name_mapping_from_text
from firn.model.reserved import FILE_ID, LAST_UPDATED_SEQUENCE_NUMBER_ID, POS_ID, ROW_ID_ID, SPEC_ID_ID
from firn.model.scan_plan import FileScanTask
from firn.model.schema import Schema
from firn.model.table_properties import NAME_MAPPING
from firn.model.transforms import Identity
from firn.model.types import StructType
from firn.storage.arrow_rows import batch_of_rows
from firn.storage.data_files import DATA_FILE_BYTES_MAX
from firn.storage.files import FileStore
from firn.storage.parquet_files import read_parquet
from firn.storage.parquet_schema import arrow_schema
from firn.storage.scan_rows import every_column
from firn.storage.table_rows import RowReader

_COMPUTED: Final = frozenset({FILE_ID, POS_ID, SPEC_ID_ID})


class TaskReader:
    """Reads planned files of a table in the columns of `projection`, metadata columns among them if asked for."""

    def __init__(self, metadata: TableMetadata, projection: Schema, files: FileStore) -> None:
        mapping = NAME_MAPPING.of(metadata.properties)
        self._mapping: NameMapping | None = None if mapping is None else name_mapping_from_text(mapping)
        self._files = files
        self._projection = projection
        self._every = every_column(metadata.current_schema, metadata.schemas)
        stored = tuple(field for field in projection.fields if field.field_id not in _COMPUTED)
        self._stored = msgspec.structs.replace(projection, struct=StructType(stored))
        self._rows = RowReader(
            files=files,
            schema=projection,
            table_schema=self._every,
            specs={spec.spec_id: spec for spec in metadata.partition_specs},
            name_mapping=self._mapping,
        )

    def batches(self, task: FileScanTask) -> Iterator[pa.RecordBatch]:
        """The live rows, in the file's order, in the Arrow schema of the projection. Raises CorruptFile."""
        by_value = any(delete.content == "equality-deletes" for delete in task.deletes)
        if task.file.file_format == "parquet" and not by_value and self._stored.fields:
            yield from self._arrow(task)
            return
        sequence_number = task.sequence_number
        for part in self._rows.rows(task.file, deletes=task.deletes, data_sequence_number=sequence_number):
            yield batch_of_rows(part, self._projection)

    def _arrow(self, task: FileScanTask) -> Iterator[pa.RecordBatch]:
        file = task.file
        dead = self._rows.deleted_positions(file, task.deletes)
        data = self._files.read(file.file_path, bytes_max=DATA_FILE_BYTES_MAX)
        if len(data) != file.file_size_in_bytes:
            raise CorruptFile(file.file_path, f"has {len(data)} bytes, its entry says {file.file_size_in_bytes}")
        constants = {
            field.source_id: value
            for field, value in zip(task.spec.fields, file.partition, strict=True)
            if isinstance(field.parsed_transform, Identity)
        }
        start = 0
        for batch in read_parquet(
            data,
            location=file.file_path,
            schema=self._stored,
            constants=constants,
            name_mapping=self._mapping,
            table_schema=self._every,
        ):
            gone = dead.positions_in(start=start, stop=start + batch.num_rows)
            whole = self._completed(batch, task, start=start)
            start += batch.num_rows
            if gone:
                alive = np.ones(batch.num_rows, bool)
                alive[np.asarray(gone, np.int64) - (start - batch.num_rows)] = False
                whole = whole.filter(pa.array(alive))
            if whole.num_rows:
                yield whole
        if start != file.record_count:
            raise CorruptFile(file.file_path, f"has {plural(start, 'row')}, its entry says {file.record_count}")

    def _completed(self, batch: pa.RecordBatch, task: FileScanTask, *, start: int) -> pa.RecordBatch:
        """The batch with the metadata columns that are computed."""
        positions = np.arange(start, start + batch.num_rows, dtype=np.int64)
        stored = iter(batch.columns)
        arrays = []
        for field in self._projection.fields:
            match field.field_id:
                case int(i) if i == FILE_ID:
                    arrays.append(_constant(task.file.file_path, pa.string(), batch.num_rows))
                case int(i) if i == POS_ID:
                    arrays.append(pa.array(positions))
                case int(i) if i == SPEC_ID_ID:
                    arrays.append(_constant(task.file.spec_id, pa.int32(), batch.num_rows))
                case int(i) if i == ROW_ID_ID and task.file.first_row_id is not None:
                    arrays.append(_or(next(stored), positions + task.file.first_row_id))
                case int(i) if i == LAST_UPDATED_SEQUENCE_NUMBER_ID and task.file.first_row_id is not None:
                    arrays.append(_or(next(stored), np.full(batch.num_rows, task.sequence_number, np.int64)))
                case _:
                    arrays.append(next(stored))
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(self._projection))


def _constant(value: Any, type: pa.DataType, length: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, type), length)


def _or(given: pa.Array, inherited: Any) -> pa.Array:
    """A column's own values, and what is inherited where it has none."""
    return pc.coalesce(given, pa.array(inherited, pa.int64()))
