"""Merging manifests beside the commit path: a merge is begun by one commit and taken over by a later one.

Until then the parts stay in the list. A merge that fails, or is never taken over, costs a file that nothing names. A
thread reads the parts and writes what they become; what large ones become is laid out in a process of its own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import msgspec
import structlog

from firn.coordinator.tables.manifest_merger import ManifestMerger
from firn.model.errors import FirnError
from firn.model.manifest import ManifestFile
from firn.model.metadata import TableMetadata
from firn.storage.files import FileStore
from firn.storage.merged_manifests import MergedManifest, Source, merged_manifest
from firn.storage.packed_entries import PackedEntries

MERGES_KEPT_MAX: Final = 256
"""Merges that nobody has taken over yet, of all tables; the oldest are forgotten, whatever became of them."""

TAKEN_KEPT_MAX: Final = 16
"""Merges that are known although a commit took them over: its swap may be lost, and other branches have the parts."""

MERGE_LIVES_S: Final = 600.0
"""How long a merge may be taken over. Until it is, nothing names its file, and who removes such files waits longer."""


class Merge(msgspec.Struct, frozen=True, eq=False):
    """The parts as they were listed, and the manifest that takes their place once it is written.

    `begun_s` is by a clock that only goes on.
    """

    parts: tuple[ManifestFile, ...]
    format_version: int
    written: Future[MergedManifest]
    begun_s: float

    @property
    def row(self) -> ManifestFile | None:
        """What takes the parts' place, None as long as it is not there."""
        if not self.written.done() or self.written.exception() is not None:
            return None
        return self.written.result().row

    @property
    def locations(self) -> tuple[str, ...]:
        """Where the parts are."""
        return tuple(part.manifest_path for part in self.parts)

    def is_of(self, listed: Mapping[str, ManifestFile]) -> bool:
        """Whether all parts are in this list, by location, and pass on there what they did when they were merged.

        Prevents: rows that get other row ids or another age, because the list is another branch's, or the first that
        gives a table's rows their ids.
        """
        found = ((part, listed.get(part.manifest_path)) for part in self.parts)
        return all(there is not None and there.passes_on == part.passes_on for part, there in found)


class MergesBeside:
    """Merges under way and done, by the location of each part. One thread, so that commits keep the other cores.

    `merger` lays large ones out; without it the thread does.
    """

    def __init__(
        self,
        files: FileStore,
        source: Source,
        *,
        keep: Callable[[str, PackedEntries], None],
        merger: ManifestMerger | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = files
        self._clock_s = clock_s
        self._keep = keep
        self._laid_out_elsewhere = (lambda _: None) if merger is None else merger.laid_out
        self._source = source
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="firn-merges")
        self._merges: dict[str, Merge] = {}
        self._order: list[Merge] = []
        self._taken: list[Merge] = []
        self._lock = threading.Lock()
        self._log = structlog.get_logger()

    def find(self, location: str) -> Merge | None:
        """The merge that a manifest is a part of, unless it failed, or is so old that its file may be gone."""
        merge = self._merges.get(location)
        if merge is None or (merge.written.done() and merge.written.exception() is not None):
            return None
        return None if self._clock_s() - merge.begun_s > MERGE_LIVES_S else merge

    def has_under_way(self, location: str) -> bool:
        """Whether a manifest is being merged. One that was and did not come to be taken over is free again."""
        merge = self._merges.get(location)
        return merge is not None and not merge.written.done()

    def begin(self, parts: Sequence[ManifestFile], metadata: TableMetadata, *, location: str) -> Merge:
        """Merge these manifests into one at `location`, sooner or later."""
        written = self._pool.submit(self._write, tuple(parts), metadata, location)
        merge = Merge(tuple(parts), metadata.format_version, written, self._clock_s())
        with self._lock:
            self._merges.update(dict.fromkeys(merge.locations, merge))
            self._order.append(merge)
            while len(self._order) > MERGES_KEPT_MAX or self._is_too_old(self._order[0]):
                self._forget(self._order.pop(0))
        return merge

    def took_over(self, merge: Merge) -> None:
        """A commit lists its manifest instead of the parts, if the swap is won."""
        with self._lock:
            for known in (self._order, self._taken):
                if merge in known:
                    known.remove(merge)
                    self._taken.append(merge)
                    break
            while len(self._taken) > TAKEN_KEPT_MAX:
                self._forget(self._taken.pop(0))

    def _is_too_old(self, merge: Merge) -> bool:
        return merge.written.done() and self._clock_s() - merge.begun_s > MERGE_LIVES_S

    def _forget(self, merge: Merge) -> None:
        for location in merge.locations:
            if self._merges.get(location) is merge:
                del self._merges[location]

    @property
    def under_way(self) -> tuple[Merge, ...]:
        """Merges that are not written yet."""
        with self._lock:
            return tuple(merge for merge in self._order if not merge.written.done())

    def wait(self, merge: Merge) -> None:
        """Wait until it is written or has failed; on an event loop, which it may wait for itself, not at all."""
        if not _is_on_event_loop():
            merge.written.exception()

    def _write(self, parts: Sequence[ManifestFile], metadata: TableMetadata, location: str) -> MergedManifest:
        try:
            merged = merged_manifest(
                parts, metadata, self._source, location=location, elsewhere=self._laid_out_elsewhere
            )
            self._files.create(location, merged.data)
            if merged.packed is not None:
                self._keep(location, merged.packed)
        except (FirnError, OSError) as error:
            self._log.warning("merge failed", manifest=location, parts=len(parts), reason=str(error))
            raise
        return msgspec.structs.replace(merged, data=b"", packed=None)  # what is kept of it is kept elsewhere


def _is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
