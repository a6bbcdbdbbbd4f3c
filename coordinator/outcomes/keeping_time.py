"""How long Redis keeps outcomes: a day, or less where so many are told that a day of them would fill it.

Redis only has copies: the journal keeps what it has of outcomes for good, and an intent that is submitted again gets
its first outcome from there. See docs/decisions/0016-outcomes-in-redis.md.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from firn.model.limits import Limits

LONGEST_S: Final = 24 * 3600
"""As long as intents may be submitted again by default; what no journal keeps has it at least."""

SHORTEST_S: Final = 15 * 60
"""As long as a client waits at most before it submits an intent again whose entry stands in its stream."""

SLOT_S: Final = 60
SLOTS: Final = 10
"""The rate is that of the last ten minutes: a backlog that is drained in a few does not count as a day of them."""


def unjournaled_seconds(limits: Limits) -> int:
    """Return how long Redis keeps outcomes that no journal keeps: while an intent under their id may come again.

    After that its id is refused as too old, so nothing is decided anew under an id that was refused. An id may say a
    later time than the queue's clock, and is as much longer young enough.
    """
    return max(LONGEST_S, limits.dedupe_window_hours * 3600 + limits.clock_skew_minutes_max * 60)


class KeepingTime:
    """How long outcomes are kept that are told now, so that there are about `most` of one daemon's at any time.

    `most` 0: always `LONGEST_S`. `clock` is monotonic, in seconds.
    """

    def __init__(self, *, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._slots: deque[tuple[int, int]] = deque()
        self._counted = 0

    def count(self, outcomes: int) -> None:
        """So many are told now."""
        slot = self._forget_old()
        if self._slots and self._slots[-1][0] == slot:
            outcomes_before = self._slots.pop()[1]
            self._slots.append((slot, outcomes_before + outcomes))
        else:
            self._slots.append((slot, outcomes))
        self._counted += outcomes

    @property
    def seconds(self) -> int:
        """Seconds, from `SHORTEST_S` to `LONGEST_S`."""
        self._forget_old()
        if not self._most or not self._counted:
            return LONGEST_S
        return max(SHORTEST_S, min(LONGEST_S, self._most * SLOTS * SLOT_S // self._counted))

    def _forget_old(self) -> int:
        """Forget what was told longer ago than the rate is of; the slot that it is now."""
        slot = int(self._clock() // SLOT_S)
        while self._slots and self._slots[0][0] <= slot - SLOTS:
            self._counted -= self._slots.popleft()[1]
        return slot
