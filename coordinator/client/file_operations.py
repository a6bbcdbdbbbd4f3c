"""Operations on the files of a branch, as methods: each makes its intent and submits it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

import msgspec

from firn.coordinator.client.intents import filter_json, locations_of, members_of
from firn.coordinator.client.options import BranchOptions, CheckOptions, FileOptions, FilterLike
from firn.coordinator.client.submitting import Submitted_co, Submitting
from firn.model.intent import (
    Append,
    ContentFile,
    DeleteFileRef,
    DeleteFiles,
    DeleteWhere,
    Overwrite,
    Replace,
    ReplacePartitions,
    RewriteManifests,
    RowDelta,
    WrittenManifest,
)

Files = Iterable[ContentFile | str]
"""Files by location, or as they were added."""


class FileOperations(Submitting[Submitted_co]):
    """Every operation on files. Those that change what they have read name the snapshot that they read as base."""

    def append(
        self,
        table: str,
        files: Iterable[ContentFile] = (),
        *,
        manifests: Iterable[WrittenManifest] = (),
        **options: Unpack[FileOptions],
    ) -> Submitted_co:
        """Add data files (`data_files_from_parquet`), or manifests that list nothing else. Never conflicts."""
        return self.submit(
            Append(table=table, data_files=tuple(files), manifests=tuple(manifests), **members_of(options))
        )

    def delete_files(self, table: str, files: Files, **options: Unpack[FileOptions]) -> Submitted_co:
        """Remove whole data files; rejected unless each of them is live."""
        return self.submit(DeleteFiles(table=table, removed_data_files=locations_of(files), **members_of(options)))

    def delete_where(
        self,
        table: str,
        row_filter: FilterLike,
        *,
        case_sensitive: bool = True,
        **options: Unpack[FileOptions],
    ) -> Submitted_co:
        """Remove every data file whose rows all match; rejected when one matches in part."""
        return self.submit(
            DeleteWhere(
                table=table,
                row_filter=filter_json(row_filter),
                case_sensitive=case_sensitive,
                **members_of(options),
            )
        )

    def replace(
        self,
        table: str,
        *,
        removed: Files = (),
        added: Iterable[ContentFile] = (),
        base_snapshot_id: int,
        removed_deletes: Iterable[DeleteFileRef] = (),
        added_deletes: Iterable[ContentFile] = (),
        data_sequence_number: int | None = None,
        **options: Unpack[BranchOptions],
    ) -> Submitted_co:
        """Rewrite data or delete files without changing rows; `base_snapshot_id` is the snapshot that was read.

        `data_sequence_number` is what the added files keep, so that equality deletes still reach them.
        """
        return self.submit(
            Replace(
                table=table,
                removed_data_files=locations_of(removed),
                data_files=tuple(added),
                base_snapshot_id=base_snapshot_id,
                removed_delete_files=tuple(removed_deletes),
                delete_files=tuple(added_deletes),
                data_sequence_number=data_sequence_number,
                **members_of(options),
            )
        )

    def overwrite(
        self,
        table: str,
        *,
        base_snapshot_id: int | None,
        row_filter: FilterLike | None = None,
        removed: Files = (),
        added: Iterable[ContentFile] = (),
        **options: Unpack[CheckOptions],
    ) -> Submitted_co:
        """Replace what a filter matches, or named files, by other files (copy-on-write).

        `base_snapshot_id` None: the branch was empty.
        """
        return self.submit(
            Overwrite(
                table=table,
                base_snapshot_id=base_snapshot_id,
                row_filter=None if row_filter is None else filter_json(row_filter),
                removed_data_files=locations_of(removed),
                data_files=tuple(added),
                **members_of(options),
            )
        )

    def replace_partitions(
        self,
        table: str,
        files: Iterable[ContentFile],
        *,
        base_snapshot_id: int | None,
        **options: Unpack[CheckOptions],
    ) -> Submitted_co:
        """Replace whatever is in the partitions that the files are in (dynamic overwrite)."""
        return self.submit(
            ReplacePartitions(
                table=table, data_files=tuple(files), base_snapshot_id=base_snapshot_id, **members_of(options)
            )
        )

    def row_delta(
        self,
        table: str,
        *,
        base_snapshot_id: int | msgspec.UnsetType | None = msgspec.UNSET,
        added: Iterable[ContentFile] = (),
        deletes: Iterable[ContentFile] = (),
        removed: Files = (),
        removed_deletes: Iterable[DeleteFileRef] = (),
        referenced: Files = (),
        referenced_may_be_deleted: bool = False,
        **options: Unpack[CheckOptions],
    ) -> Submitted_co:
        """Add rows and deletes of rows (merge-on-read).

        `referenced` are data files that position deletes are for; those that delete files name need not be repeated.
        The base may be left out where all deletes are equality deletes, or for data files that are added here.
        """
        return self.submit(
            RowDelta(
                table=table,
                base_snapshot_id=base_snapshot_id,
                data_files=tuple(added),
                delete_files=tuple(deletes),
                removed_data_files=locations_of(removed),
                removed_delete_files=tuple(removed_deletes),
                referenced_data_files=locations_of(referenced, where="referenced-data-files"),
                referenced_may_be_deleted=referenced_may_be_deleted,
                **members_of(options),
            )
        )

    def rewrite_manifests(
        self,
        table: str,
        *,
        removed: Iterable[str],
        added: Iterable[WrittenManifest] = (),
        **options: Unpack[FileOptions],
    ) -> Submitted_co:
        """Put manifests in the place of others that list the same files."""
        return self.submit(
            RewriteManifests(
                table=table,
                removed_manifests=locations_of(removed, where="removed-manifests"),
                manifests=tuple(added),
                **members_of(options),
            )
        )
