"""The history of a table: which of its snapshots were a branch's, and how far back they reach.

A snapshot names its parent. Where the parent has expired, older snapshots of the branch may be there all the same: firn
thins a history out (`firn.model.history_thinning`). What tells them from snapshots that never were on ``main`` is in
their summaries: `SUMMARY_BRANCH` of those that were made on another branch, `SUMMARY_STAGED` of those on none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import compress
from typing import Final

import msgspec

from firn.model.ancestry import ancestors_of
from firn.model.cherry_pick import staged_wap_id
from firn.model.metadata import TableMetadata
from firn.model.snapshot import MAIN_BRANCH, Snapshot
from firn.model.table_properties import BASE_HOURS

SUMMARY_BATCH: Final = "firn.batch-id"
"""In the summary of every snapshot that firn made: the batch that it was committed with."""

SUMMARY_BRANCH: Final = "firn.branch"
SUMMARY_STAGED: Final = "firn.staged"
SUMMARY_INTENT: Final = "firn.intent-id"
SUMMARY_INTENTS: Final = "firn.intents"
SUMMARY_WRITER: Final = "firn.writer"


class HistoryReach(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """How far back a table can be read; times are milliseconds since 1970-01-01 UTC, None where there is nothing.

    `oldest_ms` is the time of the oldest snapshot: so far back a snapshot can be read by its id. `whole_since_ms` is
    where the snapshot log begins: no snapshot of ``main`` is missing since, and engines find one by a time. So many
    `base_hours`, at least, a snapshot can be the base of an intent, whether it is still there or not.
    """

    snapshots: int
    oldest_ms: int | None = None
    whole_since_ms: int | None = None
    base_hours: int = BASE_HOURS.default


def reach_of(metadata: TableMetadata) -> HistoryReach:
    """Return how far back a table can be read."""
    log = metadata.snapshot_log
    return HistoryReach(
        snapshots=len(metadata.snapshots),
        oldest_ms=min((snapshot.timestamp_ms for snapshot in metadata.snapshots), default=None),
        whole_since_ms=log[0].timestamp_ms if log else None,
        base_hours=BASE_HOURS.sane(metadata.properties),
    )


class Histories(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshots of each branch, newest first: each in one of them, of ``main`` if it is in that.

    `turns` are snapshots that show what else there is: a commit on ``main`` that did not follow the one made before it,
    and the one that it followed. Without them, what was staged or rolled back would seem to be a part of ``main``.
    """

    of_branch: Mapping[str, Sequence[Snapshot]]
    turns: frozenset[int] = frozenset()


def histories_of(metadata: TableMetadata) -> Histories:
    """Return the history of each branch, with what firn made on it before a gap.

    Staged snapshots, those of branches that are gone, and those that a branch was rolled back from are in none.
    """
    branches = sorted((name for name, ref in metadata.refs.items() if ref.type == "branch"), key=_main_first)
    found: dict[str, list[Snapshot]] = {}
    claimed: set[int] = set()
    for name in branches:
        own = [one for one in ancestors_of(metadata, metadata.refs[name].snapshot_id) if one.snapshot_id not in claimed]
        found[name] = own
        claimed.update(one.snapshot_id for one in own)
    passed, turns = _passed(metadata, claimed)
    for snapshot in metadata.snapshots:
        branch = None if snapshot.snapshot_id in claimed else _made_on(snapshot)
        if branch is not None and branch in found and snapshot.snapshot_id not in passed:
            found[branch].append(snapshot)
    of_branch = {name: sorted(history, key=_age, reverse=True) for name, history in found.items()}
    return Histories(of_branch=of_branch, turns=frozenset(turns))


def _passed(metadata: TableMetadata, claimed: Collection[int]) -> tuple[set[int], set[int]]:
    """Return the snapshots that ``main`` passed by, though nothing in them says so, and those that show it.

    Snapshots are in the order in which they were made. Whatever lies between one of ``main`` and its parent, or behind
    the head, was made elsewhere or rolled back.
    """
    places = {snapshot.snapshot_id: place for place, snapshot in enumerate(metadata.snapshots)}
    unclaimed = [one.snapshot_id not in claimed and _made_on(one) == MAIN_BRANCH for one in metadata.snapshots]
    passed: set[int] = set()
    turns: set[int] = set()
    if not any(unclaimed):
        return passed, turns
    head = metadata.refs.get(MAIN_BRANCH)
    end = -1 if head is None else places.get(head.snapshot_id, -1)
    passed.update(one.snapshot_id for one in compress(metadata.snapshots[end + 1 :], unclaimed[end + 1 :]))
    for place in range(end, -1, -1):
        one = metadata.snapshots[place]
        parent = None if one.parent_snapshot_id is None else places.get(one.parent_snapshot_id)
        if one.snapshot_id in passed or _made_on(one) != MAIN_BRANCH or parent is None or parent >= place - 1:
            continue
        between = {metadata.snapshots[at].snapshot_id for at in range(parent + 1, place) if unclaimed[at]}
        if between:
            passed |= between
            turns |= {one.snapshot_id, metadata.snapshots[parent].snapshot_id}
    return passed, turns


def _made_on(snapshot: Snapshot) -> str | None:
    """The branch that firn made a snapshot on; None for staged ones and for those that others made."""
    summary = snapshot.summary or {}
    if SUMMARY_BATCH not in summary or SUMMARY_STAGED in summary or staged_wap_id(snapshot) is not None:
        return None
    return summary.get(SUMMARY_BRANCH, MAIN_BRANCH)


def _main_first(branch: str) -> tuple[bool, str]:
    return branch != MAIN_BRANCH, branch


def _age(snapshot: Snapshot) -> tuple[int, int]:
    return snapshot.timestamp_ms, snapshot.sequence_number
