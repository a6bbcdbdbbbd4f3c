"""Branches and tags move as they are told, and never to where history would be lost unasked."""

from __future__ import annotations

import msgspec
import pytest

from firn.model import refs
from firn.model.ancestry import ancestors_of, is_ancestor, snapshots_between
from firn.model.errors import AlreadyExists, InvalidInput, InvalidMetadata, NotFound
from firn.model.metadata_changes import remove_snapshots
from firn.model.metadata_check import check_metadata
from firn.model.snapshot import SnapshotRef
from tests.strategies.metadata import START_MS, appended, table

NOW = START_MS + 10**6
#   1 ← 2 ← 3 main
#        ↖ 4 ← 5 audit
FORKED = appended(appended(appended(table(), 1, 2), 4, 5, branch="audit"), 3)
TAGGED = refs.create(FORKED, "v1", SnapshotRef(snapshot_id=1, type="tag", max_ref_age_ms=5), now_ms=NOW)


def ids(snapshots):
    return None if snapshots is None else [one.snapshot_id for one in snapshots]


def test_ancestry_follows_parents():
    assert ids(ancestors_of(FORKED, 5)) == [5, 4, 2, 1]
    assert ids(ancestors_of(FORKED, None)) == []
    assert ids(ancestors_of(FORKED, 99)) == []
    assert is_ancestor(FORKED, ancestor_id=2, descendant_id=5)
    assert is_ancestor(FORKED, ancestor_id=5, descendant_id=5)
    assert not is_ancestor(FORKED, ancestor_id=3, descendant_id=5)
    assert not is_ancestor(FORKED, ancestor_id=3, descendant_id=None)


@pytest.mark.parametrize(
    ("after", "until", "expected"),
    [
        (2, 5, [5, 4]),
        (1, 3, [3, 2]),
        (3, 3, []),
        (None, 3, [3, 2, 1]),
        (None, None, []),
        (3, 5, None),
        (99, 5, None),
        (99, 99, None),
        (2, None, None),
    ],
)
def test_a_window_is_whole_or_not_known(after, until, expected):
    assert ids(snapshots_between(FORKED, after_id=after, until_id=until)) == expected


def test_a_window_whose_start_expired_is_not_known():
    expired = remove_snapshots(FORKED, [1, 2], now_ms=NOW)
    assert snapshots_between(expired, after_id=2, until_id=3) is None
    assert snapshots_between(expired, after_id=None, until_id=3) is None
    assert ids(snapshots_between(expired, after_id=4, until_id=5)) == [5]


def test_a_ring_of_parents_ends():
    ring = tuple(
        msgspec.structs.replace(one, parent_snapshot_id=5) if one.snapshot_id == 1 else one for one in FORKED.snapshots
    )
    assert len(ids(ancestors_of(msgspec.structs.replace(FORKED, snapshots=ring), 5))) <= 5


def test_a_fast_forward_only_gains():
    forward = appended(FORKED, 6, branch="audit")
    with pytest.raises(InvalidInput, match="cannot fast-forward: main is not an ancestor of audit"):
        refs.fast_forward(forward, "main", to="audit", now_ms=NOW)
    back = refs.roll_back(forward, 2, now_ms=NOW)
    moved = refs.fast_forward(back, "main", to="audit", now_ms=NOW)
    assert moved.current_snapshot_id == 6
    assert [entry.snapshot_id for entry in moved.snapshot_log] == [1, 2, 3, 2, 6]
    assert refs.fast_forward(moved, "main", to="audit", now_ms=NOW) is moved
    check_metadata(moved)


def test_a_branch_can_be_set_anywhere_when_told_to_be_replaced():
    moved = refs.replace_branch(FORKED, "main", to="audit", now_ms=NOW)
    assert moved.current_snapshot_id == 5
    with pytest.raises(InvalidInput, match="ref v1 is a tag not a branch"):
        refs.replace_branch(TAGGED, "v1", to="audit", now_ms=NOW)


def test_replacing_keeps_retention_settings_and_kind():
    moved = refs.replace_with_snapshot(TAGGED, "v1", type="tag", snapshot_id=2, now_ms=NOW)
    assert moved.ref("v1") == SnapshotRef(snapshot_id=2, type="tag", max_ref_age_ms=5)
    with pytest.raises(InvalidInput, match="ref v1 is a tag not a branch"):
        refs.replace_with_snapshot(TAGGED, "v1", type="branch", snapshot_id=2, now_ms=NOW)
    with pytest.raises(NotFound, match="tag does not exist: v2"):
        refs.replace_with_snapshot(TAGGED, "v2", type="tag", snapshot_id=2, now_ms=NOW)
    with pytest.raises(NotFound, match="unknown snapshot: 99"):
        refs.replace_with_snapshot(TAGGED, "v1", type="tag", snapshot_id=99, now_ms=NOW)


