"""Waiting a little for the writers who have just been answered, to have what they send next in the next batch.

Writers who send the next intent when they hear of the last fall into two groups otherwise, and each batch has one of
them: half as large, and each writer waits for two. Whoever waits in vain stops waiting for a while: a table whose
writers do not come back loses next to nothing. See docs/decisions/0009-speed.md.
"""

from __future__ import annotations

from typing import Final

PART: Final = 1.3
"""Of the time that the last batch took: the longest wait."""

WAIT_S_MAX: Final = 0.025

ENOUGH: Final = 128
"""Intents that are a batch worth its fixed cost: nobody is waited for."""

MOST: Final = 0.85
"""Of those who are expected: when so many are there at the end of a batch, the others wait for the batch after it."""

WORTH: Final = 0.75
"""Of those who were waited for: when fewer came, waiting was in vain."""

FEW: Final = 0.25
LOOK_S: Final = 0.001
"""When there are fewer than this part of what the last batch had, it is looked once more whether others have come: who
reads a queue that was empty gets the first of those who send together, and the others with the next read.
"""

PASSES_MAX: Final = 16
"""Batches that begin without waiting after waits in vain: one after the first, and each time twice as many."""


class Gathering:
    """When the next batch of a lane begins. Times are of the monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._answered = 0
        self._expected = 0
        self._ends_at = 0.0
        self._passes = 0
        self._next_passes = 1

    def batch_ended(self, *, began_at: float, now: float, answered: int, queued: int) -> None:
        """A batch with `answered` intents is done, and `queued` others came meanwhile, or are being read."""
        self._answered = answered
        self._expected = min(answered + queued, ENOUGH)
        self._ends_at = now + min(WAIT_S_MAX, PART * (now - began_at))
        if queued >= MOST * self._expected:
            self._expected = 0
        if self._passes:
            self._passes -= 1
            self._expected = 0

    def wait_s(self, *, queued: int, now: float) -> float:
        """How long to wait at most for more than the `queued`; 0 when the next batch is to begin."""
        return 0.0 if queued >= self._expected else max(0.0, self._ends_at - now)

    def look_s(self, *, queued: int) -> float:
        """How long to leave it to others, whoever may be waited for, before the `queued` are a batch."""
        return LOOK_S if queued < FEW * min(self._answered, ENOUGH) else 0.0

    def waited(self, *, found: int, queued: int) -> None:
        """A wait is over that began with `found` intents and ended with `queued`."""
        missing = self._expected - found
        self._expected = 0
        if queued - found < WORTH * missing:
            self._passes = self._next_passes
            self._next_passes = min(2 * self._next_passes, PASSES_MAX)
        else:
            self._next_passes = 1
