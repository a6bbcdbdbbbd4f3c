"""Tables of a few rows, written file by file and committed without a daemon, for tests of reading."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from firn.model.datafile import DataFile, FileFormat
from firn.model.delete_index import partition_key
from firn.model.deletion_vector import DeletionVector
from firn.model.manifest import ManifestContent, ManifestEntry, ManifestFile, Status
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import add_snapshot
from firn.model.metadata_create import new_table_metadata
from firn.model.partitioning import UNPARTITIONED, PartitionSpec, partition_of
from firn.model.schema import Schema
from firn.model.schema_projection import project
from firn.model.snapshot import MAIN_BRANCH, Operation, Snapshot
from firn.model.types import StructType
from firn.storage.arrow_rows import Row
from firn.storage.data_files import NewFile, encode_rows
from firn.storage.equality_deletes import encode_equality_deletes
from firn.storage.files import FileStore
from firn.storage.manifest_lists import assign_first_row_ids, encode_manifest_list
from firn.storage.manifest_reader import StoredManifests
from firn.storage.manifests import encode_manifest, manifest_file
from firn.storage.memory_files import MemoryFiles
from firn.storage.metadata_files import encode_metadata
from firn.storage.position_deletes import encode_position_deletes
from firn.storage.puffin import deletion_vector_blob, encode_puffin
from firn.storage.scan_rows import scan_rows
from firn.storage.table_scan import plan_scan

START_MS = 1_700_000_000_000
UUID = "0b9e5cf2-6a55-4a44-8a0c-6f1ad0a4c1a5"


class SmallTable:
    """A table in a file store; `metadata` is its newest, the ids of its snapshots count from 1.

    The nth commit is made at `START_MS` + n seconds.
    """

    def __init__(
        self,
        schema: Schema,
        spec: PartitionSpec = UNPARTITIONED,
        *,
        version: int = 2,
        files: FileStore | None = None,
        location: str = "memory://wh/t",
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.files: FileStore = MemoryFiles() if files is None else files
        created = new_table_metadata(
            schema, spec, location=location, table_uuid=UUID, now_ms=START_MS, format_version=version,
            properties=properties,
        )  # fmt: skip
        # A new table renumbers its columns; tests are easier to read with the ids that they wrote down.
        self.metadata: TableMetadata = msgspec.structs.replace(
            created,
            schemas=(schema,),
            current_schema_id=schema.schema_id,
            last_column_id=schema.highest_field_id,
            partition_specs=(spec,),
            default_spec_id=spec.spec_id,
            last_partition_id=spec.last_field_id,
        )
        self._names = itertools.count(1)
        self._snapshot_ids = itertools.count(1)

    @property
    def reader(self) -> StoredManifests:
        return StoredManifests(self.files)

    # -----------------------------------------------------------------------------------------------------------------
    # Files

    def data(
        self,
        rows: Iterable[Row],
        *,
        file_format: FileFormat = "parquet",
        spec: PartitionSpec | None = None,
        schema: Schema | None = None,
    ) -> DataFile:
        """A data file of rows that are all of one partition."""
        schema = self.metadata.current_schema if schema is None else schema
        spec = self.metadata.default_spec if spec is None else spec
        rows = list(rows)
        partition = partition_of(spec, schema, flat(rows[0], schema.struct)) if spec.fields else ()
        return self._stored(encode_rows(rows, schema, self._new(file_format, spec, partition)))

    def data_by_partition(self, rows: Iterable[Row], **options: Any) -> list[DataFile]:
        """A data file for each partition of the rows."""
        schema, spec = self.metadata.current_schema, options.get("spec") or self.metadata.default_spec
        groups: dict[Any, list[Row]] = {}
        for row in rows:
            key = partition_key(spec.spec_id, partition_of(spec, schema, flat(row, schema.struct)))
            groups.setdefault(key, []).append(row)
        return [self.data(group, **options) for group in groups.values()]

    def positions(
        self, deleted: Mapping[str, Iterable[int]], *, like: DataFile, file_format: FileFormat = "parquet"
    ) -> DataFile:
        """Position deletes by data file, in the partition of `like`."""
        vectors = {path: DeletionVector.of(positions) for path, positions in deleted.items()}
        return self._stored(encode_position_deletes(vectors, self._like(like, file_format)))

    def equality(
        self,
        rows: Iterable[Mapping[int, Any]],
        ids: tuple[int, ...],
        *,
        like: DataFile | None = None,
        file_format: FileFormat = "parquet",
        schema: Schema | None = None,
    ) -> DataFile:
        """Equality deletes in the partition of `like`, for the whole table without."""
        schema = self.metadata.current_schema if schema is None else schema
        new = self._new(file_format, self._unpartitioned(), ()) if like is None else self._like(like, file_format)
        return self._stored(encode_equality_deletes(rows, project(schema, ids), new, equality_ids=ids))

    def vector(self, data_file: DataFile, positions: Iterable[int]) -> DataFile:
        vector = DeletionVector.of(positions)
        data, puffin = encode_puffin([deletion_vector_blob(vector, data_file=data_file.file_path)])
        location = self._location("data", "puffin")
        self.files.create(location, data)
        return DataFile(
            content="position-deletes",
            file_path=location,
            file_format="puffin",
            spec_id=data_file.spec_id,
            partition=data_file.partition,
            record_count=vector.cardinality,
            file_size_in_bytes=len(data),
            referenced_data_file=data_file.file_path,
            content_offset=puffin.blobs[0].offset,
            content_size_in_bytes=puffin.blobs[0].length,
        )

    # -----------------------------------------------------------------------------------------------------------------
    # Commits

    def commit(
        self,
        *added: DataFile,
        removed: Iterable[DataFile] = (),
        operation: Operation = "append",
        branch: str = MAIN_BRANCH,
        counts: Mapping[str, str] | None = None,
    ) -> int:
        """A snapshot that adds and removes files, in one manifest for each content and spec; its id.

        `counts` go into its summary.
        """
        head = self.metadata.head(branch) or self.metadata.current_snapshot
        snapshot_id = next(self._snapshot_ids)
        gone = {(file.file_path, file.content_offset) for file in removed}
        carried = () if head is None else self.reader.manifests(self.metadata, head)
        kept = [rest for manifest in carried if (rest := self._without(manifest, gone, snapshot_id)) is not None]
        groups: dict[tuple[ManifestContent, int], list[ManifestEntry]] = {}
        for file in added:
            content: ManifestContent = "data" if file.content == "data" else "deletes"
            entry = ManifestEntry(status=Status.ADDED, data_file=file)
            groups.setdefault((content, file.spec_id), []).append(entry)
        new = [self._manifest(entries, *group, snapshot_id) for group, entries in groups.items()]
        summary = {"operation": operation, **(counts or {})}
        self.metadata = self._with_snapshot([*new, *kept], head, snapshot_id, summary, branch)
        return snapshot_id

    def rewrite_manifests(self, *, branch: str = MAIN_BRANCH) -> int:
        """A snapshot with the same files, in new manifests without tombstones; its id."""
        head = self.metadata.head(branch)
        assert head is not None
        snapshot_id = next(self._snapshot_ids)
        groups: dict[tuple[ManifestContent, int], list[ManifestEntry]] = {}
        for manifest in self.reader.manifests(self.metadata, head):
            for entry in self.reader.entries(self.metadata, manifest):
                if entry.is_live:
                    existing = msgspec.structs.replace(entry, status=Status.EXISTING)
                    groups.setdefault((manifest.content, manifest.partition_spec_id), []).append(existing)
        manifests = [self._manifest(entries, *group, snapshot_id) for group, entries in groups.items()]
        self.metadata = self._with_snapshot(manifests, head, snapshot_id, {"operation": "replace"}, branch)
        return snapshot_id

    def _with_snapshot(
        self,
        manifests: list[ManifestFile],
        head: Snapshot | None,
        snapshot_id: int,
        summary: dict[str, str],
        branch: str,
    ) -> TableMetadata:
        metadata = self.metadata
        first = added_rows = None
        if metadata.format_version > 2:
            first = metadata.next_row_id or 0
            assigned, next_row_id = assign_first_row_ids(manifests, first)
            manifests, added_rows = list(assigned), next_row_id - first
        parent_id = None if head is None else head.snapshot_id
        data = encode_manifest_list(
            manifests,
            format_version=metadata.format_version,
            snapshot_id=snapshot_id,
            parent_snapshot_id=parent_id,
            sequence_number=metadata.next_sequence_number,
            first_row_id=first,
        )
        location = self._location("metadata", "avro")
        self.files.create(location, data)
        now_ms = START_MS + snapshot_id * 1000
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            parent_snapshot_id=parent_id,
            sequence_number=metadata.next_sequence_number,
            timestamp_ms=now_ms,
            manifest_list=location,
            summary=summary,
            schema_id=metadata.current_schema_id,
            first_row_id=first,
            added_rows=added_rows,
        )
        return add_snapshot(metadata, snapshot, branch=branch, now_ms=now_ms)

    def _without(self, manifest: ManifestFile, gone: set[Any], snapshot_id: int) -> ManifestFile | None:
        entries = [entry for entry in self.reader.entries(self.metadata, manifest) if entry.is_live]
        hit = [(entry.data_file.file_path, entry.data_file.content_offset) in gone for entry in entries]
        if not entries:
            return None
        if not any(hit):
            return manifest
        rewritten = [
            msgspec.structs.replace(entry, status=Status.DELETED, snapshot_id=snapshot_id)
            if is_gone
            else msgspec.structs.replace(entry, status=Status.EXISTING)
            for entry, is_gone in zip(entries, hit, strict=True)
        ]
        return self._manifest(rewritten, manifest.content, manifest.partition_spec_id, snapshot_id)

    def _manifest(
        self, entries: list[ManifestEntry], content: ManifestContent, spec_id: int, snapshot_id: int
    ) -> ManifestFile:
        spec = self.metadata.spec_by_id(spec_id)
        assert spec is not None
        encoded = encode_manifest(
            entries,
            schema=self.metadata.current_schema,
            spec=spec,
            content=content,
            format_version=self.metadata.format_version,
            snapshot_id=snapshot_id,
            older_schemas=self.metadata.schemas,
        )
        location = self._location("metadata", "avro")
        self.files.create(location, encoded.data)
        return manifest_file(encoded, location)

    # -----------------------------------------------------------------------------------------------------------------
    # Changes without a snapshot

    def with_schema(self, *fields: Any) -> Schema:
        """Make a schema of these fields the current one."""
        schema = Schema(schema_id=len(self.metadata.schemas), struct=StructType(fields))
        self.metadata = msgspec.structs.replace(
            self.metadata,
            schemas=(*self.metadata.schemas, schema),
            current_schema_id=schema.schema_id,
            last_column_id=max(self.metadata.last_column_id, schema.highest_field_id),
        )
        return schema

    def with_spec(self, *fields: Any) -> PartitionSpec:
        """Make a spec of these fields the default one."""
        spec = PartitionSpec(spec_id=len(self.metadata.partition_specs), fields=fields)
        self.metadata = msgspec.structs.replace(
            self.metadata,
            partition_specs=(*self.metadata.partition_specs, spec),
            default_spec_id=spec.spec_id,
            last_partition_id=max(self.metadata.last_partition_id, spec.last_field_id),
        )
        return spec

    # -----------------------------------------------------------------------------------------------------------------
    # Reading

    def rows(self, **scan: Any) -> list[Row]:
        """The rows of a scan; arguments of `plan_scan`."""
        plan = plan_scan(self.metadata, files=self.reader, **scan)
        return [row for part in scan_rows(plan, self.metadata, files=self.files) for row in part]

    def written(self) -> str:
        """The location of a metadata file of the table as it is."""
        location = self._location("metadata", "metadata.json")
        self.files.create(location, encode_metadata(self.metadata))
        return location

    def _unpartitioned(self) -> PartitionSpec:
        for spec in self.metadata.partition_specs:
            if not spec.fields:
                return spec
        default_id = self.metadata.default_spec_id
        added = self.with_spec()
        self.metadata = msgspec.structs.replace(self.metadata, default_spec_id=default_id)
        return added

    def _new(self, file_format: FileFormat, spec: PartitionSpec, partition: tuple[Any, ...]) -> NewFile:
        location = self._location("data", file_format)
        return NewFile(location=location, file_format=file_format, spec=spec, partition=partition)

    def _like(self, file: DataFile, file_format: FileFormat) -> NewFile:
        spec = self.metadata.spec_by_id(file.spec_id)
        assert spec is not None
        return self._new(file_format, spec, file.partition)

    def _location(self, folder: str, suffix: str) -> str:
        return f"{self.metadata.location}/{folder}/{next(self._names):05}.{suffix}"

    def _stored(self, encoded: tuple[bytes, DataFile]) -> DataFile:
        data, entry = encoded
        self.files.create(entry.file_path, data)
        return entry


def flat(row: Mapping[int, Any], struct: StructType) -> dict[int, Any]:
    """A row with the fields of its structs beside them."""
    values = dict(row)
    for field in struct.fields:
        if isinstance(field.type, StructType) and row.get(field.field_id) is not None:
            values |= flat(row[field.field_id], field.type)
    return values
