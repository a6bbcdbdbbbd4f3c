"""Partition statistics: files, rows and deletes of each partition, in a Parquet file attached to a snapshot
(table specification, "Partition Statistics").

Everything is in the manifests: no Spark is needed. Column by column it is what Iceberg's library computes anew.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from firn.coordinator.client.answers import Answer
from firn.coordinator.client.intents import new_intent_id
from firn.model.datafile import DataFile
from firn.model.delete_index import partition_key
from firn.model.errors import InvalidInput, NotFound
from firn.model.foreign_value import stored_type, value_in
from firn.model.manifest import ManifestEntry
from firn.model.metadata import TableMetadata
from firn.model.operations.upkeep import SetPartitionStatistics
from firn.model.outcome import Rejected
from firn.model.partitioning import UNPARTITIONED, PartitionSpec, partition_type
from firn.model.schema import Schema
from firn.model.snapshot import Snapshot
from firn.model.table_properties import METADATA_PATH
from firn.model.types import INT, LONG, UNKNOWN, NestedField, StructType, Type
from firn.pipeline.file_removal import remove_files
from firn.pipeline.manifest_rewrite import partition_order
from firn.pipeline.parallel_files import in_parallel
from firn.pipeline.upkeep import Upkeep
from firn.storage.data_files import NewFile, encode_rows
from firn.storage.manifest_reader import ManifestReader, StoredManifests

PARTITION_ID: Final = 1
DV_COUNT_ID: Final = 13


class PartitionCounts(msgspec.Struct, kw_only=True):
    """What is counted of one partition of one spec; `partition` has the values of all the table's partition fields.

    Sizes are bytes, `last_updated_ms` is Unix milliseconds: None where the snapshot that last changed it has expired.
    """

    partition: tuple[Any, ...]
    spec_id: int
    data_records: int = 0
    data_files: int = 0
    data_bytes: int = 0
    position_delete_records: int = 0
    position_delete_files: int = 0
    equality_delete_records: int = 0
    equality_delete_files: int = 0
    vectors: int = 0
    last_updated_ms: int | None = None
    last_updated_snapshot_id: int | None = None


class PartitionStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it: `answer` None where there is nothing to count."""

    answer: Answer | None
    partitions: int = 0
    location: str | None = None


def compute_partition_statistics(upkeep: Upkeep, table: str, *, snapshot_id: int | None = None) -> PartitionStatistics:
    """Count the partitions of a snapshot (default: the head of ``main``), and attach the statistics to it.

    Raises NotFound for an unknown snapshot, InvalidInput for a table that is not partitioned.
    """
    now = upkeep.table(table)
    metadata = now.metadata
    snapshot = metadata.current_snapshot if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        if snapshot_id is not None:
            raise NotFound(f"snapshot {snapshot_id} does not exist")
        return PartitionStatistics(answer=None)
    counted = count_partitions(metadata, snapshot, StoredManifests(upkeep.files, limits=upkeep.limits))
    if not counted:
        return PartitionStatistics(answer=None)
    folder = (METADATA_PATH.of(metadata.properties) or f"{metadata.location.rstrip('/')}/metadata").rstrip("/")
    location = f"{folder}/partition-stats-{snapshot.snapshot_id}-{uuid.uuid4()}.parquet"
    data = encode_counts(metadata, counted, location=location)
    upkeep.files.create(location, data)
    intent = SetPartitionStatistics(
        intent_id=new_intent_id(),
        table=table,
        table_uuid=metadata.table_uuid,
        partition_statistics={
            "snapshot-id": snapshot.snapshot_id,
            "statistics-path": location,
            "file-size-in-bytes": len(data),
        },
        priority="maintenance",
    )
    answer = upkeep.client.submit(intent).result(upkeep.timeout_s)
    if isinstance(answer, Rejected):
        remove_files(upkeep.files, [location])
    return PartitionStatistics(answer=answer, partitions=len(counted), location=location)


def count_partitions(metadata: TableMetadata, snapshot: Snapshot, reader: ManifestReader) -> list[PartitionCounts]:
    """The counts of every partition of a snapshot, in the order of partitions. Raises what `all_partitions` raises."""
    fields = all_partitions(metadata).fields
    places = {spec.spec_id: [_place(spec, field.field_id) for field in fields] for spec in metadata.partition_specs}
    counted: dict[Any, PartitionCounts] = {}
    manifests = reader.manifests(metadata, snapshot)
    for entries in in_parallel(lambda one: reader.entries(metadata, one), manifests):
        for entry in entries:
            file = entry.data_file
            key = partition_key(file.spec_id, file.partition)
            counts = counted.get(key)
            if counts is None:
                values = tuple(None if at is None else file.partition[at] for at in places[file.spec_id])
                counts = counted[key] = PartitionCounts(partition=values, spec_id=file.spec_id)
            _count(counts, entry, metadata)
    return sorted(counted.values(), key=lambda one: partition_order(one.partition))


def _place(spec: PartitionSpec, field_id: int) -> int | None:
    """Where a partition field stands in the tuples of a spec; None in those that do not have it."""
    return next((at for at, field in enumerate(spec.fields) if field.field_id == field_id), None)


def all_partitions(metadata: TableMetadata) -> StructType:
    """Return the partition fields of all specs, by id, each with its newest name.

    Names are unique in one spec only. Of several fields of one name the newest keeps it, the others get their id behind
    it (``id_bucket_1000``). Raises InvalidInput for a table that is not partitioned.
    """
    found: dict[int, NestedField] = {}
    for spec in sorted(metadata.partition_specs, key=lambda one: one.spec_id, reverse=True):
        _add_fields(found, spec, metadata)
    if not found:
        raise InvalidInput("has no partitions to count", where=metadata.location)
    names = _unique_names(found)
    return StructType(tuple(msgspec.structs.replace(found[one], name=names[one]) for one in sorted(found)))


