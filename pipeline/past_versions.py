"""What a table has forgotten: snapshots and metadata files that it does not name any more, and that may still be there.

Every metadata file names those before it. The table keeps the newest of these names (its metadata log); the oldest of
them, when it is read, names the next ones, and so on back to the first that is gone. So what a table has forgotten is
found without listing a folder, only committed versions are found, and old metadata files that are still there are the
list of what is to be done: they go last, after all that only they lead to. What firn itself drops is on record besides
(`firn.pipeline.dropped_records`), and found without any old version.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from firn.model.dropped_snapshots import statistics_files
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.limits import Limits
from firn.model.metadata import TableMetadata
from firn.model.snapshot import MetadataLogEntry, Snapshot
from firn.pipeline.dropped_records import DroppedSnapshots, dropped_by
from firn.storage.files import FileStore
from firn.storage.metadata_files import decode_metadata

VERSIONS_MAX: Final = 1_000_000
"""Old versions that are followed back; a table that was never tidied may have more than one run can name."""


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """What a table has forgotten: `snapshots`, and `statistics` files of theirs.

    `versions` are the metadata files beyond the log, oldest first, with the time until which each was current.
    `dropped` is what the table's records list; snapshots that bases still need are not among `snapshots`.
    """

    snapshots: tuple[Snapshot, ...]
    statistics: tuple[str, ...]
    versions: tuple[MetadataLogEntry, ...]
    dropped: DroppedSnapshots


def past_of(metadata: TableMetadata, files: FileStore, *, limits: Limits, now_ms: int) -> Past:
    """What the table has forgotten, as far as its records and old metadata files tell. Raises Unavailable."""
    return _Search(metadata, files, limits).past(dropped_by(metadata, files, limits=limits, now_ms=now_ms))


class _Version(msgspec.Struct, frozen=True):
    """Of one version what tells whether versions beside it had other snapshots."""

    format_version: int
    last_sequence_number: int
    sequence_numbers: tuple[int, ...]
    """Of its snapshots, ascending."""


class _Search:
    """Reads as few old versions as show all snapshots that there were."""

    def __init__(self, metadata: TableMetadata, files: FileStore, limits: Limits) -> None:
        self._now = metadata
        self._files = files
        self._limits = limits
        self._kept = {snapshot.snapshot_id for snapshot in metadata.snapshots}
        self._snapshots: dict[int, Snapshot] = {}
        self._statistics: dict[str, None] = {}
        self._versions: dict[str, _Version | None] = {}

    def past(self, dropped: DroppedSnapshots) -> Past:
        logged = list(self._now.metadata_log)
        older = list(self._beyond(logged))[::-1]
        self._explore([entry.metadata_file for entry in (*older, *logged)])
        kept = set(statistics_files(self._now))
        found = {one.snapshot_id: one for one in dropped.gone} | self._snapshots
        statistics = dict.fromkeys((*dropped.statistics, *self._statistics))
        return Past(
            snapshots=tuple(one for number, one in found.items() if number not in dropped.needed_ids),
            statistics=tuple(path for path in statistics if path not in kept),
            versions=tuple(older),
            dropped=dropped,
        )

    def _beyond(self, logged: Sequence[MetadataLogEntry]) -> Iterator[MetadataLogEntry]:
        """Versions that the table's log does not name any more, newest first."""
        known = {entry.metadata_file for entry in logged}
        oldest = logged[0].metadata_file if logged else None
        while oldest is not None and len(known) < VERSIONS_MAX:
            metadata = self._read(oldest)
            oldest = None
            for entry in reversed(() if metadata is None else metadata.metadata_log):
                if entry.metadata_file not in known:
                    known.add(entry.metadata_file)
                    oldest = entry.metadata_file
                    yield entry

    def _explore(self, names: Sequence[str]) -> None:
        """Look at versions until none can be left that had a snapshot which no other has."""
        newest = _version(self._now)
        open_ranges = [(0, len(names))]  # the position behind the last is the table as it is
        while open_ranges:
            low, high = open_ranges.pop()
            first = self._version(names[low]) if low < len(names) else newest
            last = newest if high == len(names) else self._version(names[high])
            if high - low > 1 and _may_hide(first, last):
                middle = (low + high) // 2
                open_ranges += [(low, middle), (middle, high)]

    def _version(self, location: str) -> _Version | None:
        if location not in self._versions:
            self._read(location)
        return self._versions[location]

    def _read(self, location: str) -> TableMetadata | None:
        """One old version; None when it is gone, or is no version of this table."""
        try:
            data = self._files.read(location, bytes_max=self._limits.metadata_bytes_max)
            limits = self._limits
            metadata = decode_metadata(
                data, location=location, bytes_max=limits.metadata_bytes_max, values_max=limits.json_values_max
            )
        except (NotFound, CorruptFile, InvalidInput):
            self._versions[location] = None
            return None
        if metadata.table_uuid != self._now.table_uuid:
            self._versions[location] = None
            return None
        for snapshot in metadata.snapshots:
            if snapshot.snapshot_id not in self._kept:
                self._snapshots.setdefault(snapshot.snapshot_id, snapshot)
        self._statistics.update(dict.fromkeys(statistics_files(metadata)))
        self._versions[location] = _version(metadata)
        return metadata


def _version(metadata: TableMetadata) -> _Version:
    numbers = sorted(snapshot.sequence_number for snapshot in metadata.snapshots)
    return _Version(metadata.format_version, metadata.last_sequence_number, tuple(numbers))


def _may_hide(first: _Version | None, last: _Version | None) -> bool:
    """Whether a snapshot may have come and gone between two versions.

    Each takes a sequence number, so it shows when one between theirs is missing in the later. v1 has none.
    """
    if first is None or last is None or first.format_version < 2:
        return True
    came = last.last_sequence_number - first.last_sequence_number
    there = len(last.sequence_numbers) - bisect.bisect_right(last.sequence_numbers, first.last_sequence_number)
    return there < came
