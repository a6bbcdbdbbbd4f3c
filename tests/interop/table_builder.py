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
from firn.model.deletion_vector import DeletionVector
from firn.model.internal_values import DAY_MICROS
from firn.model.manifest import ManifestContent, ManifestEntry, ManifestFile, Status
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import add_snapshot, set_properties, upgrade, with_metadata_log
from firn.model.metadata_create import new_table_metadata
from firn.model.partition_path import partition_path
from firn.model.partition_update import SpecChange, evolve_spec
from firn.model.partitioning import UNPARTITIONED, PartitionSpec, partition_of
from firn.model.refs import create
from firn.model.rest_apply import apply_updates
from firn.model.schema import Schema
from firn.model.schema_change import SchemaChange
from firn.model.schema_projection import project
from firn.model.schema_update import apply_changes
from firn.model.snapshot import MAIN_BRANCH, Operation, RefType, Snapshot, SnapshotRef
from firn.model.snapshot_summary import SummaryBuilder
from firn.model.sorting import UNSORTED, SortBy, SortOrder, replace_order, sort_key
from firn.model.types import DATE, ListType, MapType, StructType, Type
from firn.storage.data_files import NewFile, encode_rows
from firn.storage.equality_deletes import encode_equality_deletes
from firn.storage.file_system_tables import FileSystemTables
from firn.storage.local_files import LocalFiles
from firn.storage.manifest_lists import assign_first_row_ids, assign_sequence_numbers, encode_manifest_list
from firn.storage.manifests import EncodedManifest, decode_manifest, encode_manifest, manifest_file
from firn.storage.metadata_files import codec_for, encode_metadata
from firn.storage.position_deletes import encode_position_deletes
from firn.storage.puffin import deletion_vector_blob, encode_puffin

Row = dict[int, Any]
Named = dict[str, Any]
DeletesAs = Literal["file", "partition", "vector"]

START_MS: Final = 1_750_000_000_000
SNAPSHOT_ID_START: Final = 3_000_000_000_000_000_000
FILES: Final = LocalFiles(fsync=lambda _: None)

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


