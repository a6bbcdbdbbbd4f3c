"""A Spark job that turns deleted rows into deletes: vectors in Puffin files (v3), or files of positions (v2).

The positions of one data file come to one task, and are kept there as a roaring bitmap: a hundred million of them take
some megabytes. A vector has all deletes of its file, those that were there before among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import DataFrame

from firn.model.content_file import content_file_of
from firn.model.datafile import DataFile
from firn.model.delete_index import referenced_data_file
from firn.model.deletion_vector import DeletionVector
from firn.model.errors import CorruptFile
from firn.model.intent import ContentFile, DeleteFileRef
from firn.model.scan_plan import FileScanTask
from firn.pipeline.data_locations import DataLocations
from firn.pipeline.deleted_positions import positional_deletes, read_positions
from firn.pipeline.python_archives import forget_spark_jars
from firn.pipeline.write_job import encode_files, run_job, task_name
from firn.pipeline.write_target import WriteTarget
from firn.storage.data_files import NewFile
from firn.storage.file_stores import open_files
from firn.storage.files import FileStore
from firn.storage.position_deletes import encode_position_deletes
from firn.storage.puffin import deletion_vector_blob, encode_puffin

DELETE_TASKS_MAX: Final = 32
"""Tasks that deletes are written by; each makes one Puffin file."""


class WrittenDeletes(msgspec.Struct, frozen=True):
    """New delete files, and those whose deletes they have taken over."""

    files: list[ContentFile]
    replaced: tuple[DeleteFileRef, ...]


class _Deleted(msgspec.Struct, frozen=True):
    """A data file that rows are deleted from, and what deletes of it there were."""

    file: DataFile
    deletes: tuple[DataFile, ...]


def write_deletes(positions: DataFrame, tasks: Sequence[FileScanTask], target: WriteTarget) -> WrittenDeletes:
    """Write deletes for `positions`, rows of data file and position (``_file``, ``_pos``), each once or more.

    `tasks` are the planned files that they are in, with the deletes that applied to them.
    """
    merges = target.metadata.format_version >= 3
    known = {task.file.file_path: _Deleted(_bare(task.file), positional_deletes(task)) for task in tasks}
    job = _DeleteTask(target=target, known=known)
    spread = positions.select("_file", "_pos").repartition(min(DELETE_TASKS_MAX, max(1, len(tasks))), "_file")
    files = run_job(spread, job)
    deleted = {file.referenced_data_file for file in files}
    replaced = [
        DeleteFileRef(file_path=delete.file_path, content_offset=delete.content_offset)
        for path, one in known.items()
        for delete in one.deletes
        if merges and path in deleted and referenced_data_file(delete) == path
    ]
    return WrittenDeletes(files, tuple(replaced))


def _bare(file: DataFile) -> DataFile:
    """The entry without metrics, which tasks need not know."""
    return DataFile(
        file_path=file.file_path,
        file_format=file.file_format,
        spec_id=file.spec_id,
        partition=file.partition,
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
    )


class _DeleteTask(msgspec.Struct, frozen=True, kw_only=True):
    """What a task does with its positions."""

    target: WriteTarget
    known: Mapping[str, _Deleted]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bitmaps: dict[str, BitMap64] = {}
        for batch in batches:
            paths = batch.column(0).dictionary_encode()
            for number, path in enumerate(paths.dictionary.to_pylist()):
                positions = batch.column(1).filter(pc.equal(paths.indices, number))
                bitmaps.setdefault(path, BitMap64()).update(positions.to_numpy())
        if not bitmaps:
            return
        vectors = {path: DeletionVector.of(bitmap) for path, bitmap in bitmaps.items()}
        files = open_files(self.target.files)
        if self.target.metadata.format_version >= 3:
            entries = self._puffin(vectors, files)
        else:
            entries = self._positions(vectors, files)
        forget_spark_jars()
        yield encode_files(content_file_of(entry, self.target.metadata) for entry in entries)

    def _of(self, path: str) -> _Deleted:
        found = self.known.get(path)
        if found is None:
            raise CorruptFile(path, "rows of it are to be deleted, and it was not planned")
        return found

    def _puffin(self, vectors: Mapping[str, DeletionVector], files: FileStore) -> list[DataFile]:
        """One Puffin file with a vector for each data file, older deletes merged in."""
        whole = {path: self._merged(path, vector, files) for path, vector in vectors.items()}
        location = f"{self._root()}/{task_name()}-{self.target.run}-deletes.puffin"
        data, footer = encode_puffin(
            [deletion_vector_blob(vector, data_file=path) for path, vector in whole.items()],
            properties={"created-by": "firn"},
        )
        files.create(location, data)
        return [
            DataFile(
                content="position-deletes",
                file_path=location,
                file_format="puffin",
                spec_id=self._of(path).file.spec_id,
                partition=self._of(path).file.partition,
                record_count=vector.cardinality,
                file_size_in_bytes=len(data),
                referenced_data_file=path,
                content_offset=blob.offset,
                content_size_in_bytes=blob.length,
            )
            for (path, vector), blob in zip(whole.items(), footer.blobs, strict=True)
        ]

    def _merged(self, path: str, vector: DeletionVector, files: FileStore) -> DeletionVector:
        before = [read_positions(delete, files).get(path) for delete in self._of(path).deletes]
        return vector.union(*(one for one in before if one is not None))

    def _positions(self, vectors: Mapping[str, DeletionVector], files: FileStore) -> list[DataFile]:
        """One file of positions for each data file: it names its data file, so readers need it for no other."""
        specs = {spec.spec_id: spec for spec in self.target.metadata.partition_specs}
        entries = []
        for number, (path, vector) in zip(count(1), vectors.items(), strict=False):
            deleted = self._of(path).file
            new = NewFile(
                location=f"{self._root()}/{task_name()}-{self.target.run}-{number:05d}-deletes.parquet",
                spec=specs[deleted.spec_id],
                partition=deleted.partition,
                properties=self.target.metadata.properties,
            )
            data, entry = encode_position_deletes({path: vector}, new)
            files.create(new.location, data)
            entries.append(entry)
        return entries

    def _root(self) -> str:
        metadata = self.target.metadata
        return DataLocations(location=metadata.location, properties=metadata.properties).root
