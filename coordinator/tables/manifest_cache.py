"""Entries of manifests in memory, bounded: packed as they were written, or decoded as they were asked for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from firn.model.manifest import ManifestEntry, ManifestFile
from firn.storage.packed_entries import PackedEntries

_DECODED_ENTRY_BYTES: Final = 800
"""What a decoded entry takes beside its metrics."""

_METRIC_BYTES: Final = 65
"""What one column's count or bound takes, decoded."""

_MANIFEST_OVERHEAD_BYTES: Final = 1_000
"""What a manifest takes beside its entries: its name, its place here, numbers. Most hold a file or two."""

_Key = str | tuple[str, tuple[int | None, int, int | None]]


class ManifestCache:
    """The entries of manifests that were written or read last; a lock guards it."""

    def __init__(self, *, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._kept: OrderedDict[_Key, tuple[int, PackedEntries | Sequence[ManifestEntry]]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    def packed(self, location: str) -> PackedEntries | None:
        """The entries of a manifest that was written here, as they are stored."""
        found = self._get(location)
        return found if isinstance(found, PackedEntries) else None

    def decoded(self, manifest: ManifestFile) -> Sequence[ManifestEntry] | None:
        """The entries with what they inherit, if they were decoded before."""
        found = self._get(_key(manifest))
        return None if isinstance(found, PackedEntries) else found

    def keep_packed(self, location: str, packed: PackedEntries) -> None:
        """Keep the entries of a manifest that was just written."""
        self._keep(location, packed.memory, packed)

    def keep_decoded(self, manifest: ManifestFile, entries: Sequence[ManifestEntry]) -> None:
        """Keep entries with what they inherit from `manifest`."""
        self._keep(_key(manifest), sum(map(_memory_of, entries)), entries)

    def _get(self, key: _Key) -> PackedEntries | Sequence[ManifestEntry] | None:
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                self.misses += 1
                return None
            self._kept.move_to_end(key)
            self.hits += 1
            return kept[1]

    def _keep(self, key: _Key, size: int, value: PackedEntries | Sequence[ManifestEntry]) -> None:
        size += _MANIFEST_OVERHEAD_BYTES
        if size > self._bytes_max // 4:
            return  # one huge manifest must not push out all others
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = (size, value)
            self._bytes += size
            while self._bytes > self._bytes_max:
                _, (freed, _) = self._kept.popitem(last=False)
                self._bytes -= freed


def _memory_of(entry: ManifestEntry) -> int:
    """Bytes of a decoded entry, about."""
    file = entry.data_file
    by_column = (
        file.column_sizes, file.value_counts, file.null_value_counts, file.nan_value_counts, file.lower_bounds,
        file.upper_bounds,
    )  # fmt: skip
    metrics = sum(len(values) for values in by_column if values is not None)
    return _DECODED_ENTRY_BYTES + _METRIC_BYTES * metrics + len(file.encoded or b"")


def _key(manifest: ManifestFile) -> _Key:
    """What decoded entries depend on: the file, and what they inherit.

    An upgrade to v3 gives a manifest row ids later; one that a writer brought along has other numbers on each attempt.
    """
    return manifest.manifest_path, manifest.passes_on
