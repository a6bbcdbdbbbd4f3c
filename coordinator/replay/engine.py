"""The loop over a batch: each intent in order, on the state that the ones before it left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final

from firn.coordinator.replay.append import append_all, staged_append
from firn.coordinator.replay.cherry_pick import cherry_pick, publish
from firn.coordinator.replay.create_or_replace import create_or_replace_table
from firn.coordinator.replay.decision import Applied, Decision, Refusal
from firn.coordinator.replay.delete_files import delete_files
from firn.coordinator.replay.delete_where import delete_where
from firn.coordinator.replay.expiry import expire_snapshots
from firn.coordinator.replay.history import roll_back, set_current_snapshot
from firn.coordinator.replay.layout import update_sort_order, update_spec
from firn.coordinator.replay.overwrite import overwrite
from firn.coordinator.replay.properties import set_location, update_properties, upgrade_format
from firn.coordinator.replay.refs import (
    create_branch,
    create_tag,
    fast_forward,
    remove_ref,
    rename_branch,
    set_ref,
    set_retention,
)
from firn.coordinator.replay.refusals import placed
from firn.coordinator.replay.replace import replace
from firn.coordinator.replay.replace_partitions import replace_partitions
from firn.coordinator.replay.rest_commit import rest_commit
from firn.coordinator.replay.rest_view_commit import rest_view_commit
from firn.coordinator.replay.rewrite_manifests import rewrite_manifests
from firn.coordinator.replay.row_delta import row_delta
from firn.coordinator.replay.schema import update_schema
from firn.coordinator.replay.statistics import (
    remove_partition_statistics,
    remove_statistics,
    set_partition_statistics,
    set_statistics,
)
from firn.coordinator.replay.tables import create_table, drop_table, register_table
from firn.coordinator.replay.views import (
    create_view,
    drop_view,
    register_view,
    replace_view,
    set_current_view_version,
    update_view_properties,
)
from firn.coordinator.replay.working import Working
from firn.model.intent import OPERATIONS as INTENT_NAMES
from firn.model.intent import (
    Append,
    CreateOrReplaceTable,
    CreateTable,
    DeleteFiles,
    DeleteWhere,
    DropTable,
    Intent,
    Overwrite,
    RegisterTable,
    Replace,
    ReplacePartitions,
    RewriteManifests,
    RowDelta,
)
from firn.model.landmark import Landmark, keys_of
from firn.model.operations.layout import UpdateSchema, UpdateSortOrder, UpdateSpec
from firn.model.operations.refs import (
    CherryPick,
    CreateBranch,
    CreateTag,
    FastForward,
    Publish,
    RemoveRef,
    RenameBranch,
    Rollback,
    SetCurrentSnapshot,
    SetRef,
    SetRetention,
)
from firn.model.operations.rest import RestCommit, RestViewCommit
from firn.model.operations.upkeep import (
    ExpireSnapshots,
    RemovePartitionStatistics,
    RemoveStatistics,
    SetLocation,
    SetPartitionStatistics,
    SetStatistics,
    UpdateProperties,
    UpgradeFormat,
)
from firn.model.operations.views import (
    CreateView,
    DropView,
    RegisterView,
    ReplaceView,
    SetCurrentViewVersion,
    UpdateViewProperties,
)
from firn.model.planned_on import ref_of


def replay(working: Working, intents: Sequence[Intent]) -> list[Decision]:
    """Apply the intents in order; one decision each, in the same order.

    A refused intent leaves no trace in `working`; the ones after it go on. Reads of immutable files may raise
    CorruptFile or Unavailable: then nothing is decided.
    """
    decisions: list[Decision] = []
    for is_shared, stretch in groupby(intents, key=_may_share_a_snapshot):
        if is_shared:
            decisions += append_all(working, [intent for intent in stretch if isinstance(intent, Append)])
            continue
        for intent in stretch:
            working.following = intents[len(decisions) + 1 :]
            try:
                decisions.append(_apply(working, intent))
            except Refusal as refusal:
                decisions.append(placed(working, intent, refusal.refused))
    return decisions


def _may_share_a_snapshot(intent: Intent) -> bool:
    return isinstance(intent, Append) and not intent.stage


def _apply(working: Working, intent: Intent) -> Decision:
    decision = OPERATIONS[type(intent)](working, intent)
    if isinstance(decision, Applied):
        _take_note(working, intent, decision)
    return decision


def _take_note(working: Working, intent: Intent, applied: Applied) -> None:
    """Remember who changed what no snapshot tells of, for the intents of the same batch that it refuses."""
    name = INTENT_NAMES[type(intent)]
    for key in keys_of(name, ref=ref_of(intent), details=applied.details):
        landmark = Landmark(
            operation=name, intent_id=intent.intent_id, writer=intent.writer, snapshot_id=applied.snapshot_id
        )
        working.landmarks.put(key, landmark)


OPERATIONS: Final[dict[type, Callable[[Working, Any], Decision]]] = {
    Append: staged_append,
    DeleteFiles: delete_files,
    DeleteWhere: delete_where,
    Overwrite: overwrite,
    ReplacePartitions: replace_partitions,
    Replace: replace,
    RewriteManifests: rewrite_manifests,
    RowDelta: row_delta,
    CreateTable: create_table,
    CreateOrReplaceTable: create_or_replace_table,
    RegisterTable: register_table,
    DropTable: drop_table,
    CreateBranch: create_branch,
    CreateTag: create_tag,
    SetRef: set_ref,
    RemoveRef: remove_ref,
    RenameBranch: rename_branch,
    FastForward: fast_forward,
    SetRetention: set_retention,
    Rollback: roll_back,
    SetCurrentSnapshot: set_current_snapshot,
    CherryPick: cherry_pick,
    Publish: publish,
    ExpireSnapshots: expire_snapshots,
    UpdateProperties: update_properties,
    SetLocation: set_location,
    SetStatistics: set_statistics,
    RemoveStatistics: remove_statistics,
    SetPartitionStatistics: set_partition_statistics,
    RemovePartitionStatistics: remove_partition_statistics,
    UpgradeFormat: upgrade_format,
    UpdateSchema: update_schema,
    UpdateSpec: update_spec,
    UpdateSortOrder: update_sort_order,
    CreateView: create_view,
    RegisterView: register_view,
    ReplaceView: replace_view,
    UpdateViewProperties: update_view_properties,
    SetCurrentViewVersion: set_current_view_version,
    DropView: drop_view,
    RestCommit: rest_commit,
    RestViewCommit: rest_view_commit,
}
"""How each operation is replayed; appends that are not staged are grouped (`firn.coordinator.replay.append`)."""
