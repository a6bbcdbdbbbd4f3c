"""Operations that keep a table in order: properties, location, statistics, format version, expiry of snapshots."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from firn.model.operations.common import Count, Operation, Path, SnapshotId

PropertyName = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]


class ExpireSnapshots(Operation, frozen=True, kw_only=True, tag="expire-snapshots"):
    """Forget snapshots and aged references, by the rules of `firn.model.retention`, on the table as it is then.

    `older_than_ms` and `retain_last` default to the table's ``history.expire.*`` properties. `snapshot_ids` go
    whatever their age, but not while a reference names them or a waiting intent was planned on them. No file is
    deleted. `clean_expired_metadata` takes partition specs and schemas away, too, that nothing needs any more.
    """

    older_than_ms: Count | None = None
    retain_last: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None
    snapshot_ids: Annotated[tuple[SnapshotId, ...], msgspec.Meta(max_length=100_000)] = ()
    clean_expired_metadata: bool = False


class UpdateProperties(Operation, frozen=True, kw_only=True, tag="update-properties"):
    """Set and remove properties, key by key, if those in `expect` have the value there (null: are not set)."""

    updates: Annotated[dict[PropertyName, str], msgspec.Meta(max_length=1_000)] = {}  # noqa: RUF012 - msgspec copies defaults
    removals: Annotated[tuple[PropertyName, ...], msgspec.Meta(max_length=1_000)] = ()
    expect: Annotated[dict[PropertyName, str | None], msgspec.Meta(max_length=1_000)] = {}  # noqa: RUF012 - msgspec copies defaults


class SetLocation(Operation, frozen=True, kw_only=True, tag="set-location"):
    """Give new files another base location; files that are there stay where they are. Not for file-system tables."""

    location: Path


class SetStatistics(Operation, frozen=True, kw_only=True, tag="set-statistics"):
    """Attach a statistics file to a snapshot that exists (REST ``StatisticsFile``), in place of the one it had."""

    statistics: dict[str, Any]


class RemoveStatistics(Operation, frozen=True, kw_only=True, tag="remove-statistics"):
    """Detach a snapshot's statistics file; nothing happens when it has none."""

    snapshot_id: SnapshotId


class SetPartitionStatistics(Operation, frozen=True, kw_only=True, tag="set-partition-statistics"):
    """Attach a partition statistics file to a snapshot that exists (REST ``PartitionStatisticsFile``)."""

    partition_statistics: dict[str, Any]


class RemovePartitionStatistics(Operation, frozen=True, kw_only=True, tag="remove-partition-statistics"):
    """Detach a snapshot's partition statistics file; nothing happens when it has none."""

    snapshot_id: SnapshotId


class UpgradeFormat(Operation, frozen=True, kw_only=True, tag="upgrade-format"):
    """Bring the table to a newer format version; never to an older one."""

    format_version: Annotated[int, msgspec.Meta(ge=1, le=3)]


UpkeepOperation = (
    ExpireSnapshots
    | UpdateProperties
    | SetLocation
    | SetStatistics
    | RemoveStatistics
    | SetPartitionStatistics
    | RemovePartitionStatistics
    | UpgradeFormat
)
