"""Snapshots that REST clients have made: their numbers, manifest lists and new manifests, read before they are taken.

Manifests that the table lists already are not opened again, and must be listed with the numbers that they have there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NoReturn

from firn.coordinator.replay import rules
from firn.coordinator.replay.capacity import require_row_ids
from firn.coordinator.replay.draft import location_of
from firn.coordinator.replay.files_rules import require_allowed
from firn.coordinator.replay.head import Head
from firn.coordinator.replay.refs_rules import require_readable
from firn.coordinator.replay.rest_files import require_listable
from firn.coordinator.replay.working import Working
from firn.model import rest_updates as rest
from firn.model.amounts import plural
from firn.model.errors import CorruptFile, InvalidInput, NotFound, Unsupported
from firn.model.manifest import ManifestEntry, ManifestFile, Status
from firn.model.metadata import FORMAT_VERSION_DEFAULT, TableMetadata
from firn.model.metadata_check import CLOCK_SKEW_MS_MAX
from firn.model.metric_faults import metric_faults
from firn.model.partitioning import check_writable
from firn.model.snapshot import MAIN_BRANCH, Snapshot
from firn.storage.fitting_metrics import forms_of
from firn.storage.locations import canonical

UNREADABLE: Final = (CorruptFile, InvalidInput, NotFound, Unsupported)
OWN_KEYS: Final = "firn."
"""What the entries of a summary begin with that firn writes itself, and believes."""

NewHeads = Mapping[str, Head]
"""By branch, what it is at with the request."""


def require_next_numbers(metadata: TableMetadata | None, updates: Sequence[rest.Update]) -> str | None:
    """Return why snapshots do not follow on the table as it is, None where they do; refuses numbers that skip some.

    They may be behind although no branch has moved that the request is about: all branches share the numbers. A table
    that replaces another begins anew, so its first snapshot may have a number that one before it has, as in Iceberg.
    Prevents: numbers that run out, or that two snapshots have.
    """
    version = _version(metadata, updates)
    last = 0 if metadata is None else metadata.last_sequence_number
    row_id = 0 if metadata is None else metadata.next_row_id or 0
    replaces = any(isinstance(update, rest.RemoveSnapshotRef) for update in updates)
    for update in updates:
        if not isinstance(update, rest.AddSnapshot) or version < 2:
            continue
        snapshot = update.snapshot
        number, first = snapshot.sequence_number, snapshot.first_row_id
        if number <= last and not (replaces and snapshot.parent_snapshot_id is None):
            return f"Cannot add snapshot with sequence number {number} older than last sequence number {last}"
        if number > last + 1:
            rules.INVALID_SNAPSHOT.refuse(
                f"snapshot {snapshot.snapshot_id} has sequence number {number}, the next one is {last + 1}"
            )
        last = max(last, number)
        if version < 3 or first is None:
            continue
        if first < row_id:
            return f"Cannot add a snapshot, first-row-id is behind table next-row-id: {first} < {row_id}"
        if first > row_id:
            rules.INVALID_SNAPSHOT.refuse(
                f"snapshot {snapshot.snapshot_id} has first-row-id {first}, the next row id is {row_id}"
            )
        require_row_ids(first, snapshot.added_rows or 0)
        row_id = first + (snapshot.added_rows or 0)
    return None


def _version(metadata: TableMetadata | None, updates: Sequence[rest.Update]) -> int:
    """The format version that the snapshots of a request are made for."""
    upgrades = [update.format_version for update in updates if isinstance(update, rest.UpgradeFormatVersion)]
    if metadata is None:
        return upgrades[0] if upgrades else FORMAT_VERSION_DEFAULT
    return max(metadata.format_version, *upgrades) if upgrades else metadata.format_version


def require_sound_snapshots(
    working: Working, updates: Sequence[rest.Update], *, before: TableMetadata | None
) -> NewHeads:
    """Refuse snapshots that cannot be read, and references to such; return the heads of the branches that move.

    `working.metadata` is the table with the updates, `before` without.
    """
    changed = working.metadata
    assert changed is not None
    added = {u.snapshot.snapshot_id: u.snapshot for u in updates if isinstance(u, rest.AddSnapshot)}
    moves = {u.ref_name: u.ref for u in updates if isinstance(u, rest.SetSnapshotRef)}
    known = _known(working, moves, added, before=before)
    for snapshot in added.values():
        _require_sound(working, changed, snapshot, known)
    heads: dict[str, Head] = {}
    read: dict[int, Head] = {}
    for name, ref in moves.items():
        if ref.snapshot_id not in added:
            require_readable(working, ref.snapshot_id)
        elif ref.type == "branch" and changed.refs.get(name) == ref:
            if ref.snapshot_id not in read:
                read[ref.snapshot_id] = _head(working, changed, ref.snapshot_id, before=before, branch=name)
            heads[name] = read[ref.snapshot_id]
    parents = {snapshot.parent_snapshot_id for snapshot in added.values()}
    for snapshot_id in added.keys() - read.keys() - parents:  # staged: a branch may be moved to it later
        _head(working, changed, snapshot_id, before=before, branch=MAIN_BRANCH)
    return heads


def _known(
    working: Working, moves: Mapping[str, object], added: Mapping[int, Snapshot], *, before: TableMetadata | None
) -> dict[str, ManifestFile]:
    """The manifests, by location, of the snapshots that the request was made on, as the table lists them."""
    if before is None:
        return {}
    known: dict[str, ManifestFile] = {}
    for name in moves if added else ():
        ref = before.refs.get(name)
        if ref is not None and ref.type == "branch":
            known |= _listed(working, ref.snapshot_id, before)
    heads = {ref.snapshot_id for name, ref in before.refs.items() if name in moves}
    parents = {snapshot.parent_snapshot_id for snapshot in added.values()} - heads - added.keys()
    for parent in parents:
        if parent is not None and before.snapshot_by_id(parent) is not None:
            known |= _listed(working, parent, before)
    return known


def _listed(working: Working, snapshot_id: int, metadata: TableMetadata) -> dict[str, ManifestFile]:
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        return {}
    try:
        manifests = working.manifests_of(snapshot)
    except UNREADABLE as error:
        rules.UNREADABLE_SNAPSHOT.refuse(f"snapshot {snapshot_id}, which the request was made on: {error}")
    return {location_of(one): working.as_manifest_file(one) for one in manifests}


def _require_sound(
    working: Working, metadata: TableMetadata, snapshot: Snapshot, known: dict[str, ManifestFile]
) -> None:
    """Refuse a snapshot whose list or new manifests cannot be read, or that have numbers of their own making."""
    where = f"snapshot {snapshot.snapshot_id}"
    location = snapshot.manifest_list
    if location is None or snapshot.key_id is not None:
        kind = "must name a manifest list" if location is None else "is encrypted, and cannot be read"
        rules.INVALID_SNAPSHOT.refuse(f"{where} {kind}")
    _require_time(working, snapshot, where=where)
    if snapshot.schema_id is not None and metadata.schema_by_id(snapshot.schema_id) is None:
        rules.INVALID_SNAPSHOT.refuse(f"{where}: the table has no schema {snapshot.schema_id}")
    own = sorted(name for name in snapshot.summary or {} if name.startswith(OWN_KEYS))
    if own:
        rules.INVALID_SNAPSHOT.refuse(f"{where}: summary entries that only firn writes: {', '.join(own)[:300]}")
    require_allowed(working, location, where=f"{where}.manifest-list")
    try:
        listed = working.reader.manifests(metadata, snapshot)
    except UNREADABLE as error:
        _refuse_unreadable(location, error)
    paths = [canonical(one.manifest_path) for one in listed]
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        rules.DUPLICATE_FILE.refuse(f"{location}: lists {twice} twice", files=(twice,))
    _require_row_ids(metadata, snapshot, listed, known, where=location)
    for manifest in listed:
        _require_in_order(manifest, snapshot, where=location)
        before = known.get(manifest.manifest_path)
        if before is None:
            _require_sound_manifest(working, metadata, snapshot, manifest)
        elif not _is_as_listed(manifest, before):
            _refuse(
                location,
                f"lists {manifest.manifest_path} with other numbers than the table has for it",
                manifest.manifest_path,
            )
        known[manifest.manifest_path] = manifest


def _require_time(working: Working, snapshot: Snapshot, *, where: str) -> None:
    """Refuse a snapshot of another time than now. Prevents: times that run backwards, or stand still for years."""
    log = () if working.base is None else working.base.snapshot_log
    earliest_ms = log[-1].timestamp_ms - CLOCK_SKEW_MS_MAX if log else 0
    latest_ms = working.attempt.now_ms + working.limits.clock_skew_minutes_max * 60_000
    if not earliest_ms <= snapshot.timestamp_ms <= latest_ms:
        rules.INVALID_SNAPSHOT.refuse(
            f"{where}: timestamp-ms is {snapshot.timestamp_ms}, now is {working.attempt.now_ms}, and no snapshot is "
            f"older than the one before it: set the client's clock"
        )


def _is_as_listed(now: ManifestFile, before: ManifestFile) -> bool:
    """Whether the entries of a manifest inherit what they did. Row ids may be given to one that has none."""
    given = before.first_row_id is None or now.first_row_id == before.first_row_id
    same = (now.added_snapshot_id, now.sequence_number) == (before.added_snapshot_id, before.sequence_number)
    counted = (now.live_files_count, now.live_rows_count) == (before.live_files_count, before.live_rows_count)
    return given and same and counted and (now.content, now.partition_spec_id) == (
        before.content, before.partition_spec_id,
    )  # fmt: skip


def _require_in_order(manifest: ManifestFile, snapshot: Snapshot, *, where: str) -> None:
    """Refuse manifests that are younger than the snapshot. Prevents: deletes that reach what comes after them."""
    if max(manifest.sequence_number, manifest.min_sequence_number) > snapshot.sequence_number:
        _refuse(
            where,
            f"{manifest.manifest_path} has sequence number {manifest.sequence_number} (least "
            f"{manifest.min_sequence_number}), its snapshot has {snapshot.sequence_number}",
            manifest.manifest_path,
        )


def _require_row_ids(
    metadata: TableMetadata,
    snapshot: Snapshot,
    listed: Sequence[ManifestFile],
    known: Mapping[str, ManifestFile],
    *,
    where: str,
) -> None:
    """Refuse row ids that are not of the snapshot's own range, or that it gives twice (v3, "First Row ID")."""
    if metadata.format_version < 3:
        return
    first = end = snapshot.first_row_id or 0
    end += snapshot.added_rows or 0
    given: list[tuple[int, int, str]] = []
    for manifest in listed:
        if manifest.content != "data":
            continue
        path = manifest.manifest_path
        if manifest.first_row_id is None:
            _refuse(where, f"{path} has no first_row_id, which v3 requires of data manifests", path)
        before = known.get(path)
        if before is None or before.first_row_id is None:
            given.append((manifest.first_row_id, manifest.first_row_id + (manifest.live_rows_count or 0), path))
    at = first
    for start, stop, path in sorted(given):
        if start < at or stop > end:
            _refuse(
                where,
                f"the row ids of {path} go from {start} to {stop}; the snapshot's go from {first} to {end}, and those "
                f"before {at} are given",
                path,
            )
        at = stop


