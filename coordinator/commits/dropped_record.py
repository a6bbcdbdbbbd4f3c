"""What a swap drops of a table's snapshots goes on record: work that was planned on them is validated all the same.

Records are merged as they come, each with those of about its size, so that there are few of a day's however often
snapshots are dropped, and each snapshot is written again a few times only.
"""

from __future__ import annotations

from typing import Final

import msgspec

from firn.coordinator.replay.reader import TableReader
from firn.coordinator.replay.working import Working
from firn.model.dropped_snapshots import Header, Record, RecordRef, dropped_since, encode_snapshot, statistics_files
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.journal import Segment
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import set_properties
from firn.model.table_properties import BASE_HOURS, DROPPED_SNAPSHOTS
from firn.storage.dropped_snapshots import pack_record, record_location

MERGED_SNAPSHOTS_MAX: Final = 4_096
"""Snapshots of a record that others were merged into, about two and a half MB as text."""

MERGED_SPAN_MS: Final = 3_600_000
"""How far apart two swaps may be whose snapshots are in one record: all of it is kept until the last is old."""

MERGED_PART: Final = 2
"""An earlier record is merged if it lists fewer snapshots than so many times those that are to be written."""


def record_dropped(before: TableMetadata | None, working: Working, segment: Segment) -> tuple[str, bytes] | None:
    """Return the file that lists what the swap drops, None if it drops nothing; `working.metadata` then names it.

    Reads nothing of a swap that drops nothing. Raises Unavailable.
    """
    after = working.metadata
    if before is None or after is None or working.change != "updated" or before.table_uuid != after.table_uuid:
        return None
    if not _may_drop(before, after, drafted=len(working.made_here)):
        return None
    dropped, named = dropped_since(before, after), set(statistics_files(after))
    statistics = tuple(path for path in statistics_files(before) if path not in named)
    if not dropped and not statistics:
        return None
    now_ms = segment.batch.timestamp_ms
    draft = _Draft(
        working.reader,
        Header(table_uuid=after.table_uuid, since_ms=now_ms, until_ms=now_ms, statistics=statistics),
        [snapshot.snapshot_id for snapshot in dropped],
        [encode_snapshot(snapshot) for snapshot in dropped],
    )
    needed_from_ms = working.attempt.expiry_ms - BASE_HOURS.sane(after.properties) * 3_600_000
    draft.follow(before.properties.get(DROPPED_SNAPSHOTS), needed_from_ms=needed_from_ms)
    location = record_location(after.location, sequence=segment.batch.sequence, token=working.attempt.token)
    working.metadata = set_properties(after, {DROPPED_SNAPSHOTS: location}, now_ms=now_ms)
    return location, pack_record(draft.header, draft.snapshot_ids, draft.lines)


def _may_drop(before: TableMetadata, after: TableMetadata, *, drafted: int) -> bool:
    if len(after.snapshots) < len(before.snapshots) + drafted:
        return True
    return before.statistics is not after.statistics or before.partition_statistics is not after.partition_statistics


class _Draft:
    """A record that is being made: its own snapshots, and those of the records that it takes in."""

    def __init__(self, reader: TableReader, header: Header, snapshot_ids: list[int], lines: list[bytes]) -> None:
        self._reader = reader
        self.header = header
        self.snapshot_ids = snapshot_ids
        self.lines = lines

    def follow(self, location: str | None, *, needed_from_ms: int) -> None:
        """Name the records before this one, of which `location` is the newest."""
        if location is None:
            return
        newest = self._read(location)
        if isinstance(newest, str):
            self._lose(newest, self.header.until_ms)
            return
        known = [newest.ref, *newest.header.earlier]
        earlier = [one for one in known if one.until_ms >= needed_from_ms]
        beyond = next((one.location for one in known if one.until_ms < needed_from_ms), newest.header.beyond)
        self.header = msgspec.structs.replace(self.header, beyond=beyond)
        if newest.header.lost is not None and newest.header.lost_ms >= needed_from_ms:
            self._lose(newest.header.lost, newest.header.lost_ms)
        while earlier and self._takes_in(earlier[0]):
            record = newest if earlier[0].location == newest.location else self._read(earlier[0].location)
            if isinstance(record, str):
                break
            self._take_in(record)
            del earlier[0]
        self.header = msgspec.structs.replace(self.header, earlier=tuple(earlier))

    def _takes_in(self, other: RecordRef) -> bool:
        count = len(self.snapshot_ids)
        is_near = self.header.until_ms - other.since_ms <= MERGED_SPAN_MS
        return is_near and other.count < MERGED_PART * count and other.count + count <= MERGED_SNAPSHOTS_MAX

    def _take_in(self, record: Record) -> None:
        other = record.header
        self.snapshot_ids = [*record.snapshot_ids, *self.snapshot_ids]
        self.lines = [*record.lines, *self.lines]
        self.header = msgspec.structs.replace(
            self.header,
            since_ms=min(other.since_ms, self.header.since_ms),
            until_ms=max(other.until_ms, self.header.until_ms),
            merged=(*self.header.merged, record.location, *other.merged),
            statistics=(*other.statistics, *self.header.statistics),
        )

    def _read(self, location: str) -> Record | str:
        """Return an earlier record, or why it cannot be read: a commit goes on without it."""
        try:
            return self._reader.dropped_snapshots(location, table_uuid=self.header.table_uuid)
        except (NotFound, CorruptFile, InvalidInput) as error:
            return str(error)

    def _lose(self, reason: str, at_ms: int) -> None:
        self.header = msgspec.structs.replace(self.header, lost=reason, lost_ms=at_ms)
