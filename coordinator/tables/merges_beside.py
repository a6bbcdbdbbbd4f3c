"""Merging manifests beside the commit path: begun after one commit, taken over by a later one.

Until then the parts stay in the list. A merge that fails, or is never taken over, costs a file that nothing names. A
thread reads the parts and writes what they become; large ones are laid out in a process of its own. What cannot be
merged is remembered and left alone: no commit depends on a merge.

All methods are for the event loop's thread.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Literal

import msgspec

from firn.coordinator.replay.attempt import FinishedMerge
from firn.coordinator.replay.merging import is_long, wanted_merges
from firn.coordinator.tables.manifest_merger import ManifestMerger
from firn.model.errors import CorruptFile, FirnError, Unavailable
from firn.model.limits import Limits
from firn.model.manifest import ManifestFile
from firn.model.metadata import TableMetadata
from firn.storage.files import FileStore
from firn.storage.log import get_logger
from firn.storage.merged_manifests import Source, merged_manifest
from firn.storage.packed_entries import PackedEntries

MERGES_KEPT_MAX: Final = 256
"""Merges that no commit has taken over yet, of all tables; the oldest are forgotten."""

TAKEN_KEPT_MAX: Final = 16
"""Merges that are kept after a commit took them over, because other branches may list the same parts."""

MERGE_LIVES_S: Final = 600.0
"""How long a merge may be taken over. Until it is, nothing names its file, and orphan removal waits longer."""

WAIT_S: Final = 5.0
"""How long a batch waits for a merge when its table has too many manifests; for each merge only once."""

RETRY_S: Final = 60.0
"""Pause of a table's merges after one that failed because the store did not take or give a file."""

EXCLUDED_TABLES_MAX: Final = 1_000
EXCLUDED_PARTS_MAX: Final = 1_000
"""Manifests of one table that are remembered as impossible to merge, and tables with such; the oldest are forgotten."""

Cause = Literal["part", "merged", "store", "internal"]
"""Why a merge failed: one of its manifests is unusable, what they become is, the file store did not answer, a bug."""


class Merge(msgspec.Struct, eq=False):
    """A merge under way or done. `begun_s` is by a monotonic clock."""

    table: str
    parts: tuple[ManifestFile, ...]
    written: Future[FinishedMerge]
    begun_s: float
    was_waited_for: bool = False

    @property
    def finished(self) -> FinishedMerge | None:
        """Return its result, None while it is not written, or if it failed."""
        if not self.written.done() or self.written.exception() is not None:
            return None
        return self.written.result()


class Unmergeable(msgspec.Struct):
    """What is known of a table's failed merges: manifests to leave alone, each with the reason."""

    parts: dict[str, str] = {}
    rests_until_s: float = float("-inf")


