"""Cherry-pick and publish: the changes of a snapshot that is not on the branch are applied to the branch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from firn.coordinator.replay import rules
from firn.coordinator.replay.ancestry import Ancestors, lineage
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.delete_rules import is_for
from firn.coordinator.replay.file_change import FileChange, apply_change
from firn.coordinator.replay.files_rules import require_live, require_not_live
from firn.coordinator.replay.refs_rules import head_of, require_snapshot
from firn.coordinator.replay.touched_partitions import TouchedPartitions
from firn.coordinator.replay.window import entries_of as window_entries
from firn.coordinator.replay.window import made_by, manifests_of
from firn.coordinator.replay.working import Working
from firn.model import refs
from firn.model.cherry_pick import (
    REPLACE_PARTITIONS,
    CherryPick,
    is_wap_id_published,
    plan_cherry_pick,
    snapshot_staged_as,
)
from firn.model.datafile import DataFile
from firn.model.errors import AlreadyExists, InvalidInput
from firn.model.intent import OPERATIONS, FileOperation
from firn.model.manifest import Status
from firn.model.metric_faults import metric_faults
from firn.model.operations import refs as operations
from firn.model.snapshot import Operation, Snapshot
from firn.storage.fitting_metrics import forms_of

_OPERATIONS: Final[dict[str, Operation]] = {"append": "append", "replace-partitions": "overwrite"}


class _Changes(msgspec.Struct, frozen=True):
    """The data files that a snapshot added and removed, and whether it added delete files."""

    added: tuple[DataFile, ...]
    removed: tuple[DataFile, ...]
    adds_deletes: bool


def cherry_pick(working: Working, intent: operations.CherryPick) -> Applied:
    """Apply the changes of a snapshot to a branch as it is now, once."""
    metadata = working.require(table_uuid=intent.table_uuid)
    require_snapshot(metadata, intent.snapshot_id)
    return _pick(working, intent, intent.snapshot_id)


def publish(working: Working, intent: operations.Publish) -> Applied:
    """Apply the newest snapshot that was staged under a write-audit-publish id, once."""
    metadata = working.require(table_uuid=intent.table_uuid)
    head_of(metadata, intent.branch, expected=None)
    if is_wap_id_published(metadata, intent.wap_id, branch=intent.branch):
        rules.ALREADY_PICKED.refuse(f"what was staged as {intent.wap_id!r} is on {intent.branch!r} already")
    staged = snapshot_staged_as(metadata, intent.wap_id)
    if staged is None:
        rules.UNKNOWN_SNAPSHOT.refuse(f"the table has no snapshot that was staged as {intent.wap_id!r} (any more)")
    return _pick(working, intent, staged.snapshot_id)


def _pick(working: Working, intent: operations.CherryPick | operations.Publish, snapshot_id: int) -> Applied:
    plan, history = _plan(working, intent.branch, snapshot_id)
    require_known_history(intent.branch, plan.snapshot, history)
    if plan.kind == "fast-forward":
        assert working.metadata is not None
        now_ms = working.attempt.now_ms
        changed = refs.set_current(working.metadata, snapshot_id, now_ms=now_ms, branch=intent.branch)
        working.change_metadata(changed)
        return Applied(snapshot_id=snapshot_id, sequence_number=plan.snapshot.sequence_number)
    changes = _changes_of(working, plan.snapshot)
    if changes.adds_deletes:
        rules.CANNOT_PICK.refuse(f"snapshot {snapshot_id} added delete files, which are for the state it was made on")
    _require_readable(working, changes.added, picked=plan.snapshot)
    head = working.head(intent.branch)
    require_not_live(head, changes.added)
    if plan.kind == "replace-partitions":
        removed_paths = [file.file_path for file in changes.removed]
        require_live(working, intent.branch, removed_paths, base_snapshot_id=plan.snapshot.parent_snapshot_id)
        require_unchanged_partitions(working, intent.branch, plan.snapshot, changes)
    return _reapplied(working, intent, plan, changes)


def _plan(working: Working, branch: str, snapshot_id: int) -> tuple[CherryPick, list[Snapshot]]:
    """How the snapshot can be picked, and the branch's history back to it.

    Prevents: the same rows twice; a change on a state that it was not made for.
    """
    assert working.metadata is not None
    head = head_of(working.metadata, branch, expected=None)
    history = _history_back_to(working, head, require_snapshot(working.metadata, snapshot_id))
    try:
        return plan_cherry_pick(working.metadata, snapshot_id, branch=branch, history=history), history
    except AlreadyExists as error:
        rules.ALREADY_PICKED.refuse(str(error))
    except InvalidInput as error:
        rules.CANNOT_PICK.refuse(str(error), winner=working.metadata.head(branch))


def _history_back_to(working: Working, head: int | None, picked: Snapshot) -> list[Snapshot]:
    """What may have picked a snapshot, and may be its parent, newest first: no more of a history than that takes."""
    found: list[Snapshot] = []
    for snapshot in Ancestors(working, head):
        found.append(snapshot)
        is_parent = snapshot.snapshot_id == picked.parent_snapshot_id
        if is_parent or (picked.operation == "append" and _age(snapshot) < _age(picked)):
            break
    return found


def require_known_history(branch: str, picked: Snapshot, history: Sequence[Snapshot]) -> None:
    """Refuse when snapshots of the branch that are as new as the picked one were expired.

    Prevents: a snapshot that is in the branch's history, or was picked before, being picked once more, because what
    tells so was expired; where its files were compacted since, its rows would count double.
    """
    if not history or history[-1].parent_snapshot_id is None:
        return
    if _age(picked) <= _age(history[-1]):
        rules.UNKNOWN_BASE.refuse(
            f"snapshot {picked.snapshot_id} may be on {branch!r} already: the history of the branch does not reach "
            f"back to when it was made",
            base=picked.parent_snapshot_id,
        )


def _age(snapshot: Snapshot) -> tuple[int, int]:
    """In the order in which snapshots are made; those of v1 have their times only."""
    return snapshot.sequence_number or 0, snapshot.timestamp_ms


def _changes_of(working: Working, snapshot: Snapshot) -> _Changes:
    added: list[DataFile] = []
    removed: list[DataFile] = []
    adds_deletes = False
    for manifest in made_by(snapshot, working.manifests_of(snapshot)):
        for entry in working.entries(manifest):
            if entry.snapshot_id != snapshot.snapshot_id or entry.status is Status.EXISTING:
                continue
            if manifest.content == "deletes":
                # Removed ones went with their data files, and go with them here.
                adds_deletes = adds_deletes or entry.status is Status.ADDED
                continue
            (added if entry.status is Status.ADDED else removed).append(entry.data_file)
    return _Changes(tuple(added), tuple(removed), adds_deletes)


def _reapplied(
    working: Working, intent: operations.CherryPick | operations.Publish, plan: CherryPick, changes: _Changes
) -> Applied:
    """A new snapshot with the picked one's files. Rows get ids of this snapshot: they were never on this branch."""
    properties = dict(plan.summary)
    if plan.kind == "replace-partitions":
        properties[REPLACE_PARTITIONS] = "true"
    change = FileChange(
        added_data=[msgspec.structs.replace(file, first_row_id=None) for file in changes.added],
        removed_data=[file.file_path for file in changes.removed],
        properties=properties,
    )
    as_if = FileOperation(
        intent_id=intent.intent_id,
        table=intent.table,
        writer=intent.writer,
        branch=intent.branch,
        summary=intent.summary,
    )
    applied = apply_change(working, as_if, change, operation=_OPERATIONS[plan.kind], intended=OPERATIONS[type(intent)])
    return msgspec.structs.replace(applied, details={"picked-snapshot-id": plan.snapshot.snapshot_id})


