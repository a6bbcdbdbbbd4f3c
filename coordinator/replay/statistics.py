"""Statistics files of snapshots: attached only to a snapshot that exists, and only if they are of their kind."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from firn.coordinator.replay import rules
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.files_rules import require_allowed
from firn.coordinator.replay.refs_rules import require_snapshot
from firn.coordinator.replay.working import Working
from firn.model import metadata_changes
from firn.model.amounts import plural
from firn.model.errors import FirnError, InvalidInput, NotFound, Unavailable
from firn.model.metadata import TableMetadata
from firn.model.metadata_check import check_statistics
from firn.model.operations.upkeep import (
    RemovePartitionStatistics,
    RemoveStatistics,
    SetPartitionStatistics,
    SetStatistics,
)
from firn.model.puffin import BlobMetadata, StatisticsFile
from firn.storage.locations import canonical

PATH: Final = "statistics-path"

REGISTERED_MAX: Final = 1_000
"""Statistics files of each kind that are looked at when a table is registered."""


def set_statistics(working: Working, intent: SetStatistics) -> Applied:
    """Attach a statistics file to a snapshot."""
    working.require(table_uuid=intent.table_uuid)
    return _set(working, intent.statistics, partition=False)


def set_partition_statistics(working: Working, intent: SetPartitionStatistics) -> Applied:
    """Attach a partition statistics file to a snapshot."""
    working.require(table_uuid=intent.table_uuid)
    return _set(working, intent.partition_statistics, partition=True)


def _set(working: Working, statistics: Mapping[str, Any], *, partition: bool) -> Applied:
    """Prevents: a file that nobody removes, because it belongs to a snapshot that expired before it was attached."""
    assert working.metadata is not None
    where = "partition-statistics" if partition else "statistics"
    try:
        check_statistics(dict(statistics), partition=partition, where=where)
    except InvalidInput as error:
        rules.INVALID_FIELD.refuse(str(error))
    require_snapshot(working.metadata, statistics["snapshot-id"])
    require_allowed(working, statistics["statistics-path"], where=f"{where}.statistics-path")
    require_statistics_file(working, statistics, partition=partition, where=where)
    changed = metadata_changes.set_statistics(
        working.metadata, statistics, partition=partition, now_ms=working.attempt.now_ms
    )
    working.change_metadata(changed)
    return Applied(snapshot_id=statistics["snapshot-id"])


def require_statistics_file(working: Working, statistics: Mapping[str, Any], *, partition: bool, where: str) -> None:
    """Refuse a file that is not there, is of another kind, or is not as the intent describes it.

    Prevents: a data file, manifest, metadata file or journal segment that goes with the snapshot whose statistics it
    was called; planners that read statistics of another table or none.
    """
    path = statistics[PATH]
    found = _read(working, path, partition=partition, where=where)
    _require_equal(path, "file-size-in-bytes", statistics, found.size, where=where)
    if found.puffin is not None:
        _require_equal(path, "file-footer-size-in-bytes", statistics, found.footer_size, where=where)
        _require_blobs(path, statistics["blob-metadata"], found.puffin.blobs, where=where)
    _require_not_live(working, path, where=where)


def _read(working: Working, path: str, *, partition: bool, where: str) -> StatisticsFile:
    kind = "a file of partition statistics" if partition else "a statistics file"
    try:
        return working.reader.statistics_file(path, partition=partition)
    except Unavailable:
        raise
    except NotFound:
        _refuse(path, f"does not exist: write {kind} first", where=where)
    except FirnError as error:
        _refuse(path, f"cannot be read as {kind}: {error}", where=where)


def require_registered_statistics(working: Working, metadata: TableMetadata) -> None:
    """Refuse metadata that calls a file of another kind its statistics; a file that is gone is only missed.

    The newest `REGISTERED_MAX` entries of each kind are looked at. Prevents: as `require_statistics_file`.
    """
    for partition, where, listed in (
        (False, "statistics", metadata.statistics),
        (True, "partition-statistics", metadata.partition_statistics),
    ):
        for index, statistics in list(enumerate(listed))[-REGISTERED_MAX:]:
            here = f"{where}[{index}]"
            try:
                working.reader.statistics_file(statistics[PATH], partition=partition)
            except Unavailable:
                raise
            except NotFound:
                continue
            except FirnError as error:
                _refuse(statistics[PATH], f"cannot be read as what it is called: {error}", where=here)


def _require_equal(path: str, member: str, statistics: Mapping[str, Any], size: int, *, where: str) -> None:
    if statistics[member] != size:
        _refuse(path, f"has {size} bytes where {member} is {statistics[member]}", where=where)


def _require_blobs(path: str, named: Sequence[Any], blobs: Sequence[BlobMetadata], *, where: str) -> None:
    """Refuse blobs that are not those of the file, in whatever order; their properties may be left out."""
    if len(named) != len(blobs):
        _refuse(path, f"has {plural(len(blobs), 'blob')}, blob-metadata has {len(named):,}", where=where)
    stored: dict[tuple[Any, ...], deque[BlobMetadata]] = {}
    for blob in blobs:
        key = (blob.type, blob.snapshot_id, blob.sequence_number, repr(list(blob.fields)))
        stored.setdefault(key, deque()).append(blob)
    for index, one in enumerate(named):
        alike = stored.get((one["type"], one["snapshot-id"], one["sequence-number"], repr(one["fields"])))
        if not alike or (one.get("properties") or alike[0].properties) != alike[0].properties:
            _refuse(path, f"has no blob as blob-metadata[{index}] describes it", where=where)
        alike.popleft()


def _require_not_live(working: Working, path: str, *, where: str) -> None:
    """Refuse a file that a branch reads as data or deletes: rows may have the columns of partition statistics."""
    assert working.metadata is not None
    name = canonical(path)
    for branch, ref in working.metadata.refs.items():
        if ref.type != "branch":
            continue
        if name in working.head(branch).live:
            _refuse(path, f"is a data file of branch {branch!r}", where=where)
        if any(canonical(delete.file.file_path) == name for delete in working.deletes(branch)):
            _refuse(path, f"is a delete file of branch {branch!r}", where=where)


def _refuse(path: str, reason: str, *, where: str) -> NoReturn:
    rules.NOT_A_STATISTICS_FILE.refuse(f"{where}.{PATH}: {path} {reason}", files=(path,))


def remove_statistics(working: Working, intent: RemoveStatistics) -> Applied:
    """Detach a snapshot's statistics file."""
    working.require(table_uuid=intent.table_uuid)
    return _remove(working, intent.snapshot_id, partition=False)


def remove_partition_statistics(working: Working, intent: RemovePartitionStatistics) -> Applied:
    """Detach a snapshot's partition statistics file."""
    working.require(table_uuid=intent.table_uuid)
    return _remove(working, intent.snapshot_id, partition=True)


def _remove(working: Working, snapshot_id: int, *, partition: bool) -> Applied:
    assert working.metadata is not None
    changed = metadata_changes.remove_statistics(
        working.metadata, snapshot_id, partition=partition, now_ms=working.attempt.now_ms
    )
    if changed is not working.metadata:
        working.change_metadata(changed)
    return Applied()
