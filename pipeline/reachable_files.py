"""Everything that a table reaches, as digests: eight bytes a file, however long its name is.

Two files with one digest are as good as one here: a file that is taken for a reachable one stays.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import mmh3
import numpy as np

from firn.model.dropped_snapshots import statistics_files
from firn.model.errors import NotFound
from firn.model.limits import Limits
from firn.model.manifest import ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.snapshot import Snapshot
from firn.pipeline.manifest_paths import files_named_by
from firn.pipeline.parallel_files import in_parallel
from firn.pipeline.upkeep import TableNow
from firn.storage.file_system_tables import HINT_NAME, METADATA_FOLDER
from firn.storage.files import FileStore
from firn.storage.journal import is_journal_file
from firn.storage.locations import canonical
from firn.storage.manifest_reader import StoredManifests


class Digests:
    """A set of locations that only says whether one may be in it; locations are normalised."""

    def __init__(self) -> None:
        self._new = array("Q")
        self._sorted = np.empty(0, dtype=np.uint64)

    def add(self, locations: Iterable[str]) -> None:
        """Put locations in."""
        self._new.extend(_digest(location) for location in locations)

    def __contains__(self, location: str) -> bool:
        if self._new:
            self._sorted = np.unique(np.concatenate([self._sorted, np.frombuffer(self._new, dtype=np.uint64)]))
            self._new = array("Q")
        digest = np.uint64(_digest(location))
        at = int(np.searchsorted(self._sorted, digest))
        return at < len(self._sorted) and bool(self._sorted[at] == digest)


class ReachableFiles:
    """What a table names: metadata, its log, statistics, lists, manifests, content. The journal is not looked at.

    `names` has whole locations; `paths` the same without scheme and bucket, which tells of a file that is named by a
    location that is spelled in a way nobody here knows.
    """

    def __init__(self, files: FileStore, *, limits: Limits) -> None:
        self._files = files
        self._limits = limits
        self._stored = StoredManifests(files, limits=limits)
        self._snapshots: set[int] = set()
        self._manifests: set[str] = set()
        self.names = Digests()
        self.paths = Digests()

    def add(self, now: TableNow) -> int:
        """Add what a table reaches now, except snapshots that are in already; how many snapshots were added.

        Raises what reading the table raises: what cannot be read reaches who knows what.
        """
        metadata = now.metadata
        named = [now.pointer.metadata_location, *(one.metadata_file for one in metadata.metadata_log)]
        hint = f"{metadata.location.rstrip('/')}/{METADATA_FOLDER}/{HINT_NAME}"
        self._put([*named, hint, *statistics_files(metadata)])
        new = [one for one in metadata.snapshots if one.snapshot_id not in self._snapshots]
        self._add_snapshots(metadata, new)
        return len(new)

    def add_manifests(self, manifests: Iterable[ManifestFile]) -> None:
        """Add manifests that snapshots list which the table has dropped, and the live files in them.

        One that is gone names nothing. Raises CorruptFile, Unavailable.
        """
        new = {one.manifest_path: one for one in manifests if one.manifest_path not in self._manifests}
        self._put(new)
        for named in in_parallel(self._named_if_there, new.values()):
            self._put(named)
        self._manifests.update(new)

    def add_names(self, locations: Iterable[str]) -> None:
        """Add single files."""
        self._put(locations)

    def _named_if_there(self, manifest: ManifestFile) -> tuple[str, ...]:
        try:
            return files_named_by(manifest, self._files, bytes_max=self._limits.manifest_bytes_max).live
        except NotFound:
            return ()

    def has(self, normal: str) -> bool:
        """Return whether the table may name a file, given its normalised location, also under another scheme or bucket.

        Journal segments name each other, so every file in a journal folder counts as named.
        """
        return normal in self.names or path_of(normal) in self.paths or is_journal_file(normal)

    def _add_snapshots(self, metadata: TableMetadata, snapshots: list[Snapshot]) -> None:
        manifests = {}
        for listed in in_parallel(lambda one: self._stored.manifests(metadata, one), snapshots):
            manifests.update({one.manifest_path: one for one in listed if one.manifest_path not in self._manifests})
        self._put(one.manifest_list for one in snapshots if one.manifest_list is not None)
        self._put(manifests)
        bytes_max = self._limits.manifest_bytes_max
        for named in in_parallel(lambda one: files_named_by(one, self._files, bytes_max=bytes_max), manifests.values()):
            self._put(named.live)
        self._manifests.update(manifests)
        self._snapshots.update(one.snapshot_id for one in snapshots)

    def _put(self, locations: Iterable[str]) -> None:
        normal = [canonical(one) for one in locations]
        self.names.add(normal)
        self.paths.add(path_of(one) for one in normal)


def path_of(location: str) -> str:
    """A location without its scheme and its bucket or host: ``/wh/t/a.parquet``."""
    _, separator, rest = location.partition("://")
    return f"/{rest.partition('/')[2]}" if separator else location


def _digest(location: str) -> int:
    return mmh3.hash64(location.encode("utf-8", "surrogatepass"), signed=False)[0]
