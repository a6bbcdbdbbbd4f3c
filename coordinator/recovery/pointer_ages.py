"""Whether a table's pointer is as new as its journal: a ZooKeeper may be restored from its own older copy.

Compared once when a table is taken over in a new session, with one listing of the names behind the pointer's segment. A
segment behind it is nearly always a leftover of a swap that never came off, which must hold nothing up. So it counts
only where something speaks of its swap that is there after a swap alone: a later segment that was built upon it, an
outcome or place in Redis, or a lock that was taken after the one that is held now.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from firn.coordinator.recovery.contents import Contents
from firn.coordinator.recovery.journals import Journals, Link, read_journals
from firn.coordinator.replay.tables import default_location
from firn.coordinator.tables.table_reader import TableReader
from firn.model.errors import CorruptFile, InvalidInput, Unavailable
from firn.model.limits import Limits
from firn.storage.files import FileInfo, FileStore
from firn.storage.intent_streams import IntentStreams, TablePlace
from firn.storage.journal import (
    JOURNAL_FOLDERS,
    SEGMENT_SUFFIX,
    JournalFiles,
    home_of,
    is_same_segment,
    segment_key,
    sequence_of,
)
from firn.storage.metadata_files import version_of
from firn.storage.pointers import Pointer

COMPARED_MAX: Final = 100_000
"""Tables of which is remembered that they were compared."""

READ_MAX: Final = 256
"""Segments behind a pointer that are read: leftovers of one number are few."""

_PLACE: Final = msgspec.json.Decoder(TablePlace)


class StalePointerError(Unavailable):
    """ZooKeeper is behind what was committed: nothing is decided on the table until its pointer is restored."""


class _Decision(msgspec.Struct):
    batch: str | None = None


_DECISION: Final = msgspec.json.Decoder(_Decision)


class PointerAges:
    """Compares pointers with journals, for one daemon or command. `epoch` is that of its ZooKeeper session."""

    def __init__(
        self,
        files: FileStore,
        streams: IntentStreams,
        *,
        journal: JournalFiles,
        reader: TableReader,
        limits: Limits,
        warehouse: str,
        epoch: Callable[[], int],
    ) -> None:
        self._files = files
        self._streams = streams
        self._journal = journal
        self._reader = reader
        self._limits = limits
        self._warehouse = warehouse
        self._epoch = epoch
        self._compared: OrderedDict[str, int] = OrderedDict()

    async def check(self, table: str, pointer: Pointer, *, head: str | None, lock_token: int | None = None) -> None:
        """Raise StalePointerError where the journal goes on behind `head`, the newest segment by the pointer.

        `lock_token` is that of the table's lock, if it is held: no swap that came off was made under a later one.
        """
        epoch = self._epoch()
        if self._compared.get(table) == epoch:
            return
        why = await self.why_stale(table, pointer.location, head=head, lock_token=lock_token)
        if why is not None:
            at = version_of(pointer.metadata_location)
            raise StalePointerError(
                f"ZooKeeper is older than the journal of {table!r}: bring the newer one back, or run firn recover "
                f"{table} --yes (docs/recovery.md). Its pointer is at version {'?' if at is None else at}, segment "
                f"{_short(head)}, but {why}"
            )
        self._compared[table] = epoch
        self._compared.move_to_end(table)
        while len(self._compared) > COMPARED_MAX:
            self._compared.popitem(last=False)

    async def check_absent(self, table: str, *, lock_token: int | None = None) -> None:
        """Raise StalePointerError where a table has no pointer, and its journal or Redis knows it."""
        why = "Redis knows where its metadata is" if await self._streams.table(table) is not None else None
        if why is None:
            home = default_location(table, warehouse=self._warehouse)
            why = await self.why_stale(table, home, head=None, lock_token=lock_token)
        if why is not None:
            raise StalePointerError(
                f"ZooKeeper has no pointer of {table!r}: bring the right one back, or run firn recover {table} --yes "
                f"(docs/recovery.md). For {why}"
            )

    async def why_stale(self, table: str, home: str, *, head: str | None, lock_token: int | None) -> str | None:
        """Return what shows that the journal was committed beyond `head`; None where nothing does."""
        journals = await asyncio.to_thread(segments_behind, home, head, files=self._files, journal=self._journal)
        links = journals.by_name.get(table, [])
        why = built_further(links, head)
        if why is not None:
            return why
        for link in (link for link in links if is_same_segment(link.batch.previous_segment, head)):
            told = await self._told(link)
            if told is not None:
                return f"segment {_short(link.location)} follows in its journal, and {told}"
            if lock_token is not None and link.batch.lock_token > lock_token and await self._is_whole(link):
                return (
                    f"segment {_short(link.location)} was written under a later lock (token {link.batch.lock_token}) "
                    f"than this ZooKeeper has ever given (token {lock_token})"
                )
        return None

    async def unknown_in(self, location: str) -> list[str]:
        """Return the names whose committed journals are in a folder that is about to be given to a table."""
        journals = await asyncio.to_thread(segments_behind, location, None, files=self._files, journal=self._journal)
        return [name for name, links in journals.by_name.items() if _was_built_upon(links)]

    async def _told(self, link: Link) -> str | None:
        """What Redis has that only a swap leaves behind. Raises Unavailable."""
        segment = await asyncio.to_thread(self._journal.read, link.location)
        ids = [decided.intent_id for decided in segment.decided[:READ_MAX]]
        for data in await self._streams.outcomes(ids) if ids else ():
            if data is not None and _batch_in(data) == link.batch.batch:
                return "Redis has the outcome of one of its intents"
        if link.batch.new_metadata is not None and link.batch.new_metadata != link.batch.base_metadata:
            place = await self._streams.table(link.batch.table)
            if place is not None and _metadata_in(place) == link.batch.new_metadata:
                return "Redis tells writers of its metadata"
        return None

    async def _is_whole(self, link: Link) -> bool:
        contents = Contents(self._files, reader=self._reader, metadata_bytes_max=self._limits.metadata_bytes_max)
        return await asyncio.to_thread(contents.what_is_missing, link) is None


def segments_behind(home: str, head: str | None, *, files: FileStore, journal: JournalFiles) -> Journals:
    """Return the segments of the next two numbers behind `head` in a table's folder, of whichever tables; blocking.

    `head` None: the first two. Raises Unavailable.
    """
    number = 0 if head is None else sequence_of(head)
    named_home = None if head is None else home_of(head)
    found: list[str] = []
    for place in dict.fromkeys(one for one in (named_home, home) if one is not None):
        for folder in JOURNAL_FOLDERS:
            start = f"{place}/{folder}/{number + 1:010d}-"
            # What can be no folder, such as a name with a step to another one, has no journal: replay refuses it.
            with contextlib.suppress(CorruptFile, InvalidInput):
                found += _next_two(files.list(f"{place}/{folder}", after=start), number=number)
    return read_journals(found[:READ_MAX], journal)


def built_further(links: Sequence[Link], head: str | None) -> str | None:
    """Return which segment behind `head` was built upon, which no leftover of a failed swap is; None without one."""
    keys = {link.key for link in links if is_same_segment(link.batch.previous_segment, head)}
    for link in links:
        before = link.batch.previous_segment
        if before is not None and segment_key(before) in keys:
            return f"segment {_short(before)} follows in its journal, and {_short(link.location)} was built upon it"
    return None


def _next_two(listed: Iterable[FileInfo], *, number: int) -> list[str]:
    """The locations of segments of the next two numbers; a local folder is not listed in order."""
    return [
        info.location for info in listed if home_of(info.location) and sequence_of(info.location) - number in {1, 2}
    ]


def _was_built_upon(links: Sequence[Link]) -> bool:
    keys = {link.key for link in links}
    return any(
        link.batch.previous_segment is not None and segment_key(link.batch.previous_segment) in keys for link in links
    )


def _batch_in(data: bytes) -> str | None:
    try:
        return _DECISION.decode(data).batch
    except msgspec.MsgspecError:
        return None


def _metadata_in(data: bytes) -> str | None:
    try:
        return _PLACE.decode(data).metadata_location
    except msgspec.MsgspecError:
        return None


def _short(location: str | None) -> str:
    return "none" if location is None else location.rpartition("/")[2].removesuffix(SEGMENT_SUFFIX)
