"""A transaction or rename is in the journals of all its tables, or in none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from firn.coordinator.fsck.evidence import Evidence
from firn.coordinator.fsck.finding import Finding
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.journal import Segment
from firn.storage.journal import JournalFiles, segment_key, sequence_of
from firn.storage.pointers import Pointer

PointerOf = Callable[[str], Pointer]
"""The pointer of a table by name, that of a dropped one too. Raises NotFound."""


def all_or_nothing(evidence: Evidence, *, pointer_of: PointerOf, journal: JournalFiles) -> Iterator[Finding]:
    """Breaches seen from one table: parts of its transactions that are not in the journals of the others.

    The journals of the others are read as far back as that takes; what is wrong with them is said where
    they are checked.
    """
    wanted: dict[str, dict[str, Segment]] = {}
    for segment in evidence.segments:
        for other in segment.batch.others:
            wanted.setdefault(other.table, {})[other.segment] = segment
    for table, parts in wanted.items():
        found = _journal_of(table, back_to=min(map(sequence_of, parts)), pointer_of=pointer_of, journal=journal)
        if found is None:
            continue
        for location, own in parts.items():
            yield from _fits(own, table, location, found.get(segment_key(location)))


def _journal_of(
    table: str, *, back_to: int, pointer_of: PointerOf, journal: JournalFiles
) -> Mapping[str, Segment] | None:
    """Return the segments of a table's journal from one number on, by key; None where they cannot be read."""
    found: dict[str, Segment] = {}
    try:
        for segment in journal.walk(pointer_of(table).journal_head):
            found[segment_key(segment.location)] = segment
            if segment.batch.sequence <= back_to:
                break
    except (NotFound, CorruptFile, InvalidInput):
        return None
    return found


def _fits(own: Segment, table: str, location: str, part: Segment | None) -> Iterator[Finding]:
    what = f"{own.decided[0].operation} {own.decided[0].intent_id}" if own.decided else f"batch {own.batch.batch}"
    if part is None:
        yield _finding(own.location, f"{what} has a part in {table!r}, whose journal lacks {location}")
        return
    if part.batch.batch != own.batch.batch:
        yield _finding(own.location, f"{what} has a part in {location}, which is of batch {part.batch.batch}")
    if segment_key(own.location) not in {segment_key(other.segment) for other in part.batch.others}:
        yield _finding(own.location, f"{what} has a part in {location}, which does not name this one")
    if [decided.outcome for decided in part.decided] != [decided.outcome for decided in own.decided]:
        yield _finding(own.location, f"{what} has another outcome in {location}")


def _finding(where: str, message: str) -> Finding:
    return Finding(invariant="all-or-nothing", where=where, message=message)
