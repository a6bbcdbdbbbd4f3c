"""Snapshots, references to them and the logs of a table (table specification, "Snapshots", "Table Metadata")."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

MAIN_BRANCH: Final = "main"

Operation = Literal["append", "replace", "overwrite", "delete"]


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The state of a table at one time.

    `summary` holds ``operation`` with the totals, all as strings. v1 snapshots may lack `sequence_number` (read as 0),
    `summary`, and may list `manifests` instead of a `manifest_list`.
    """

    snapshot_id: int
    parent_snapshot_id: int | None = None
    sequence_number: int = 0
    timestamp_ms: int
    manifest_list: str | None = None
    manifests: tuple[str, ...] | None = None
    summary: dict[str, str] | None = None
    schema_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None
    key_id: str | None = None
    extra: dict[str, Any] = {}

    @property
    def operation(self) -> str | None:
        """The summary's operation, None where a v1 writer left none."""
        return None if self.summary is None else self.summary.get("operation")


class SnapshotRef(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A branch or tag. Ages are milliseconds; the two `*_snapshot*` settings are for branches only."""

    snapshot_id: int
    type: Literal["branch", "tag"]
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None
    extra: dict[str, Any] = {}


class SnapshotLogEntry(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The current snapshot changed to `snapshot_id` at `timestamp_ms`."""

    snapshot_id: int
    timestamp_ms: int


class MetadataLogEntry(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A metadata file that was current until `timestamp_ms`."""

    metadata_file: str
    timestamp_ms: int
