"""What `firn table show` and `firn table files` say of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from firn.coordinator.cli.output import Column
from firn.coordinator.cli.text import span_of, time_of
from firn.model.amounts import plural, size_text
from firn.model.errors import CorruptFile
from firn.model.history import reach_of
from firn.model.metadata import TableMetadata
from firn.model.partition_path import partition_path
from firn.model.partitioning import PartitionSpec, spec_to_json
from firn.model.schema import Schema, schema_to_json
from firn.model.snapshot import SnapshotRef, ref_to_json, snapshot_to_json
from firn.model.sorting import SortOrder, order_to_json
from firn.storage.pointers import Pointer

if TYPE_CHECKING:  # who reads no manifest does not load it
    from firn.coordinator.tables.table_reader import TableReader


SCHEMA_COLUMNS: Final = (
    Column("ID", right=True), Column("COLUMN"), Column("TYPE", long=True), Column("NULLS"), Column("DOC", long=True),
)  # fmt: skip
REF_COLUMNS: Final = (Column("REF"), Column("TYPE"), Column("SNAPSHOT", right=True), Column("RETENTION", long=True))
PROPERTY_COLUMNS: Final = (Column("PROPERTY"), Column("VALUE", long=True))
FILE_COLUMNS: Final = (
    Column("CONTENT"), Column("PARTITION", long=True), Column("RECORDS", right=True), Column("SIZE", right=True),
    Column("SEQ", right=True), Column("FILE", long=True),
)  # fmt: skip

_COUNTS: Final = (
    ("data files", "total-data-files"),
    ("records", "total-records"),
    ("bytes", "total-files-size"),
    ("delete files", "total-delete-files"),
    ("position deletes", "total-position-deletes"),
    ("equality deletes", "total-equality-deletes"),
)


class Grid(msgspec.Struct, frozen=True):
    """Rows to be shown below the titles of `columns`."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[object]]
    empty: str


Section = tuple[str, list[tuple[str, object]] | Grid]
"""A title and what stands below it."""


