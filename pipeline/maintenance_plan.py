"""What maintenance a table needs, each decision with its reason. Thresholds are the table's ``firn.maintain.*``
properties, and those of compaction and retention.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

import msgspec

from firn.model.amounts import plural
from firn.model.table_properties import (
    MAINTAIN,
    MAINTAIN_DELETE_FILES_MIN,
    MAINTAIN_MANIFESTS_MIN,
    MAINTAIN_ORPHANS_EVERY_HOURS,
    MAINTAIN_SNAPSHOTS_MIN,
    MAINTAIN_STATISTICS,
    MAINTAIN_STATISTICS_SNAPSHOTS,
)
from firn.pipeline.orphan_files import HOUR_MS
from firn.pipeline.table_health import TableHealth

Action = Literal[
    "compact", "rewrite-deletes", "remove-dangling-deletes", "rewrite-manifests", "partition-statistics",
    "distinct-values", "expire", "remove-orphans",
]  # fmt: skip

NEEDS_SPARK: Final[frozenset[Action]] = frozenset({"compact", "rewrite-deletes", "distinct-values"})
"""Actions that read rows. All others work on metadata."""


REPLACED_METADATA_MIN: Final = 100
"""Metadata files that the table's log does not name any more, from which on they are removed for their own sake."""


class Decision(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """One action: whether it is to be done, and why or why not."""

    action: Action
    wanted: bool
    reason: str


class MaintenancePlan(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The decisions on one table, in the order in which they are carried out.

    Compaction first, which applies deletes: those that it leaves come next. Rewrites before statistics, because what
    they replace can expire later and what they make is to be counted. Files go at the end, when everything that may
    name them has been committed.
    """

    health: TableHealth
    decisions: tuple[Decision, ...]

    @property
    def wanted(self) -> tuple[Action, ...]:
        """The actions that are to be done."""
        return tuple(one.action for one in self.decisions if one.wanted)


def plan_maintenance(health: TableHealth, properties: Mapping[str, str]) -> MaintenancePlan:
    """Decide. Properties that cannot be read count as not set."""
    if not MAINTAIN.of(properties):
        off = f"{MAINTAIN.name} is off"
        return MaintenancePlan(
            health=health, decisions=tuple(Decision(action=a, wanted=False, reason=off) for a in get_args(Action))
        )
    return MaintenancePlan(
        health=health,
        decisions=(
            _compact(health),
            _deletes(health, MAINTAIN_DELETE_FILES_MIN.sane(properties)),
            _dangling(health),
            _manifests(health, MAINTAIN_MANIFESTS_MIN.sane(properties)),
            _partitions(health, properties),
            _distinct_values(health, properties),
            _expire(health, MAINTAIN_SNAPSHOTS_MIN.sane(properties)),
            _orphans(health, MAINTAIN_ORPHANS_EVERY_HOURS.sane(properties)),
        ),
    )


def _compact(health: TableHealth) -> Decision:
    if not health.compaction_groups:
        return _no("compact", f"none of {plural(health.data_files, 'data file')} is worth rewriting")
    why = ", ".join(f"{count:,} {reason}" for reason, count in health.compaction_reasons.items())
    return _yes("compact", f"{health.compactable_files:,} of {plural(health.data_files, 'data file')}: {why}")


def _deletes(health: TableHealth, least: int) -> Decision:
    looked_at = plural(health.position_delete_files, "file") + " of deleted positions"
    if not health.rewritable_delete_files:
        return _no("rewrite-deletes", f"none of {looked_at} is worth rewriting")
    each = health.rewritable_delete_reads / health.rewritable_deletes_for
    targets = plural(health.rewritable_deletes_for, "data file")
    found = f"{health.rewritable_delete_files:,} of {looked_at} are for {targets}, {each:.1f} to read for each"
    if health.compaction_groups:
        found += ", after compaction"
    if health.rewritable_delete_files < least:
        return _no("rewrite-deletes", f"{found}, from {least:,} on")
    return _yes("rewrite-deletes", found)


def _dangling(health: TableHealth) -> Decision:
    found = f"{health.dangling_delete_files:,} of {plural(health.delete_files, 'delete file')} dangling"
    return (_yes if health.dangling_delete_files else _no)("remove-dangling-deletes", found)


def _manifests(health: TableHealth, least: int) -> Decision:
    found = f"{health.rewritable_manifests:,} of {plural(health.manifests, 'manifest')} small or overlapping"
    if health.rewritable_manifests < least:
        return _no("rewrite-manifests", f"{found}, from {least:,} on")
    return _yes("rewrite-manifests", found)


def _partitions(health: TableHealth, properties: Mapping[str, str]) -> Decision:
    if not health.is_partitioned:
        return _no("partition-statistics", "the table is not partitioned")
    if MAINTAIN_STATISTICS.sane(properties) == "none":
        return _no("partition-statistics", f"{MAINTAIN_STATISTICS.name} is none")
    return _statistics("partition-statistics", health, health.partition_statistics_age, properties)


def _distinct_values(health: TableHealth, properties: Mapping[str, str]) -> Decision:
    if MAINTAIN_STATISTICS.sane(properties) != "all":
        return _no("distinct-values", f"{MAINTAIN_STATISTICS.name} is not all")
    return _statistics("distinct-values", health, health.distinct_values_age, properties)


def _statistics(action: Action, health: TableHealth, age: int | None, properties: Mapping[str, str]) -> Decision:
    stale = MAINTAIN_STATISTICS_SNAPSHOTS.sane(properties)
    if not health.data_files:
        return _no(action, "the table is empty")
    if age is None:
        return _yes(action, "there are none")
    told = f"they are {plural(age, 'snapshot')} old"
    return _yes(action, told) if age >= stale else _no(action, f"{told}, stale from {stale:,} on")


def _expire(health: TableHealth, least: int) -> Decision:
    if not health.may_remove_files:
        return _no("expire", "gc.enabled is off: other tables may share the files")
    found = f"{health.expirable_snapshots:,} of {plural(health.snapshots, 'snapshot')} may expire"
    if health.forgotten_snapshots:
        found += f", {health.forgotten_snapshots:,} have expired and left files"
    if health.replaced_metadata:
        found += f", {plural(health.replaced_metadata, 'metadata file')} replaced"
    if health.replaced_metadata >= REPLACED_METADATA_MIN:
        return _yes("expire", found)
    if max(health.expirable_snapshots, health.forgotten_snapshots) < least:
        return _no("expire", found if least == 1 else f"{found}, from {least:,} on")
    return _yes("expire", found)


def _orphans(health: TableHealth, every_hours: int) -> Decision:
    if not health.may_remove_files:
        return _no("remove-orphans", "gc.enabled is off: other tables may share the files")
    if every_hours == 0:
        return _no("remove-orphans", f"{MAINTAIN_ORPHANS_EVERY_HOURS.name} is 0")
    if health.orphans_searched_ms is None:
        return _yes("remove-orphans", "nobody has searched for orphans yet")
    hours = (health.now_ms - health.orphans_searched_ms) // HOUR_MS
    told = f"last searched for {plural(max(0, hours), 'hour')} ago"
    return (
        _yes("remove-orphans", told)
        if hours >= every_hours
        else _no("remove-orphans", f"{told}, every {every_hours:,}")
    )


def _yes(action: Action, reason: str) -> Decision:
    return Decision(action=action, wanted=True, reason=reason)


def _no(action: Action, reason: str) -> Decision:
    return Decision(action=action, wanted=False, reason=reason)
