"""Removing orphans: files in a table's folders that nothing names.

Writers that died, attempts that lost, and snapshots that expired without anybody to remove their files leave them. A
file is taken only if it is old, and if at the end of the search, when the queue and the table are looked at once more,
it is still named by nobody.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final, Literal

import msgspec

from firn.model.amounts import plural
from firn.model.errors import InvalidInput
from firn.model.metadata import TableMetadata
from firn.model.table_properties import DROPPED_SNAPSHOTS, GC_ENABLED
from firn.pipeline.dropped_records import dropped_by, needed_manifests
from firn.pipeline.forgotten_files import LISTED_MAX
from firn.pipeline.own_folders import own_folders
from firn.pipeline.parallel_files import delete_all
from firn.pipeline.reachable_files import ReachableFiles, path_of
from firn.pipeline.unreachable_files import normal_or_none
from firn.pipeline.upkeep import TableNow, Upkeep
from firn.pipeline.work_under_way import WorkUnderWay, work_under_way
from firn.storage.files import FileInfo
from firn.storage.journal import is_journal_file
from firn.storage.locations import TEMPORARY_PREFIX

HOUR_MS: Final = 3_600_000
OLDER_THAN_MS: Final = 72 * HOUR_MS
"""Age from which a file can be an orphan, when nothing else is said."""

OLDER_THAN_MS_MIN: Final = 24 * HOUR_MS
"""Younger ones are taken only by force: a job that writes for a day is nothing special."""

OLDER_THAN_MS_FLOOR: Final = HOUR_MS
"""Younger ones are not taken at all: a daemon may be about to commit them."""

PORTION_FILES: Final = 100_000
"""Orphans that are held in memory, looked at once more, and removed at a time."""

Mismatch = Literal["error", "keep", "remove"]
"""What to do about a file whose path the table names under another scheme or bucket."""


class Orphans(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What was found. `listed` files were looked at; `count` of them, of `bytes_count` bytes, are orphans.

    In a dry run nothing was removed. `young` and `under_way` files are named by nobody and stay, because of their age,
    or because work under way names them. `mismatched` are named under another scheme or bucket. `locations` are the
    first orphans, `failed` those that could not be removed, with the reason.
    """

    dry_run: bool
    listed: int = 0
    count: int = 0
    bytes_count: int = 0
    young: int = 0
    under_way: int = 0
    mismatched: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    locations: tuple[str, ...] = ()