def _require_readable(working: Working, files: Sequence[DataFile], *, picked: Snapshot) -> None:
    """Refuse files, which another writer staged, with metrics that some reader fails on."""
    assert working.metadata is not None
    types = forms_of(working.metadata).types
    for file in files:
        fault = next(metric_faults(file, types), None)
        if fault is not None:
            rules.CANNOT_PICK.refuse(
                f"{file.file_path}, which snapshot {picked.snapshot_id} added: {fault.member}: {fault.message}",
                files=(file.file_path,),
                hint="fix",
            )


def require_unchanged_partitions(working: Working, branch: str, picked: Snapshot, changes: _Changes) -> None:
    """Refuse when the partitions that the picked snapshot replaced got files or deletes after its parent.

    Prevents: partitions that hold what the picked snapshot was to replace beside what replaced it
    (`changed-partition`), and rows that come back because they were deleted after it read them (`new-deletes`).
    """
    assert working.metadata is not None
    specs = {spec.spec_id: spec for spec in working.metadata.partition_specs}
    replaced = TouchedPartitions(working.metadata, (*changes.added, *changes.removed))
    for snapshot in _since(working, branch, picked):
        for manifest in made_by(snapshot, manifests_of(working, snapshot)):
            for entry in window_entries(working, snapshot, manifest):
                if entry.status is not Status.ADDED or entry.snapshot_id != snapshot.snapshot_id:
                    continue
                file = entry.data_file
                if manifest.content == "data" and replaced.may_have(file):
                    rules.CHANGED_PARTITION.refuse(
                        f"snapshot {snapshot.snapshot_id} added {file.file_path} to a partition that snapshot "
                        f"{picked.snapshot_id} replaces",
                        files=(file.file_path,),
                        winner=snapshot,
                        base=picked.parent_snapshot_id,
                    )
                reached = [d for d in changes.removed if manifest.content == "deletes" and is_for(file, d, specs)]
                if reached:
                    rules.NEW_DELETES.refuse(
                        f"snapshot {snapshot.snapshot_id} deleted rows with {file.file_path} from partitions that "
                        f"snapshot {picked.snapshot_id} replaces",
                        files=[one.file_path for one in reached],
                        winner=snapshot,
                        base=picked.parent_snapshot_id,
                    )


def _since(working: Working, branch: str, picked: Snapshot) -> list[Snapshot]:
    """The branch's snapshots after the picked one's parent; refuses when that is not in its history any more."""
    found: list[Snapshot] = []
    oldest: int | None = None
    for snapshot in lineage(working, branch):
        if snapshot.snapshot_id == picked.parent_snapshot_id:
            return found
        found.append(snapshot)
        oldest = snapshot.parent_snapshot_id
    if picked.parent_snapshot_id is not None or oldest is not None:
        rules.UNKNOWN_BASE.refuse(
            f"the history of {branch!r} does not reach back to snapshot {picked.parent_snapshot_id}, the parent of "
            f"{picked.snapshot_id}",
            base=picked.parent_snapshot_id,
        )
    return found
