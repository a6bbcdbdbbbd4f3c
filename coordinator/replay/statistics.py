"""Statistics files of snapshots: attached only to a snapshot that is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firn.coordinator.replay import rules
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.files_rules import require_allowed
from firn.coordinator.replay.refs_rules import require_snapshot
from firn.coordinator.replay.working import Working
from firn.model import metadata_changes
from firn.model.errors import InvalidInput
from firn.model.metadata_check import check_statistics
from firn.model.operations.upkeep import (
    RemovePartitionStatistics,
    RemoveStatistics,
    SetPartitionStatistics,
    SetStatistics,
)


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
    changed = metadata_changes.set_statistics(
        working.metadata, statistics, partition=partition, now_ms=working.attempt.now_ms
    )
    working.change_metadata(changed)
    return Applied(snapshot_id=statistics["snapshot-id"])


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
