"""Which snapshot a scan reads, and with which schema (table specification, "Snapshots", "Point in Time Reads").

As in the Java library: a snapshot chosen by id, time or tag is read with the schema that it was written with, a branch
with the table's current schema, however old its head is: that is the schema that its next commit will have.
"""

from __future__ import annotations

import msgspec

from firn.model.ancestry import ancestors_of, is_ancestor
from firn.model.errors import ChangesReason, ChangesUnavailableError, InvalidInput, InvalidMetadata, NotFound
from firn.model.metadata import TableMetadata
from firn.model.schema import Schema
from firn.model.snapshot import MAIN_BRANCH, Snapshot


class ScanTarget(msgspec.Struct, frozen=True):
    """A snapshot, None in an empty table, and the schema to read it with."""

    snapshot: Snapshot | None
    schema: Schema


def scan_target(
    metadata: TableMetadata, *, snapshot_id: int | None = None, ref: str | None = None, as_of_ms: int | None = None
) -> ScanTarget:
    """What a scan that names a snapshot, a branch or tag, or a time (ms since 1970) reads; nothing named is ``main``.

    A time means what ``main`` was at that time, by the snapshot log. Raises InvalidInput when more than one is
    given, NotFound for one that does not exist or a time before the log begins.
    """
    if sum(given is not None for given in (snapshot_id, ref, as_of_ms)) > 1:
        raise InvalidInput("a scan takes one of snapshot id, ref and time", where="scan")
    if as_of_ms is not None:
        return _written(metadata, _snapshot_at(metadata, as_of_ms))
    if snapshot_id is not None:
        return _written(metadata, _snapshot(metadata, snapshot_id, f"snapshot {snapshot_id}"))
    if ref is None or ref == MAIN_BRANCH:
        return ScanTarget(metadata.current_snapshot, metadata.current_schema)
    named = metadata.ref(ref)
    if named is None:
        raise no_such_ref(metadata, ref)
    snapshot = _snapshot(metadata, named.snapshot_id, f"snapshot {named.snapshot_id} of {named.type} {ref!r}")
    return ScanTarget(snapshot, metadata.current_schema) if named.type == "branch" else _written(metadata, snapshot)


def no_such_ref(metadata: TableMetadata, ref: str) -> NotFound:
    """The error that names the branches and tags that there are."""
    known = ", ".join(metadata.refs)
    return NotFound(
        f"there is no branch or tag {ref!r} (there are: {known})"
        if known
        else f"there is no branch or tag {ref!r}: the table has no snapshot yet"
    )


def _snapshot(metadata: TableMetadata, snapshot_id: int, name: str) -> Snapshot:
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise NotFound(f"there is no {name}: it expired or never was")
    return snapshot


def _snapshot_at(metadata: TableMetadata, as_of_ms: int) -> Snapshot:
    # The log is in the order of its times; the last entry that is not later counts.
    earlier = [entry for entry in metadata.snapshot_log if entry.timestamp_ms <= as_of_ms]
    if not earlier:
        raise NotFound(f"there is no snapshot at {as_of_ms} ms: the table's history begins later")
    return _snapshot(metadata, earlier[-1].snapshot_id, f"snapshot {earlier[-1].snapshot_id} of {as_of_ms} ms")


def _written(metadata: TableMetadata, snapshot: Snapshot) -> ScanTarget:
    """The snapshot with its own schema; one from before snapshots named theirs is read with the current one."""
    if snapshot.schema_id is None:
        return ScanTarget(snapshot, metadata.current_schema)
    schema = metadata.schema_by_id(snapshot.schema_id)
    if schema is None:
        raise InvalidMetadata(
            f"snapshot {snapshot.snapshot_id} was written with schema {snapshot.schema_id}, which the table has not"
        )
    return ScanTarget(snapshot, schema)


def snapshots_in_range(
    metadata: TableMetadata, *, from_snapshot_id: int | None, from_inclusive: bool, to_snapshot_id: int
) -> tuple[Snapshot, ...]:
    """Return the snapshots from one to another, oldest first, following parents from the last.

    With `from_inclusive` the first is one of them, else it is what the range begins after and may itself have expired.
    `from_snapshot_id` None begins with the oldest that is known. A range that ends where it exclusively begins is
    empty. Raises ChangesUnavailableError when the first is not known to be an ancestor of the last.
    """
    if metadata.snapshot_by_id(to_snapshot_id) is None:
        raise ChangesUnavailableError(
            f"there is no snapshot {to_snapshot_id}: it expired or never was", reason="end-unknown"
        )
    found: list[Snapshot] = []
    for snapshot in ancestors_of(metadata, to_snapshot_id):
        if snapshot.snapshot_id == from_snapshot_id:
            return tuple(reversed([*found, snapshot] if from_inclusive else found))
        found.append(snapshot)
    oldest = found[-1]
    if from_snapshot_id is None or (not from_inclusive and oldest.parent_snapshot_id == from_snapshot_id):
        return tuple(reversed(found))
    raise _unreachable(metadata, from_snapshot_id, to_snapshot_id, oldest)


def _unreachable(
    metadata: TableMetadata, from_snapshot_id: int, to_snapshot_id: int, oldest: Snapshot
) -> ChangesUnavailableError:
    """Return why the window cannot begin where it is asked to; `oldest` is the first known ancestor of its end."""
    base, end = f"snapshot {from_snapshot_id}", f"{to_snapshot_id}"
    reason: ChangesReason
    if is_ancestor(metadata, ancestor_id=to_snapshot_id, descendant_id=from_snapshot_id):
        heads = {ref.snapshot_id for ref in metadata.refs.values() if ref.type == "branch"}
        is_head = to_snapshot_id in heads
        reason = "history-rewritten" if is_head else "end-before-start"
        why = f"it came after snapshot {end}, " + (
            "to which the branch was set back" if is_head else "the window's end"
        )
    elif oldest.parent_snapshot_id is None or is_ancestor(
        metadata, ancestor_id=oldest.snapshot_id, descendant_id=from_snapshot_id
    ):
        reason, why = "history-rewritten", "the history was rewritten: rolled back, or begun anew"
    elif metadata.snapshot_by_id(from_snapshot_id) is None:
        reason, why = (
            "base-expired",
            f"it expired; what came before snapshot {oldest.snapshot_id} is not known any more",
        )
    else:
        reason, why = "history-gap", f"snapshot {oldest.parent_snapshot_id} expired, which came in between"
    return ChangesUnavailableError(
        f"{base} is not an ancestor of {end}: {why}",
        reason=reason,
        where="from-snapshot-id",
        hint="start again from a full read",
    )