def _require_sound_manifest(
    working: Working, metadata: TableMetadata, snapshot: Snapshot, manifest: ManifestFile
) -> None:
    """Refuse a new manifest that readers fail on, or whose files have an age or row ids that they cannot have."""
    path = manifest.manifest_path
    require_allowed(working, path, where=f"snapshot {snapshot.snapshot_id}")
    if metadata.spec_by_id(manifest.partition_spec_id) is None:
        rules.UNKNOWN_SPEC.refuse(
            f"{path}: the table has no partition spec {manifest.partition_spec_id}", files=(path,)
        )
    try:
        entries = working.reader.stored_entries(metadata, manifest)
    except UNREADABLE as error:
        _refuse_unreadable(path, error)
    for entry in entries:
        reason = next(_faults(metadata, snapshot, entry), None)
        if reason is not None:
            _refuse(path, f"{entry.data_file.file_path} {reason}", entry.data_file.file_path)
        if entry.status is Status.ADDED:
            require_listable(working, entry.data_file.file_path, where=path)


def _faults(metadata: TableMetadata, snapshot: Snapshot, entry: ManifestEntry) -> Iterator[str]:
    file = entry.data_file
    number = max(entry.sequence_number or 0, entry.file_sequence_number or 0)
    if number > snapshot.sequence_number:
        yield f"has sequence number {number}, its snapshot has {snapshot.sequence_number}"
    if metadata.next_row_id is not None and file.first_row_id is not None and entry.is_live:
        end = file.first_row_id + file.record_count
        if not 0 <= file.first_row_id <= end <= metadata.next_row_id:
            yield f"has row ids from {file.first_row_id} to {end}, the table's end at {metadata.next_row_id}"
    if entry.status is not Status.ADDED:
        return
    if entry.snapshot_id != snapshot.snapshot_id:
        yield f"is listed as added by snapshot {entry.snapshot_id}"
    fault = next(metric_faults(file, forms_of(metadata).types), None)
    if fault is not None:
        yield f"{fault.member}: {fault.message}"
    spec = metadata.spec_by_id(file.spec_id)
    assert spec is not None
    try:
        check_writable(spec, file.partition, schema=metadata.current_schema, older=metadata.schemas)
    except InvalidInput as error:
        yield str(error)


