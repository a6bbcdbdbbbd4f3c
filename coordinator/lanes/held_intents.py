"""Intents of one table whose past cannot be read: they wait, and are looked at again by and by.

Where an old part of the journal is damaged or gone, whatever may have been decided there is not known to be new. To
commit it would risk it twice; to refuse it would have its writer ask anew for what may be in the table. So it gets no
outcome before that part can be read, and the others of its table go on without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from firn.coordinator.lanes.lane_queue import LaneQueue
from firn.coordinator.pending import Pending
from firn.model.amounts import plural
from firn.storage.log import get_logger

LOOK_AGAIN_S: Final = (1.0, 5.0, 20.0)
"""Waits before they are looked at again; the last one from then on. Each look reads what is in their way once."""

LOGGED_MAX: Final = 20
"""Intents that the log names."""


class HeldIntents:
    """Parks such intents in their lane's `queue`; `look_again` is called whenever they have been queued again."""

    def __init__(self, table: str, queue: LaneQueue, *, look_again: Callable[[], None]) -> None:
        self._queue = queue
        self._look_again = look_again
        self._reasons: dict[str, str] = {}
        """By intent id, what is in the way."""
        self._looks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._log = get_logger().bind(table=table)

    @property
    def reason(self) -> str | None:
        """What is in the way of the first of them, and how many they are; None where there are none."""
        count = len(self._reasons)
        if not count:
            return None
        first = next(iter(self._reasons.values()))
        return f"what was decided on {plural(count, 'intent')} before, if anything, cannot be read: {first}"

    def hold(self, held: Sequence[tuple[Pending, str]]) -> None:
        """Park intents of a batch, each with what is in the way, until they are looked at again."""
        if not held:
            return
        known = set(self._reasons.values())
        self._reasons |= {pending.decoded.intent.intent_id: reason for pending, reason in held}
        self._queue.park([pending for pending, _ in held])
        if not {reason for _, reason in held} <= known:
            ids = [pending.decoded.intent.intent_id for pending, _ in held[:LOGGED_MAX]]
            self._log.error("past unreadable", reason=self.reason, intent_ids=ids)
        if self._timer is None:
            wait_s = LOOK_AGAIN_S[min(self._looks, len(LOOK_AGAIN_S) - 1)]
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._due)

    def let_go(self, batch: Iterable[Pending]) -> None:
        """Nothing is in the way of these any more."""
        if not self._reasons:
            return
        for pending in batch:
            self._reasons.pop(pending.decoded.intent.intent_id, None)
        if not self._reasons:
            self._looks = 0
            self._log.info("past readable again")

    def end(self) -> None:
        """The lane ends: whoever takes them up finds out anew."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        self._looks += 1
        self._queue.unpark()
        self._look_again()
