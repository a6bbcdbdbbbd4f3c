"""A lane's queue: the intents of one table that wait for a batch, in order.

A batch takes what has gathered, up to the limits. What changes where tables are (create, move, drop) is a batch of its
own, and an intent whose deadline has passed goes into its batch with a refusal.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

import msgspec

from firn.coordinator.metrics import Metrics
from firn.coordinator.pending import Pending
from firn.coordinator.replay.decision import Refused
from firn.coordinator.replay.places import chooses_places
from firn.model.intent import DropTable, Intent
from firn.model.limits import Limits


class LaneQueue:
    """The intents of one table that are not in a batch yet."""

    def __init__(self, *, limits: Limits, metrics: Metrics) -> None:
        self._limits = limits
        self._metrics = metrics
        self._waiting: deque[Pending] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def bytes(self) -> int:
        """Payload bytes of what waits."""
        return self._bytes

    @property
    def intents(self) -> tuple[Intent, ...]:
        """What waits, in order."""
        return tuple(p.decoded.intent for p in self._waiting)

    def put(self, pending: Pending) -> None:
        """Queue an intent behind the others."""
        self._waiting.append(pending)
        self._bytes += pending.decoded.size

    def put_back(self, pendings: Sequence[Pending]) -> None:
        """Queue intents that were in a batch before all others, in their order."""
        self._waiting.extendleft(reversed(pendings))
        self._bytes += sum(p.decoded.size for p in pendings)

    def clear(self) -> list[Pending]:
        """Take everything out, in order."""
        left = list(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        return left

    def next_batch(self, *, now_ms: int) -> list[Pending]:
        """What has gathered, up to the limits; empty only if nothing waits. `now_ms` is the wall clock."""
        batch: list[Pending] = []
        size = 0
        while self._waiting and len(batch) < self._limits.batch_intents_max:
            pending = self._waiting[0]
            alone = is_alone(pending.decoded.intent)
            size += pending.decoded.size
            if batch and (alone or size > self._limits.batch_bytes_max):
                break
            self._waiting.popleft()
            self._bytes -= pending.decoded.size
            batch.append(_unless_late(pending, now_ms=now_ms))
            self._metrics.stage_seconds.labels("wait").observe(time.monotonic() - pending.taken_at)
            if alone:
                break
        return batch


def is_alone(intent: Intent) -> bool:
    """Whether an intent shares its batch with no other: it changes whether there is a table, or where it is."""
    return isinstance(intent, DropTable) or chooses_places(intent)


def _unless_late(pending: Pending, *, now_ms: int) -> Pending:
    deadline_ms = pending.decoded.intent.deadline_ms
    if pending.verdict is not None or deadline_ms is None or now_ms <= deadline_ms:
        return pending
    refused = Refused(
        rule="deadline-passed", message=f"its deadline passed {now_ms - deadline_ms} ms before it was due", hint="retry"
    )
    return msgspec.structs.replace(pending, verdict=refused)
