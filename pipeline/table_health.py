"""How a table is: what its metadata and manifests tell of the work that maintenance could do on it.

Everything is read without Spark; no data file is opened.
"""

from __future__ import annotations

from typing import Final

import msgspec

from firn.model.ancestry import ancestors_of
from firn.model.errors import InvalidInput, InvalidMetadata, NotFound
from firn.model.manifest import ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.puffin import THETA_SKETCH
from firn.model.retention import Criteria, plan_expiry
from firn.model.snapshot import Snapshot
from firn.model.table_properties import GC_ENABLED, MAINTAIN_ORPHANS_SEARCHED_MS
from firn.pipeline.compaction_plan import CompactionPlan, plan_compaction
from firn.pipeline.delete_files_plan import DeleteRewritePlan, plan_delete_rewrite
from firn.pipeline.forgotten_files import METADATA_GRACE_MS
from firn.pipeline.manifest_rewrite import manifests_to_rewrite
from firn.pipeline.past_versions import Past, past_of
from firn.pipeline.upkeep import TableNow, Upkeep
from firn.storage.files import FileStore
from firn.storage.manifest_reader import ManifestReader, StoredManifests

LOOKED_AT: Final = 20
"""Forgotten snapshots that are looked at to tell whether any of their files are still there."""


class TableHealth(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A table at `now_ms`. Sizes are bytes, times Unix milliseconds, ages in snapshots are along ``main``.

    `compactable_files` are data files worth rewriting, `delete_ratio` deleted rows by all rows, as far as manifests
    tell. Of the `position_delete_files` that apply to data files (vectors are none), `rewritable_delete_files` would be
    replaced, for `rewritable_deletes_for` data files; a scan opens them `rewritable_delete_reads` times. These four are
    of what compaction leaves. `dangling_delete_files` reach nothing. `rewritable_manifests` are small ones, or such
    that overlap in their partitions. `expirable_snapshots` may go by the table's own rules, `forgotten_snapshots` went
    and left files. Statistics are as many snapshots old as came after them; None: there are none.
    """

    table: str
    now_ms: int
    snapshots: int
    data_files: int
    data_bytes: int
    delete_files: int
    delete_ratio: float
    compactable_files: int
    compactable_bytes: int
    compaction_groups: int
    compaction_reasons: dict[str, int]
    position_delete_files: int
    rewritable_delete_files: int
    rewritable_deletes_for: int
    rewritable_delete_reads: int
    dangling_delete_files: int
    manifests: int
    rewritable_manifests: int
    expirable_snapshots: int
    forgotten_snapshots: int
    partition_statistics_age: int | None
    distinct_values_age: int | None
    is_partitioned: bool
    may_remove_files: bool
    orphans_searched_ms: int | None
    replaced_metadata: int = 0
    """Metadata files that the table's log does not name any more, and that may be removed."""


def health_of(upkeep: Upkeep, now: TableNow, *, now_ms: int) -> TableHealth:
    """Look at a table. Raises what reading it raises."""
    metadata = now.metadata
    past = (
        past_of(metadata, upkeep.files, limits=upkeep.limits, now_ms=now_ms)
        if GC_ENABLED.of(metadata.properties)
        else None
    )
    reader = StoredManifests(upkeep.files, limits=upkeep.limits)
    head = metadata.current_snapshot
    manifests = () if head is None else reader.manifests(metadata, head)
    compaction = plan_compaction(metadata, files=reader)
    delete_files = _live_files(manifests, "deletes")
    deletes = _deletes_left(metadata, compaction, files=reader) if delete_files else None
    return TableHealth(
        table=now.name,
        now_ms=now_ms,
        snapshots=len(metadata.snapshots),
        data_files=_live_files(manifests, "data"),
        data_bytes=compaction.bytes_looked_at,
        delete_files=delete_files,
        delete_ratio=_delete_ratio(manifests),
        compactable_files=compaction.files,
        compactable_bytes=compaction.bytes,
        compaction_groups=len(compaction.groups),
        compaction_reasons=_reasons(compaction),
        position_delete_files=0 if deletes is None else deletes.files_looked_at,
        rewritable_delete_files=0 if deletes is None else len(deletes.replaced),
        rewritable_deletes_for=0 if deletes is None else len(deletes.tasks),
        rewritable_delete_reads=0 if deletes is None else deletes.reads,
        dangling_delete_files=0 if deletes is None else len(deletes.dangling),
        manifests=len(manifests),
        rewritable_manifests=sum(len(group) for group in manifests_to_rewrite(manifests, metadata).values()),
        expirable_snapshots=_expirable(metadata, now_ms),
        forgotten_snapshots=0 if past is None else _forgotten(past, upkeep.files),
        replaced_metadata=0 if past is None else _replaced(past, upkeep.files, now_ms=now_ms),
        partition_statistics_age=_age(metadata, head, {_snapshot_id(one) for one in metadata.partition_statistics}),
        distinct_values_age=_age(metadata, head, {_snapshot_id(one) for one in metadata.statistics if _has_ndv(one)}),
        is_partitioned=any(spec.is_partitioned for spec in metadata.partition_specs),
        may_remove_files=GC_ENABLED.of(metadata.properties),
        orphans_searched_ms=MAINTAIN_ORPHANS_SEARCHED_MS.sane(metadata.properties) or None,
    )


def _live_files(manifests: tuple[ManifestFile, ...], content: str) -> int:
    return sum(one.live_files_count or 0 for one in manifests if one.content == content)


def _delete_ratio(manifests: tuple[ManifestFile, ...]) -> float:
    """Rows that position and equality deletes name, by rows: more than are deleted, where deletes repeat each other."""
    rows = sum(one.live_rows_count or 0 for one in manifests if one.content == "data")
    deleted = sum(one.live_rows_count or 0 for one in manifests if one.content == "deletes")
    return min(1.0, deleted / rows) if rows else 0.0


def _deletes_left(metadata: TableMetadata, compaction: CompactionPlan, *, files: ManifestReader) -> DeleteRewritePlan:
    """What is to be rewritten of the deletes that compaction does not apply."""
    compacted = {path for group in compaction.groups for path in group.paths}
    return plan_delete_rewrite(metadata, files=files, without=compacted)


def _reasons(plan: CompactionPlan) -> dict[str, int]:
    found: dict[str, int] = {}
    for group in plan.groups:
        for reason, count in group.reasons.items():
            found[reason] = found.get(reason, 0) + count
    return found


def _expirable(metadata: TableMetadata, now_ms: int) -> int:
    """Snapshots that an expiry by the table's own rules would take; the daemon may keep some for others."""
    if not GC_ENABLED.of(metadata.properties):
        return 0
    try:
        return len(plan_expiry(metadata, Criteria(), now_ms=now_ms).removed)
    except (InvalidInput, InvalidMetadata):
        return 0  # a setting that cannot be read: whoever expires is told


def _forgotten(past: Past, files: FileStore) -> int:
    """Forgotten snapshots, if files of any of the newest are there: those that were tidied are forgotten, too."""
    newest = sorted(past.snapshots, key=lambda one: one.timestamp_ms, reverse=True)[:LOOKED_AT]
    is_left = any(one.manifest_list is not None and _is_there(one.manifest_list, files) for one in newest)
    return len(past.snapshots) if is_left else 0


def _replaced(past: Past, files: FileStore, *, now_ms: int) -> int:
    """Metadata files that may go, if the newest of them is there: they are removed from the oldest on."""
    old = [one.metadata_file for one in past.versions if one.timestamp_ms < now_ms - METADATA_GRACE_MS]
    return len(old) if old and _is_there(old[-1], files) else 0


def _is_there(location: str, files: FileStore) -> bool:
    try:
        files.size(location)
    except (NotFound, InvalidInput):
        return False
    return True


def _snapshot_id(statistics: dict[str, object]) -> object:
    return statistics.get("snapshot-id")


def _has_ndv(statistics: dict[str, object]) -> bool:
    blobs = statistics.get("blob-metadata")
    return isinstance(blobs, list) and any(isinstance(b, dict) and b.get("type") == THETA_SKETCH for b in blobs)


def _age(metadata: TableMetadata, head: Snapshot | None, known: set[object]) -> int | None:
    """Snapshots that came to ``main`` after the newest of `known` ones; None where there is none."""
    if head is None:
        return None
    ages = enumerate(ancestors_of(metadata, head.snapshot_id))
    return next((age for age, snapshot in ages if snapshot.snapshot_id in known), None)
