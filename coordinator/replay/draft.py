"""Drafts: manifests and snapshots that replay has decided on and nobody has written yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from firn.model.manifest import ManifestContent, ManifestEntry, ManifestFile, Status
from firn.model.manifest_summary import ManifestCounts, count_entries, least_sequence_number
from firn.model.snapshot import Snapshot
from firn.storage.spliced_entries import SplicedEntries

MANIFEST_ENTRIES_MAX: Final = 20_000
"""Entries written into one manifest; more files make more manifests (about 8 MiB each with twenty columns)."""


class DraftManifest(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A manifest to be written under `location`.

    `entries` are as they will be stored: those added by this snapshot have no sequence numbers, they inherit them from
    `sequence_number` when they are read. `reuse_key` is set when the bytes do not depend on what the table was when
    they were made (only added entries), so that a replayed attempt may keep the file that an earlier one wrote.
    """

    location: str
    partition_spec_id: int
    content: ManifestContent
    entries: tuple[ManifestEntry, ...] | SplicedEntries
    snapshot_id: int
    sequence_number: int
    schema_id: int
    reuse_key: str | None = None

    @property
    def counts(self) -> ManifestCounts:
        """Its files and rows by status."""
        return self.entries.counts if isinstance(self.entries, SplicedEntries) else count_entries(self.entries)

    @property
    def has_live_files(self) -> bool:
        """Whether any entry is more than a tombstone. Cost: a look at the first, most of the time."""
        if isinstance(self.entries, SplicedEntries):
            return self.entries.counts.live_files > 0
        return any(entry.is_live for entry in self.entries)

    @property
    def least_sequence_number(self) -> int | None:
        """The age of its oldest live file; None when all are as old as the snapshot."""
        entries = self.entries
        return entries.least_sequence_number if isinstance(entries, SplicedEntries) else least_sequence_number(entries)

    @property
    def changes(self) -> list[ManifestEntry]:
        """The entries of files that its snapshot adds or removes."""
        if isinstance(self.entries, SplicedEntries):
            return self.entries.removed()
        return [entry for entry in self.entries if entry.status is not Status.EXISTING]


ManifestRef = ManifestFile | DraftManifest


def location_of(manifest: ManifestRef) -> str:
    """Where the manifest is or will be: its identity within one attempt."""
    return manifest.location if isinstance(manifest, DraftManifest) else manifest.manifest_path


class DraftSnapshot(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A snapshot to be committed: its manifests in list order, and the intents it answers.

    `format_version` is the table's when it was made: a later intent of the same batch may upgrade it. `goes_on`: its
    parent is of the same attempt, and all manifests of that one stand at the end of its list, as they were drafted.
    """

    snapshot: Snapshot
    branch: str
    manifests: Sequence[ManifestRef]
    intent_ids: tuple[str, ...]
    format_version: int
    first_row_id: int | None = None
    goes_on: bool = False


TableChange = Literal["none", "created", "registered", "updated", "dropped"]
