"""A table of real rows under a daemon: files are written as engines would, rows are read back with all deletes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from firn.coordinator.fsck.finding import Finding
from firn.coordinator.fsck.run import check_table
from firn.model.content_file import bind_content_file, content_file_of
from firn.model.datafile import DataFile
from firn.model.deletion_vector import DeletionVector
from firn.model.intent import (
    Append,
    ContentFile,
    CreateTable,
    DeleteFileRef,
    DeleteFiles,
    DeleteWhere,
    Overwrite,
    Replace,
    ReplacePartitions,
    RowDelta,
    WrittenManifest,
)
from firn.model.manifest import ManifestContent, ManifestEntry, Status
from firn.model.metadata import TableMetadata
from firn.model.outcome import Committed, Rejected
from firn.model.partitioning import PartitionSpec, partition_of
from firn.model.schema import Schema
from firn.model.schema_projection import project
from firn.model.snapshot import Snapshot
from firn.storage.data_files import NewFile, encode_rows
from firn.storage.equality_deletes import encode_equality_deletes
from firn.storage.manifest_reader import StoredManifests
from firn.storage.manifests import encode_manifest
from firn.storage.pointers import Pointers
from firn.storage.position_deletes import encode_position_deletes
from firn.storage.puffin import deletion_vector_blob, encode_puffin
from firn.storage.scan_rows import scan_rows
from firn.storage.table_scan import plan_scan
from tests.unit.coordinator.workbench import TABLE, Workbench, new_id

SCHEMA: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "region", "type": "string", "required": False},
    ],
}
BY_REGION: dict[str, Any] = {
    "spec-id": 0,
    "fields": [{"source-id": 2, "field-id": 1000, "name": "region", "transform": "identity"}],
}

Row = tuple[int, str | None]


class RealRows:
    """One table; every method that commits gives the outcome, which tests compare."""

    def __init__(self, bench: Workbench, metadata: TableMetadata) -> None:
        self.bench = bench
        self.created = metadata
        self._names = itertools.count(1)

    @classmethod
    async def create(cls, bench: Workbench, *, version: int = 3, partitioned: bool = False, **changes: Any) -> RealRows:
        """A new table of `id` and `region`."""
        await bench.commit(
            CreateTable(
                intent_id=new_id(),
                table=TABLE,
                schema=SCHEMA,
                format_version=version,
                **{"partition_spec": BY_REGION if partitioned else None, **changes},
            )
        )
        return cls(bench, await bench.metadata())

    # -- files -----------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> Schema:
        return self.created.current_schema

    @property
    def spec(self) -> PartitionSpec:
        return self.created.default_spec

    def data(self, *rows: Row, partition: tuple[Any, ...] | None = None) -> ContentFile:
        """A data file."""
        members = [{1: id, 2: region} for id, region in rows]
        if partition is None:
            partition = partition_of(self.spec, self.schema, members[0]) if self.spec.fields else ()
        return self._stored(encode_rows(members, self.schema, self._new(partition)))

    def of_ids(self, *ids: int) -> ContentFile:
        """A data file without regions, as it is written once that column was dropped."""
        return self._stored(encode_rows([{1: id} for id in ids], project(self.schema, (1,)), self._new(())))

    def equality(self, *ids: int, like: ContentFile | None = None) -> ContentFile:
        """Deletes of every older row with one of these ids."""
        return self._equality(1, ids, () if like is None else like.partition)

    def of_regions(self, *regions: str | None) -> ContentFile:
        """Deletes of every older row with one of these regions."""
        return self._equality(2, regions, ())

    def _equality(self, column: int, values: Iterable[Any], partition: tuple[Any, ...]) -> ContentFile:
        keys, schema = [{column: value} for value in values], project(self.schema, (column,))
        return self._stored(encode_equality_deletes(keys, schema, self._new(partition), equality_ids=(column,)))

    def positions(self, deleted: Mapping[str, Iterable[int]], *, like: ContentFile) -> ContentFile:
        """A position delete file of v2."""
        vectors = {path: DeletionVector.of(positions) for path, positions in deleted.items()}
        return self._stored(encode_position_deletes(vectors, self._new(like.partition)))

    def vector(self, file: ContentFile, *positions: int, partition: tuple[Any, ...] | None = None) -> ContentFile:
        """A deletion vector for one data file."""
        vector = DeletionVector.of(positions)
        data, puffin = encode_puffin([deletion_vector_blob(vector, data_file=file.file_path)])
        location = self._location("puffin")
        self.bench.files.create(location, data)
        return ContentFile(
            content="position-deletes",
            file_path=location,
            file_format="puffin",
            spec_id=file.spec_id,
            partition=file.partition if partition is None else partition,
            record_count=vector.cardinality,
            file_size_in_bytes=len(data),
            referenced_data_file=file.file_path,
            content_offset=puffin.blobs[0].offset,
            content_size_in_bytes=puffin.blobs[0].length,
        )

    def manifest(
        self, entries: Sequence[ManifestEntry], *, content: ManifestContent = "data", snapshot_id: int | None = None
    ) -> WrittenManifest:
        """A manifest that a writer writes itself. Entries that are not added need their numbers."""
        encoded = encode_manifest(
            entries,
            schema=self.schema,
            spec=self.spec,
            content=content,
            format_version=self.created.format_version,
            snapshot_id=snapshot_id,
        )
        location = f"{self.created.location}/metadata/{next(self._names):05}-written.avro"
        self.bench.files.create(location, encoded.data)
        return WrittenManifest(
            manifest_path=location,
            manifest_length=len(encoded.data),
            partition_spec_id=self.spec.spec_id,
            content=content,
            files_count=len(entries),
            rows_count=sum(entry.data_file.record_count for entry in entries),
        )

    def added(self, *files: ContentFile) -> list[ManifestEntry]:
        """Entries of new files, as a writer leaves them to the commit."""
        bound = [bind_content_file(file, self.created, where="file") for file in files]
        return [ManifestEntry(status=Status.ADDED, data_file=file) for file in bound]

    def _new(self, partition: tuple[Any, ...]) -> NewFile:
        return NewFile(location=self._location("parquet"), spec=self.spec, partition=partition)

    def _location(self, suffix: str) -> str:
        return f"{self.created.location}/data/{next(self._names):05}.{suffix}"

    def _stored(self, encoded: tuple[bytes, DataFile]) -> ContentFile:
        data, file = encoded
        self.bench.files.create(file.file_path, data)
        return content_file_of(file, self.created)

    # -- commits ---------------------------------------------------------------------------------------------------

    def append(self, *files: ContentFile, **members: Any) -> Append:
        return _intent(Append, data_files=files, **members)

    def delete(self, *files: ContentFile, **members: Any) -> DeleteFiles:
        return _intent(DeleteFiles, removed_data_files=paths(files), **members)

    def delete_where(self, row_filter: Any, **members: Any) -> DeleteWhere:
        return _intent(DeleteWhere, row_filter=row_filter, **members)

    def overwrite(
        self, base: int | None, added: Sequence[ContentFile] = (), removed: Sequence[ContentFile] = (), **members: Any
    ) -> Overwrite:
        return _intent(
            Overwrite, base_snapshot_id=base, data_files=tuple(added), removed_data_files=paths(removed), **members
        )

    def replace_partitions(self, base: int | None, *added: ContentFile, **members: Any) -> ReplacePartitions:
        return _intent(ReplacePartitions, base_snapshot_id=base, data_files=added, **members)

    def replace(
        self, base: int, removed: Sequence[ContentFile], added: Sequence[ContentFile] = (), **members: Any
    ) -> Replace:
        return _intent(
            Replace, base_snapshot_id=base, removed_data_files=paths(removed), data_files=tuple(added), **members
        )

    def delta(self, base: int | None, *deletes: ContentFile, added: Sequence[ContentFile] = (), **m: Any) -> RowDelta:
        members = {"data_files": tuple(added), "delete_files": deletes, "base_snapshot_id": base, **m}
        return _intent(RowDelta, **members)

    async def commit(self, intent: Any) -> int:
        """The id of the snapshot that the intent became."""
        snapshot_id = (await self.committed(intent)).snapshot_id
        assert snapshot_id is not None
        return snapshot_id

    async def committed(self, intent: Any) -> Committed:
        return await self.bench.commit(intent)

    async def refused(self, intent: Any) -> Rejected:
        """The rejection; nothing of the table has changed."""
        before = await self.snapshot()
        rejected = await self.bench.refuse(intent)
        assert await self.snapshot() == before
        return rejected

    # -- reading ---------------------------------------------------------------------------------------------------

    async def metadata(self) -> TableMetadata:
        return await self.bench.metadata()

    async def snapshot(self) -> Snapshot | None:
        return (await self.metadata()).current_snapshot

    async def ids(self, **scan: Any) -> list[int]:
        """The ids of all rows, sorted."""
        return sorted(id for id, _ in await self.rows(**scan))

    async def rows(self, **scan: Any) -> list[Row]:
        """All rows, sorted; or those of a scan with the arguments of `plan_scan`."""
        metadata = await self.metadata()
        plan = plan_scan(metadata, files=StoredManifests(self.bench.files), **scan)
        found = [row for part in scan_rows(plan, metadata, files=self.bench.files) for row in part]
        return sorted(((row[1], row.get(2)) for row in found), key=lambda row: (row[0], row[1] or ""))

    async def row_ids(self) -> dict[int, int]:
        """Row ids of a v3 table by `id`."""
        metadata = await self.metadata()
        plan = plan_scan(metadata, files=StoredManifests(self.bench.files), columns=["id", "_row_id"])
        found = [row for part in scan_rows(plan, metadata, files=self.bench.files) for row in part]
        return {row[1]: next(value for field, value in row.items() if field != 1) for row in found}

    async def entries(self, *, live: bool = True, snapshot_id: int | None = None) -> list[ManifestEntry]:
        """Manifest entries of the current or another snapshot, live ones only unless told otherwise."""
        metadata, reader = await self.metadata(), StoredManifests(self.bench.files)
        snapshot = metadata.current_snapshot if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
        assert snapshot is not None
        manifests = reader.manifests(metadata, snapshot)
        found = [entry for manifest in manifests for entry in reader.entries(metadata, manifest)]
        return [entry for entry in found if entry.is_live or not live]

    async def unsound(self) -> tuple[Finding, ...]:
        """What a check of the whole table finds: journal, versions, manifests, files."""
        versioned = await Pointers(self.bench.zookeeper.connect()).read(TABLE)
        return check_table(versioned.pointer, files=self.bench.files, limits=self.bench.limits).findings

    async def delete_files(self) -> list[DataFile]:
        """The live delete files."""
        return [entry.data_file for entry in await self.entries() if entry.data_file.content != "data"]


def ref(file: ContentFile | DataFile) -> DeleteFileRef:
    """How an intent names a delete file that it removes."""
    return DeleteFileRef(file_path=file.file_path, content_offset=file.content_offset)


def paths(files: Iterable[ContentFile]) -> tuple[str, ...]:
    return tuple(file.file_path for file in files)


def _intent(kind: type[Any], **members: Any) -> Any:
    return kind(**{"intent_id": new_id(), "table": TABLE, **members})


def field_is(column: str, value: Any) -> dict[str, Any]:
    """A filter in JSON."""
    return {"type": "eq", "term": column, "value": value}
