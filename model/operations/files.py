"""Operations on data files."""

from __future__ import annotations

from typing import Annotated

import msgspec

from firn.model.operations.common import ContentFile, Name, Operation, Path, SnapshotId


class Append(Operation, frozen=True, kw_only=True, tag="append"):
    """Add data files; never conflicts."""

    branch: Name = "main"
    data_files: Annotated[tuple[ContentFile, ...], msgspec.Meta(min_length=1)]
    base_snapshot_id: SnapshotId | None = None


class DeleteFiles(Operation, frozen=True, kw_only=True, tag="delete-files"):
    """Remove whole data files, each of which must be live."""

    branch: Name = "main"
    removed_data_files: Annotated[tuple[Path, ...], msgspec.Meta(min_length=1)]
    base_snapshot_id: SnapshotId | None = None


class Replace(Operation, frozen=True, kw_only=True, tag="replace"):
    """Rewrite data files without changing rows (compaction); planned on `base_snapshot_id`."""

    branch: Name = "main"
    base_snapshot_id: SnapshotId
    removed_data_files: Annotated[tuple[Path, ...], msgspec.Meta(min_length=1)]
    data_files: tuple[ContentFile, ...] = ()
