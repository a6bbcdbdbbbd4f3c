"""Landmarks of one table, by key: who made the schema what it is, who moved a branch, who expired a snapshot.

They are told to whoever is refused because of it; no decision rests on them, so memory and look-ups are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from firn.model.effects import effects_on
from firn.model.journal import Segment
from firn.model.landmark import SNAPSHOTS_TELL, Landmark, keys_of

LANDMARKS_MAX: Final = 1_000
"""Landmarks in memory, and in one checkpoint; the oldest go first."""

LOOK_BACKS_MAX: Final = 8
"""Keys of one attempt that the journal is asked for: a batch of refused intents must not read it over and over."""


class Landmarks:
    """A layer of landmarks over those `below`; `look_back` reads what memory does not have, a few times a layer."""

    def __init__(
        self, *, below: Landmarks | None = None, look_back: Callable[[str], Landmark | None] | None = None
    ) -> None:
        self._below = below
        self._look_back = look_back
        self._look_backs_left = LOOK_BACKS_MAX
        self._known: dict[str, Landmark] = {}

    def put(self, key: str, landmark: Landmark) -> None:
        """Take note of the newest landmark of a key."""
        self._known.pop(key, None)
        self._known[key] = landmark
        if len(self._known) > LANDMARKS_MAX:
            del self._known[next(iter(self._known))]

    def find(self, key: str) -> Landmark | None:
        """The newest of a key. May read files, unless memory has it: call it off the event loop."""
        found = self.known(key)
        if found is None and self._look_back is not None and self._look_backs_left > 0:
            self._look_backs_left -= 1
            found = self._look_back(key)
        return found

    def known(self, key: str) -> Landmark | None:
        """The newest of a key that memory has."""
        found = self._known.get(key)
        return self._below.known(key) if found is None and self._below is not None else found

    def branch_off(self) -> Landmarks:
        """A layer for one attempt, which leaves these as they are."""
        return Landmarks(below=self, look_back=self._look_back)


def landmarks_of(segment: Segment) -> Iterator[tuple[str, Landmark]]:
    """The landmarks in a segment, oldest first."""
    for decided in segment.decided:
        if decided.operation in SNAPSHOTS_TELL:
            continue
        for effect in effects_on(segment.batch.table, decided):
            for key in keys_of(effect.operation, ref=effect.ref, details=effect.details):
                yield (
                    key,
                    Landmark(
                        operation=effect.operation,
                        intent_id=decided.intent_id,
                        writer=decided.writer,
                        snapshot_id=effect.snapshot_id,
                        metadata_location=segment.batch.new_metadata,
                    ),
                )