class MergesBeside:
    """Merges under way and done, of all tables. One thread makes them, so that commits keep the other cores.

    `keep` is given the entries of a merged manifest, for the cache. `merger` lays large ones out; without it the thread
    does. `on_failed` is called for each merge that failed.
    """

    def __init__(
        self,
        files: FileStore,
        source: Source,
        *,
        limits: Limits,
        keep: Callable[[str, PackedEntries], None],
        merger: ManifestMerger | None = None,
        on_failed: Callable[[Cause], None] = lambda _: None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = files
        self._clock_s = clock_s
        self._keep = keep
        self._laid_out_elsewhere = (lambda _: None) if merger is None else merger.laid_out
        self._limits = limits
        self._on_failed = on_failed
        self._source = source
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="firn-merges")
        self._open: list[Merge] = []
        self._taken: list[Merge] = []
        self._unmergeable: OrderedDict[str, Unmergeable] = OrderedDict()
        self._log = get_logger()

    def finished(self, table: str) -> tuple[FinishedMerge, ...]:
        """Return the table's finished merges that a commit may take over."""
        self._collect_failures()
        oldest_s = self._clock_s() - MERGE_LIVES_S
        found = (m.finished for m in (*self._open, *self._taken) if m.table == table and m.begun_s >= oldest_s)
        return tuple(one for one in found if one is not None)

    def took_over(self, merges: Iterable[FinishedMerge]) -> None:
        """A commit lists these merged manifests instead of their parts."""
        for taken in merges:
            for merge in self._open:
                if merge.finished is taken:
                    self._open.remove(merge)
                    self._taken.append(merge)
                    break
        del self._taken[:-TAKEN_KEPT_MAX]

    def begin(
        self, table: str, metadata: TableMetadata, manifests: Sequence[ManifestFile], *, new_location: Callable[[], str]
    ) -> None:
        """Begin the merges that a list of manifests wants and that are not under way, done or known to fail.

        `new_location` gives the location of each merged manifest. Cost: nothing while the list is short.
        """
        if not is_long(metadata, manifests):
            return
        self._collect_failures()
        known = self._unmergeable.get(table)
        if known is not None and known.rests_until_s > self._clock_s():
            return
        excluded = set() if known is None else set(known.parts)
        listed = {one.manifest_path: one for one in manifests} if self._open else {}
        oldest_s = self._clock_s() - MERGE_LIVES_S
        for merge in self._open:
            done = merge.finished
            if merge.table == table and (done is None or (done.is_of(listed) and merge.begun_s >= oldest_s)):
                excluded.update(part.manifest_path for part in merge.parts)
        bytes_max = self._limits.manifest_bytes_max // 2
        for parts in wanted_merges(metadata, manifests, excluded=excluded, bytes_max=bytes_max):
            written = self._pool.submit(self._write, parts, metadata, new_location())
            self._open.append(Merge(table, parts, written, self._clock_s()))
        self._open = [m for m in self._open if not m.written.done() or m.begun_s >= oldest_s][-MERGES_KEPT_MAX:]

    def forget_missing(self, table: str, listed: Iterable[str]) -> None:
        """Forget manifests that cannot be merged and are not among those `listed` any more."""
        known = self._unmergeable.get(table)
        if known is not None:
            there = set(listed)
            known.parts = {part: why for part, why in known.parts.items() if part in there}
            if not known.parts and known.rests_until_s <= self._clock_s():
                del self._unmergeable[table]

    def is_excluded(self, table: str) -> bool:
        """Whether some manifests of a table are left alone because a merge of them failed."""
        return table in self._unmergeable

    async def wait(self, table: str) -> None:
        """Wait for one of the table's merges under way, `WAIT_S` at most, and for none a second time."""
        for merge in self._open:
            if merge.table == table and not merge.written.done() and not merge.was_waited_for:
                merge.was_waited_for = True
                waited = asyncio.wrap_future(merge.written)
                waited.add_done_callback(lambda done: done.cancelled() or done.exception())  # told by `finished`
                await asyncio.wait([waited], timeout=WAIT_S)
                return

    @property
    def unmergeable(self) -> dict[str, str]:
        """Return the reasons why manifests of tables are not merged, by table, for people."""
        self._collect_failures()
        return {table: _said(known.parts) for table, known in self._unmergeable.items() if known.parts}

    @property
    def under_way(self) -> tuple[Merge, ...]:
        """Return the merges that are not written yet."""
        return tuple(merge for merge in self._open if not merge.written.done())

    def _collect_failures(self) -> None:
        """Remember why merges failed since the last look, and which manifests to leave alone for it."""
        failed = [m for m in self._open if m.written.done() and m.written.exception() is not None]
        for merge in failed:
            self._open.remove(merge)
            error = merge.written.exception()
            assert error is not None
            self._remember(merge, error)

    def _remember(self, merge: Merge, error: BaseException) -> None:
        cause, culprits = _blame(merge, error)
        known = self._unmergeable.setdefault(merge.table, Unmergeable())
        self._unmergeable.move_to_end(merge.table)
        if cause == "store":
            known.rests_until_s = self._clock_s() + RETRY_S
        else:
            why = str(error) or repr(error)
            known.parts |= dict.fromkeys(culprits, why)
            while len(known.parts) > EXCLUDED_PARTS_MAX:
                del known.parts[next(iter(known.parts))]
        while len(self._unmergeable) > EXCLUDED_TABLES_MAX:
            self._unmergeable.popitem(last=False)
        self._on_failed(cause)
        self._log.warning(
            "merge failed", table=merge.table, parts=len(merge.parts), cause=cause, left_alone=len(culprits),
            reason=str(error) or repr(error),
        )  # fmt: skip

    def _write(self, parts: Sequence[ManifestFile], metadata: TableMetadata, location: str) -> FinishedMerge:
        """Make a merged manifest and store it; in a thread."""
        merged = merged_manifest(
            parts, metadata, self._source, location=location, elsewhere=self._laid_out_elsewhere
        )  # fmt: skip
        if len(merged.data) > self._limits.manifest_bytes_max:
            limit = self._limits.manifest_bytes_max
            raise CorruptFile(location, f"would be a merged manifest of {len(merged.data)} bytes, of at most {limit}")
        self._files.create(location, merged.data)
        if merged.packed is not None:
            self._keep(location, merged.packed)
        return FinishedMerge(parts=tuple(parts), format_version=metadata.format_version, row=merged.row)


def _blame(merge: Merge, error: BaseException) -> tuple[Cause, tuple[str, ...]]:
    """Return why a merge failed, and which manifests are not to be merged again: all where none is the cause."""
    locations = tuple(part.manifest_path for part in merge.parts)
    if isinstance(error, Unavailable | OSError | MemoryError):
        return "store", ()
    if isinstance(error, CorruptFile) and error.location in locations:
        return "part", (error.location,)
    return ("merged" if isinstance(error, FirnError) else "internal"), locations


def _said(parts: dict[str, str]) -> str:
    """Return the reason of the first manifest, with the number of all."""
    reason = next(iter(parts.values()))
    return reason if len(parts) == 1 else f"{reason} ({len(parts)} manifests stay unmerged)"
