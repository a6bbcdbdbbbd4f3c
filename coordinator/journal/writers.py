"""Streaming writers of one table: the last epoch that each of them committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from firn.model.journal import Decided
from firn.model.outcome import Committed

LastEpoch = tuple[int, str, str]
"""Its sequence number, its intent's id, and the segment in which that was decided."""


class StreamingWriters:
    """Writers by name. None is forgotten: a repeat of its last epoch would be committed again."""

    def __init__(self, known: Mapping[str, LastEpoch] | None = None) -> None:
        self._known: dict[str, LastEpoch] = dict(known or {})

    def __len__(self) -> int:
        return len(self._known)

    def note(self, decided: Decided, segment: str) -> None:
        """Take note of a decision, if it committed an epoch: a refused one may be tried again under the same number."""
        outcome = decided.outcome
        if decided.writer is None or decided.writer_sequence is None or not isinstance(outcome, Committed):
            return
        known = self._known.get(decided.writer)
        if outcome.repeats is None and (known is None or known[0] <= decided.writer_sequence):
            self._known[decided.writer] = (decided.writer_sequence, decided.intent_id, segment)

    def last_of(self, writer: str) -> LastEpoch | None:
        """The last epoch that a writer committed, None where that is not known."""
        return self._known.get(writer)

    def together_with(self, decisions: Iterable[Decided], segment: str) -> dict[str, LastEpoch]:
        """What is known after these decisions, which one segment has."""
        after = StreamingWriters(self._known)
        for decided in decisions:
            after.note(decided, segment)
        return after._known
