"""The one place where the pipeline writes data files: batches in, Parquet files and their manifest entries out.

It needs no Spark. Rows may come in any order; those of one partition go to one open file, and a file that is large
enough is closed. When too many partitions are open, the one that was not written to for longest is closed, so that
rows that come partition by partition never have more than one file open for long.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterable
from itertools import count
from typing import Any, Final, Self

import msgspec
import pyarrow as pa

from firn.model.content_file import content_file_of
from firn.model.datafile import DataFile
from firn.model.delete_index import partition_key
from firn.model.intent import ContentFile
from firn.model.metrics_modes import MetricsModes, metrics_modes
from firn.model.reserved import is_reserved_id
from firn.model.table_properties import TARGET_FILE_SIZE_BYTES
from firn.pipeline.arrow_conform import conform
from firn.pipeline.data_locations import DataLocations
from firn.pipeline.new_files import NewFile
from firn.pipeline.partition_split import PartitionRows, PartitionSplitter
from firn.pipeline.write_properties import ROW_GROUP_BYTES
from firn.pipeline.write_target import WriteTarget
from firn.storage.file_stores import open_files
from firn.storage.files import FileStore
from firn.storage.parquet_files import ROW_GROUP_ROWS, ParquetFileWriter

OPEN_FILES_MAX: Final = 100
"""Files that one sink has open at once."""

BUFFERED_BYTES_MAX: Final = 256 * 1024 * 1024
"""Arrow bytes that wait for their row group, over all open files of a sink."""

FIRST_RATIO: Final = 0.5
"""Parquet bytes for one Arrow byte, before anything is known."""

_METRICS: Final = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds",
                   "upper_bounds")  # fmt: skip


class ParquetSink:
    """Writes one task's share of a table's new rows.

    `name` is in the name of every file and must be unique among the tasks and attempts of a run. Use it with ``with``:
    whatever fails, the files of a sink that was not `close`d are removed. Raises InvalidInput for rows that do not fit
    the table, Unsupported for columns that Parquet cannot hold, Unavailable for a store that does not answer.
    """

    def __init__(
        self, target: WriteTarget, *, name: str, files: FileStore | None = None, open_files_max: int = OPEN_FILES_MAX
    ) -> None:
        self._target = target
        self._files = open_files(target.files) if files is None else files
        properties = target.metadata.properties
        self._locations = DataLocations(location=target.metadata.location, properties=properties)
        self._splitter = PartitionSplitter(target.spec, target.schema)
        self._modes = metrics_modes(properties, target.metadata.current_schema, sort_order=_order(target))
        self._file_bytes = TARGET_FILE_SIZE_BYTES.of(properties)
        self._group_bytes = ROW_GROUP_BYTES.of(properties)
        self._open_max = max(1, open_files_max)
        self._open: OrderedDict[Any, _OpenFile] = OrderedDict()
        self._names = (f"{name}-{target.run}-{number:05d}.parquet" for number in count(1))
        self._done: list[DataFile] = []
        self._ratio = FIRST_RATIO

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows: the table's columns by name, in any order, of any Arrow types that fit."""
        for part in self._splitter.split(conform(batch, self._target.schema)):
            self._add(part)

    def write_all(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Add the rows of every batch."""
        for batch in batches:
            self.write(batch)

    def close(self) -> list[ContentFile]:
        """Close all files; the entries of those that were written, in the order in which they were closed."""
        while self._open:
            self._close_file(next(iter(self._open)))
        return [content_file_of(file, self._target.metadata) for file in self._done]

    def abort(self) -> None:
        """Remove every file that this sink has written."""
        for file in self._open.values():
            file.discard()
        self._open.clear()
        for done in self._done:
            self._files.delete(done.file_path)
        self._done.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        if kind is not None:
            self.abort()

    def _add(self, part: PartitionRows) -> None:
        key = partition_key(self._target.spec.spec_id, part.values)
        file = self._open.get(key)
        if file is None:
            if len(self._open) >= self._open_max:
                self._close_file(next(iter(self._open)))
            file = self._open[key] = self._opened(part.values)
        self._open.move_to_end(key)
        file.add(part.rows)
        if file.is_row_group_full(ratio=self._ratio):
            self._flush(file)
            if file.is_full:
                self._close_file(key)
        elif sum(one.buffered for one in self._open.values()) > BUFFERED_BYTES_MAX:
            self._flush(max(self._open.values(), key=lambda one: one.buffered))

    def _opened(self, partition: tuple[Any, ...]) -> _OpenFile:
        target = self._target
        location = self._locations.of(
            next(self._names), spec=target.spec, schema=target.metadata.current_schema, partition=partition
        )
        return _OpenFile(
            NewFile(location, self._files),
            target,
            partition=partition,
            file_bytes=self._file_bytes,
            group_bytes=self._group_bytes,
        )

    def _flush(self, file: _OpenFile) -> None:
        ratio = file.flush()
        if ratio is not None:
            self._ratio = ratio

    def _close_file(self, key: Any) -> None:
        file = self._open[key]
        self._flush(file)
        entry = file.close(self._modes)
        del self._open[key]
        self._done.append(entry)


class _OpenFile:
    """One file that is being written, and the batches that wait for their row group."""

    def __init__(
        self, file: NewFile, target: WriteTarget, *, partition: tuple[Any, ...], file_bytes: int, group_bytes: int
    ) -> None:
        self._file = file
        self._target = target
        self._partition = partition
        self._file_bytes = file_bytes
        self._group_bytes = group_bytes
        try:
            self._writer = ParquetFileWriter(file.stream, target.schema, properties=target.metadata.properties)
        except BaseException:
            file.discard()
            raise
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self.buffered = 0

    def add(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)
        self._rows += rows.num_rows
        self.buffered += rows.nbytes

    def is_row_group_full(self, *, ratio: float) -> bool:
        """Whether what waits makes a row group, or all that the file has room for, at `ratio` bytes in the file."""
        return (
            self._rows >= ROW_GROUP_ROWS
            or self.buffered >= self._group_bytes
            or self._file.stream.tell() + self.buffered * ratio >= self._file_bytes
        )

    @property
    def is_full(self) -> bool:
        """Whether one more row group of the usual size would be too much."""
        return self._file.stream.tell() + min(self._group_bytes, self._file_bytes) // 8 >= self._file_bytes

    def flush(self) -> float | None:
        """Write what waits as a row group; how many bytes it took for one Arrow byte."""
        if not self._waiting:
            return None
        before = self._file.stream.tell()
        self._writer.write(pa.Table.from_batches(self._waiting))
        ratio = (self._file.stream.tell() - before) / max(1, self.buffered)
        self._waiting, self._rows, self.buffered = [], 0, 0
        return ratio

    def close(self, modes: MetricsModes) -> DataFile:
        written = self._writer.close()
        self._file.close()
        entry = written.data_file(
            self._file.location,
            spec=self._target.spec,
            partition=self._partition,
            sort_order_id=self._target.sort_order_id,
            modes=modes,
        )
        return _without_reserved(entry)

    def discard(self) -> None:
        self._waiting = []
        with contextlib.suppress(OSError, pa.ArrowException):
            self._writer.close()  # a writer that is not closed would write when it is collected
        self._file.discard()


def _order(target: WriteTarget) -> Any:
    return None if target.sort_order_id is None else target.metadata.order_by_id(target.sort_order_id)


def _without_reserved(entry: DataFile) -> DataFile:
    """The entry without metrics of columns that are not the table's."""
    kept = {
        name: {i: value for i, value in metrics.items() if not is_reserved_id(i)}
        for name in _METRICS
        if (metrics := getattr(entry, name)) is not None
    }
    return msgspec.structs.replace(entry, **kept)
