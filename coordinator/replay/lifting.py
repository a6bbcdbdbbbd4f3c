"""Lifting: a client's finished snapshots are replayed on a branch that has moved since they were planned (decision 39).

A request is lifted only where nothing fails but that its branch has moved, or that others took its sequence numbers.
Each of its snapshots becomes the operation of firn that it stands for; all apply, or none. `docs/lifting.md` says what
is promised. What cannot be lifted is refused as the requirement that failed, so that the client plans anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from firn.coordinator.replay import rules
from firn.coordinator.replay.ancestry import known_snapshot
from firn.coordinator.replay.decision import Applied, Refusal
from firn.coordinator.replay.lifted_lists import Manifests, client_manifests, difference, parent_manifests
from firn.coordinator.replay.lifted_operations import is_blind, replay_stand_in, stand_in
from firn.coordinator.replay.lifting_rules import (
    isolation_of,
    require_may_append,
    require_no_watermark,
    require_quiet,
)
from firn.coordinator.replay.properties import require_few_properties
from firn.coordinator.replay.rest_changes import changes_between
from firn.coordinator.replay.rest_updates import permitted, require_places, require_statistics, require_unneeded
from firn.coordinator.replay.window import removed_data, window
from firn.coordinator.replay.working import Working
from firn.model import rest_updates as rest
from firn.model.errors import FirnError
from firn.model.intent import Append, Replace, RewriteManifests
from firn.model.json_members import LONG_MAX
from firn.model.metadata import TableMetadata
from firn.model.operations.files import FileOperation
from firn.model.operations.rest import RestCommit
from firn.model.rest_apply import apply_updates
from firn.model.rest_requirements import AssertRefSnapshotId, Requirement, check_requirements
from firn.model.snapshot import MAIN_BRANCH, Snapshot
from firn.storage.locations import canonical

OWN_KEYS: Final = "firn."
"""What the entries of a summary begin with that firn writes itself, and believes."""

_OF_SNAPSHOTS: Final = (rest.AddSnapshot, rest.SetSnapshotRef)
_AFTERWARDS: Final = (
    rest.RemoveSnapshots, rest.RemoveSchemas, rest.RemovePartitionSpecs, rest.SetStatistics, rest.RemoveStatistics,
    rest.SetPartitionStatistics, rest.RemovePartitionStatistics,
)  # fmt: skip
"""Updates that may be about the added snapshots, or take away what they need."""


class Lifting(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A request that may be lifted: its snapshots, each on the one before, and the branch that it moves to the last."""

    branch: str
    snapshots: tuple[Snapshot, ...]
    before: tuple[rest.Update, ...]
    after: tuple[rest.Update, ...]

    @property
    def base(self) -> int | None:
        """The snapshot that it was planned on."""
        return self.snapshots[0].parent_snapshot_id


def plan_lifting(
    metadata: TableMetadata, requirements: Sequence[Requirement], updates: Sequence[rest.Update]
) -> Lifting | None:
    """Return how the request can be lifted; None where more fails than that one branch, which it moves, has moved."""
    snapshots = tuple(update.snapshot for update in updates if isinstance(update, rest.AddSnapshot))
    moves = [update for update in updates if isinstance(update, rest.SetSnapshotRef)]
    if not snapshots or not moves or any(isinstance(update, rest.RemoveSnapshotRef) for update in updates):
        return None
    branch, ids = moves[0].ref_name, [snapshot.snapshot_id for snapshot in snapshots]
    chained = all(one.parent_snapshot_id == before for one, before in zip(snapshots[1:], ids, strict=False))
    if not chained or len(set(ids)) < len(ids) or moves[-1].ref.snapshot_id != ids[-1]:
        return None
    if any(one.ref_name != branch or one.ref.snapshot_id not in ids or not _moves_only(metadata, one) for one in moves):
        return None
    for one in requirements:
        own = isinstance(one, AssertRefSnapshotId) and one.ref == branch
        if own and isinstance(one, AssertRefSnapshotId) and one.snapshot_id != snapshots[0].parent_snapshot_id:
            return None
        if not own and check_requirements(metadata, [one]) is not None:
            return None
    others = [update for update in updates if not isinstance(update, _OF_SNAPSHOTS)]
    return Lifting(
        branch=branch,
        snapshots=snapshots,
        before=tuple(update for update in others if not isinstance(update, _AFTERWARDS)),
        after=tuple(update for update in others if isinstance(update, _AFTERWARDS)),
    )


def _moves_only(metadata: TableMetadata, update: rest.SetSnapshotRef) -> bool:
    """Whether the reference is a branch that is there, or the first of the table, and keeps its retention."""
    now, ref = metadata.refs.get(update.ref_name), update.ref
    if ref.type != "branch" or (now is None and update.ref_name != MAIN_BRANCH):
        return False
    asked = (ref.min_snapshots_to_keep, ref.max_snapshot_age_ms, ref.max_ref_age_ms)
    if now is None:
        return asked == (None, None, None)
    kept = (now.min_snapshots_to_keep, now.max_snapshot_age_ms, now.max_ref_age_ms)
    return now.type == "branch" and all(want in {None, has} for want, has in zip(asked, kept, strict=True))


def lift(
    working: Working, intent: RestCommit, lifting: Lifting, updates: Sequence[rest.Update], *, failed: str
) -> Applied:
    """Replay the request on its branch as it is now; `failed` is the requirement that does not hold, in words.

    Prevents: a client that plans the same work over and over, because others commit more often than it can.
    """
    trace = _Trace(working, lifting.branch)
    try:
        return _lifted(working, intent, lifting, updates)
    except Refusal as refusal:
        trace.erase()
        refused = refusal.refused
        raise Refusal(
            msgspec.structs.replace(
                refused,
                rule=rules.REQUIREMENT_FAILED.name,
                hint=rules.REQUIREMENT_FAILED.hint,
                message=f"{failed}; it was not replayed on what came since ({refused.rule}): {refused.message}",
                branch=lifting.branch,
                base_snapshot_id=lifting.base,
                details={**refused.details, "not-lifted": refused.rule},
            )
        ) from refusal
    finally:
        trace.end()