class LiveFile(msgspec.Struct, kw_only=True):
    """A data file with its rows as written, None for those deleted since; its deletion vector and that one's entry."""

    file: DataFile
    rows: list[Row | None]
    schema: Schema
    vector: DataFile | None = None

    def named(self, row: Row) -> Named:
        return {field.name: row.get(field.field_id) for field in self.schema.fields}


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
            _projected(row, self.schema.struct, one.schema.struct)
            for one in hit
            for row in one.rows
            if row is not None and not where(one.named(row))
        ]
        added = self._write_data([*kept, *self._by_id(rows)])
        removed = [one.file.file_path for one in hit] + [_identity(one.vector) for one in hit if one.vector is not None]
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
            deletes, removed = self._write_vectors(hits)
        else:
            removed = []
            deletes = self._write_positions(hits, by_file=how == "file", file_format=file_format, with_rows=rows)
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
                if row is not None and any(all(_same(row.get(i), key.get(i)) for i in ids) for key in deleted):
                    one.rows[at] = None
        self._commit("overwrite" if added else "delete", added=self._write_data(self._by_id(added)), deletes=[entry])

    def _by_id(self, rows: Sequence[Named]) -> list[Row]:
        return [_identified(row, self.schema.struct) for row in rows]

    # -- the result --------------------------------------------------------------------------------------------------
    def rows(self, branch: str = MAIN_BRANCH, *, schema: Schema | None = None) -> list[Row]:
        """The live rows, in the current schema."""
        wanted = (schema or self.schema).struct
        return [
            _projected(row, wanted, one.schema.struct)
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
        spec, order = self.metadata.default_spec, self.metadata.default_order
        groups: dict[str, tuple[tuple[Any, ...], list[Row]]] = {}
        for row in rows:
            values = partition_of(spec, self.schema, row)
            groups.setdefault(repr(values), (values, []))[1].append(row)
        written = []
        for values, group in groups.values():
            if order.is_sorted:
                group.sort(key=sort_key(order, self.schema))
            folder = partition_path(spec, self.schema, values)
            new = NewFile(
                location=self._new_location("data", file_format, folder),
                file_format=file_format,
                spec=spec,
                partition=values,
                sort_order_id=order.order_id,
                properties=self.metadata.properties,
            )
            data, entry = encode_rows(group, self.schema, new)
            FILES.create(new.location, data)
            written.append(LiveFile(file=entry, rows=list(group), schema=self.schema))
        return written

    def _write_positions(
        self, hits: Mapping[str, list[int]], *, by_file: bool, file_format: FileFormat, with_rows: bool
    ) -> list[DataFile]:
        live = self.live[MAIN_BRANCH]
        groups: dict[str, list[str]] = {}
        for path in hits:
            file = live[path].file
            groups.setdefault(path if by_file else repr((file.spec_id, file.partition)), []).append(path)
        entries = []
        for paths in groups.values():
            file = live[paths[0]].file
            spec = self.metadata.spec_by_id(file.spec_id)
            assert spec is not None
            new = NewFile(
                location=self._new_location("pos-deletes", file_format),
                file_format=file_format,
                spec=spec,
                partition=file.partition,
            )
            data, entry = encode_position_deletes(
                {path: DeletionVector.of(hits[path]) for path in paths},
                new,
                row_schema=self.schema if with_rows else None,
                rows={(path, at): live[path].rows[at] or {} for path in paths for at in hits[path]},
            )
            FILES.create(new.location, data)
            entries.append(entry)
        return entries

    def _write_vectors(self, hits: Mapping[str, list[int]]) -> tuple[list[DataFile], list[str]]:
        """One Puffin file with the new vector of each data file, which replaces the one that the file had."""
        live = self.live[MAIN_BRANCH]
        vectors, removed = {}, []
        for path, positions in hits.items():
            dead = [at for at, row in enumerate(live[path].rows) if row is None]
            vectors[path] = DeletionVector.of([*dead, *positions])
            old = live[path].vector
            if old is not None:
                removed.append(_identity(old))
        location = self._new_location("deletes", "puffin")
        data, footer = encode_puffin([deletion_vector_blob(vector, data_file=path) for path, vector in vectors.items()])
        FILES.create(location, data)
        entries = []
        for (path, vector), blob in zip(vectors.items(), footer.blobs, strict=True):
            one = live[path]
            one.vector = DataFile(
                content="position-deletes",
                file_path=location,
                file_format="puffin",
                spec_id=one.file.spec_id,
                partition=one.file.partition,
                record_count=vector.cardinality,
                file_size_in_bytes=len(data),
                referenced_data_file=path,
                content_offset=blob.offset,
                content_size_in_bytes=blob.length,
            )
            entries.append(one.vector)
        return entries, removed

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
        if not any(_identity(entry.data_file) in removed for entry in live):
            return manifest
        rewritten = []
        for entry in live:
            gone = _identity(entry.data_file) in removed
            if gone:
                summary.removed(entry.data_file)
            status, by = (Status.DELETED, snapshot_id) if gone else (Status.EXISTING, entry.snapshot_id)
            rewritten.append(replace(entry, status=status, snapshot_id=by))
        return self._put_manifest(
            rewritten, spec_id=manifest.partition_spec_id, content=manifest.content, snapshot_id=snapshot_id
        )


def _identity(file: DataFile) -> str:
    """What names a content file: several deletion vectors share a Puffin file."""
    return f"{file.file_path}#{file.content_offset}" if file.is_deletion_vector else file.file_path


def _identified(value: Any, type: Type) -> Any:
    """A value with structs keyed by field id instead of name, and maps as pairs."""
    if value is None:
        return None
    match type:
        case StructType():
            unknown = set(value) - {field.name for field in type.fields}
            assert not unknown, f"no columns {unknown}"
            return {f.field_id: _identified(value[f.name], f.type) for f in type.fields if f.name in value}
        case ListType():
            return tuple(_identified(item, type.element) for item in value)
        case MapType():
            return tuple((_identified(key, type.key), _identified(item, type.value)) for key, item in value.items())
    return value


def _same(left: Any, right: Any) -> bool:
    """Equality as in equality deletes: null equals null."""
    return left is None if right is None else left == right


def _projected(row: Row, wanted: StructType, written: StructType) -> Row:
    """A written row (or struct) in the columns of a later schema: by id, defaults for what was not there yet."""
    old = {field.field_id: field for field in written.fields}
    out = {}
    for field in wanted.fields:
        if field.field_id not in old:
            out[field.field_id] = field.initial_default
            continue
        out[field.field_id] = _converted(row.get(field.field_id), field.type, old[field.field_id].type)
    return out


def _converted(value: Any, wanted: Type, written: Type) -> Any:
    if value is None:
        return None
    match wanted, written:
        case StructType(), StructType():
            return _projected(value, wanted, written)
        case ListType(), ListType():
            return tuple(_converted(item, wanted.element, written.element) for item in value)
        case MapType(), MapType():
            return tuple(
                (_converted(key, wanted.key, written.key), _converted(item, wanted.value, written.value))
                for key, item in value
            )
    if written == DATE and wanted != DATE:
        return value * DAY_MICROS * (1000 if str(wanted).endswith("_ns") else 1)
    return value
