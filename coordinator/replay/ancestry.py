"""A branch's history as far as anybody knows it: the table's snapshots, and those that it has dropped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from firn.coordinator.replay import rules
from firn.coordinator.replay.working import Working
from firn.model.dropped_snapshots import Record, decode_snapshot
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.snapshot import Snapshot
from firn.model.table_properties import BASE_HOURS, DROPPED_SNAPSHOTS

SIDE_SNAPSHOTS_MAX: Final = 500_000
"""Dropped snapshots on other branches that a walk leaves beside it: two thirds of a kilobyte of memory each."""


class Ancestors:
    """The snapshot itself, its parent, and so on, newest first, through what the table has dropped.

    A snapshot may have been dropped before or after those around it. `trouble` says why dropped snapshots could not be
    read, once the walk has ended; the walk goes on without them where it can.
    """

    def __init__(self, working: Working, snapshot_id: int | None, *, dropped: bool = True) -> None:
        self._working = working
        self._first = snapshot_id
        self._dropped = _Dropped(working) if dropped else None

    def __iter__(self) -> Iterator[Snapshot]:
        snapshot_id = self._first
        seen: set[int] = set()
        while snapshot_id is not None and snapshot_id not in seen:
            seen.add(snapshot_id)
            snapshot = _kept_snapshot(self._working, snapshot_id)
            if snapshot is None and self._dropped is not None:
                snapshot = self._dropped.take(snapshot_id)
            if snapshot is None:
                return
            yield snapshot
            snapshot_id = snapshot.parent_snapshot_id

    @property
    def trouble(self) -> str | None:
        """Why not all that the table has dropped is known; None if it is."""
        return None if self._dropped is None else self._dropped.trouble


def lineage(working: Working, branch: str, *, dropped: bool = True) -> Ancestors:
    """Return the history of a branch; with `dropped` off, only what the table itself still has of it without a gap."""
    assert working.metadata is not None
    return Ancestors(working, working.head(branch).snapshot_id, dropped=dropped)


def is_ancestor_of(working: Working, snapshot: Snapshot, head: int | None) -> bool:
    """Return whether a snapshot of the table is `head` or in its history."""
    for one in Ancestors(working, head):
        if one.snapshot_id == snapshot.snapshot_id:
            return True
        if 0 < one.sequence_number < snapshot.sequence_number:
            return False  # a parent is older than its child
    return False


def known_snapshot(working: Working, snapshot_id: int | None) -> Snapshot | None:
    """Return a snapshot that the table has or had; None for one that is not known (any more)."""
    if snapshot_id is None:
        return None
    kept = _kept_snapshot(working, snapshot_id)
    if kept is not None:
        return kept
    dropped = _Dropped(working)
    while (record := dropped.next_record()) is not None:
        for number, line in zip(record.snapshot_ids, record.lines, strict=True):
            if number == snapshot_id:
                return _decoded(line, snapshot_id, record.location)
    return None


@contextmanager
def reading_files_of(working: Working, snapshot: Snapshot) -> Iterator[None]:
    """Refuse `unknown-base` where files of a dropped snapshot are gone; what the table itself has lost is raised.

    Prevents: a table that stands still because an engine of others has removed what expired snapshots named.
    """
    try:
        yield
    except (NotFound, CorruptFile) as error:
        if is_kept(working, snapshot):
            raise
        rules.UNKNOWN_BASE.refuse(
            f"snapshot {snapshot.snapshot_id}, which the table has dropped since the intent was planned, cannot be "
            f"looked at any more: {error}"
        )


def is_kept(working: Working, snapshot: Snapshot) -> bool:
    """Return whether the table has a snapshot, or had it before this very batch."""
    return _kept_snapshot(working, snapshot.snapshot_id) is not None


def _kept_snapshot(working: Working, snapshot_id: int) -> Snapshot | None:
    """A snapshot that the table has, or had before this very batch."""
    assert working.metadata is not None
    kept = working.metadata.snapshot_by_id(snapshot_id)
    if kept is None and working.base is not None and working.base.table_uuid == working.metadata.table_uuid:
        kept = working.base.snapshot_by_id(snapshot_id)
    return kept


def _decoded(line: bytes, snapshot_id: int, location: str) -> Snapshot | None:
    try:
        return decode_snapshot(line, snapshot_id=snapshot_id, location=location)
    except CorruptFile:
        return None


class _Dropped:
    """The snapshots that a table has dropped, read record by record as a walk goes back."""

    def __init__(self, working: Working) -> None:
        assert working.metadata is not None
        self._reader = working.reader
        self._uuid = working.metadata.table_uuid
        properties = working.metadata.properties
        self._needed_from_ms = working.attempt.expiry_ms - BASE_HOURS.sane(properties) * 3_600_000
        newest = properties.get(DROPPED_SNAPSHOTS)
        self._unread: list[tuple[str, int | None]] = [] if newest is None else [(newest, None)]
        self._lines: dict[int, tuple[bytes, str]] = {}
        self.trouble: str | None = None

    def take(self, snapshot_id: int) -> Snapshot | None:
        """Return a snapshot, once: what a walk has passed is not kept in memory."""
        while snapshot_id not in self._lines:
            record = self.next_record()
            if record is None:
                return None
            self._lines.update(
                (number, (line, record.location))
                for number, line in zip(record.snapshot_ids, record.lines, strict=True)
            )
            if len(self._lines) > SIDE_SNAPSHOTS_MAX:
                self.trouble = f"the table has dropped more than {SIDE_SNAPSHOTS_MAX:,} snapshots of other branches"
                self._unread.clear()
        line, location = self._lines.pop(snapshot_id)
        snapshot = _decoded(line, snapshot_id, location)
        if snapshot is None:
            self.trouble = self.trouble or f"{location}: dropped snapshot {snapshot_id} does not parse"
        return snapshot

    def next_record(self) -> Record | None:
        """Return the next older record that can be read. Raises Unavailable."""
        while self._unread:
            location, until_ms = self._unread.pop(0)
            try:
                record = self._reader.dropped_snapshots(location, table_uuid=self._uuid)
            except (NotFound, CorruptFile, InvalidInput) as error:
                if until_ms is None or until_ms >= self._needed_from_ms:  # else maintenance removed it in its time
                    self.trouble = self.trouble or str(error)
                continue
            if until_ms is None:
                self._unread = [(one.location, one.until_ms) for one in record.header.earlier]
                self.trouble = self.trouble or record.header.lost
            return record
        return None
