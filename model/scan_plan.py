"""What a scan has to read: files with the deletes that apply to them, and what is left of the filter for their rows."""

from __future__ import annotations

from typing import Literal

import msgspec

from firn.model.datafile import DataFile
from firn.model.expressions.predicates import Expression
from firn.model.partitioning import PartitionSpec
from firn.model.schema import Schema


class FileScanTask(msgspec.Struct, frozen=True, kw_only=True):
    """One data file to read.

    `deletes` must be applied to its rows, then `residual`, the part of the scan's filter that the file's partition
    does not decide, bound to the scan's schema. `sequence_number` is the file's data sequence number, which its rows
    inherit; `snapshot_id` the snapshot that added it, None where an old writer did not say.
    """

    file: DataFile
    sequence_number: int
    snapshot_id: int | None
    deletes: tuple[DataFile, ...] = ()
    residual: Expression
    spec: PartitionSpec

    @property
    def size_bytes(self) -> int:
        """Bytes of the data file and of the deletes that apply to it; of a deletion vector only its blob."""
        return self.file.file_size_in_bytes + sum(delete_size(delete) for delete in self.deletes)


def delete_size(delete: DataFile) -> int:
    """Bytes to read for one delete file; for a deletion vector those of its blob in a Puffin file."""
    if delete.is_deletion_vector and delete.content_size_in_bytes is not None:
        return delete.content_size_in_bytes
    return delete.file_size_in_bytes


class ScanMetrics(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What planning looked at and what it could leave out, under the names of Iceberg's scan reports.

    *Skipped* manifests were not read; skipped files are those of read manifests that cannot match. Result deletes
    count once for every data file that they apply to, sizes are bytes.
    """

    total_data_manifests: int = 0
    total_delete_manifests: int = 0
    scanned_data_manifests: int = 0
    scanned_delete_manifests: int = 0
    skipped_data_manifests: int = 0
    skipped_delete_manifests: int = 0
    skipped_data_files: int = 0
    skipped_delete_files: int = 0
    indexed_delete_files: int = 0
    equality_delete_files: int = 0
    positional_delete_files: int = 0
    dvs: int = 0
    result_data_files: int = 0
    result_delete_files: int = 0
    total_file_size_in_bytes: int = 0
    total_delete_file_size_in_bytes: int = 0


class ScanPlan(msgspec.Struct, frozen=True, kw_only=True):
    """All of a scan.

    `schema` is the one that the table is read with, `projection` the columns of it that were asked for, maybe with
    metadata columns; `filter` is bound to `schema`. `snapshot_id` is None for a table without snapshots.
    """

    snapshot_id: int | None
    schema: Schema
    projection: Schema
    filter: Expression
    tasks: tuple[FileScanTask, ...]
    metrics: ScanMetrics

    @property
    def rows_max(self) -> int:
        """Rows of all files: no more can come out of the scan."""
        return sum(task.file.record_count for task in self.tasks)


class ChangeTask(msgspec.Struct, frozen=True, kw_only=True):
    """A data file that a snapshot added or deleted, whose rows are rows inserted into or deleted from the table.

    `ordinal` counts the snapshots of the range, oldest first from 0.
    """

    change: Literal["insert", "delete"]
    ordinal: int
    snapshot_id: int
    task: FileScanTask


class ChangePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The changes between two snapshots, in their order; other members as in `ScanPlan`."""

    to_snapshot_id: int | None
    schema: Schema
    projection: Schema
    filter: Expression
    tasks: tuple[ChangeTask, ...]
    metrics: ScanMetrics