def _lifted(working: Working, intent: RestCommit, lifting: Lifting, updates: Sequence[rest.Update]) -> Applied:
    metadata = working.metadata
    assert metadata is not None
    _require_unneeded(working, lifting)
    since = window(working, lifting.branch, base_snapshot_id=lifting.base)
    last = lifting.snapshots[-1].snapshot_id
    if any(one.snapshot_id == last for one in since):
        return Applied(snapshot_id=last, details={"how": "lifted", "unchanged": True})
    _change(working, lifting.before)
    base = known_snapshot(working, lifting.base)
    if base is None and lifting.base is not None:
        rules.UNKNOWN_BASE.refuse(f"snapshot {lifting.base}, on which the request was planned, is not known")
    manifests: Manifests = parent_manifests(working, base)
    operations: list[str] = []
    applied = Applied()
    for snapshot in lifting.snapshots:
        _require_sound(working, snapshot)
        after = client_manifests(working, snapshot, manifests)
        found = difference(working, snapshot, manifests, after, parent=base)
        _require_not_removed(working, [file.file_path for file in found.added_files(data=True)], since)
        require_no_watermark(working, snapshot, since)
        operation = stand_in(
            working, intent, found, branch=lifting.branch, base=lifting.base,
            isolation=isolation_of(metadata.properties),
        )  # fmt: skip
        _require_isolated(working, intent, operation, snapshot, since, base=lifting.base)
        working.given_id = snapshot.snapshot_id
        applied = replay_stand_in(working, operation, found)
        working.given_id = None
        if applied.snapshot_id != snapshot.snapshot_id:
            rules.LIST_CONTRADICTS.refuse(f"snapshot {snapshot.snapshot_id} changes nothing at the head of its branch")
        working.own |= {snapshot.snapshot_id}
        operations.append(str(operation.__struct_config__.tag))
        manifests = after
    _change(working, lifting.after)
    require_statistics(working, updates)
    assert working.metadata is not None
    details: dict[str, Any] = {
        "how": "lifted",
        "as": operations,
        **changes_between(metadata, working.metadata, updates),
    }
    return msgspec.structs.replace(applied, details=details)


def _require_isolated(
    working: Working,
    intent: RestCommit,
    operation: FileOperation,
    snapshot: Snapshot,
    since: Sequence[Snapshot],
    *,
    base: int | None,
) -> None:
    """Hold what came since against what the writer may have read; rewrites read no rows that matter."""
    if isinstance(operation, Replace | RewriteManifests):
        return
    appends = isinstance(operation, Append) and snapshot.operation == "append"
    if appends or is_blind(operation):
        require_may_append(working, intent, snapshot, since, base=base)
    else:
        require_quiet(working, since, base=base)


def _require_sound(working: Working, snapshot: Snapshot) -> None:
    assert working.metadata is not None
    if not 0 < snapshot.snapshot_id <= LONG_MAX or known_snapshot(working, snapshot.snapshot_id) is not None:
        rules.INVALID_SNAPSHOT.refuse(f"{snapshot.snapshot_id} is no id that a new snapshot can have")
    own = sorted(name for name in snapshot.summary or {} if name.startswith(OWN_KEYS))
    if own:
        rules.INVALID_SNAPSHOT.refuse(f"summary entries that only firn writes: {', '.join(own)[:300]}")


def _require_not_removed(working: Working, added: Sequence[str], since: Sequence[Snapshot]) -> None:
    """Refuse files that were removed since. Prevents: rows that come back because a client lists them as new."""
    names = set(map(canonical, added))
    for snapshot, entry in removed_data(working, since) if names else ():
        path = entry.data_file.file_path
        if canonical(path) in names:
            rules.LIST_CONTRADICTS.refuse(
                f"{path} is listed as added, and snapshot {snapshot.snapshot_id} removed it since", files=(path,),
                winner=snapshot,
            )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What a request changes beside


def _require_unneeded(working: Working, lifting: Lifting) -> None:
    removals = [update for update in lifting.after if isinstance(update, rest.RemoveSnapshots)]
    require_unneeded(working, removals)


def _change(working: Working, updates: Sequence[rest.Update]) -> None:
    """Apply updates that are about no branch, as on any request whose requirements hold."""
    before = working.metadata
    if not updates or before is None:
        return
    try:
        changed = apply_updates(before, permitted(working, updates), now_ms=working.attempt.now_ms)
    except FirnError as error:
        rules.INVALID_UPDATE.refuse(str(error))
    require_few_properties(working, changed.properties)
    require_places(working, changed, before=before)
    if changed is not before:
        working.change_metadata(changed)


class _Trace:
    """What a draft is before a request is lifted on it; a request that is refused leaves no trace."""

    def __init__(self, working: Working, branch: str) -> None:
        self._working = working
        self._branch = branch
        self._metadata, self._change, self._own = working.metadata, working.change, working.own
        self._snapshots, self._merges = len(working.snapshots), len(working.taken_over)

    def erase(self) -> None:
        """Take back all that was drafted since; the branch's head is looked up again."""
        working = self._working
        working.metadata, working.change = self._metadata, self._change
        del working.snapshots[self._snapshots :]
        del working.taken_over[self._merges :]
        working.heads.pop(self._branch, None)

    def end(self) -> None:
        """Let go of what holds for this request alone."""
        self._working.own, self._working.given_id = self._own, None
