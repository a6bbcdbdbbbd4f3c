"""The live data files of a branch head: location → the manifest that holds it.

This is what makes delete, replace and the duplicate check cost what they touch, not what the table holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from firn.coordinator.replay.file_index import FileIndex
from firn.storage.locations import canonical

FILE_BYTES: Final = 11
"""What a file takes in the index."""


class LiveFiles:
    """Data files of one head, by location; a location may be given in any spelling (`canonical`).

    A replay works on a `branch_off` and throws it away when its swap is lost; `adopt` makes a won one the base.
    """

    __slots__ = ("_added", "_base", "_has_aliases", "_removed", "_renamed")

    def __init__(self, base: FileIndex | None = None) -> None:
        self._base = FileIndex() if base is None else base
        self._added: dict[str, str] = {}
        self._removed: set[str] = set()
        self._renamed: dict[str, str] = {}
        self._has_aliases = self._base.has_aliases

    @property
    def has_aliases(self) -> bool:
        """Whether a manifest may have one of the files in another spelling than the canonical one."""
        return self._has_aliases

    @property
    def memory(self) -> int:
        """Bytes that the files take, about."""
        return len(self._base) * FILE_BYTES

    def branch_off(self) -> LiveFiles:
        """A view of this that can be changed without changing this; there must be no pending change here."""
        return LiveFiles(self.index)

    @property
    def index(self) -> FileIndex:
        """All of it, to be looked at; there must be no pending change here."""
        assert not self._added
        assert not self._removed
        assert not self._renamed
        return self._base

    def manifest_of(self, location: str) -> str | None:
        """Location of the manifest that holds the file, None if it is not live."""
        name = canonical(location)
        if name in self._added:
            return self._added[name]
        if name in self._removed:
            return None
        manifest = self._base.get(name)
        return manifest if manifest is None else self._renamed.get(manifest, manifest)

    def __contains__(self, location: str) -> bool:
        return self.manifest_of(location) is not None

    def has_any(self, locations: Sequence[str]) -> bool:
        """Whether one of these files, in their canonical spelling, is live."""
        if self._added or self._removed:
            return any(location in self for location in locations)
        return self._base.holds_any(locations)

    def put(self, location: str, *, manifest: str) -> None:
        """The file is live, in this manifest (which may be another than before)."""
        name = canonical(location)
        self._has_aliases = self._has_aliases or name != location
        self._added[name] = manifest

    def put_all(self, locations: Iterable[str], *, manifest: str) -> None:
        """As `put`, for several files of one manifest."""
        given = list(locations)
        names = list(map(canonical, given))
        self._has_aliases = self._has_aliases or names != given
        self._added.update(dict.fromkeys(names, manifest))

    def remove(self, location: str) -> None:
        """The file is not live any more."""
        name = canonical(location)
        self._added.pop(name, None)
        self._removed.add(name)

    def rename_manifests(self, names: Mapping[str, str]) -> None:
        """All live files of some manifests are in others now: merged ones, or an earlier attempt's."""
        for location, manifest in self._added.items():
            if manifest in names:
                self._added[location] = names[manifest]
        self._renamed = {old: names.get(new, new) for old, new in self._renamed.items()}
        for old, new in names.items():
            self._renamed.setdefault(old, new)  # what the base has under a name that was renamed is elsewhere already

    def adopt(self, *, shared: bool) -> None:
        """Make the pending changes part of the base (the swap was won).

        Cost: their number; with `shared`, when another head still stands on the same base, a copy of it.
        """
        if shared:
            self._base = self._base.copy()
        for location in self._removed:
            self._base.discard(location)
        self._base.rename(self._renamed)
        of_manifest: dict[str, list[str]] = {}
        for location, manifest in self._added.items():
            of_manifest.setdefault(manifest, []).append(location)
        for manifest, locations in of_manifest.items():
            self._base.put_all(locations, manifest)
        self._base.has_aliases = self._has_aliases
        self._added = {}
        self._removed = set()
        self._renamed = {}
