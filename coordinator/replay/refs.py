"""Branches and tags: made, moved, renamed, removed, kept; each only from where its writer saw it."""

from __future__ import annotations

from firn.coordinator.replay import rules
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.refs_rules import fallen_off, head_of, require_free, require_readable, require_ref
from firn.coordinator.replay.working import Working
from firn.model import refs
from firn.model.ancestry import is_ancestor
from firn.model.errors import InvalidInput
from firn.model.operations.refs import (
    CreateBranch,
    CreateTag,
    FastForward,
    RemoveRef,
    RenameBranch,
    SetRef,
    SetRetention,
)
from firn.model.snapshot import MAIN_BRANCH, SnapshotRef


def create_branch(working: Working, intent: CreateBranch) -> Applied:
    """Make a branch at a snapshot that exists; where none is named and main has none, at a new, empty one."""
    metadata = working.require(table_uuid=intent.table_uuid)
    snapshot_id = intent.snapshot_id
    if snapshot_id is None:
        require_free(metadata, intent.ref_name)
        main = metadata.ref(MAIN_BRANCH)
        if main is None:
            return _start_empty(working, intent)
        snapshot_id = main.snapshot_id
    ref = SnapshotRef(
        snapshot_id=snapshot_id,
        type="branch",
        min_snapshots_to_keep=intent.min_snapshots_to_keep,
        max_snapshot_age_ms=intent.max_snapshot_age_ms,
        max_ref_age_ms=intent.max_ref_age_ms,
    )
    return _create(working, intent, ref)


def _start_empty(working: Working, intent: CreateBranch) -> Applied:
    """Make a branch whose first snapshot has no files, as Iceberg's Java library does on an empty table."""
    if intent.ref_name == MAIN_BRANCH and intent.max_ref_age_ms is not None:
        rules.INVALID_REF.refuse("main never expires: max-ref-age-ms is for other branches")
    snapshot_id, sequence_number = working.snapshot_id_for(intent.intent_id), working.next_sequence_number
    working.start_branch(intent.ref_name)
    working.commit(
        branch=intent.ref_name,
        snapshot_id=snapshot_id,
        operation="append",
        manifests=(),
        added=(),
        removed=(),
        intents=((intent.intent_id, intent.writer),),
        intended="create-branch",
        properties=intent.summary,
    )
    metadata = working.metadata
    assert metadata is not None
    kept = refs.set_retention(
        metadata,
        intent.ref_name,
        now_ms=working.attempt.now_ms,
        min_snapshots_to_keep=intent.min_snapshots_to_keep,
        max_snapshot_age_ms=intent.max_snapshot_age_ms,
        max_ref_age_ms=intent.max_ref_age_ms,
    )
    if kept is not metadata:
        working.change_metadata(kept)
    return Applied(snapshot_id=snapshot_id, sequence_number=sequence_number)


def create_tag(working: Working, intent: CreateTag) -> Applied:
    """Make a tag at a snapshot that exists."""
    ref = SnapshotRef(snapshot_id=intent.snapshot_id, type="tag", max_ref_age_ms=intent.max_ref_age_ms)
    return _create(working, intent, ref)


def _create(working: Working, intent: CreateBranch | CreateTag, ref: SnapshotRef) -> Applied:
    metadata = working.require(table_uuid=intent.table_uuid)
    require_free(metadata, intent.ref_name)
    require_readable(working, ref.snapshot_id)
    try:
        changed = refs.create(metadata, intent.ref_name, ref, now_ms=working.attempt.now_ms)
    except InvalidInput as error:
        rules.INVALID_REF.refuse(str(error))
    working.change_metadata(changed)
    return Applied(snapshot_id=ref.snapshot_id)


def set_ref(working: Working, intent: SetRef) -> Applied:
    """Move a branch or tag; what falls off it is named in the outcome."""
    metadata = working.require(table_uuid=intent.table_uuid)
    ref = require_ref(metadata, intent.ref_name, expected=intent.expected_snapshot_id)
    require_readable(working, intent.snapshot_id)
    changed = refs.replace_with_snapshot(
        metadata, intent.ref_name, type=ref.type, snapshot_id=intent.snapshot_id, now_ms=working.attempt.now_ms
    )
    details = fallen_off(metadata, ref.snapshot_id, now_at=intent.snapshot_id) if ref.type == "branch" else {}
    working.change_metadata(changed)
    return Applied(snapshot_id=intent.snapshot_id, details=details)


def remove_ref(working: Working, intent: RemoveRef) -> Applied:
    """Remove a branch or tag, if it is where the writer saw it."""
    metadata = working.require(table_uuid=intent.table_uuid)
    ref = require_ref(metadata, intent.ref_name, expected=intent.expected_snapshot_id)
    if intent.ref_name == MAIN_BRANCH:
        rules.INVALID_REF.refuse("main cannot be removed: every engine reads it")
    working.change_metadata(refs.remove(metadata, intent.ref_name, type=ref.type, now_ms=working.attempt.now_ms))
    return Applied()


def rename_branch(working: Working, intent: RenameBranch) -> Applied:
    """Give a branch a name that is free."""
    metadata = working.require(table_uuid=intent.table_uuid)
    head_of(metadata, intent.ref_name, expected=intent.expected_snapshot_id)
    if intent.ref_name == MAIN_BRANCH:
        rules.INVALID_REF.refuse("main cannot be renamed: every engine reads it")
    require_free(metadata, intent.new_name)
    changed = refs.rename_branch(metadata, intent.ref_name, new_name=intent.new_name, now_ms=working.attempt.now_ms)
    working.change_metadata(changed)
    return Applied(details={"renamed-to": intent.new_name})


def fast_forward(working: Working, intent: FastForward) -> Applied:
    """Move a branch ahead; an empty table's main may start anywhere.

    Prevents: commits of the branch that are lost because it had gone another way (`not-an-ancestor`).
    """
    metadata = working.require(table_uuid=intent.table_uuid)
    target = require_ref(metadata, intent.to, expected=None)
    head = head_of(metadata, intent.branch, expected=intent.expected_snapshot_id)
    if head is not None and not is_ancestor(metadata, ancestor_id=head, descendant_id=target.snapshot_id):
        rules.NOT_AN_ANCESTOR.refuse(
            f"{intent.branch!r} is at snapshot {head}, which is not in the history of {intent.to!r} "
            f"({target.snapshot_id}): moving there would lose commits",
            winner=metadata.snapshot_by_id(head),
        )
    require_readable(working, target.snapshot_id)
    changed = refs.fast_forward(metadata, intent.branch, to=intent.to, now_ms=working.attempt.now_ms)
    if changed is not metadata:
        working.change_metadata(changed)
    return Applied(snapshot_id=target.snapshot_id)


def set_retention(working: Working, intent: SetRetention) -> Applied:
    """Change how long a branch or tag keeps what it has."""
    metadata = working.require(table_uuid=intent.table_uuid)
    require_ref(metadata, intent.ref_name, expected=intent.expected_snapshot_id)
    try:
        changed = refs.set_retention(
            metadata,
            intent.ref_name,
            now_ms=working.attempt.now_ms,
            min_snapshots_to_keep=intent.min_snapshots_to_keep,
            max_snapshot_age_ms=intent.max_snapshot_age_ms,
            max_ref_age_ms=intent.max_ref_age_ms,
        )
    except InvalidInput as error:
        rules.INVALID_REF.refuse(str(error))
    if changed is not metadata:
        working.change_metadata(changed)
    return Applied()
