"""Rewriting manifests so that each lists neighbouring partitions: a scan then opens the few that it is about.

Commits list files in the order in which they came. The same files sorted by partition, in manifests of
``commit.manifest.target-size-bytes``, are committed as one intent, which no append and no delete has to wait for; if a
manifest that was read is gone by then, it is planned anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from firn.coordinator.client.answers import Answer
from firn.coordinator.client.intents import new_intent_id
from firn.model.errors import InvalidInput, NotFound
from firn.model.foreign_value import ForeignValue
from firn.model.intent import RewriteManifests, WrittenManifest
from firn.model.manifest import ManifestContent, ManifestEntry, ManifestFile, Status
from firn.model.metadata import TableMetadata
from firn.model.outcome import Rejected
from firn.model.partitioning import partition_type
from firn.model.snapshot import MAIN_BRANCH, Snapshot
from firn.model.table_properties import MANIFEST_TARGET_SIZE_BYTES, METADATA_PATH
from firn.model.values import from_bytes
from firn.pipeline.file_removal import remove_files
from firn.pipeline.parallel_files import in_parallel
from firn.pipeline.upkeep import Upkeep
from firn.storage.manifest_reader import StoredManifests
from firn.storage.manifests import encode_manifests

ENTRIES_MAX: Final = 500_000
"""Files whose entries one rewrite holds in memory; the manifests with the fewest files go first."""

PURPOSE: Final = "rewrite of manifests"
ATTEMPTS: Final = 3
"""How often it is planned, when others take away manifests meanwhile."""

WASTE_PART: Final = 0.5
"""A manifest is small, and worth rewriting with others, below this part of the target size."""


class ManifestRewrite(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a rewrite: `answer` None when there was nothing to do. Counts are of manifests."""

    answer: Answer | None
    before: int = 0
    after: int = 0
    files: int = 0


Group = tuple[ManifestContent, int]
"""Content and partition spec: what the files of one manifest have in common."""


def rewrite_manifests(
    upkeep: Upkeep, table: str, *, branch: str = MAIN_BRANCH, rewrite_all: bool = False, attempts: int = ATTEMPTS
) -> ManifestRewrite:
    """Rewrite the manifests of a branch that are small, or that overlap in their partitions; or all of them.

    Raises NotFound for an unknown branch, and whatever reading the table raises.
    """
    for attempt in range(1, attempts + 1):
        done = _rewrite(upkeep, table, branch=branch, rewrite_all=rewrite_all)
        if not (isinstance(done.answer, Rejected) and done.answer.rule == "missing-manifest") or attempt == attempts:
            return done
    raise AssertionError("the last attempt returns")


def manifests_to_rewrite(
    manifests: Iterable[ManifestFile], metadata: TableMetadata, *, rewrite_all: bool = False
) -> dict[Group, list[ManifestFile]]:
    """The manifests worth rewriting, by group; none of a group of which one alone would be.

    Manifests without a live file count as small: they go.
    """
    target_bytes = MANIFEST_TARGET_SIZE_BYTES.sane(metadata.properties)
    groups: dict[Group, list[ManifestFile]] = {}
    for manifest in manifests:
        groups.setdefault((manifest.content, manifest.partition_spec_id), []).append(manifest)
    found = {}
    for group, listed in groups.items():
        overlapping = _overlapping([_first_range(one, metadata) for one in listed])
        chosen = [
            one
            for at, one in enumerate(listed)
            if rewrite_all or one.manifest_length < target_bytes * WASTE_PART or at in overlapping
        ]
        if len(chosen) > 1 or (rewrite_all and chosen):
            found[group] = _bounded(chosen)
    return found


def _bounded(manifests: list[ManifestFile]) -> list[ManifestFile]:
    chosen: list[ManifestFile] = []
    entries = 0
    for manifest in sorted(manifests, key=lambda one: one.live_files_count or 0):
        entries += manifest.live_files_count or 0
        if chosen and entries > ENTRIES_MAX:
            break
        chosen.append(manifest)
    return chosen


def _first_range(manifest: ManifestFile, metadata: TableMetadata) -> tuple[Any, Any] | None:
    """The least and the greatest value of the first partition field; None where there is none, or it is not said."""
    spec = metadata.spec_by_id(manifest.partition_spec_id)
    if spec is None or not spec.fields or not manifest.partitions:
        return None
    summary = manifest.partitions[0]
    if summary.lower_bound is None or summary.upper_bound is None:
        return None
    type_ = partition_type(spec, metadata.current_schema, older=metadata.schemas).fields[0].type
    try:
        return from_bytes(type_, summary.lower_bound), from_bytes(type_, summary.upper_bound)
    except InvalidInput:
        return None


