"""Removing what only forgotten snapshots of a table reach.

Content goes first, then what names it, then old metadata files from the oldest on: whatever ends a removal in its
middle leaves a table that is whole, and files that the next removal finds the same way.

What called a file by what name does not matter: right before files go they are compared with everything that the table
names by then, under any spelling, with the journal, and with the work under way. Files outside of the folders that are
wholly the table's own stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from firn.model.errors import NotFound
from firn.model.limits import Limits
from firn.pipeline.dropped_records import needed_manifests
from firn.pipeline.parallel_files import delete_all, in_parallel
from firn.pipeline.past_versions import past_of
from firn.pipeline.reachable_files import ReachableFiles
from firn.pipeline.unreachable_files import PORTION_FILES, UnreachableFiles, normal_or_none
from firn.pipeline.upkeep import TableNow
from firn.storage.files import FileStore
from firn.storage.local_paths import LocalPaths

SNAPSHOT_GRACE_MS: Final = 900_000
"""How long a snapshot's files stay after it was made; longer than a daemon remembers a merge of manifests."""

METADATA_GRACE_MS: Final = 1_200_000
"""How long a metadata file stays after it was replaced, if the log does not name it any more: a reader reads it once,
when it begins, and may be slow to do so.
"""

LISTED_MAX: Final = 1_000
"""Locations listed in a report."""

Look = Callable[[], tuple[TableNow, frozenset[str]]]
"""Returns the table as it is now, and the normalised locations that work under way names."""

Progress = Callable[[str, int], None]
"""Told of every portion of files that is gone: what they are, and how many."""


class Removal(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What became of the files that a table does not reach any more.

    `removed` counts them by what they are; in a dry run, those that would go, and `locations` are the first of them.
    `under_way` of them stay because waiting intents or reservations name them, `elsewhere` because they are outside of
    the table's own folders, `failed` could not be removed, `unreadable` lists or manifests stay with all they name.
    """

    snapshots: int = 0
    removed: dict[str, int] = {}
    under_way: int = 0
    elsewhere: int = 0
    failed: tuple[tuple[str, str], ...] = ()
    unreadable: tuple[str, ...] = ()
    locations: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """All files together."""
        return sum(self.removed.values())


class Removing:
    """The removal of what `now` has forgotten.

    `folders` are those that are wholly the table's own; files elsewhere stay. `look` is called again right before files
    go: what was committed or submitted meanwhile stays, too. Raises what reading the table raises, before anything is
    removed of what that reading was about.
    """

    def __init__(
        self,
        now: TableNow,
        files: FileStore,
        *,
        limits: Limits,
        folders: Sequence[str],
        look: Look,
        dry_run: bool = False,
        progress: Progress | None = None,
        portion_files: int = PORTION_FILES,
    ) -> None:
        self._now = now
        self._files = files
        self._limits = limits
        self._folders = folders
        self._look = look
        self._dry_run = dry_run
        self._progress = progress
        self._portion_files = portion_files
        self._removed: dict[str, int] = {}
        self._failed: list[tuple[str, str]] = []
        self._locations: list[str] = []
        self._under_way = self._elsewhere = 0
        self._reachable = ReachableFiles(files, limits=limits)

    def run(self, now_ms: int) -> Removal:
        """Remove all of it. `now_ms` is Unix milliseconds."""
        past = past_of(self._now.metadata, self._files, limits=self._limits, now_ms=now_ms)
        dropped = past.dropped
        needed = list(needed_manifests(dropped, self._now.metadata, self._files, limits=self._limits))
        self._reachable.add_names(dropped.needed_lists)
        self._reachable.add_manifests(needed)
        unreachable = UnreachableFiles(
            self._now.metadata,
            [one for one in past.snapshots if one.timestamp_ms < now_ms - SNAPSHOT_GRACE_MS],
            self._files,
            limits=self._limits,
            portion_files=self._portion_files,
            needed_ids=dropped.needed_ids,
            needed=needed,
        )
        for portion in unreachable.content():
            self._remove("content files", portion)
        self._remove("statistics files", self._existing(past.statistics))
        forgotten = unreachable.forgotten
        self._remove("manifests", (one.manifest_path for one in forgotten.manifests))
        self._remove("manifest lists", forgotten.manifest_lists)
        if not forgotten.unreadable:
            old = (one.metadata_file for one in past.versions if one.timestamp_ms < now_ms - METADATA_GRACE_MS)
            self._remove("metadata files", self._existing(old))
            self._remove_all("records of dropped snapshots", self._own(self._existing(dropped.records)).values())
        return Removal(
            snapshots=unreachable.snapshots_count,
            removed=self._removed,
            under_way=self._under_way,
            elsewhere=self._elsewhere,
            failed=tuple(self._failed[:LISTED_MAX]),
            unreadable=forgotten.unreadable,
            locations=tuple(self._locations),
        )

    def _existing(self, locations: Iterable[str]) -> Iterator[str]:
        """Those that are there: old versions go on naming what went long ago."""
        for location, is_there in in_parallel(lambda one: (one, self._is_there(one)), locations):
            if is_there:
                yield location

    def _is_there(self, location: str) -> bool:
        if normal_or_none(location) is None:
            return False
        try:
            self._files.size(location)
        except NotFound:
            return False
        return True

    def _remove(self, what: str, locations: Iterable[str]) -> None:
        """Remove files of one kind; nothing after a failure, or nothing would lead to what is left."""
        if not self._failed:
            self._remove_all(what, self._chosen(self._own(locations)))

    def _remove_all(self, what: str, chosen: Collection[str]) -> None:
        """Remove files that were chosen, unless others could not be removed before."""
        if self._failed:
            return
        failed: list[tuple[str, str]] = []
        if self._dry_run:
            gone = len(chosen)
            self._locations += list(chosen)[: LISTED_MAX - len(self._locations)]
        else:
            gone, failed = delete_all(self._files, chosen)
            self._failed += failed
        if gone:
            self._removed[what] = self._removed.get(what, 0) + gone
            if self._progress is not None:
                self._progress(what, gone)

    def _own(self, locations: Iterable[str]) -> dict[str, str]:
        """Return those that are regular files in the table's own folders, by their normalised locations."""
        paths, own = LocalPaths(), dict[str, str]()
        for location in locations:
            normal = normal_or_none(location)
            folder = (
                None if normal is None else next((one for one in self._folders if normal.startswith(f"{one}/")), None)
            )
            if normal is None or folder is None or paths.file_trouble(normal, root=folder) is not None:
                self._elsewhere += 1
            else:
                own[normal] = location
        return own

    def _chosen(self, own: Mapping[str, str]) -> list[str]:
        """Return those that neither work under way nor the table names when it is looked at once more."""
        if not own:
            return []
        now, spared = self._look()
        self._reachable.add(now)
        under_way = spared & own.keys()
        self._under_way += len(under_way)
        return [
            location for normal, location in own.items() if normal not in under_way and not self._reachable.has(normal)
        ]
