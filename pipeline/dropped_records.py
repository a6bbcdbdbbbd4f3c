"""What a table has dropped, from its own records: what may be removed of it, and what bases still need.

Work may still be planned on a snapshot that was dropped, until the one that took its place is `firn.base-hours` old.
What rules read stays as long: its manifest list, the manifests that it made, and the deletes that it had.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from firn.model.dropped_snapshots import Record
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.limits import Limits
from firn.model.manifest import ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.snapshot import Snapshot
from firn.model.table_properties import BASE_HOURS, DROPPED_SNAPSHOTS
from firn.pipeline.parallel_files import in_parallel
from firn.storage.dropped_snapshots import RecordFiles
from firn.storage.files import FileStore
from firn.storage.manifest_reader import StoredManifests

RECORDS_MAX: Final = 100_000
"""Records that are followed back; a table that was never tidied may have more than one run can name."""

RECORD_GRACE_MS: Final = 1_200_000
"""How long a record stays after nobody needs it: a commit may be reading it."""

_NO_DELETES: Final = "0"


class DroppedSnapshots(msgspec.Struct, frozen=True, kw_only=True):
    """What a table has dropped.

    `gone` need not be kept for any base. Of those that must be, `needed_ids`, the lists are `needed_lists`, and
    `with_deletes` may have delete files. `statistics` are files that the table named. `records` are those that lead to
    nothing that is to be kept, oldest first.
    """

    gone: tuple[Snapshot, ...] = ()
    needed_ids: frozenset[int] = frozenset()
    needed_lists: tuple[str, ...] = ()
    with_deletes: tuple[Snapshot, ...] = ()
    statistics: tuple[str, ...] = ()
    records: tuple[str, ...] = ()


def dropped_by(metadata: TableMetadata, files: FileStore, *, limits: Limits, now_ms: int) -> DroppedSnapshots:
    """Return what the table's records list. A record that cannot be read lists nothing. Raises Unavailable."""
    since_ms = now_ms - BASE_HOURS.sane(metadata.properties) * 3_600_000
    kept = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    followed_ms: dict[int, int] = {}
    for snapshot in metadata.snapshots:
        _note_parent(followed_ms, snapshot)
    young, old = list[Snapshot](), list[tuple[Snapshot, int]]()
    statistics, records = dict[str, None](), list[str]()
    for position, record in enumerate(_records(metadata, files, limits)):
        statistics.update(dict.fromkeys(record.header.statistics))
        if position > 0 and record.header.until_ms < since_ms - RECORD_GRACE_MS:
            records += [record.location, *record.header.merged]
        for snapshot in _snapshots(record):
            _note_parent(followed_ms, snapshot)
            if snapshot.snapshot_id not in kept:
                if snapshot.timestamp_ms >= since_ms:
                    young.append(snapshot)
                else:
                    old.append((snapshot, record.header.until_ms))
    gone = list[Snapshot]()
    for snapshot, dropped_ms in old:
        is_needed = followed_ms.get(snapshot.snapshot_id, dropped_ms) >= since_ms
        (young if is_needed else gone).append(snapshot)
    return DroppedSnapshots(
        gone=tuple(gone),
        needed_ids=frozenset(one.snapshot_id for one in young),
        needed_lists=tuple(one.manifest_list for one in young if one.manifest_list is not None),
        with_deletes=tuple(one for one in young if (one.summary or {}).get("total-delete-files") != _NO_DELETES),
        statistics=tuple(statistics),
        records=tuple(records[::-1]),
    )


def needed_manifests(
    dropped: DroppedSnapshots, metadata: TableMetadata, files: FileStore, *, limits: Limits
) -> Iterator[ManifestFile]:
    """Return the delete manifests that snapshots list which must be kept. Raises Unavailable."""
    stored = StoredManifests(files, limits=limits)

    def read(snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        try:
            return stored.manifests(metadata, snapshot)
        except (NotFound, CorruptFile, InvalidInput):
            return ()  # another engine has removed it: no base needs what it named

    for manifests in in_parallel(read, dropped.with_deletes):
        yield from (one for one in manifests if one.content == "deletes")


def _note_parent(followed_ms: dict[int, int], snapshot: Snapshot) -> None:
    parent = snapshot.parent_snapshot_id
    if parent is not None:
        followed_ms[parent] = min(snapshot.timestamp_ms, followed_ms.get(parent, snapshot.timestamp_ms))


def _snapshots(record: Record) -> Iterator[Snapshot]:
    try:
        yield from record.snapshots()
    except CorruptFile:
        return


def _records(metadata: TableMetadata, files: FileStore, limits: Limits) -> Iterator[Record]:
    """Every record that is there, newest first: those that the newest names, and those beyond them."""
    reader = RecordFiles(files, bytes_max=limits.journal_bytes_max)
    newest = metadata.properties.get(DROPPED_SNAPSHOTS)
    unread = [] if newest is None else [newest]
    leads_on = {newest}
    seen = set[str]()
    while unread and len(seen) < RECORDS_MAX:
        location = unread.pop(0)
        if location in seen:
            continue
        seen.add(location)
        try:
            record = reader.read(location, table_uuid=metadata.table_uuid)
        except (NotFound, CorruptFile, InvalidInput):
            continue
        yield record
        if location in leads_on:
            beyond = record.header.beyond
            unread += [*(one.location for one in record.header.earlier), *([] if beyond is None else [beyond])]
            leads_on.add(beyond)