def _unique_names(fields: Mapping[int, NestedField]) -> dict[int, str]:
    """Return a name for each field by its id; `fields` are in the order in which they keep their names."""
    taken = {field.name for field in fields.values()}
    seen: set[str] = set()
    names: dict[int, str] = {}
    for field_id, field in fields.items():
        name = field.name
        if name in seen:
            name = f"{field.name}_{field_id}"
            while name in taken:
                name += "_"
            taken.add(name)
        seen.add(name)
        names[field_id] = name
    return names


def _add_fields(found: dict[int, NestedField], spec: PartitionSpec, metadata: TableMetadata) -> None:
    types = partition_type(spec, metadata.current_schema, older=metadata.schemas)
    for field, typed in zip(spec.fields, types.fields, strict=True):
        known = found.get(field.field_id)
        if known is None:
            found[field.field_id] = msgspec.structs.replace(typed, required=False)
        elif field.transform != "void":  # v1 puts void in the place of a field that was dropped
            found[field.field_id] = msgspec.structs.replace(known, type=typed.type)


def _count(counts: PartitionCounts, entry: ManifestEntry, metadata: TableMetadata) -> None:
    if entry.is_live:
        _count_file(counts, entry.data_file)
    snapshot = None if entry.snapshot_id is None else metadata.snapshot_by_id(entry.snapshot_id)
    if snapshot is not None and (counts.last_updated_ms is None or counts.last_updated_ms < snapshot.timestamp_ms):
        counts.last_updated_ms = snapshot.timestamp_ms
        counts.last_updated_snapshot_id = snapshot.snapshot_id


def _count_file(counts: PartitionCounts, file: DataFile) -> None:
    if file.content == "data":
        counts.data_records += file.record_count
        counts.data_files += 1
        counts.data_bytes += file.file_size_in_bytes
    elif file.content == "equality-deletes":
        counts.equality_delete_records += file.record_count
        counts.equality_delete_files += 1
    else:
        counts.position_delete_records += file.record_count
        if file.file_format == "puffin":
            counts.vectors += 1
        else:
            counts.position_delete_files += 1


def stored_partitions(metadata: TableMetadata, counted: Sequence[PartitionCounts]) -> StructType:
    """Return the partition fields of all specs in the types that hold all counted values.

    Those of unknown transforms and of columns that are gone have the type in which their values were stored, and are
    left out where no partition has any. Raises InvalidInput where one field was stored in types that differ.
    """
    known = stored_type(all_partitions(metadata), [one.partition for one in counted], exact=True)
    fields = tuple(field for field in known.fields if field.type != UNKNOWN)
    if not fields:
        raise InvalidInput(
            "has no partitions to count: the columns of all partition fields are gone", where=metadata.location
        )
    return StructType(fields)


def statistics_schema(metadata: TableMetadata, partitions: StructType) -> Schema:
    """The columns of a partition statistics file of the table, with the ids that the specification gives them."""
    newer = metadata.format_version > 2
    fields = [
        NestedField(field_id=PARTITION_ID, name="partition", type=partitions, required=True),
        NestedField(field_id=2, name="spec_id", type=INT, required=True),
        NestedField(field_id=3, name="data_record_count", type=LONG, required=True),
        NestedField(field_id=4, name="data_file_count", type=INT, required=True),
        NestedField(field_id=5, name="total_data_file_size_in_bytes", type=LONG, required=True),
        NestedField(field_id=6, name="position_delete_record_count", type=LONG, required=newer),
        NestedField(field_id=7, name="position_delete_file_count", type=INT, required=newer),
        NestedField(field_id=8, name="equality_delete_record_count", type=LONG, required=newer),
        NestedField(field_id=9, name="equality_delete_file_count", type=INT, required=newer),
        NestedField(field_id=10, name="total_record_count", type=LONG, required=False),
        NestedField(field_id=11, name="last_updated_at", type=LONG, required=False),
        NestedField(field_id=12, name="last_updated_snapshot_id", type=LONG, required=False),
    ]
    if newer:
        fields.append(NestedField(field_id=DV_COUNT_ID, name="dv_count", type=INT, required=True))
    return Schema(schema_id=0, struct=StructType(tuple(fields)))


def encode_counts(metadata: TableMetadata, counted: Sequence[PartitionCounts], *, location: str) -> bytes:
    """The bytes of the file. ``total_record_count`` stays empty: to know it, deletes would have to be applied."""
    partitions = stored_partitions(metadata, counted)
    schema = statistics_schema(metadata, partitions)
    ids = [field.field_id for field in all_partitions(metadata).fields]
    types = {field.field_id: field.type for field in partitions.fields}
    rows = [_row(counts, ids, types, vectors=metadata.format_version > 2) for counts in counted]
    new = NewFile(location=location, file_format="parquet", spec=UNPARTITIONED, partition=())
    data, _ = encode_rows(rows, schema, new)
    return data


def _row(counts: PartitionCounts, ids: list[int], types: Mapping[int, Type], *, vectors: bool) -> Mapping[int, Any]:
    partition = {
        field_id: value_in(types[field_id], value)
        for field_id, value in zip(ids, counts.partition, strict=True)
        if field_id in types
    }
    row = {
        PARTITION_ID: partition,
        2: counts.spec_id,
        3: counts.data_records,
        4: counts.data_files,
        5: counts.data_bytes,
        6: counts.position_delete_records,
        7: counts.position_delete_files,
        8: counts.equality_delete_records,
        9: counts.equality_delete_files,
        10: None,
        11: counts.last_updated_ms,
        12: counts.last_updated_snapshot_id,
    }
    return {**row, DV_COUNT_ID: counts.vectors} if vectors else row
