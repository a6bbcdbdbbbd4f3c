"""Every version follows the one before it, and no counter or time ever falls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from firn.coordinator.fsck.evidence import Evidence, Version
from firn.coordinator.fsck.finding import Finding
from firn.model.journal import Segment
from firn.storage.pointers import Pointer

RISING: Final = (
    "format_version", "last_updated_ms", "last_sequence_number", "last_column_id", "last_partition_id", "next_row_id",
)  # fmt: skip
"""Members of table metadata that may stay or rise, and never fall."""


def linear_history(evidence: Evidence) -> Iterator[Finding]:
    """Breaches in the chains of the journal, of the metadata, and between the two and the pointer."""
    if evidence.segments:
        yield from _pointer_agrees(evidence.pointer, evidence.segments[-1])
        if evidence.journal_complete:
            yield from _begins(evidence.segments[0])
    for before, after in pairwise(evidence.segments):
        yield from _segment_follows(before, after, foreign=evidence.pointer.catalog != "metastore")
    versions = {version.location: version for version in evidence.versions}
    for version in evidence.versions:
        yield from _version_follows(version, versions)


def _pointer_agrees(pointer: Pointer, head: Segment) -> Iterator[Finding]:
    batch = head.batch
    if batch.table != pointer.table:
        yield _finding(head.location, f"is of table {batch.table!r}, the pointer of {pointer.table!r} names it")
    if batch.table_uuid != pointer.uuid:
        yield _finding(head.location, f"is of the table {batch.table_uuid}, the pointer says {pointer.uuid}")
    now = None if pointer.dropped else pointer.metadata_location
    if batch.new_metadata != now and pointer.catalog == "metastore":
        yield _finding(head.location, f"leads to {batch.new_metadata}, the pointer to {now}")


def _begins(first: Segment) -> Iterator[Finding]:
    if first.batch.sequence != 1:
        yield _finding(first.location, f"is the journal's first segment and has number {first.batch.sequence}")


def _segment_follows(before: Segment, after: Segment, *, foreign: bool) -> Iterator[Finding]:
    """`foreign`: others may commit to the table, too, so that a swap need not begin where firn's last one ended."""
    if after.batch.sequence != before.batch.sequence + 1:
        yield _finding(
            after.location, f"has number {after.batch.sequence}, the one before it has {before.batch.sequence}"
        )
    if after.batch.table != before.batch.table:
        yield _finding(
            after.location, f"is of table {after.batch.table!r}, the one before it of {before.batch.table!r}"
        )
    if after.batch.base_metadata != before.batch.new_metadata and not foreign:
        yield _finding(
            after.location,
            f"begins at {after.batch.base_metadata}, the one before it led to {before.batch.new_metadata}",
        )


def _version_follows(version: Version, versions: Mapping[str, Version]) -> Iterator[Finding]:
    if version.base is None:
        return
    if version.logged_base != version.base:
        yield _finding(version.location, f"logs {version.logged_base} as its predecessor, which is {version.base}")
    if version.changed_snapshot_ids:
        yield _finding(version.location, f"changes snapshot {version.changed_snapshot_ids[0]}, which was committed")
    before = versions.get(version.base)
    if before is None:
        return
    if before.table_uuid != version.table_uuid:
        yield _finding(version.location, f"is of table {version.table_uuid}, its predecessor of {before.table_uuid}")
    for name in RISING:
        was, now = getattr(before, name), getattr(version, name)
        if now < was:
            yield _finding(version.location, f"{name.replace('_', '-')} falls from {was} to {now}")
    if version.compared:
        yield from _snapshots_follow(version, before)


def _snapshots_follow(version: Version, before: Version) -> Iterator[Finding]:
    """Sequence numbers go up by one with each snapshot, and times with them (v1 has no numbers).

    Of a version that upgrades v1 the first snapshots may have been made before the upgrade. A client's replacement of
    the table, which has no parent, may have a number that was given meanwhile.
    """
    last, at_ms = before.last_sequence_number, 0
    for snapshot in version.new_snapshots:
        of_v1 = before.format_version == 1 and snapshot.sequence_number == last == 0
        replaces = snapshot.parent_snapshot_id is None and 0 < snapshot.sequence_number <= last
        if version.format_version > 1 and snapshot.sequence_number != last + 1 and not (of_v1 or replaces):
            yield _finding(
                version.location,
                f"snapshot {snapshot.snapshot_id} has sequence number {snapshot.sequence_number} after {last}",
            )
        if snapshot.timestamp_ms < at_ms:
            yield _finding(version.location, f"snapshot {snapshot.snapshot_id} is older than the one before it")
        last, at_ms = last if replaces else snapshot.sequence_number, snapshot.timestamp_ms
    if version.format_version > 1 and version.last_sequence_number != last:
        yield _finding(
            version.location, f"last-sequence-number is {version.last_sequence_number}, its last snapshot has {last}"
        )


def _finding(where: str, message: str) -> Finding:
    return Finding(invariant="linear-history", where=where, message=message)
