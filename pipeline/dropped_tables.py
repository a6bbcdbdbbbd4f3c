"""The end of dropped tables: purged files some days after the drop, then the name, whose pointer had stayed.

Files go only from folders that are wholly the dropped table's and that nothing live names. The journal goes last, since
until then it answers for what was committed; a sweep that was killed goes on where it was.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, Literal, TypeVar

import msgspec

from firn.model.amounts import plural, size_text
from firn.model.errors import FirnError, InvalidInput, NotFound, Unavailable
from firn.model.progress import Progress, unseen
from firn.pipeline.dropped_folders import DroppedFolders, is_of_journal
from firn.pipeline.parallel_files import delete_all
from firn.pipeline.upkeep import Upkeep
from firn.storage.files import FileInfo
from firn.storage.intent_streams import IntentStreams
from firn.storage.journal import is_same_segment
from firn.storage.leases import Lease, Leases, lock_order
from firn.storage.pauses import Pauses
from firn.storage.pointers import Pointer, PointerChange, Pointers, Versioned, Won
from firn.storage.sessions import Session

DAY_MS: Final = 86_400_000
PURGE_AFTER_MS: Final = 7 * DAY_MS
"""Days in which a dropped table with purge can be registered again, when nothing else is said."""

FORGET_AFTER_MS: Final = 30 * DAY_MS
"""Age of a drop from which its name goes, when nothing else is said."""

AFTER_MS_FLOOR: Final = 1_000
"""Younger drops are left alone, forced or not: the daemon that made them may still be telling of them."""

PORTION_FILES: Final = 2_000
"""Files that are removed while the table's lock and that over all places are held."""

LOCK_TIMEOUT_S: Final = 10.0
LOCATIONS_LOCK: Final = ".locations"
"""As in `firn.coordinator.tables.table_locations`: no table is given a place while it is held."""

_Result = TypeVar("_Result")

Status = Literal["purged", "forgotten", "kept", "failed"]


