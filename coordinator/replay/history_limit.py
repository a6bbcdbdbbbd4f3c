"""Snapshots that expire with commits, so that a busy table's metadata stays as small as it is.

A table that says nothing keeps `firn.snapshots-max` snapshots of each branch: the newest, and of the older ones fewer
the older they are (`firn.model.history_thinning`). One that sets ``history.expire.max-snapshot-age-ms`` keeps all that
are not older. Tags, staged snapshots, branches with settings of their own, what other writers made (unless the table
sets a property of firn's), and whatever work that waits or has reserved needs, stay as for any expiry. No file is
deleted here.
"""

from __future__ import annotations

from typing import Final

from firn.coordinator.replay.holds import snapshots_held
from firn.coordinator.replay.working import Working
from firn.model.errors import FirnError
from firn.model.history import SUMMARY_BATCH, histories_of
from firn.model.history_thinning import Pace, kept_of
from firn.model.metadata import TableMetadata
from firn.model.retention import Criteria, apply_expiry, plan_expiry
from firn.model.table_properties import (
    EXPIRE_ON_COMMIT,
    EXPIRE_SNAPSHOT_AGE_MS,
    EXPIRE_SNAPSHOTS_MIN,
    GC_ENABLED,
    HISTORY_PER_DAY,
    HISTORY_PER_HOUR,
    HISTORY_PER_MINUTE,
    SNAPSHOTS_MAX,
)

LOOK_EVERY: Final = 64
"""Snapshots between two looks at what is old enough."""

SURPLUS_PART: Final = 4
"""A history is cut back once it is longer by this part of what it may be: each cut takes many."""


def is_due(metadata: TableMetadata | None) -> bool:
    """Whether the next commit is to look what expires; costs nothing to ask."""
    if metadata is None or not _is_wanted(metadata):
        return False
    count, count_max = len(metadata.snapshots), _count_max(metadata)
    if count_max and count > count_max + count_max // SURPLUS_PART:
        # What is kept for others must not be looked at every time; the more there is of it, the more rarely.
        return _is_turn(metadata, every=max(8, count // 128))
    return count > 1 and EXPIRE_SNAPSHOT_AGE_MS.name in metadata.properties and _is_turn(metadata, every=LOOK_EVERY)


def _is_wanted(metadata: TableMetadata) -> bool:
    """Whether the table has its history cut back at all, by its length or by its age."""
    properties = metadata.properties
    if not EXPIRE_ON_COMMIT.of(properties) or not GC_ENABLED.of(properties):
        return False
    return bool(_count_max(metadata)) or EXPIRE_SNAPSHOT_AGE_MS.name in properties


def _is_turn(metadata: TableMetadata, *, every: int) -> bool:
    """Whether one of every so many sequence numbers was among those of the last swap, which may have made hundreds."""
    turn = metadata.last_sequence_number - metadata.last_sequence_number % every
    if turn == metadata.last_sequence_number:
        return True
    batch = None
    for snapshot in reversed(metadata.snapshots):  # as many as have come since the turn, at most
        made_by = (snapshot.summary or {}).get(SUMMARY_BATCH)
        if made_by is None or made_by != (batch or made_by):
            return False
        if snapshot.sequence_number <= turn:
            return True
        batch = made_by
    return False


def _count_max(metadata: TableMetadata) -> int:
    """Snapshots of a branch that stay whatever their age; 0 where only their age counts."""
    properties = metadata.properties
    if EXPIRE_SNAPSHOT_AGE_MS.name in properties and SNAPSHOTS_MAX.name not in properties:
        return 0
    count_max = SNAPSHOTS_MAX.sane(properties)
    return count_max and max(count_max, EXPIRE_SNAPSHOTS_MIN.sane(properties))


def limit_history(working: Working) -> None:
    """Have the table forget what `is_due` promised, after the batch was replayed.

    `working.waiting` must be what is needed of this very table. The batch itself may have turned the limit off.
    """
    metadata = working.metadata
    if metadata is None or working.change != "updated" or not working.made_here or not _is_wanted(metadata):
        return
    expiry_ms = working.attempt.expiry_ms
    aged_ms = expiry_ms - EXPIRE_SNAPSHOT_AGE_MS.sane(metadata.properties)
    is_by_age = EXPIRE_SNAPSHOT_AGE_MS.name in metadata.properties
    try:
        expiry = plan_expiry(
            metadata,
            Criteria(
                older_than_ms=aged_ms if is_by_age else _behind_all(metadata),
                retain_last=max(1, EXPIRE_SNAPSHOTS_MIN.sane(metadata.properties)),
            ),
            now_ms=expiry_ms,
            in_use={
                **_of_others(metadata),
                **_of_histories(metadata, now_ms=expiry_ms, aged_ms=aged_ms),
                **working.made_here,
                **snapshots_held(metadata, working.waiting),
            },
            refs_in_use=dict.fromkeys(metadata.refs, "not for a commit to remove"),
        )
        limited = metadata if expiry.is_empty else apply_expiry(metadata, expiry, now_ms=working.attempt.now_ms)
    except FirnError:
        return  # what another writer stored cannot be used: an expiry that is asked for reports it, a commit goes on
    if limited is not metadata:
        working.change_metadata(limited)


def _of_histories(metadata: TableMetadata, *, now_ms: int, aged_ms: int) -> dict[int, str]:
    """Snapshots that stay of the branches' histories, where their number counts, and of what is on no branch."""
    histories, count_max = histories_of(metadata), _count_max(metadata)
    pace = Pace(
        per_minute=HISTORY_PER_MINUTE.sane(metadata.properties),
        per_hour=HISTORY_PER_HOUR.sane(metadata.properties),
        per_day=HISTORY_PER_DAY.sane(metadata.properties),
    )
    kept: dict[int, str] = {}
    on_branch: set[int] = set()
    for name, history in histories.of_branch.items():
        on_branch.update(one.snapshot_id for one in history)
        ref = metadata.refs[name]
        if count_max and ref.min_snapshots_to_keep is None and ref.max_snapshot_age_ms is None:
            stay = kept_of(history, now_ms=now_ms, pace=pace, count_max=count_max)
            kept.update(dict.fromkeys(stay, f"stays of the history of {name}"))
    beside = (one for one in metadata.snapshots if one.snapshot_id not in on_branch and one.timestamp_ms >= aged_ms)
    kept.update((one.snapshot_id, "on no branch, but not old enough") for one in beside)
    return {**dict.fromkeys(histories.turns, "shows what is on no branch"), **kept}


def _behind_all(metadata: TableMetadata) -> int:
    """A time at which every snapshot is old: unless the table sets an age, it must not matter how a clock went."""
    return 1 + max(snapshot.timestamp_ms for snapshot in metadata.snapshots)


def _of_others(metadata: TableMetadata) -> dict[int, str]:
    """Snapshots that other writers made, unless the table asks for the limit: who registers a table keeps its past."""
    if SNAPSHOTS_MAX.name in metadata.properties or EXPIRE_ON_COMMIT.name in metadata.properties:
        return {}
    return {
        snapshot.snapshot_id: "made by another writer"
        for snapshot in metadata.snapshots
        if SUMMARY_BATCH not in (snapshot.summary or {})
    }
