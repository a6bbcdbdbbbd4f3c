"""Manifests that writers have written themselves: read and checked before they become part of the table."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firn.coordinator.replay import rules
from firn.coordinator.replay.files_rules import require_allowed
from firn.coordinator.replay.working import Working
from firn.model.amounts import plural
from firn.model.datafile import DataFile
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.manifest import UNASSIGNED_SEQUENCE_NUMBER, ManifestEntry, ManifestFile, Status
from firn.model.manifest_summary import count_entries, least_sequence_number, summarize_partitions
from firn.model.metadata import TableMetadata
from firn.model.metric_faults import metric_faults
from firn.model.operations.files import WrittenManifest
from firn.model.partitioning import check_writable, partition_type
from firn.storage.fitting_metrics import forms_of


class ReadManifest(msgspec.Struct, frozen=True, eq=False):
    """A written manifest and its entries, exactly as they are stored."""

    written: WrittenManifest
    entries: tuple[ManifestEntry, ...]

    @property
    def files(self) -> list[DataFile]:
        """The files that it lists."""
        return [entry.data_file for entry in self.entries]

    def listed(self, working: Working, *, snapshot_id: int, sequence_number: int) -> ManifestFile:
        """Its row in the manifest list of the snapshot that takes it in."""
        metadata = working.metadata
        assert metadata is not None
        spec = metadata.spec_by_id(self.written.partition_spec_id)
        assert spec is not None
        counts, least = count_entries(self.entries), least_sequence_number(self.entries)
        type_ = partition_type(spec, metadata.current_schema, older=metadata.schemas)
        return ManifestFile(
            manifest_path=self.written.manifest_path,
            manifest_length=self.written.manifest_length,
            partition_spec_id=self.written.partition_spec_id,
            content=self.written.content,
            sequence_number=sequence_number,
            min_sequence_number=sequence_number if least is None else least,
            added_snapshot_id=snapshot_id,
            added_files_count=counts.added_files,
            existing_files_count=counts.existing_files,
            deleted_files_count=counts.deleted_files,
            added_rows_count=counts.added_rows,
            existing_rows_count=counts.existing_rows,
            deleted_rows_count=counts.deleted_rows,
            partitions=summarize_partitions(type_, [file.partition for file in self.files]),
        )


def read_written(working: Working, manifests: Sequence[WrittenManifest], *, where: str) -> list[ReadManifest]:
    """The manifests with their entries.

    Prevents: a manifest that is not what its writer says, of another table, or that readers cannot open.
    """
    return [_read(working, one, where=f"{where}[{position}]") for position, one in enumerate(manifests)]


def _read(working: Working, written: WrittenManifest, *, where: str) -> ReadManifest:
    metadata, path = working.metadata, written.manifest_path
    assert metadata is not None
    require_allowed(working, path, where=f"{where}.manifest-path")
    if metadata.spec_by_id(written.partition_spec_id) is None:
        rules.UNKNOWN_SPEC.refuse(
            f"{where}.partition-spec-id: the table has no partition spec {written.partition_spec_id}", files=(path,)
        )
    number = UNASSIGNED_SEQUENCE_NUMBER if metadata.format_version > 1 else 0
    manifest = ManifestFile(
        manifest_path=path,
        manifest_length=written.manifest_length,
        partition_spec_id=written.partition_spec_id,
        content=written.content,
        sequence_number=number,
        min_sequence_number=number,
        added_snapshot_id=None,
    )
    try:
        entries = tuple(working.reader.written_entries(metadata, manifest))
    except (CorruptFile, InvalidInput, NotFound) as error:
        rules.INVALID_MANIFEST.refuse(f"{where}: {error}", files=(path,))
    rows = sum(entry.data_file.record_count for entry in entries)
    if not entries or (len(entries), rows) != (written.files_count, written.rows_count):
        rules.INVALID_MANIFEST.refuse(
            f"{where}: lists {plural(len(entries), 'file')} with {plural(rows, 'row')}, announced were "
            f"{written.files_count:,} with {written.rows_count:,}; it must list some",
            files=(path,),
        )
    for entry in entries:
        require_allowed(working, entry.data_file.file_path, where=f"{where}: {path}")
    return ReadManifest(written, entries)


def require_all_added(working: Working, manifests: Sequence[ReadManifest]) -> None:
    """Refuse anything but new data files that leave snapshot, sequence number and row ids to the commit.

    Those of v1 cannot leave their snapshot open, which is the commit's all the same: they are copied. Prevents: files
    that deletes reach which they should not, or the other way; row ids given twice; tombstones of files that are live.
    """
    metadata = working.metadata
    assert metadata is not None
    for manifest in manifests:
        path = manifest.written.manifest_path
        if manifest.written.content != "data":
            rules.INVALID_MANIFEST.refuse(f"{path}: an append adds data files only", files=(path,))
        for entry in manifest.entries:
            left_out = (entry.snapshot_id, entry.sequence_number, entry.file_sequence_number) == (None,) * 3
            if (
                entry.status is not Status.ADDED
                or entry.data_file.first_row_id is not None
                or not (left_out or metadata.format_version < 2)
            ):
                rules.INVALID_MANIFEST.refuse(
                    f"{path}: {entry.data_file.file_path} is not a plain added file: its snapshot id, sequence numbers "
                    f"and first row id must be left out",
                    files=(path,),
                )
            reason = unusable(entry.data_file, metadata)
            if reason is not None:
                rules.INVALID_MANIFEST.refuse(f"{path}: {entry.data_file.file_path}: {reason}", files=(path,))


def unusable(file: DataFile, metadata: TableMetadata) -> str | None:
    """Return what readers fail on in a new file, or what puts it where its rows do not belong."""
    fault = next(metric_faults(file, forms_of(metadata).types), None)
    if fault is not None:
        return f"{fault.member}: {fault.message}"
    spec = metadata.spec_by_id(file.spec_id)
    assert spec is not None
    try:
        check_writable(spec, file.partition, schema=metadata.current_schema, older=metadata.schemas)
    except InvalidInput as error:
        return str(error)
    return None