class DroppedName(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A name whose table or view was dropped or renamed, and when what goes. None where that is never."""

    table: str
    kind: Literal["table", "view"]
    uuid: str
    location: str
    metadata_location: str
    renamed_to: str | None = None
    dropped_ms: int | None = None
    purge: bool = False
    purge_due_ms: int | None = None
    forget_due_ms: int | None = None


class Swept(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What became of one dropped name; `files` of `bytes_count` bytes were removed."""

    table: str
    status: Status
    message: str
    files: int = 0
    bytes_count: int = 0


class Delays(msgspec.Struct, frozen=True, kw_only=True):
    """How long after a drop the files of purged tables go, and the names."""

    purge_after_ms: int = PURGE_AFTER_MS
    forget_after_ms: int = FORGET_AFTER_MS

    def check(self, *, force: bool) -> None:
        """Raise InvalidInput for delays that leave no time to bring a table back, unless they are forced."""
        for name, span_ms in (("purge-after", self.purge_after_ms), ("forget-after", self.forget_after_ms)):
            if span_ms < AFTER_MS_FLOOR:
                raise InvalidInput("say at least 1 second", where=name)
            if span_ms < DAY_MS and not force:
                raise InvalidInput(
                    "under 24 hours a drop by mistake cannot be undone: force it if it is none", where=name
                )
        if self.forget_after_ms < self.purge_after_ms:
            raise InvalidInput("names go after the files: say no less than purge-after", where="forget-after")


def dropped_names(upkeep: Upkeep, delays: Delays) -> tuple[DroppedName, ...]:
    """Return the dropped names, and what is due when. Raises Unavailable."""
    return tuple(_dropped(one, delays) for one in upkeep.pointers() if one.dropped)


def _dropped(pointer: Pointer, delays: Delays) -> DroppedName:
    dropped_ms = pointer.dropped_ms
    purge = pointer.purge and pointer.renamed_to is None
    return DroppedName(
        table=pointer.table,
        kind=pointer.kind,
        uuid=pointer.uuid,
        location=pointer.location,
        metadata_location=pointer.metadata_location,
        renamed_to=pointer.renamed_to,
        dropped_ms=dropped_ms,
        purge=purge,
        purge_due_ms=dropped_ms + delays.purge_after_ms if purge and dropped_ms is not None else None,
        forget_due_ms=None if dropped_ms is None else dropped_ms + delays.forget_after_ms,
    )


def sweep_dropped(
    upkeep: Upkeep,
    *,
    delays: Delays | None = None,
    now_ms: int | None = None,
    begins: Callable[[int, int, str], None] | None = None,
    progress: Progress = unseen,
) -> tuple[Swept, ...]:
    """Remove what is due of dropped tables; names of which nothing is due are not listed.

    `begins` takes the number of a name that is worked on, how many there are, and the name; `progress` its files.
    A name that cannot be worked on never stops another. Raises Unavailable where the names cannot be read.
    """
    now_ms = round(time.time() * 1000) if now_ms is None else now_ms
    found: list[Swept] = []
    names = dropped_names(upkeep, delays or Delays())
    for number, one in enumerate(names, start=1):
        if begins is not None:
            begins(number, len(names), one.table)
        try:
            found += _Sweep(upkeep, one, now_ms=now_ms, progress=progress).run()
        except _Kept as kept:
            found.append(Swept(table=one.table, status="kept", message=str(kept)))
        except FirnError as error:
            found.append(Swept(table=one.table, status="failed", message=str(error)))
    return tuple(found)


class _Kept(Exception):
    """Something is due and stays all the same."""


class _Sweep:
    """What is due of one dropped name."""

    def __init__(self, upkeep: Upkeep, name: DroppedName, *, now_ms: int, progress: Progress) -> None:
        self._upkeep = upkeep
        self._name = name
        self._now_ms = now_ms
        self._progress = progress
        self._folders = DroppedFolders(upkeep)

    def run(self) -> Iterator[Swept]:
        files = bytes_count = 0
        if _is_due(self._name.purge_due_ms, self._now_ms):
            files, bytes_count = self._purge()
        forgotten = _is_due(self._name.forget_due_ms, self._now_ms) and self._under_locks(self._forget)
        removed = f"{plural(files, 'file')} of {size_text(bytes_count)} removed"
        if forgotten:
            message = f"{removed}; the name is free" if files else "the name is free"
            yield Swept(
                table=self._name.table, status="forgotten", message=message, files=files, bytes_count=bytes_count
            )
        elif files:
            yield Swept(table=self._name.table, status="purged", message=removed, files=files, bytes_count=bytes_count)

    def _purge(self) -> tuple[int, int]:
        """Remove all files but the journal: data first, then metadata."""
        places = self._folders.places(self._pointer().pointer)
        if next(self._left(places), None) is None:
            return 0, 0
        count = size = 0
        left = self._left(places)
        while portion := list(islice(left, PORTION_FILES)):
            self._progress("file", count + 1, None)
            self._under_locks(self._removal_of(portion))
            count += len(portion)
            size += sum(one.size for one in portion)
        return count, size

    def _left(self, places: Iterable[str]) -> Iterator[FileInfo]:
        places = tuple(places)

        def of(place: str, *, metadata: bool) -> Iterator[FileInfo]:
            for file in self._upkeep.files.list(place):
                if file.location.startswith(f"{place}/metadata/") == metadata and not is_of_journal(
                    file.location, place
                ):
                    yield file

        return chain.from_iterable(of(place, metadata=metadata) for metadata in (False, True) for place in places)

    def _removal_of(self, portion: Sequence[FileInfo]) -> Callable[[Session, Versioned, list[Lease]], Awaitable[None]]:
        def remove(pointer: Pointer) -> None:
            why = self._folders.why_kept(pointer, portion)
            if why is not None:
                raise _Kept(why)
            self._delete(one.location for one in portion)

        return lambda _session, found, _leases: asyncio.to_thread(remove, found.pointer)

    def _delete(self, locations: Iterable[str]) -> None:
        _, failed = delete_all(self._upkeep.files, locations)
        if failed:
            raise Unavailable(f"{plural(len(failed), 'file')} could not be removed, first {': '.join(failed[0])}")

    async def _forget(self, session: Session, found: Versioned, leases: list[Lease]) -> bool:
        """Remove what is left of the table, and then the pointer."""
        if not await asyncio.to_thread(self._is_empty_now, found):
            return False
        pointers = Pointers(session)
        await Pauses(session).forget(self._name.table)
        await pointers.note_move([self._name.table])
        change = PointerChange(table=self._name.table, pointer=None, expected=found.version)
        if not isinstance(await pointers.swap([change], leases=leases), Won):
            raise _Kept("the name was used meanwhile")
        return True

    def _is_empty_now(self, found: Versioned) -> bool:
        """Remove the journal, if the rest was purged; whether nothing is left of the table. Blocking."""
        pointer, places = found.pointer, self._folders.places(found.pointer)
        if self._name.purge:
            if next(self._left(places), None) is not None:
                raise _Kept("the files that are to be purged are not all gone")
            why = self._folders.why_kept(pointer, ()) or self._folders.why_journal_kept(pointer)
            if why is not None:
                raise _Kept(why)
            left = [one.location for place in places for one in self._upkeep.files.list(place)]
            head = [one for one in left if is_same_segment(one, pointer.journal_head)]
            self._delete(one for one in left if one not in head)
            self._delete(head)  # it says that the table was dropped: without it, the one before would be the newest
        elif any(True for place in places for _ in self._upkeep.files.list(place)):
            return False
        elif (why := self._folders.why_journal_kept(pointer)) is not None:
            raise _Kept(why)
        self._upkeep.with_streams(self._clear_notes)
        return True

    async def _clear_notes(self, streams: IntentStreams) -> None:
        await streams.announce_tables({self._name.table: None})

    def _pointer(self) -> Versioned:
        return self._upkeep.with_session(self._read)

    async def _read(self, session: Session) -> Versioned:
        """Return the pointer; keep everything where it is not the drop that was found."""
        try:
            found = await Pointers(session).read(self._name.table)
        except NotFound:
            raise _Kept("the name is gone") from None
        now = found.pointer
        if not now.dropped or (now.uuid, now.dropped_ms) != (self._name.uuid, self._name.dropped_ms):
            raise _Kept("the name was given to a table meanwhile")
        return found

    def _under_locks(self, work: Callable[[Session, Versioned, list[Lease]], Awaitable[_Result]]) -> _Result:
        """Work while nobody commits to the name, and no table is given a place."""

        async def locked(session: Session) -> _Result:
            leases = Leases(session, member=f"{socket.gethostname()}-{os.getpid()}")
            held: list[Lease] = []
            try:
                for name in sorted((self._name.table, LOCATIONS_LOCK), key=lock_order):
                    lease = await leases.acquire(name, timeout_s=LOCK_TIMEOUT_S)
                    if lease is None:
                        raise _Kept("its lock, or that over all places, is held: the next run goes on")
                    held.append(lease)
                return await work(session, await self._read(session), held)
            finally:
                for lease in reversed(held):
                    await leases.release(lease)
                await leases.close()

        return self._upkeep.with_session(locked)


def _is_due(due_ms: int | None, now_ms: int) -> bool:
    return due_ms is not None and now_ms >= due_ms
