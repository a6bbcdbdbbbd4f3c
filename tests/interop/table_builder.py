"""Whole tables written with nothing but firn's modules, and the rows that every reader must find in them.

The builder keeps the rows of every live file beside the table and deletes them there by the definition of each kind of
delete, so that what is expected does not come from the code that reads.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from firn.model import rest_updates as rest
from firn.model.datafile import DataFile, FileFormat
from firn.model.manifest import ManifestContent, ManifestEntry, ManifestFile, Status
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import add_snapshot, set_properties, upgrade, with_metadata_log
from firn.model.metadata_create import new_table_metadata
from firn.model.partition_update import SpecChange, evolve_spec
from firn.model.partitioning import UNPARTITIONED, PartitionSpec
from firn.model.refs import create
from firn.model.rest_apply import apply_updates
from firn.model.schema import Schema
from firn.model.schema_change import SchemaChange
from firn.model.schema_projection import project
from firn.model.schema_update import apply_changes
from firn.model.snapshot import MAIN_BRANCH, Operation, RefType, Snapshot, SnapshotRef
from firn.model.snapshot_summary import SummaryBuilder
from firn.model.sorting import UNSORTED, SortBy, SortOrder, replace_order
from firn.storage.data_files import NewFile
from firn.storage.equality_deletes import encode_equality_deletes
from firn.storage.file_system_tables import FileSystemTables
from firn.storage.manifest_lists import assign_first_row_ids, assign_sequence_numbers, encode_manifest_list
from firn.storage.manifests import EncodedManifest, decode_manifest, encode_manifest, manifest_file
from firn.storage.metadata_files import codec_for, encode_metadata
from tests.interop.content_writer import FILES, identity, write_data, write_positions, write_vectors
from tests.interop.live_rows import LiveFile, Named, Row, identified, projected, same

DeletesAs = Literal["file", "partition", "vector"]

START_MS: Final = 1_750_000_000_000
SNAPSHOT_ID_START: Final = 3_000_000_000_000_000_000

replace = msgspec.structs.replace


class BuiltTable(msgspec.Struct, frozen=True, kw_only=True):
    """A finished table: `rows` are internal values by field id in the current schema, `rows_at` those of refs."""

    location: str
    metadata_location: str
    metadata: TableMetadata
    rows: list[Row]
    rows_at: dict[str, list[Row]] = {}

    @property
    def schema(self) -> Schema:
        return self.metadata.current_schema


class TableBuilder:
    """Builds one file-system table; every change is a new version of its metadata.

    `folder` gets the table, `scheme` is put before its path (empty or ``file://``).
    """

    def __init__(
        self,
        folder: Path,
        schema: Schema,
        spec: PartitionSpec = UNPARTITIONED,
        order: SortOrder = UNSORTED,
        *,
        format_version: int,
        properties: Mapping[str, str] | None = None,
        scheme: str = "file://",
    ) -> None:
        self.metadata = new_table_metadata(
            schema,
            spec,
            order,
            location=f"{scheme}{folder}",
            table_uuid=str(uuid.uuid5(uuid.NAMESPACE_URL, folder.name)),
            now_ms=START_MS,
            properties=properties,
            format_version=format_version,
        )
        self.live: dict[str, dict[str, LiveFile]] = {MAIN_BRANCH: {}}
        self.manifests: dict[int, tuple[ManifestFile, ...]] = {}
        self._tables = FileSystemTables(FILES)
        self._version = 0
        self._files = 0
        self.metadata_location = ""
        self._store(self.metadata)

    # -- metadata ----------------------------------------------------------------------------------------------------
    @property
    def schema(self) -> Schema:
        return self.metadata.current_schema

    @property
    def location(self) -> str:
        return self.metadata.location

    def _now_ms(self) -> int:
        return START_MS + self._version * 1000

    def _store(self, metadata: TableMetadata) -> None:
        """The metadata as the next version, swapped in as the coordinator does."""
        if self._version:
            metadata = with_metadata_log(
                metadata, self.metadata_location, previous_updated_ms=self.metadata.last_updated_ms
            )
        self._version += 1
        codec = codec_for(metadata)
        self.metadata_location = self._tables.location_of(self.location, version=self._version, codec=codec)
        self._tables.put(self.metadata_location, encode_metadata(metadata, codec=codec))
        self._tables.hint(self.location, self._version)
        self.metadata = metadata

    def _update(self, *updates: rest.Update) -> None:
        self._store(apply_updates(self.metadata, updates, now_ms=self._now_ms()))

    def evolve(self, *changes: SchemaChange) -> None:
        metadata = self.metadata
        schema, _ = apply_changes(
            metadata.current_schema,
            changes,
            last_column_id=metadata.last_column_id,
            format_version=metadata.format_version,
        )
        self._update(rest.AddSchema(schema=schema), rest.SetCurrentSchema(schema_id=rest.LAST_ADDED))

    def evolve_spec(self, *changes: SpecChange) -> None:
        metadata = self.metadata
        spec = evolve_spec(
            metadata.default_spec,
            metadata.current_schema,
            changes,
            format_version=metadata.format_version,
            specs=metadata.partition_specs,
            last_partition_id=metadata.last_partition_id,
        )
        self._update(rest.AddSpec(spec=spec), rest.SetDefaultSpec(spec_id=rest.LAST_ADDED))

    def sort_by(self, *keys: SortBy) -> None:
        metadata = self.metadata
        order = replace_order(
            keys, metadata.current_schema, orders=metadata.sort_orders, format_version=metadata.format_version
        )
        self._update(rest.AddSortOrder(sort_order=order), rest.SetDefaultSortOrder(sort_order_id=rest.LAST_ADDED))

    def upgrade(self, format_version: int) -> None:
        self._store(upgrade(self.metadata, format_version, now_ms=self._now_ms()))

    def set_properties(self, properties: Mapping[str, str]) -> None:
        self._store(set_properties(self.metadata, properties, now_ms=self._now_ms()))

    def set_statistics(self, statistics: Mapping[str, Any]) -> None:
        self._update(rest.SetStatistics(statistics=dict(statistics)))

    def ref(self, name: str, *, type: RefType, at: str = MAIN_BRANCH, **retention: Any) -> None:
        """A branch or tag at the head of the branch `at`."""
        head = self.metadata.head(at)
        assert head is not None
        ref = SnapshotRef(snapshot_id=head.snapshot_id, type=type, **retention)
        self._store(create(self.metadata, name, ref, now_ms=self._now_ms()))
        self.live[name] = copy.deepcopy(self.live[at])

    # -- changes of rows: given and asked by column name -------------------------------------------------------------
    def append(self, rows: Sequence[Named], *, file_format: FileFormat = "parquet", branch: str = MAIN_BRANCH) -> None:
        """One data file for each partition that the rows fall into."""
        added = self._write_data(self._by_id(rows), file_format=file_format)
        self._commit("append", added=added, branch=branch)

    def overwrite(self, where: Callable[[Named], bool], rows: Sequence[Named] = ()) -> None:
        """Copy on write: files with matching rows are replaced by what is left of them, and by `rows`."""
        live = self.live[MAIN_BRANCH]
        hit = [one for one in live.values() if any(row is not None and where(one.named(row)) for row in one.rows)]
        kept = [
            projected(row, self.schema.struct, one.schema.struct)
            for one in hit
            for row in one.rows
            if row is not None and not where(one.named(row))
        ]
        added = self._write_data([*kept, *self._by_id(rows)])
        removed = [one.file.file_path for one in hit] + [identity(one.vector) for one in hit if one.vector is not None]
        self._commit("overwrite" if added else "delete", added=added, removed=removed)

    def delete(
        self, where: Callable[[Named], bool], *, how: DeletesAs, file_format: FileFormat = "parquet", rows: bool = False
    ) -> None:
        """Merge on read: position deletes for each data file or each partition, or deletion vectors."""
        hits = {}
        for path, one in self.live[MAIN_BRANCH].items():
            positions = [at for at, row in enumerate(one.rows) if row is not None and where(one.named(row))]
            if positions:
                hits[path] = positions
        assert hits, "nothing to delete"
        if how == "vector":
            deletes, removed = write_vectors(hits, self.live[MAIN_BRANCH], self._new_location("deletes", "puffin"))
        else:
            removed = []
            deletes = write_positions(
                hits,
                self.live[MAIN_BRANCH],
                self.metadata,
                self._new_location,
                by_file=how == "file",
                file_format=file_format,
                with_rows=rows,
            )
        for path, positions in hits.items():
            one = self.live[MAIN_BRANCH][path]
            for at in positions:
                one.rows[at] = None
        self._commit("delete", deletes=deletes, removed=removed)

    def delete_equal(
        self,
        keys: Sequence[Named],
        *,
        file_format: FileFormat = "parquet",
        partition: tuple[Any, ...] | None = None,
        added: Sequence[Named] = (),
    ) -> None:
        """Equality deletes in one partition, or in the whole table (None), with rows added by the same commit.

        `keys` have the delete columns, which are at the top. Rows of the same commit survive.
        """
        ids = tuple(self.schema.ids_by_name[name] for name in keys[0])
        deleted = self._by_id(keys)
        spec = UNPARTITIONED if partition is None else self.metadata.default_spec
        if partition is None:
            spec = next(spec for spec in self.metadata.partition_specs if not spec.is_partitioned)
        new = NewFile(
            location=self._new_location("eq-deletes", file_format),
            file_format=file_format,
            spec=spec,
            partition=partition or (),
        )
        data, entry = encode_equality_deletes(deleted, project(self.schema, ids), new, equality_ids=ids)
        FILES.create(new.location, data)
        for one in self.live[MAIN_BRANCH].values():
            if partition is not None and (one.file.spec_id, one.file.partition) != (spec.spec_id, partition):
                continue
            for at, row in enumerate(one.rows):
                if row is not None and any(all(same(row.get(i), key.get(i)) for i in ids) for key in deleted):
                    one.rows[at] = None
        self._commit("overwrite" if added else "delete", added=self._write_data(self._by_id(added)), deletes=[entry])

    def _by_id(self, rows: Sequence[Named]) -> list[Row]:
        return [identified(row, self.schema.struct) for row in rows]

    # -- the result --------------------------------------------------------------------------------------------------
    def rows(self, branch: str = MAIN_BRANCH, *, schema: Schema | None = None) -> list[Row]:
        """The live rows, in the current schema."""
        wanted = (schema or self.schema).struct
        return [
            projected(row, wanted, one.schema.struct)
            for one in self.live[branch].values()
            for row in one.rows
            if row is not None
        ]

    def finish(self) -> BuiltTable:
        rows_at = {}
        for name, ref in self.metadata.refs.items():
            snapshot = self.metadata.snapshot_by_id(ref.snapshot_id)
            assert snapshot is not None
            assert snapshot.schema_id is not None
            # Branches are read with the table's schema, tags with their snapshot's.
            schema = None if ref.type == "branch" else self.metadata.schema_by_id(snapshot.schema_id)
            rows_at[name] = self.rows(name, schema=schema)
        return BuiltTable(
            location=self.location,
            metadata_location=self.metadata_location,
            metadata=self.metadata,
            rows=self.rows(),
            rows_at=rows_at,
        )

    # -- files -------------------------------------------------------------------------------------------------------
    def _new_location(self, kind: str, extension: str, folder: str = "") -> str:
        self._files += 1
        path = f"{folder}/" if folder else ""
        return f"{self.location}/data/{path}{self._files:05d}-{kind}.{extension}"

    def _write_data(self, rows: Sequence[Row], *, file_format: FileFormat = "parquet") -> list[LiveFile]:
        return write_data(rows, self.metadata, self._new_location, file_format=file_format)

    # -- commits -----------------------------------------------------------------------------------------------------
    def _commit(
        self,
        operation: Operation,
        *,
        added: Sequence[LiveFile] = (),
        deletes: Sequence[DataFile] = (),
        removed: Sequence[str] = (),
        branch: str = MAIN_BRANCH,
    ) -> None:
        metadata = self.metadata
        parent = metadata.head(branch)
        snapshot_id = SNAPSHOT_ID_START + len(metadata.snapshots)
        number = metadata.next_sequence_number
        summary = SummaryBuilder()
        manifests: list[ManifestFile] = []
        contents: dict[ManifestContent, Sequence[DataFile]] = {
            "data": [one.file for one in added],
            "deletes": deletes,
        }
        for content, files in contents.items():
            manifests += self._new_manifests(files, content=content, snapshot_id=snapshot_id)
            for file in files:
                summary.added(file)
        for manifest in self.manifests[parent.snapshot_id] if parent else ():
            manifests.append(self._without(manifest, set(removed), snapshot_id=snapshot_id, summary=summary))
        assigned = assign_sequence_numbers(manifests, snapshot_id=snapshot_id, sequence_number=number)
        first_row_id = added_rows = None
        if metadata.format_version > 2:
            first_row_id = metadata.next_row_id or 0
            assigned, next_row_id = assign_first_row_ids(assigned, first_row_id)
            added_rows = next_row_id - first_row_id
        location = f"{self.location}/metadata/snap-{snapshot_id}-1-{self._version}.avro"
        listed = encode_manifest_list(
            assigned,
            format_version=metadata.format_version,
            snapshot_id=snapshot_id,
            parent_snapshot_id=parent.snapshot_id if parent else None,
            sequence_number=number,
            first_row_id=first_row_id,
        )
        FILES.create(location, listed)
        self.manifests[snapshot_id] = assigned
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            parent_snapshot_id=parent.snapshot_id if parent else None,
            sequence_number=number,
            timestamp_ms=self._now_ms(),
            manifest_list=location,
            summary=summary.build(operation, previous=parent),
            schema_id=metadata.current_schema_id,
            first_row_id=first_row_id,
            added_rows=added_rows,
        )
        live = self.live[branch]
        for path in removed:
            live.pop(path, None)
        for one in added:
            live[one.file.file_path] = one
        self._store(add_snapshot(metadata, snapshot, branch=branch, now_ms=self._now_ms()))

    def _new_manifests(
        self, files: Sequence[DataFile], *, content: ManifestContent, snapshot_id: int
    ) -> list[ManifestFile]:
        by_spec: dict[int, list[ManifestEntry]] = {}
        for file in files:
            entry = ManifestEntry(status=Status.ADDED, snapshot_id=snapshot_id, data_file=file)
            by_spec.setdefault(file.spec_id, []).append(entry)
        return [
            self._put_manifest(entries, spec_id=spec_id, content=content, snapshot_id=snapshot_id)
            for spec_id, entries in by_spec.items()
        ]

    def _put_manifest(
        self, entries: Sequence[ManifestEntry], *, spec_id: int, content: ManifestContent, snapshot_id: int
    ) -> ManifestFile:
        spec = self.metadata.spec_by_id(spec_id)
        assert spec is not None
        encoded: EncodedManifest = encode_manifest(
            entries,
            schema=self.schema,
            spec=spec,
            content=content,
            format_version=self.metadata.format_version,
            snapshot_id=snapshot_id,
            older_schemas=self.metadata.schemas,
        )
        self._files += 1
        path = f"{self.location}/metadata/{self._files:05d}-m.avro"
        FILES.create(path, encoded.data)
        return manifest_file(encoded, path)

    def _without(
        self, manifest: ManifestFile, removed: set[str], *, snapshot_id: int, summary: SummaryBuilder
    ) -> ManifestFile:
        """The manifest rewritten without the removed files; itself when it has none of them."""
        entries = decode_manifest(
            FILES.read(manifest.manifest_path, bytes_max=10**8),
            manifest=manifest,
            specs={spec.spec_id: spec for spec in self.metadata.partition_specs},
            schemas=(self.schema, *self.metadata.schemas),
        )
        live = [entry for entry in entries if entry.is_live]
        if not any(identity(entry.data_file) in removed for entry in live):
            return manifest
        rewritten = []
        for entry in live:
            gone = identity(entry.data_file) in removed
            if gone:
                summary.removed(entry.data_file)
            status, by = (Status.DELETED, snapshot_id) if gone else (Status.EXISTING, entry.snapshot_id)
            rewritten.append(replace(entry, status=status, snapshot_id=by))
        return self._put_manifest(
            rewritten, spec_id=manifest.partition_spec_id, content=manifest.content, snapshot_id=snapshot_id
        )
