"""The journals in table storage: which segments there are, by the name whose journal they belong to.

Lost swaps leave segments behind, too. What a segment says of the one before it is all that is kept of it here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.journal import Batch, Segment
from firn.model.progress import Progress, counted, unseen
from firn.storage.files import FileStore
from firn.storage.journal import JournalFiles, both_locations, home_of, segment_key
from firn.storage.locations import is_within

READS_AT_ONCE: Final = 16


class Link(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A segment, as far as it says where it belongs. `attempt` counts the swaps of its batch that failed before."""

    location: str
    batch: Batch
    attempt: int

    @property
    def key(self) -> str:
        """Return the text by which segments are compared."""
        return segment_key(self.location)

    @property
    def home(self) -> str:
        """The folder of the table that it is in."""
        home = home_of(self.location)
        assert home is not None  # or it would not have been found
        return home


class Journals(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """All links by name and by key; `torn` are files that are no whole segment, with the reason.

    `copies` are segments of another table's folder than they were written to: a backup, a table that was moved by hand.
    A segment that is in both journal folders of its table is one link.
    """

    by_name: dict[str, list[Link]]
    by_key: Mapping[str, Link]
    torn: dict[str, str]
    copies: tuple[str, ...]

    def find(self, location: str) -> Link | None:
        """Return the link of the segment that a pointer, another segment or a table names."""
        return self.by_key.get(segment_key(location))


def find_segments(files: FileStore, places: Iterable[str]) -> Iterator[str]:
    """Every file below these places that is named as a segment. Raises Unavailable, InvalidInput."""
    for place in places:
        for info in files.list(place):
            if home_of(info.location) is not None:
                yield info.location


def read_journals(locations: Sequence[str], journal: JournalFiles, *, progress: Progress = unseen) -> Journals:
    """Read segments, each once. Raises Unavailable.

    Of a segment that is in both folders the old location counts, because it was written there and is named so.
    """
    there = set(locations)
    both = {segment_key(one): both_locations(one) for one in sorted(there)}
    places = [old if old in there else new for new, old in both.values()]
    by_name: dict[str, list[Link]] = {}
    by_key: dict[str, Link] = {}
    torn: dict[str, str] = {}
    copies: list[str] = []
    pool = ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="recover")
    try:
        links = pool.map(lambda one: _link(journal, one), places)
        read = counted(links, "journal segment", total=len(places), progress=progress)
        for location, found in zip(places, read, strict=True):
            if isinstance(found, str):
                torn[location] = found
            elif found is None:
                copies.append(location)
            else:
                by_name.setdefault(found.batch.table, []).append(found)
                by_key[found.key] = found
    finally:
        pool.shutdown(cancel_futures=True)  # after an interruption the others are not read
    return Journals(by_name=dict(sorted(by_name.items())), by_key=by_key, torn=torn, copies=tuple(copies))


def _link(journal: JournalFiles, location: str) -> Link | str | None:
    """A segment; why it is none; None for a copy."""
    try:
        segment = journal.read(location)
    except (CorruptFile, InvalidInput, NotFound) as error:
        return str(error)
    if _is_copy(segment):
        return None
    return Link(location=location, batch=segment.batch, attempt=len(segment.retried))


def _is_copy(segment: Segment) -> bool:
    """A table's segments are in the folder of its metadata, or at least of the segment before.

    Metadata that was registered may be elsewhere.
    """
    batch, home = segment.batch, home_of(segment.location)
    metadata = batch.new_metadata or batch.base_metadata
    if home is None or metadata is None or is_within(metadata, home):
        return False
    if batch.previous_segment is not None and home_of(batch.previous_segment) == home:
        return False
    return not any(decided.operation.startswith("register-") for decided in segment.decided)
