"""Data and delete files as an engine would write them for a table as it is, and their entries for an intent."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from firn.model.content_file import content_file_of
from firn.model.datafile import DataFile, FileFormat
from firn.model.deletion_vector import DeletionVector
from firn.model.intent import ContentFile, WrittenManifest
from firn.model.manifest import ManifestContent, ManifestEntry
from firn.model.metadata import TableMetadata
from firn.model.partitioning import PartitionSpec, partition_of
from firn.model.reserved import LAST_UPDATED_SEQUENCE_NUMBER, LAST_UPDATED_SEQUENCE_NUMBER_ID, ROW_ID, ROW_ID_ID
from firn.model.schema import Schema
from firn.model.schema_projection import project
from firn.model.types import StructType
from firn.storage.data_files import NewFile, encode_rows
from firn.storage.files import FileStore
from firn.storage.manifests import encode_manifest
from firn.storage.position_deletes import encode_position_deletes
from firn.storage.puffin import deletion_vector_blob, encode_puffin
from tests.unit.coordinator.row_model.rows import Key, Partition, Row, key_of


def newest_first(metadata: TableMetadata) -> Iterator[Schema]:
    """The schemas of a table, the current one first."""
    yield metadata.current_schema
    yield from reversed(metadata.schemas)


class FileMaker:
    """Writes files of one table into its folder."""

    def __init__(self, files: FileStore) -> None:
        self.files = files
        self.keys: dict[str, tuple[Mapping[int, Any], ...]] = {}
        """What equality delete files delete."""
        self._names = itertools.count(1)

    def placed(self, row: Row, spec: PartitionSpec, metadata: TableMetadata) -> Row:
        """The row in the partition that it belongs to by a spec."""
        partition = partition_of(spec, metadata.current_schema, row.values)
        return msgspec.structs.replace(row, partition=(spec.spec_id, partition))

    def data(
        self, metadata: TableMetadata, rows: Iterable[Row], *, file_format: FileFormat = "parquet"
    ) -> tuple[ContentFile, ...]:
        """Data files with the rows, one for each partition that rows are in. Row lineage that they have is written."""
        of_partition: dict[Key, list[Row]] = {}
        for row in rows:
            of_partition.setdefault(key_of(row.partition), []).append(row)
        return tuple(self._data_file(metadata, own, file_format) for own in of_partition.values())

    def _data_file(self, metadata: TableMetadata, rows: Sequence[Row], file_format: FileFormat) -> ContentFile:
        schema = metadata.current_schema
        members = [{i: row.values.get(i, f.initial_default) for i, f in schema.fields_by_id.items()} for row in rows]
        if metadata.format_version >= 3 and any(row.row_id is not None for row in rows):
            schema = Schema(
                schema_id=schema.schema_id,
                struct=StructType((*schema.fields, ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER)),
            )
            for row, member in zip(rows, members, strict=True):
                member |= {ROW_ID_ID: row.row_id, LAST_UPDATED_SEQUENCE_NUMBER_ID: row.updated}
        return self._stored(metadata, encode_rows(members, schema, self._new(metadata, rows[0].partition, file_format)))

    def equality(
        self, metadata: TableMetadata, columns: Sequence[int], keys: Sequence[Mapping[int, Any]], partition: Partition
    ) -> ContentFile:
        """Deletes of all older rows of a partition with one of these keys; an unpartitioned spec's are everywhere.

        The columns may have been dropped since some rows were written.
        """
        schema = next(schema for schema in newest_first(metadata) if schema.fields_by_id.keys() >= set(columns))
        data, file = encode_rows(keys, project(schema, columns), self._new(metadata, partition, "parquet"))
        file = msgspec.structs.replace(file, content="equality-deletes", equality_ids=tuple(columns))
        stored = self._stored(metadata, (data, file))
        self.keys[stored.file_path] = tuple(keys)
        return stored

    def positions(
        self, metadata: TableMetadata, deleted: Mapping[str, Iterable[int]], partition: Partition
    ) -> ContentFile:
        """A position delete file of v2 for data files of one partition."""
        vectors = {path: DeletionVector.of(positions) for path, positions in deleted.items()}
        return self._stored(metadata, encode_position_deletes(vectors, self._new(metadata, partition, "parquet")))

    def vectors(
        self, metadata: TableMetadata, deleted: Sequence[tuple[DataFile, Iterable[int]]]
    ) -> tuple[ContentFile, ...]:
        """Deletion vectors for data files, in one Puffin file."""
        found = [(file, DeletionVector.of(positions)) for file, positions in deleted]
        blobs = [deletion_vector_blob(vector, data_file=file.file_path) for file, vector in found]
        data, footer = encode_puffin(blobs)
        location = self._location(metadata, "data", "puffin")
        self.files.create(location, data)
        return tuple(
            content_file_of(
                DataFile(
                    content="position-deletes",
                    file_path=location,
                    file_format="puffin",
                    spec_id=file.spec_id,
                    partition=file.partition,
                    record_count=vector.cardinality,
                    file_size_in_bytes=len(data),
                    referenced_data_file=file.file_path,
                    content_offset=blob.offset,
                    content_size_in_bytes=blob.length,
                ),
                metadata,
            )
            for (file, vector), blob in zip(found, footer.blobs, strict=True)
        )

    def manifest(
        self,
        metadata: TableMetadata,
        entries: Sequence[ManifestEntry],
        *,
        spec_id: int,
        content: ManifestContent = "data",
        snapshot_id: int | None = None,
    ) -> WrittenManifest:
        """A manifest with these entries."""
        spec = metadata.spec_by_id(spec_id)
        assert spec is not None
        encoded = encode_manifest(
            entries,
            schema=metadata.current_schema,
            spec=spec,
            content=content,
            format_version=metadata.format_version,
            snapshot_id=snapshot_id if metadata.format_version == 1 else None,
        )
        location = self._location(metadata, "metadata", "avro")
        self.files.create(location, encoded.data)
        return WrittenManifest(
            manifest_path=location,
            manifest_length=len(encoded.data),
            partition_spec_id=spec_id,
            content=content,
            files_count=len(entries),
            rows_count=sum(entry.data_file.record_count for entry in entries),
        )

    def _new(self, metadata: TableMetadata, partition: Partition, file_format: FileFormat) -> NewFile:
        spec_id, values = partition
        spec = metadata.spec_by_id(spec_id)
        assert spec is not None
        location = self._location(metadata, "data", file_format)
        return NewFile(location=location, spec=spec, partition=values, file_format=file_format)

    def _location(self, metadata: TableMetadata, folder: str, suffix: str) -> str:
        return f"{metadata.location}/{folder}/w{next(self._names):05}.{suffix}"

    def _stored(self, metadata: TableMetadata, encoded: tuple[bytes, Any]) -> ContentFile:
        data, file = encoded
        self.files.create(file.file_path, data)
        return content_file_of(file, metadata)
