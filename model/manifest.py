"""Manifest entries and manifest files as values (table specification, "Manifests", "Manifest Lists").

The Avro form is in `firn.storage.manifests` and `firn.storage.manifest_lists`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, Literal

import msgspec

from firn.model.datafile import DataFile

ManifestContent = Literal["data", "deletes"]

MANIFEST_CONTENT_CODES: Final[Mapping[ManifestContent, int]] = {"data": 0, "deletes": 1}

UNASSIGNED_SEQUENCE_NUMBER: Final = -1
"""Stands in a new manifest's numbers until its manifest list is written; then the commit's takes its place."""


class Status(IntEnum):
    """What a manifest entry says of its file."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class ManifestEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):  # nothing in it leads back to it
    """One file in a manifest, with when it came and went.

    None in `snapshot_id`, `sequence_number`, `file_sequence_number` means *inherited from the manifest file* and is
    only legal as the specification says (added files of a manifest that is not committed yet).
    """

    status: Status
    snapshot_id: int | None = None
    sequence_number: int | None = None
    file_sequence_number: int | None = None
    data_file: DataFile

    @property
    def is_live(self) -> bool:
        """Whether the file is part of the table (added or existing)."""
        return self.status is not Status.DELETED


class FieldSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Range of one partition field over a manifest's files; bounds in binary single-value form."""

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


class ManifestFile(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One manifest as its manifest list describes it. Lengths are bytes; counts are files or rows, None in old v1."""

    manifest_path: str
    manifest_length: int
    partition_spec_id: int
    content: ManifestContent = "data"
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_snapshot_id: int | None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[FieldSummary, ...] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None
    extra: dict[str, Any] = {}

    @property
    def passes_on(self) -> tuple[int | None, int, int | None]:
        """What its entries inherit. One manifest may be listed with other numbers on another branch."""
        return self.added_snapshot_id, self.sequence_number, self.first_row_id

    @property
    def may_have_live_files(self) -> bool:
        """False only when the counts are known and say that every entry is a tombstone."""
        return self.added_files_count != 0 or self.existing_files_count != 0

    @property
    def live_files_count(self) -> int | None:
        """Files that are part of the table, None where an old list does not say."""
        if self.added_files_count is None or self.existing_files_count is None:
            return None
        return self.added_files_count + self.existing_files_count

    @property
    def live_rows_count(self) -> int | None:
        """Rows of the files that are part of the table, None where an old list does not say."""
        if self.added_rows_count is None or self.existing_rows_count is None:
            return None
        return self.added_rows_count + self.existing_rows_count
