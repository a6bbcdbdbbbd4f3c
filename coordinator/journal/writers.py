"""Streaming writers of one table: the last epoch that each of them committed, for those that were heard of last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from firn.model.journal import Decided
from firn.model.outcome import Committed

LastEpoch = tuple[int, str, str]
"""Its sequence number, its intent's id, and the segment in which that was decided."""


class StreamingWriters:
    """Writers by name, `writers_max` at most: past it the one that has been silent for longest is forgotten."""

    def __init__(self, known: Mapping[str, LastEpoch] | None = None, *, writers_max: int) -> None:
        self._writers_max = writers_max
        # An ordered one: the first of a plain dict is looked for among all that were deleted before it.
        self._known: OrderedDict[str, LastEpoch] = OrderedDict(known or {})
        self._forget()

    def note(self, decided: Decided, segment: str) -> None:
        """Take note of a decision, if it is on an epoch: a refused one may be tried again under the same number."""
        if decided.writer is None or decided.writer_sequence is None or not isinstance(decided.outcome, Committed):
            return
        known = self._known.pop(decided.writer, None)
        if known is None or known[0] <= decided.writer_sequence:
            known = (decided.writer_sequence, decided.intent_id, segment)
        self._known[decided.writer] = known  # at the end: the first has been silent for longest
        self._forget()

    def last_of(self, writer: str) -> LastEpoch | None:
        """The last epoch that a writer committed, None where that is not known."""
        return self._known.get(writer)

    def together_with(self, decisions: Iterable[Decided], segment: str) -> dict[str, LastEpoch]:
        """What is known after these decisions, which one segment has; those that are silent for longest first."""
        after = StreamingWriters(self._known, writers_max=self._writers_max)
        for decided in decisions:
            after.note(decided, segment)
        return dict(after._known)

    def _forget(self) -> None:
        while len(self._known) > self._writers_max:
            self._known.popitem(last=False)