class LiveFile(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """One live file of a snapshot; `partition` is its folder name in Hive's style, empty when there is none."""

    file_path: str
    content: str
    file_format: str
    spec_id: int
    partition: str
    record_count: int
    file_size_in_bytes: int
    sequence_number: int | None
    snapshot_id: int | None
    first_row_id: int | None = None


def summary_json(pointer: Pointer, metadata: TableMetadata) -> dict[str, Any]:
    """Everything that `show` says, in Iceberg's own JSON forms."""
    current = metadata.current_snapshot
    return {
        "table": pointer.table,
        "catalog": pointer.catalog,
        "uuid": metadata.table_uuid,
        "format-version": metadata.format_version,
        "location": metadata.location,
        "metadata-location": pointer.metadata_location,
        "journal-head": pointer.journal_head,
        "last-updated-ms": metadata.last_updated_ms,
        "last-sequence-number": metadata.last_sequence_number,
        "next-row-id": metadata.next_row_id,
        "schema": schema_to_json(metadata.current_schema),
        "partition-spec": spec_to_json(metadata.default_spec),
        "sort-order": order_to_json(metadata.default_order),
        "properties": metadata.properties,
        "current-snapshot": None if current is None else snapshot_to_json(current),
        "refs": {name: ref_to_json(ref) for name, ref in metadata.refs.items()},
        "snapshots": len(metadata.snapshots),
        "history": reach_of(metadata),
    }


def summary_sections(pointer: Pointer, metadata: TableMetadata) -> list[Section]:
    """Everything that `show` says, for people."""
    current = metadata.current_snapshot
    summary = {} if current is None else current.summary or {}
    head: list[tuple[str, object]] = [
        ("table", pointer.table),
        ("uuid", metadata.table_uuid),
        ("format", f"v{metadata.format_version}, {pointer.catalog} table"),
        ("location", metadata.location),
        ("metadata", pointer.metadata_location),
        ("updated", time_of(metadata.last_updated_ms)),
        ("partitioned by", _spec_lines(metadata.default_spec, metadata.current_schema)),
        ("sorted by", _order_lines(metadata.default_order, metadata.current_schema)),
        ("snapshots", f"{len(metadata.snapshots):,}"),
        *history_pairs(metadata),
    ]
    if current is not None:
        head += [
            ("current", f"{current.snapshot_id} ({current.operation or '?'}, {time_of(current.timestamp_ms)})"),
            ("sequence number", metadata.last_sequence_number),
        ]
        head += [(name, _count(summary[key])) for name, key in _COUNTS if summary.get(key, "0") != "0"]
    if metadata.next_row_id is not None:
        head.append(("next row id", metadata.next_row_id))
    sections: list[Section] = [("", head), (f"Schema {metadata.current_schema_id}", schema_grid(metadata))]
    if metadata.refs:
        sections.append(("References", _refs_grid(metadata)))
    if metadata.properties:
        rows = sorted(metadata.properties.items())
        sections.append(("Properties", Grid(PROPERTY_COLUMNS, rows, "")))
    return sections


def history_pairs(metadata: TableMetadata) -> list[tuple[str, object]]:
    """How far back a table can be read; nothing while it has no snapshot."""
    reach = reach_of(metadata)
    if reach.oldest_ms is None:
        return []
    pairs: list[tuple[str, object]] = [("oldest snapshot", time_of(reach.oldest_ms))]
    if reach.whole_since_ms is not None:
        pairs.append(("every snapshot since", time_of(reach.whole_since_ms)))
    return [*pairs, ("bases are valid for", f"{reach.base_hours} h")]


def _count(text: str) -> str:
    return f"{int(text):,}" if text.isascii() and text.isdecimal() and len(text) < 20 else text


def schema_grid(metadata: TableMetadata) -> Grid:
    """The current columns of a table."""
    return Grid(SCHEMA_COLUMNS, schema_rows(metadata.current_schema), "no columns")


def schema_rows(schema: Schema) -> list[tuple[object, ...]]:
    """Columns as rows of `SCHEMA_COLUMNS`."""
    return [
        (
            field.field_id,
            field.name + (" *" if field.field_id in schema.identifier_field_ids else ""),
            str(field.type),
            "" if field.required else "null",
            field.doc or "",
        )
        for field in schema.fields
    ]


def _refs_grid(metadata: TableMetadata) -> Grid:
    rows = [(name, ref.type, ref.snapshot_id, retention_of(ref)) for name, ref in metadata.refs.items()]
    return Grid(REF_COLUMNS, rows, "")


def retention_of(ref: SnapshotRef) -> str:
    """How long a branch or tag is kept, and how much of a branch."""
    least, age_ms, ref_age_ms = ref.min_snapshots_to_keep, ref.max_snapshot_age_ms, ref.max_ref_age_ms
    kept = [] if least is None else [f"at least {plural(least, 'snapshot')}"]
    kept += [] if age_ms is None else [f"snapshots for {span_of(age_ms)}"]
    kept += [] if ref_age_ms is None else [f"itself for {span_of(ref_age_ms)}"]
    return ", ".join(kept) or "as the table says"


def _spec_lines(spec: PartitionSpec, schema: Schema) -> list[str]:
    if not spec.fields:
        return ["nothing"]
    return [
        f"{_call(field.transform, [_column(schema, source) for source in field.source_ids])} as {field.name}"
        for field in spec.fields
    ]


def _order_lines(order: SortOrder, schema: Schema) -> list[str]:
    if not order.fields:
        return ["nothing"]
    return [
        f"{_call(field.transform, [_column(schema, source) for source in field.source_ids])} {field.direction} "
        f"{field.null_order.replace('-', ' ')}"
        for field in order.fields
    ]


def _call(transform: str, columns: Sequence[str]) -> str:
    """``bucket(16, id)`` for ``bucket[16]`` of ``id``: as `firn table create` takes it."""
    if transform == "identity":
        return ", ".join(columns)
    name, bracket, width = transform.rstrip("]").partition("[")
    return f"{name}({', '.join([*([width] if bracket else []), *columns])})"


def _column(schema: Schema, field_id: int) -> str:
    return schema.column_name(field_id) or f"#{field_id}"


def live_files(reader: TableReader, metadata: TableMetadata, snapshot_id: int | None) -> list[LiveFile]:
    """The live files of a snapshot, data files first, each with its partition."""
    if snapshot_id is None:
        return []
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise CorruptFile(metadata.location, f"a reference names snapshot {snapshot_id}, which is not there")
    found = [
        LiveFile(
            file_path=entry.data_file.file_path,
            content=entry.data_file.content,
            file_format=entry.data_file.file_format,
            spec_id=entry.data_file.spec_id,
            partition=_partition(metadata, entry.data_file.spec_id, entry.data_file.partition),
            record_count=entry.data_file.record_count,
            file_size_in_bytes=entry.data_file.file_size_in_bytes,
            sequence_number=entry.sequence_number,
            snapshot_id=entry.snapshot_id,
            first_row_id=entry.data_file.first_row_id,
        )
        for manifest in reader.manifests(metadata, snapshot)
        if manifest.may_have_live_files
        for entry in reader.entries(metadata, manifest)
        if entry.is_live
    ]
    return sorted(found, key=lambda file: (file.content != "data", file.partition, file.file_path))


def _partition(metadata: TableMetadata, spec_id: int, values: Sequence[Any]) -> str:
    spec = metadata.spec_by_id(spec_id)
    return "" if spec is None or not spec.fields else partition_path(spec, metadata.current_schema, values)


def file_row(file: LiveFile) -> tuple[object, ...]:
    """A file as a row of `FILE_COLUMNS`."""
    return (
        file.content, file.partition or "-", f"{file.record_count:,}", size_text(file.file_size_in_bytes),
        file.sequence_number, file.file_path,
    )  # fmt: skip
