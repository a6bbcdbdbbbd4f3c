"""The live data files of a branch head: location → the manifest that holds it.

This is what makes delete, replace and the duplicate check cost what they touch, not what the table holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class LiveFiles:
    """Data files of one head, by location.

    A replay works on a `branch_off` and throws it away when its swap is lost; `adopt` makes a won one the base.
    """

    __slots__ = ("_added", "_base", "_removed")

    def __init__(self, base: dict[str, str] | None = None) -> None:
        self._base: dict[str, str] = {} if base is None else base
        self._added: dict[str, str] = {}
        self._removed: set[str] = set()

    def branch_off(self) -> LiveFiles:
        """A view of this that can be changed without changing this; there must be no pending change here."""
        assert not self._added
        assert not self._removed
        return LiveFiles(self._base)

    def manifest_of(self, location: str) -> str | None:
        """Location of the manifest that holds the file, None if it is not live."""
        if location in self._added:
            return self._added[location]
        if location in self._removed:
            return None
        return self._base.get(location)

    def __contains__(self, location: str) -> bool:
        return self.manifest_of(location) is not None

    def __len__(self) -> int:
        return (
            len(self._base)
            - len(self._removed)
            + sum(location not in self._base for location in self._added)
            + sum(location in self._removed for location in self._added)
        )

    def __iter__(self) -> Iterator[str]:
        yield from self._added
        yield from (p for p in self._base if p not in self._removed and p not in self._added)

    def put(self, location: str, *, manifest: str) -> None:
        """The file is live, in this manifest (which may be another than before)."""
        self._added[location] = manifest

    def put_all(self, locations: Iterable[str], *, manifest: str) -> None:
        """As `put`, for several files of one manifest."""
        self._added.update(dict.fromkeys(locations, manifest))

    def remove(self, location: str) -> None:
        """The file is not live any more."""
        self._added.pop(location, None)
        if location in self._base:
            self._removed.add(location)

    def rename_manifests(self, names: dict[str, str]) -> None:
        """Files of a drafted manifest turned out to be in another one (an earlier attempt's file was kept)."""
        for location, manifest in self._added.items():
            if manifest in names:
                self._added[location] = names[manifest]

    def adopt(self, *, shared: bool) -> None:
        """Make the pending changes part of the base (the swap was won).

        Cost: their number; with `shared`, when another head still stands on the same base, a copy of it.
        """
        if shared:
            self._base = dict(self._base)
        for location in self._removed:
            self._base.pop(location, None)
        self._base.update(self._added)
        self._added = {}
        self._removed = set()
