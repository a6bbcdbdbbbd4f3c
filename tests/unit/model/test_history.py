"""How far back a table can be read, and which branch its snapshots are of where the history has gaps."""

from __future__ import annotations

from typing import Any

import msgspec

from firn.model import refs
from firn.model.cherry_pick import STAGED_WAP_ID
from firn.model.history import SUMMARY_BATCH, SUMMARY_BRANCH, SUMMARY_STAGED, HistoryReach, histories_of, reach_of
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import remove_snapshots
from firn.model.snapshot import SnapshotRef
from tests.strategies.metadata import START_MS, appended, table

NOW = START_MS + 10**6


def marked(metadata: TableMetadata, marks: dict[int, dict[str, str]]) -> TableMetadata:
    """The table as if firn had made all its snapshots, some with more in their summaries."""
    snapshots: list[Any] = []
    for one in metadata.snapshots:
        summary = {**(one.summary or {}), SUMMARY_BATCH: "b", **marks.get(one.snapshot_id, {})}
        snapshots.append(msgspec.structs.replace(one, summary=summary))
    return msgspec.structs.replace(metadata, snapshots=tuple(snapshots))


def ids(metadata: TableMetadata) -> dict[str, list[int]]:
    return {name: [one.snapshot_id for one in found] for name, found in histories_of(metadata).of_branch.items()}


def test_a_table_without_snapshots_has_no_history() -> None:
    assert reach_of(table()) == HistoryReach(snapshots=0)
    assert ids(table()) == {}


def test_a_gap_ends_the_time_by_which_snapshots_are_found_and_not_what_is_there() -> None:
    metadata = marked(appended(table(), 1, 2, 3, 4, step=1000), {})
    times = {one.snapshot_id: one.timestamp_ms for one in metadata.snapshots}
    assert reach_of(metadata) == HistoryReach(snapshots=4, oldest_ms=times[1], whole_since_ms=times[1])
    gap = remove_snapshots(metadata, [2], now_ms=NOW)
    assert reach_of(gap) == HistoryReach(snapshots=3, oldest_ms=times[1], whole_since_ms=times[3])
    assert ids(gap) == {"main": [4, 3, 1]}


def test_what_was_never_on_a_branch_is_no_part_of_its_history() -> None:
    metadata = appended(table(), 1, 2, 3, 4, 5, 6, step=1000)
    metadata = refs.create(metadata, "audit", SnapshotRef(snapshot_id=6, type="branch"), now_ms=NOW)
    marks = {
        2: {SUMMARY_STAGED: "true"},
        3: {STAGED_WAP_ID: "w"},
        4: {SUMMARY_BRANCH: "audit"},
        5: {SUMMARY_BRANCH: "gone"},
    }
    before = marked(metadata, marks)
    assert ids(before) == {"main": [6, 5, 4, 3, 2, 1], "audit": []}, "ancestors of a head are, whoever made them"
    for number in (2, 3, 4, 5):
        parents = tuple(
            msgspec.structs.replace(one, parent_snapshot_id=99) if one.snapshot_id > 1 else one
            for one in before.snapshots
        )
        left = msgspec.structs.replace(before, snapshots=tuple(p for p in parents if p.snapshot_id in {1, number, 6}))
        assert ids(left) == {"main": [6, 1], "audit": [4] if number == 4 else []}


def test_what_others_made_before_a_gap_is_nobodys() -> None:
    gap = remove_snapshots(appended(table(), 1, 2, 3, step=1000), [2], now_ms=NOW)
    assert ids(gap) == {"main": [3]}


def without(metadata: TableMetadata, *snapshot_ids: int) -> TableMetadata:
    return remove_snapshots(metadata, snapshot_ids, now_ms=NOW)


def test_what_was_staged_without_a_mark_is_told_by_the_commit_that_passed_it_by() -> None:
    staged = appended(appended(table(), 1, 2, step=1000), 3, branch=None)
    metadata = marked(appended(staged, 4, 5, step=1000), {})
    assert ids(metadata) == {"main": [5, 4, 2, 1]}
    assert histories_of(metadata).turns == {2, 4}
    assert ids(without(metadata, 1)) == {"main": [5, 4, 2]}
    assert histories_of(without(metadata, 3)).turns == set(), "nothing is left that it would have to be told from"


def test_what_main_was_rolled_back_from_is_no_part_of_it() -> None:
    before = marked(appended(table(), 1, 2, 3, 4, step=1000), {})
    back = refs.roll_back(before, 2, now_ms=NOW)
    assert ids(back) == {"main": [2, 1]}
    assert histories_of(back).turns == set(), "the head is enough"
    on = marked(appended(back, 5, 6, 7, step=1000), {})
    assert ids(on) == {"main": [7, 6, 5, 2, 1]}
    assert histories_of(on).turns == {2, 5}
    assert ids(without(on, 1, 6)) == {"main": [7, 5, 2]}, "also behind a gap"
