"""The journals in table storage: which segments there are, by the name whose journal they belong to.

Lost swaps leave segments behind, too. What a segment says of the one before it is all that is kept of it here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.journal import Batch, Segment
from firn.storage.files import FileStore
from firn.storage.journal import JOURNAL_FOLDER, JournalFiles, sequence_of
from firn.storage.locations import is_within

READS_AT_ONCE: Final = 16
_BETWEEN: Final = f"/{JOURNAL_FOLDER}/"


class Link(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A segment, as far as it says where it belongs. `attempt` counts the swaps of its batch that failed before."""

    location: str
    batch: Batch
    attempt: int

    @property
    def home(self) -> str:
        """The folder of the table that it is in."""
        return home_of(self.location)


class Journals(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """All links by name and by location; `torn` are files that are no whole segment, with the reason.

    `copies` are segments that lie in another place than they were written to: a backup, a table that was moved by hand.
    """

    by_name: dict[str, list[Link]]
    by_location: dict[str, Link]
    torn: dict[str, str]
    copies: tuple[str, ...]


def home_of(segment: str) -> str:
    """The table folder that a segment is in."""
    return segment.partition(_BETWEEN)[0]


def find_segments(files: FileStore, places: Iterable[str]) -> Iterator[str]:
    """Every file below these places that is named as a segment. Raises Unavailable, InvalidInput."""
    for place in places:
        for info in files.list(place):
            if _BETWEEN in info.location and info.location.endswith(".jsonl.gz") and sequence_of(info.location) > 0:
                yield info.location


def read_journals(locations: Sequence[str], journal: JournalFiles) -> Journals:
    """Read segments, each once. Raises Unavailable."""
    by_name: dict[str, list[Link]] = {}
    by_location: dict[str, Link] = {}
    torn: dict[str, str] = {}
    copies: list[str] = []
    with ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="recover") as pool:
        for location, found in zip(locations, pool.map(lambda one: _link(journal, one), locations), strict=True):
            if isinstance(found, str):
                torn[location] = found
            elif found is None:
                copies.append(location)
            else:
                by_name.setdefault(found.batch.table, []).append(found)
                by_location[location] = found
    return Journals(by_name=dict(sorted(by_name.items())), by_location=by_location, torn=torn, copies=tuple(copies))


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
    if metadata is None or is_within(metadata, home):
        return False
    if batch.previous_segment is not None and home_of(batch.previous_segment) == home:
        return False
    return not any(decided.operation.startswith("register-") for decided in segment.decided)