def _overlapping(ranges: Sequence[tuple[Any, Any] | None]) -> set[int]:
    """Positions of ranges that share more than an end with another."""
    known = [(*found, at) for at, found in enumerate(ranges) if found is not None]
    overlapping: set[int] = set()
    reach: tuple[Any, int] | None = None
    for lower, upper, at in sorted(known):
        if reach is not None and lower < reach[0]:
            overlapping |= {reach[1], at}
        if reach is None or upper > reach[0]:
            reach = (upper, at)
    return overlapping


def _rewrite(upkeep: Upkeep, table: str, *, branch: str, rewrite_all: bool) -> ManifestRewrite:
    now = upkeep.table(table)
    metadata = now.metadata
    head = metadata.head(branch)
    if head is None:
        if branch == MAIN_BRANCH:
            return ManifestRewrite(answer=None)
        raise NotFound(f"{table!r} has no branch {branch!r}")
    reader = StoredManifests(upkeep.files, limits=upkeep.limits)
    groups = manifests_to_rewrite(reader.manifests(metadata, head), metadata, rewrite_all=rewrite_all)
    if not groups:
        return ManifestRewrite(answer=None)
    intent_id = new_intent_id()
    written: list[WrittenManifest] = []
    files = 0
    with upkeep.client.keeping(table, head.snapshot_id, branch=branch, purpose=PURPOSE):
        try:
            for group, manifests in groups.items():
                entries = _live_entries(reader, metadata, manifests)
                files += len(entries)
                written += _written(upkeep, metadata, head, group, entries, run=f"{intent_id}-{group[0]}")
        except BaseException:
            remove_files(upkeep.files, (one.manifest_path for one in written))
            raise
    removed = tuple(one.manifest_path for manifests in groups.values() for one in manifests)
    intent = RewriteManifests(
        intent_id=intent_id,
        table=table,
        branch=branch,
        removed_manifests=removed,
        manifests=tuple(written),
        base_snapshot_id=head.snapshot_id,
        priority="maintenance",
    )
    answer = upkeep.client.submit(intent).result(upkeep.timeout_s)
    if isinstance(answer, Rejected):
        remove_files(upkeep.files, (one.manifest_path for one in written))
    return ManifestRewrite(answer=answer, before=len(removed), after=len(written), files=files)


def _live_entries(
    reader: StoredManifests, metadata: TableMetadata, manifests: Sequence[ManifestFile]
) -> list[ManifestEntry]:
    """The live files as existing ones, by partition; files of one partition stay in the order of their age."""
    found = [
        msgspec.structs.replace(entry, status=Status.EXISTING)
        for entries in in_parallel(lambda one: reader.entries(metadata, one), manifests)
        for entry in entries
        if entry.is_live
    ]
    return sorted(found, key=lambda entry: (partition_order(entry.data_file.partition), entry.sequence_number or 0))


def partition_order(partition: Sequence[Any]) -> tuple[tuple[int, Any], ...]:
    """What partitions of one spec are ordered by: nulls first, NaN behind all values, values of other types last."""
    return tuple(map(_value_order, partition))


def _value_order(value: Any) -> tuple[int, Any]:
    if value is None:
        return 0, 0
    if isinstance(value, float) and math.isnan(value):
        return 2, 0
    return (3, str(value)) if isinstance(value, ForeignValue) else (1, value)


def _written(
    upkeep: Upkeep,
    metadata: TableMetadata,
    head: Snapshot,
    group: Group,
    entries: Sequence[ManifestEntry],
    *,
    run: str,
) -> Iterator[WrittenManifest]:
    content, spec_id = group
    spec = metadata.spec_by_id(spec_id)
    assert spec is not None
    folder = (METADATA_PATH.of(metadata.properties) or f"{metadata.location.rstrip('/')}/metadata").rstrip("/")
    encoded = encode_manifests(
        entries,
        schema=metadata.current_schema,
        spec=spec,
        content=content,
        format_version=metadata.format_version,
        snapshot_id=head.snapshot_id if metadata.format_version == 1 else None,
        older_schemas=metadata.schemas,
        target_bytes=MANIFEST_TARGET_SIZE_BYTES.sane(metadata.properties),
    )
    for number, one in enumerate(encoded):
        path = f"{folder}/{run}-{spec_id}-m{number}.avro"
        upkeep.files.create(path, one.data)
        yield WrittenManifest(
            manifest_path=path,
            manifest_length=len(one.data),
            partition_spec_id=spec_id,
            content=content,
            files_count=one.counts.existing_files,
            rows_count=one.counts.existing_rows,
        )
