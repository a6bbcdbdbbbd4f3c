"""The rows that a snapshot of the real table has: read from its files, with all deletes applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from firn.model.datafile import DataFile
from firn.model.manifest import ManifestEntry
from firn.model.metadata import TableMetadata
from firn.model.reserved import FILE, LAST_UPDATED_SEQUENCE_NUMBER, POS, ROW_ID
from firn.model.scan_plan import FileScanTask
from firn.model.schema import Schema
from firn.model.types import StructType
from firn.storage.files import FileStore
from firn.storage.manifest_reader import StoredManifests
from firn.storage.scan_rows import every_column
from firn.storage.table_rows import RowReader
from firn.storage.table_scan import plan_scan
from tests.unit.coordinator.row_model.rows import VID, Partition

_METADATA_COLUMNS = (FILE, POS, ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER)


class SeenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A live row, and where it is."""

    vid: int
    values: Mapping[int, Any]
    file: str
    position: int
    partition: Partition
    row_id: int | None
    updated: int | None


class SeenFile(msgspec.Struct, frozen=True, kw_only=True):
    """A live data file with its live rows and the deletes that apply to it."""

    file: DataFile
    sequence_number: int
    deletes: tuple[DataFile, ...]
    rows: tuple[SeenRow, ...]


class TableReading:
    """Reads snapshots of one table; files are immutable, so each is read once for the deletes that it has."""

    def __init__(self, files: FileStore) -> None:
        self._files = files
        self._read: dict[Any, SeenFile] = {}

    def files_at(self, metadata: TableMetadata, snapshot_id: int | None) -> tuple[SeenFile, ...]:
        """The live data files of a snapshot, read with the table's current schema."""
        if snapshot_id is None:
            return ()
        plan = plan_scan(metadata, files=StoredManifests(self._files), snapshot_id=snapshot_id)
        return tuple([self._file(metadata, task) for task in plan.tasks])

    def rows_at(self, metadata: TableMetadata, snapshot_id: int | None) -> list[SeenRow]:
        """The live rows of a snapshot."""
        return [row for file in self.files_at(metadata, snapshot_id) for row in file.rows]

    def equality_deletes(self, metadata: TableMetadata, snapshot_id: int | None) -> list[ManifestEntry]:
        """The live equality delete files of a snapshot, whether they reach anything or not."""
        snapshot, reader = metadata.snapshot_by_id(snapshot_id or 0), StoredManifests(self._files)
        manifests = () if snapshot is None else reader.manifests(metadata, snapshot)
        entries = (entry for manifest in manifests for entry in reader.entries(metadata, manifest))
        return [e for e in entries if e.is_live and e.data_file.content == "equality-deletes"]

    def every_row(self, metadata: TableMetadata, seen: SeenFile) -> list[int]:
        """The `vid` of every row in a data file, deleted or not."""
        (part,) = list(self._reader(metadata).rows(seen.file, data_sequence_number=seen.sequence_number)) or [[]]
        return [row[VID] for row in part]

    def deleted_positions(self, metadata: TableMetadata, seen: SeenFile) -> list[int]:
        """The positions in a data file that position deletes or a deletion vector have deleted."""
        vector = self._reader(metadata).deleted_positions(seen.file, seen.deletes)
        return list(vector.bitmap)

    def reached(self, metadata: TableMetadata, seen: SeenFile, deletes: Sequence[DataFile]) -> list[int]:
        """The positions in a data file of the rows that some deletes, and none by position, leave out of it."""

        def positions(deletes: Sequence[DataFile]) -> set[int]:
            number = seen.sequence_number
            parts = self._reader(metadata).rows(seen.file, deletes=deletes, data_sequence_number=number)
            return {row[POS.field_id] for part in parts for row in part}

        return sorted(positions(()) - positions(deletes))

    def _file(self, metadata: TableMetadata, task: FileScanTask) -> SeenFile:
        file = task.file
        deletes = tuple((delete.file_path, delete.content_offset) for delete in task.deletes)
        schemas = (metadata.current_schema_id, len(metadata.schemas))
        key = (file.file_path, file.first_row_id, task.sequence_number, deletes, schemas)
        found = self._read.get(key)
        if found is None:
            found = self._read[key] = self._seen(metadata, task)
        return found

    def _seen(self, metadata: TableMetadata, task: FileScanTask) -> SeenFile:
        columns = metadata.current_schema.fields_by_id.keys()
        parts = self._reader(metadata).rows(task.file, deletes=task.deletes, data_sequence_number=task.sequence_number)
        rows = tuple(
            SeenRow(
                vid=row[VID],
                values={i: row[i] for i in columns},
                file=row[FILE.field_id],
                position=row[POS.field_id],
                partition=(task.file.spec_id, task.file.partition),
                row_id=row[ROW_ID.field_id],
                updated=row[LAST_UPDATED_SEQUENCE_NUMBER.field_id],
            )
            for part in parts
            for row in part
        )
        return SeenFile(file=task.file, sequence_number=task.sequence_number, deletes=task.deletes, rows=rows)

    def _reader(self, metadata: TableMetadata) -> RowReader:
        schema = metadata.current_schema
        wanted = Schema(schema_id=schema.schema_id, struct=StructType((*schema.fields, *_METADATA_COLUMNS)))
        return RowReader(
            files=self._files,
            schema=wanted,
            table_schema=every_column(schema, metadata.schemas),
            specs={spec.spec_id: spec for spec in metadata.partition_specs},
        )


def live_rows(files: Sequence[SeenFile]) -> list[SeenRow]:
    """The rows of all files."""
    return [row for file in files for row in file.rows]