def test_references_are_removed_by_kind():
    assert "v1" not in refs.remove(TAGGED, "v1", type="tag", now_ms=NOW).refs
    assert "audit" not in refs.remove(TAGGED, "audit", type="branch", now_ms=NOW).refs
    with pytest.raises(InvalidInput, match="a tag not a branch"):
        refs.remove(TAGGED, "v1", type="branch", now_ms=NOW)
    with pytest.raises(NotFound):
        refs.remove(TAGGED, "v2", type="tag", now_ms=NOW)


def test_a_renamed_branch_is_the_same_branch():
    renamed = refs.rename_branch(TAGGED, "audit", new_name="checked", now_ms=NOW)
    assert renamed.ref("checked") == TAGGED.ref("audit")
    assert "audit" not in renamed.refs
    with pytest.raises(AlreadyExists):
        refs.rename_branch(TAGGED, "audit", new_name="v1", now_ms=NOW)
    with pytest.raises(InvalidInput, match="cannot rename main"):
        refs.rename_branch(TAGGED, "main", new_name="x", now_ms=NOW)
    with pytest.raises(InvalidInput, match="a tag not a branch"):
        refs.rename_branch(TAGGED, "v1", new_name="x", now_ms=NOW)


def test_retention_settings_are_set_one_by_one():
    metadata = refs.set_retention(FORKED, "audit", min_snapshots_to_keep=3, now_ms=NOW)
    metadata = refs.set_retention(metadata, "audit", max_snapshot_age_ms=4, max_ref_age_ms=5, now_ms=NOW)
    assert metadata.ref("audit") == SnapshotRef(
        snapshot_id=5, type="branch", min_snapshots_to_keep=3, max_snapshot_age_ms=4, max_ref_age_ms=5
    )
    with pytest.raises(InvalidMetadata, match="must be greater than 0"):
        refs.set_retention(FORKED, "audit", max_ref_age_ms=0, now_ms=NOW)
    with pytest.raises(InvalidMetadata, match="a tag has no history"):
        refs.set_retention(TAGGED, "v1", min_snapshots_to_keep=1, now_ms=NOW)
    with pytest.raises(InvalidInput, match="main never expires"):
        refs.set_retention(TAGGED, "main", max_ref_age_ms=1, now_ms=NOW)


def test_a_rollback_goes_back_only():
    back = refs.roll_back(FORKED, 1, now_ms=NOW)
    assert back.current_snapshot_id == 1
    assert back.last_sequence_number == FORKED.last_sequence_number
    assert back.snapshot_log[-1].timestamp_ms == back.last_updated_ms
    with pytest.raises(InvalidInput, match="not an ancestor of the current state of main: 4"):
        refs.roll_back(FORKED, 4, now_ms=NOW)
    with pytest.raises(NotFound, match="unknown snapshot id: 99"):
        refs.roll_back(FORKED, 99, now_ms=NOW)
    assert refs.roll_back(FORKED, 4, branch="audit", now_ms=NOW).head("audit") == FORKED.snapshot_by_id(4)


def test_a_rollback_to_a_time_takes_the_snapshot_before_it():
    assert refs.snapshot_before(FORKED, START_MS + 2001) == 2
    assert refs.snapshot_before(FORKED, START_MS + 2000) == 1
    assert refs.snapshot_before(FORKED, START_MS + 10**9, branch="audit") == 5
    with pytest.raises(NotFound, match="no valid snapshot older than"):
        refs.snapshot_before(FORKED, START_MS + 1000)


def test_set_current_takes_any_snapshot():
    assert refs.set_current(FORKED, 5, now_ms=NOW).current_snapshot_id == 5
    assert refs.set_current(FORKED, 5, branch="new", now_ms=NOW).head("new") == FORKED.snapshot_by_id(5)
    staged = appended(table(), 1, branch=None)
    assert refs.set_current(staged, 1, now_ms=NOW).current_snapshot_id == 1
    with pytest.raises(NotFound):
        refs.set_current(FORKED, 99, now_ms=NOW)


def test_a_reference_has_a_name():
    with pytest.raises(InvalidInput, match="must have a name"):
        refs.create(FORKED, "", SnapshotRef(snapshot_id=1, type="tag"), now_ms=NOW)
