"""How far each table's journal has been collected, kept in properties of the table that it is collected into.

A position is the name of the newest segment that was collected. It is set by the same commit that brings the rows, and
only if it still is what the collector saw: so whatever crashes, and however many collect at once, a segment's rows are
there once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final

from firn.model.errors import CorruptFile
from firn.model.journal import Segment
from firn.storage.journal import JournalFiles, sequence_of

POSITION_PREFIX: Final = "firn.journal-position."
"""Properties with this prefix and a table's name hold its position."""

SEGMENTS_KEPT: Final = 256
"""Segments held in memory while the way to the oldest is followed; newer ones are read a second time."""


def positions_in(properties: Mapping[str, str]) -> dict[str, str]:
    """Table → position, of the properties of the table of commits."""
    return {
        name.removeprefix(POSITION_PREFIX): value
        for name, value in properties.items()
        if name.startswith(POSITION_PREFIX)
    }


def property_of(table: str) -> str:
    """The property that holds a table's position."""
    return POSITION_PREFIX + table


def position_of(segment_location: str) -> str:
    """A segment's name as a position: ``0000000012-<attempt>``."""
    return segment_location.rpartition("/")[2].partition(".")[0]


def segments_after(journal: JournalFiles, head: str | None, *, position: str | None) -> Iterator[Segment]:
    """The segments that came after `position` (None: all there are), up to `head`, oldest first.

    Raises CorruptFile when the segment at the position's number is another than the one that was collected (a journal
    that was restored from an older copy and went on differently), and what reading a segment raises.
    """
    last = -1 if position is None else sequence_of(position)
    kept: deque[Segment] = deque()
    newer: list[str] = []
    location = head
    while location is not None and sequence_of(location) > last:
        segment = journal.read(location)
        kept.append(segment)
        if len(kept) > SEGMENTS_KEPT:
            newer.append(kept.popleft().location)
        location = segment.batch.previous_segment
    if location is not None and sequence_of(location) == last and position_of(location) != position:
        raise CorruptFile(location, f"stands where {position} was collected: the journal was replaced")
    yield from reversed(kept)
    for location in reversed(newer):
        yield journal.read(location)
