"""Why files of a dropped table stay: their folders are not wholly its own, or something may still name them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from firn.model.errors import FirnError, NotFound, Unavailable
from firn.model.journal import Segment
from firn.pipeline.own_folders import NO_DAEMON, outermost, troubles_of
from firn.pipeline.parallel_files import in_parallel
from firn.pipeline.reachable_files import ReachableFiles
from firn.pipeline.upkeep import Upkeep
from firn.pipeline.work_under_way import shared_settings, work_under_way
from firn.storage.files import FileInfo
from firn.storage.journal import JOURNAL_FOLDERS, JournalFiles, home_of, sequence_of
from firn.storage.locations import is_within, normalize
from firn.storage.pointers import Pointer

CLOCKS_MS: Final = 60_000
"""By how much the clocks of a store and of a daemon may differ."""

METADATA_SUFFIX: Final = ".metadata.json"


def is_of_journal(location: str, place: str) -> bool:
    """Return whether a file below a table's folder is of its journal: a segment, or the note of a pause."""
    return any(location.startswith(f"{place}/{folder}/") for folder in JOURNAL_FOLDERS)


class DroppedFolders:
    """The folders of one dropped table, and whether its files may go."""

    def __init__(self, upkeep: Upkeep) -> None:
        self._upkeep = upkeep
        self._journal = JournalFiles(upkeep.files, bytes_max=upkeep.limits.journal_bytes_max)
        self._reached: dict[tuple[str, str], tuple[str, ReachableFiles]] = {}
        self._looked_through = False

    @staticmethod
    def places(pointer: Pointer) -> tuple[str, ...]:
        """Return the folders that a pointer names, normalised, none inside another."""
        return tuple(outermost(sorted({normalize(one) for one in (pointer.location, *pointer.also_at)})))

    def why_kept(self, pointer: Pointer, files: Sequence[FileInfo]) -> str | None:
        """Return why none of these files of a dropped table may go now. Raises what reading other tables raises.

        The queue is read before the tables: what is committed in between is found in the tables.
        """
        places = self.places(pointer)
        under_way = work_under_way(self._upkeep, pointer.table)
        named = next((one for one in under_way.files if _is_in(one, places)), None)
        if named is not None:
            return f"an intent or reservation that is not settled names {named}"
        if under_way.since_ms is not None:
            return "somebody has a reservation of it"
        live = self._upkeep.tables()
        allowed = self._upkeep.with_streams(shared_settings).allowed
        if not allowed:
            raise Unavailable(NO_DAEMON)
        taken = {one.table: [one.location, *one.also_at, one.metadata_location] for one in live}
        for one in live:
            if one.journal_head is not None:
                taken[one.table].append(one.journal_head)
        for place, reason in troubles_of(places, allowed=allowed, taken=taken).items():
            return f"{place} {reason}"
        return self._why_strange(pointer, places) or self._why_named(live, files)

    def why_journal_kept(self, pointer: Pointer) -> str | None:
        """Return why the journal of a dropped table may not go: others lead to it, or it leads to others."""
        places = self.places(pointer)
        for other in self._upkeep.pointers():
            head = other.journal_head
            if other.table == pointer.table or head is None:
                continue
            if _is_in(head, places):
                return f"the journal of {other.table!r} ends in its folder"
            try:
                parts = self._journal.read(head).batch.others
            except NotFound:
                continue  # a dropped one's that went
            if any(_is_in(part.segment, places) for part in parts):
                return f"the newest commit of {other.table!r} was one with a commit of it"
        segments = [
            file.location
            for place in places
            for file in self._upkeep.files.list(place)
            if home_of(file.location) is not None
        ]
        for segment in in_parallel(self._read, segments):
            if isinstance(segment, str):
                return segment
            if segment.batch.table != pointer.table:
                return f"the journal of {segment.batch.table!r} is in its folder, too"
            before = segment.batch.previous_segment
            if before is not None and not _is_in(before, places):
                return f"its journal begins in another folder, with {before}"
        return None

    def _read(self, location: str) -> Segment | str:
        try:
            return self._journal.read(location)
        except Unavailable:
            raise
        except FirnError as error:
            return f"a segment of its journal cannot be read: {error}"

    def _why_strange(self, pointer: Pointer, places: Sequence[str]) -> str | None:
        """Return which file shows that somebody else has a table there, or has written to this one since the drop."""
        if self._looked_through:
            return None
        head = 0 if pointer.journal_head is None else sequence_of(pointer.journal_head)
        since_ms = (pointer.dropped_ms or 0) + CLOCKS_MS
        for place in places:
            for file in self._upkeep.files.list(place):
                location = file.location
                home = home_of(location)
                if home is not None:
                    if home not in places:
                        return f"{location} is in the journal of a table in a folder inside"
                    if sequence_of(location) > head:
                        return f"{location} is newer than what the pointer knows of the journal"
                    if file.modified_ms > since_ms:
                        segment = self._read(location)
                        if isinstance(segment, str) or segment.batch.table != pointer.table:
                            return f"{location} is another table's"
                elif location.endswith(METADATA_SUFFIX):
                    if location.rpartition("/")[0] not in {f"{one}/metadata" for one in places}:
                        return f"{location} is of a table in a folder inside"
                    if file.modified_ms > since_ms:
                        return f"{location} was written after the drop"
        self._looked_through = True
        return None

    def _why_named(self, live: Iterable[Pointer], files: Sequence[FileInfo]) -> str | None:
        if not files:
            return None
        normal = [normalize(one.location) for one in files]
        for pointer in live:
            if pointer.kind != "table":
                continue
            reached = self._reach(pointer)
            named = next((one for one in normal if reached.has(one)), None)
            if named is not None:
                return f"table {pointer.table!r} names {named}"
        return None

    def _reach(self, pointer: Pointer) -> ReachableFiles:
        """Return what a live table names, its newest commits included."""
        key = (pointer.table, pointer.uuid)
        known = self._reached.get(key)
        if known is not None and known[0] == pointer.metadata_location and pointer.catalog == "metastore":
            return known[1]
        reached = ReachableFiles(self._upkeep.files, limits=self._upkeep.limits) if known is None else known[1]
        reached.add(self._upkeep.table(pointer.table))
        self._reached[key] = (pointer.metadata_location, reached)
        return reached


def _is_in(location: str, places: Iterable[str]) -> bool:
    try:
        normal = normalize(location)
    except FirnError:
        return False
    return any(normal == place or is_within(normal, place) for place in places)