def remove_orphans(
    upkeep: Upkeep,
    table: str,
    *,
    older_than_ms: int = OLDER_THAN_MS,
    force: bool = False,
    dry_run: bool = True,
    mismatch: Mismatch = "error",
    now_ms: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Orphans:
    """Find the orphans in a table's folders, and remove them unless it is a `dry_run`.

    `older_than_ms` under a day needs `force`, under an hour is refused. `progress` is told how many files were looked
    at and how many of them are orphans. Raises InvalidInput for what is refused, for a table whose files others may
    share (``gc.enabled=false``), for a folder that is not wholly the table's own (`firn.pipeline.own_folders`) and for
    a `mismatch`; and what reading the table raises. Nothing is removed after that.
    """
    _check_age(older_than_ms, force=force)
    search = _Search(upkeep, table, dry_run=dry_run, mismatch=mismatch)
    return search.run(older_than_ms, round(time.time() * 1000) if now_ms is None else now_ms, progress)


def _check_age(older_than_ms: int, *, force: bool) -> None:
    if older_than_ms < OLDER_THAN_MS_FLOOR:
        raise InvalidInput(
            "files younger than an hour may be part of a commit that is under way: say at least 1 hour",
            where="older-than",
        )
    if older_than_ms < OLDER_THAN_MS_MIN and not force:
        raise InvalidInput(
            "under 24 hours a job that is still writing may lose its files: force it if there is none",
            where="older-than",
        )


class _Search:
    """One search through a table's folders."""

    def __init__(self, upkeep: Upkeep, table: str, *, dry_run: bool, mismatch: Mismatch) -> None:
        self._upkeep = upkeep
        self._table = table
        self._dry_run = dry_run
        self._mismatch = mismatch
        self._reachable = ReachableFiles(upkeep.files, limits=upkeep.limits)
        self._records: str | None = None
        self._now_ms = 0
        self._listed = self._young = self._under_way = self._count = self._bytes = 0
        self._mismatched: list[str] = []
        self._failed: list[tuple[str, str]] = []
        self._locations: list[str] = []

    def run(self, older_than_ms: int, now_ms: int, progress: Callable[[int, int], None] | None) -> Orphans:
        self._now_ms = now_ms
        now = self._look()
        portion: list[FileInfo] = []
        for file in self._old_and_unnamed(now, now_ms - older_than_ms):
            portion.append(file)
            if len(portion) >= PORTION_FILES:
                self._take(portion)
                portion = []
                if progress is not None:
                    progress(self._listed, self._count)
        self._take(portion)
        if progress is not None:
            progress(self._listed, self._count)
        return Orphans(
            dry_run=self._dry_run,
            listed=self._listed,
            count=self._count,
            bytes_count=self._bytes,
            young=self._young,
            under_way=self._under_way,
            mismatched=tuple(self._mismatched[:LISTED_MAX]),
            failed=tuple(self._failed[:LISTED_MAX]),
            locations=tuple(self._locations),
        )

    def _look(self) -> TableNow:
        """The table as it is now, with what it reaches."""
        now = self._upkeep.table(self._table)
        if not GC_ENABLED.of(now.metadata.properties):
            where = f"{self._table}: properties.{GC_ENABLED.name}"
            raise InvalidInput("is off: other tables may share its files", where=where)
        self._reachable.add(now)
        records = now.metadata.properties.get(DROPPED_SNAPSHOTS)
        if records != self._records:
            self._records = records
            self._add_dropped(now.metadata)
        return now

    def _add_dropped(self, metadata: TableMetadata) -> None:
        """Keep what work needs that may still be planned on snapshots which the table has dropped.

        What these snapshots made is as young as they are: too young to be an orphan, unless less than a day
        was forced, which is for tables without jobs.
        """
        files, limits = self._upkeep.files, self._upkeep.limits
        dropped = dropped_by(metadata, files, limits=limits, now_ms=self._now_ms)
        self._reachable.add_names(dropped.needed_lists)
        self._reachable.add_manifests(needed_manifests(dropped, metadata, files, limits=limits))

    def _old_and_unnamed(self, now: TableNow, before_ms: int) -> Iterator[FileInfo]:
        partition_names = {field.name for spec in now.metadata.partition_specs for field in spec.fields}
        for place in own_folders(self._upkeep, now).require(self._table):
            for file in self._upkeep.files.list(place):
                self._listed += 1
                normal = normal_or_none(file.location)
                if normal is None or is_journal_file(normal):
                    continue
                if _is_hidden(normal[len(place) + 1 :], partition_names) or normal in self._reachable.names:
                    continue
                if file.modified_ms >= before_ms:
                    self._young += 1
                else:
                    yield file

    def _take(self, portion: list[FileInfo]) -> None:
        """Look once more, and remove what is still named by nobody."""
        if not portion:
            return
        # The queue first, then the table: what is committed in between is found in the table.
        under_way = work_under_way(self._upkeep, self._table)
        self._look()
        orphans = [file for file in portion if self._is_orphan(file, under_way)]
        if self._mismatched and self._mismatch == "error":
            raise InvalidInput(
                f"the table names {plural(len(self._mismatched), 'file')} under another scheme or bucket, first "
                f"{self._mismatched[0]}: say whether to keep or to remove such",
                where=self._table,
            )
        self._locations += [one.location for one in orphans[: LISTED_MAX - len(self._locations)]]
        if not self._dry_run:
            _, failed = delete_all(self._upkeep.files, (one.location for one in orphans))
            self._failed += failed
            lost = {location for location, _ in failed}
            orphans = [one for one in orphans if one.location not in lost]
        self._count += len(orphans)
        self._bytes += sum(one.size for one in orphans)

    def _is_orphan(self, file: FileInfo, under_way: WorkUnderWay) -> bool:
        normal = normal_or_none(file.location)
        assert normal is not None
        if normal in self._reachable.names:
            return False
        if normal in under_way.files or (under_way.since_ms is not None and file.modified_ms >= under_way.since_ms):
            self._under_way += 1
            return False
        if path_of(normal) in self._reachable.paths:
            self._mismatched.append(file.location)
            return self._mismatch == "remove"
        return True


def _is_hidden(relative: str, partition_names: set[str]) -> bool:
    """Whether a path below a table's folder is another system's own (``_SUCCESS``, ``.crc``): not ours to remove.

    Folders of partitions whose name begins with an underscore are no such, and files of firn's interrupted writes are
    firn's.
    """
    *folders, name = relative.split("/")
    if name.startswith(TEMPORARY_PREFIX):
        name = name[1:]
    return any(
        part.startswith(("_", ".")) and part.partition("=")[0] not in partition_names for part in (*folders, name)
    )
