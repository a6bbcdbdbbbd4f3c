"""Which snapshots of a history stay when it has grown too long: all of the newest, then fewer the older they are.

Behind the newest, one snapshot stays of each stretch of time, the last that was made in it: some a minute for an hour,
then some an hour for a day, then some a day. Stretches begin at multiples of their length, whatever the time is now,
and those of a coarser step choose from what the finer one has left. So it does not matter how often a history is
thinned out while it grows, and what stays for its hour or day stays until it is too old for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from firn.model.snapshot import Snapshot

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Snapshots that stay a minute of the last hour, an hour of the last day, a day before; 0 leaves a step out."""

    per_minute: int
    per_hour: int
    per_day: int


class _Step(msgspec.Struct, frozen=True):
    """One snapshot stays of each stretch of `every_ms`, of those that are younger than `until_ms`; None: of all."""

    every_ms: int
    until_ms: int | None


def kept_of(history: Sequence[Snapshot], *, now_ms: int, pace: Pace, count_max: int) -> set[int]:
    """Return the ids of the `count_max` snapshots that stay of a history, which is given newest first.

    Half of them are the newest. The other half are for the steps of `pace`, which get coarser where it is too few for
    them; what they leave over goes to the newest, too.
    """
    room = count_max // 2
    kept = {one.snapshot_id for one in history[: count_max - room]}
    kept.update(one.snapshot_id for one in of_steps(history, now_ms=now_ms, pace=pace, room=room))
    for one in history:
        if len(kept) >= count_max:
            break
        kept.add(one.snapshot_id)
    return kept


def of_steps(history: Sequence[Snapshot], *, now_ms: int, pace: Pace, room: int) -> list[Snapshot]:
    """Return at most `room` snapshots, newest first: the oldest fall off where the days take more."""
    found: list[Snapshot] = []
    left, newer_ms = history, None
    for step in _steps(pace, room=room):
        left = _last_of_each(left, every_ms=step.every_ms)
        ages = ((one, now_ms - one.timestamp_ms) for one in left)
        found += [
            one
            for one, age_ms in ages
            if (newer_ms is None or age_ms >= newer_ms) and (step.until_ms is None or age_ms < step.until_ms)
        ]
        newer_ms = step.until_ms
    return found[:room]


def _steps(pace: Pace, *, room: int) -> list[_Step]:
    """Return the steps in order. The first two take a third of the `room` each at most."""
    share = max(1, room // 3)
    steps = []
    for count, of_ms, until_ms in ((pace.per_minute, MINUTE_MS, HOUR_MS), (pace.per_hour, HOUR_MS, DAY_MS)):
        if count:
            steps.append(_Step(max(of_ms // count, -(-until_ms // share), 1), until_ms))
    if pace.per_day:
        steps.append(_Step(max(DAY_MS // pace.per_day, 1), None))
    return steps


def _last_of_each(history: Sequence[Snapshot], *, every_ms: int) -> list[Snapshot]:
    """Return of each stretch the first that comes in a history that is given newest first."""
    found: list[Snapshot] = []
    before = None
    for one in history:
        stretch = one.timestamp_ms // every_ms
        if stretch != before:
            found.append(one)
            before = stretch
    return found