def _head(
    working: Working, metadata: TableMetadata, snapshot_id: int, *, before: TableMetadata | None, branch: str
) -> Head:
    """What a new snapshot is at. Prevents: the same rows counted twice."""
    try:
        head = working.read_head(metadata, snapshot_id)
    except UNREADABLE as error:
        _refuse_unreadable(f"snapshot {snapshot_id}", error)
    if head.doubles:
        twice = sorted(head.doubles - _doubles(working, before, branch))
        if twice:
            rules.DUPLICATE_FILE.refuse(
                f"snapshot {snapshot_id} lists {plural(len(twice), 'live file')} more than once, first {twice[0]}",
                files=twice,
            )
    return head


def _doubles(working: Working, before: TableMetadata | None, branch: str) -> frozenset[str]:
    """The files that the branch has listed several times already, for which the request is not to blame."""
    ref = None if before is None else before.refs.get(branch)
    if before is None or ref is None or ref.snapshot_id in working.made_here:
        return frozenset()
    return working.read_head(before, ref.snapshot_id).doubles


def _refuse_unreadable(location: str, error: Exception) -> NoReturn:
    rules.INVALID_SNAPSHOT.refuse(f"{location} cannot be read: {error}", files=(location,))


def _refuse(where: str, reason: str, path: str) -> NoReturn:
    rules.INVALID_SNAPSHOT.refuse(f"{where}: {reason}", files=(path,))
