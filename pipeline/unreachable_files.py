"""The files of forgotten snapshots that no snapshot of the table reaches any more.

These are candidates: the caller removes only those that the table does not name in any other way. Manifests that a
forgotten snapshot and the table both list are not opened. Whatever cannot be read of the table ends the search with an
error; whatever cannot be read of the forgotten stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

import msgspec

from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.limits import Limits
from firn.model.manifest import ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.snapshot import Snapshot
from firn.pipeline.manifest_paths import NamedFiles, files_named_by
from firn.pipeline.parallel_files import in_parallel
from firn.storage.files import FileStore
from firn.storage.locations import normalize
from firn.storage.manifest_reader import StoredManifests

PORTION_FILES: Final = 500_000
"""Content files that are looked for at a time, about 200 bytes of memory each."""


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """What only forgotten snapshots list: `manifests` and `manifest_lists`, in the spelling that they were named in.

    `unreadable` are lists and manifests that are there and cannot be read: they, and what they name, stay.
    """

    manifests: tuple[ManifestFile, ...]
    manifest_lists: tuple[str, ...]
    unreadable: tuple[str, ...]


class UnreachableFiles:
    """The search among the snapshots that a table has forgotten. Raises what reading the table raises.

    What snapshots of `needed_ids` made, and the manifests `needed`, stay: bases are validated by them.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        forgotten: Iterable[Snapshot],
        files: FileStore,
        *,
        limits: Limits,
        portion_files: int = PORTION_FILES,
        needed_ids: Collection[int] = (),
        needed: Iterable[ManifestFile] = (),
    ) -> None:
        self._metadata = metadata
        self._needed_ids = needed_ids
        self._needed = {normalize(one.manifest_path) for one in needed}
        self._files = files
        self._limits = limits
        self._portion_files = portion_files
        self._stored = StoredManifests(files, limits=limits)
        self._unreadable: dict[str, None] = {}
        self._kept = self._manifests_of(metadata.snapshots)
        self._lists = self._lists_of(forgotten)
        self._manifests = self._only_forgotten()

    @property
    def forgotten(self) -> Forgotten:
        """Manifests and lists that can go once the content is gone: they are all that still leads to it."""
        return Forgotten(
            manifests=tuple(one for path, one in self._manifests.items() if path not in self._unreadable),
            manifest_lists=tuple(self._lists_that_go()),
            unreadable=tuple(self._unreadable),
        )

    @property
    def snapshots_count(self) -> int:
        """Forgotten snapshots of which something is still there."""
        return len(self._lists)

    def content(self) -> Iterator[list[str]]:
        """Content files in manifests that only forgotten snapshots list, in portions, each once in a portion."""
        portion: dict[str, str] = {}
        for named in in_parallel(self._named_by_forgotten, self._manifests.values()):
            for path in (*named.live, *named.gone):
                normal = normal_or_none(path)
                if normal is not None:
                    portion[normal] = path
            if len(portion) >= self._portion_files:
                yield list(portion.values())
                portion = {}
        if portion:
            yield list(portion.values())

    def _manifests_of(self, snapshots: Collection[Snapshot]) -> dict[str, ManifestFile]:
        """The manifests of the table's own snapshots by their normalised paths; the newest snapshots' first."""
        found: dict[str, ManifestFile] = {}
        newest_first = sorted(snapshots, key=lambda one: one.timestamp_ms, reverse=True)
        for manifests in in_parallel(lambda one: self._stored.manifests(self._metadata, one), newest_first):
            for manifest in manifests:
                found.setdefault(normalize(manifest.manifest_path), manifest)
        return found

    def _lists_of(self, forgotten: Iterable[Snapshot]) -> dict[str, tuple[Snapshot, tuple[ManifestFile, ...]]]:
        """What can be read of the forgotten snapshots; the keys are their lists, or made up where one has none."""
        kept = {normalize(one.manifest_list) for one in self._metadata.snapshots if one.manifest_list is not None}
        found = {}
        for snapshot, manifests in in_parallel(self._read_forgotten, forgotten):
            key = f"#{snapshot.snapshot_id}" if snapshot.manifest_list is None else normalize(snapshot.manifest_list)
            if manifests is not None and key not in kept:
                found[key] = (snapshot, manifests)
        return found

    def _read_forgotten(self, snapshot: Snapshot) -> tuple[Snapshot, tuple[ManifestFile, ...] | None]:
        try:
            return snapshot, self._stored.manifests(self._metadata, snapshot)
        except NotFound:  # its files went before
            return snapshot, None
        except (CorruptFile, InvalidInput):
            self._unreadable[snapshot.manifest_list or f"snapshot {snapshot.snapshot_id}"] = None
            return snapshot, None

    def _only_forgotten(self) -> dict[str, ManifestFile]:
        found: dict[str, ManifestFile] = {}
        for _, manifests in self._lists.values():
            for manifest in manifests:
                path = normal_or_none(manifest.manifest_path)
                is_needed = path in self._needed or manifest.added_snapshot_id in self._needed_ids
                if path is not None and path not in self._kept and not is_needed:
                    found[path] = manifest
        return found

    def _lists_that_go(self) -> Iterator[str]:
        for snapshot, manifests in self._lists.values():
            if snapshot.manifest_list is not None and not any(
                normal_or_none(one.manifest_path) in self._unreadable for one in manifests
            ):
                yield snapshot.manifest_list

    def _named_by_forgotten(self, manifest: ManifestFile) -> NamedFiles:
        try:
            return self._named(manifest)
        except NotFound:
            return NamedFiles((), ())
        except (CorruptFile, InvalidInput):
            self._unreadable[normalize(manifest.manifest_path)] = None
            return NamedFiles((), ())

    def _named(self, manifest: ManifestFile) -> NamedFiles:
        return files_named_by(manifest, self._files, bytes_max=self._limits.manifest_bytes_max)


def normal_or_none(location: str) -> str | None:
    """The one spelling of a location; None for what is none, and so is not removed."""
    try:
        return normalize(location)
    except InvalidInput:
        return None
