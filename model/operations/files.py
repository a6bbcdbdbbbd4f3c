"""Operations on the files of a branch.

`base_snapshot_id` is the head that the writer planned on, and null where the branch was still empty. Where a rule needs
it, it has no default: what happened since can only be judged from there. Filters are expressions in their JSON form
(`firn.model.expressions.expression_json`) over the table's columns.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from firn.model.operations.common import ContentFile, Count, FieldId, Name, Operation, Path, SnapshotId

MANIFESTS_MAX: Final = 1_000
"""Manifests that one intent may name; each may list thousands of files."""

SCHEMAS_MAX: Final = 1_000
"""Schemas by which the files of one intent may have been described."""

Filter = dict[str, Any] | bool
Isolation = Literal["serializable", "snapshot"]
"""``serializable``: nothing that the writer would have read came after its base. ``snapshot``: nothing that it changes
was changed after its base."""

Validation = Literal["all", "none"]
"""``none`` commits over whatever happened since the base; the snapshot's summary says so."""


class WrittenManifest(
    msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True, omit_defaults=True
):
    """A manifest that the writer has written itself. Lengths are bytes; counts are of live files and their rows."""

    manifest_path: Path
    manifest_length: Count
    partition_spec_id: FieldId
    content: Literal["data", "deletes"] = "data"
    files_count: Count
    rows_count: Count


class DeleteFileRef(
    msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True, omit_defaults=True
):
    """A delete file of the table; a deletion vector is told from others of its file by its offset."""

    file_path: Path
    content_offset: Count | None = None


class FileOperation(Operation, frozen=True, kw_only=True):
    """What all operations on files have: `stage` makes a snapshot that no branch points at yet (write-audit-publish).

    `wap_id` names it for publishing. `schema_ids` are the schemas by which the added files were described, where the
    writer says so; `table_uuid` the table for which they were.
    """

    branch: Name = "main"
    stage: bool = False
    wap_id: Name | None = None
    schema_ids: Annotated[tuple[FieldId, ...], msgspec.Meta(max_length=SCHEMAS_MAX)] = ()


class Append(FileOperation, frozen=True, kw_only=True, tag="append", gc=False):
    """Add data files, one by one or by manifests that list nothing else; never conflicts."""

    data_files: tuple[ContentFile, ...] = ()
    manifests: Annotated[tuple[WrittenManifest, ...], msgspec.Meta(max_length=MANIFESTS_MAX)] = ()
    base_snapshot_id: SnapshotId | None = None


class DeleteFiles(FileOperation, frozen=True, kw_only=True, tag="delete-files"):
    """Remove whole data files, each of which must be live."""

    removed_data_files: Annotated[tuple[Path, ...], msgspec.Meta(min_length=1)]
    base_snapshot_id: SnapshotId | None = None


class DeleteWhere(FileOperation, frozen=True, kw_only=True, tag="delete-where"):
    """Remove every data file whose rows all match; none may match in part."""

    row_filter: Filter
    case_sensitive: bool = True
    base_snapshot_id: SnapshotId | None = None


class Replace(FileOperation, frozen=True, kw_only=True, tag="replace"):
    """Rewrite data or delete files without changing rows (compaction).

    `data_sequence_number` is kept for the added files, so that equality deletes that came meanwhile still apply to
    them.
    """

    base_snapshot_id: SnapshotId
    removed_data_files: tuple[Path, ...] = ()
    data_files: tuple[ContentFile, ...] = ()
    removed_delete_files: tuple[DeleteFileRef, ...] = ()
    delete_files: tuple[ContentFile, ...] = ()
    data_sequence_number: Count | None = None


class RewriteManifests(FileOperation, frozen=True, kw_only=True, tag="rewrite-manifests"):
    """Put manifests in the place of others that list the same files."""

    removed_manifests: Annotated[tuple[Path, ...], msgspec.Meta(min_length=1, max_length=MANIFESTS_MAX)]
    manifests: Annotated[tuple[WrittenManifest, ...], msgspec.Meta(max_length=MANIFESTS_MAX)] = ()
    base_snapshot_id: SnapshotId | None = None


class Overwrite(FileOperation, frozen=True, kw_only=True, tag="overwrite"):
    """Replace what a filter matches, or named files, by other files (copy-on-write)."""

    base_snapshot_id: SnapshotId | None
    row_filter: Filter | None = None
    removed_data_files: tuple[Path, ...] = ()
    data_files: tuple[ContentFile, ...] = ()
    conflict_filter: Filter | None = None
    case_sensitive: bool = True
    isolation: Isolation = "serializable"
    validate: Validation = "all"


class ReplacePartitions(FileOperation, frozen=True, kw_only=True, tag="replace-partitions"):
    """Replace whatever is in the partitions that the added files are in (dynamic overwrite).

    With `append_only` there may be nothing in them yet.
    """

    base_snapshot_id: SnapshotId | None
    data_files: Annotated[tuple[ContentFile, ...], msgspec.Meta(min_length=1)]
    append_only: bool = False
    isolation: Isolation = "serializable"
    validate: Validation = "all"


class RowDelta(FileOperation, frozen=True, kw_only=True, tag="row-delta"):
    """Add rows and deletes of rows (merge-on-read).

    `referenced_data_files` are those that position deletes are for; those that delete files name themselves need not be
    repeated. A deletion vector takes the place of those of its data file among `removed_delete_files`. The base may be
    left out only where all deletes are equality deletes, or are for data files that the intent itself adds.
    """

    base_snapshot_id: SnapshotId | msgspec.UnsetType | None = msgspec.UNSET
    data_files: tuple[ContentFile, ...] = ()
    delete_files: tuple[ContentFile, ...] = ()
    removed_data_files: tuple[Path, ...] = ()
    removed_delete_files: tuple[DeleteFileRef, ...] = ()
    referenced_data_files: tuple[Path, ...] = ()
    referenced_may_be_deleted: bool = False
    conflict_filter: Filter | None = None
    case_sensitive: bool = True
    isolation: Isolation = "serializable"
    validate: Validation = "all"


FileIntent = Append | DeleteFiles | DeleteWhere | Replace | RewriteManifests | Overwrite | ReplacePartitions | RowDelta
