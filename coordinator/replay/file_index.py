"""Which manifest holds a file, in twelve bytes a file: 64 bits of a hash of its location, 32 bits for the manifest.

The hash is Python's own of the text: keyed anew in every process, so that nobody can make two locations collide, and
short enough that among a hundred million files two do by chance once in three thousand tables.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from sys import getsizeof
from typing import Final

_HASH_BITS: Final = 64
_MASK: Final = (1 << _HASH_BITS) - 1
_BUCKET_FILES: Final = 1024
"""Files per bucket, on average at most: what is moved when one is put in is this many times twelve bytes."""

_DEAD_NUMBERS_MAX: Final = 1_000_000
"""Numbers of manifests that were merged into others, before all are given out anew: four bytes each."""


class FileIndex:
    """Locations of files → location of a manifest; files of manifests that are merged need not be touched."""

    __slots__ = ("_bits", "_count", "_hashes", "_names", "_numbers", "_parents", "_places")

    def __init__(self) -> None:
        self._bits = 0
        self._count = 0
        self._hashes: list[array[int]] = [array("Q")]
        self._places: list[array[int]] = [array("I")]
        self._parents: array[int] = array("I")
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def memory(self) -> int:
        """Bytes that the files take; manifests take as much as their names besides."""
        return sum(map(getsizeof, (*self._hashes, *self._places, self._parents)))

    def copy(self) -> FileIndex:
        """Another of the same content."""
        other = FileIndex()
        other._bits, other._count = self._bits, self._count
        other._hashes = [part[:] for part in self._hashes]
        other._places = [part[:] for part in self._places]
        other._parents = self._parents[:]
        other._numbers, other._names = dict(self._numbers), dict(self._names)
        return other

    def get(self, location: str) -> str | None:
        """The manifest that holds the file, None when none does."""
        found, bucket, at = self._find(location)
        return self._names[self._root(self._places[bucket][at])] if found else None

    def put(self, location: str, manifest: str) -> None:
        """The file is in this manifest, whatever was said before."""
        self.put_all((location,), manifest)

    def put_all(self, locations: Iterable[str], manifest: str) -> None:
        """As `put`, for several files of one manifest."""
        number = self._number_of(manifest)
        for location in locations:
            found, bucket, at = self._find(location)
            if found:
                self._places[bucket][at] = number
                continue
            self._hashes[bucket].insert(at, hash(location) & _MASK)
            self._places[bucket].insert(at, number)
            self._count += 1
            if self._count > _BUCKET_FILES << self._bits:
                self._split()

    def discard(self, location: str) -> None:
        """The file is in no manifest."""
        found, bucket, at = self._find(location)
        if found:
            del self._hashes[bucket][at], self._places[bucket][at]
            self._count -= 1

    def rename(self, names: Mapping[str, str]) -> None:
        """All files of these manifests are in others now; what is one's new name may be another's old one."""
        moving = [(self._numbers.pop(old), new) for old, new in names.items() if old in self._numbers]
        for number, _ in moving:
            del self._names[number]
        for number, new in moving:
            known = self._numbers.get(new)
            if known is None:
                self._numbers[new], self._names[number] = number, new
            else:
                self._parents[number] = known
        if len(self._parents) > _DEAD_NUMBERS_MAX + 4 * len(self._numbers):
            self._renumber()

    def _find(self, location: str) -> tuple[bool, int, int]:
        key = hash(location) & _MASK
        bucket = key >> (_HASH_BITS - self._bits)
        hashes = self._hashes[bucket]
        at = bisect_left(hashes, key)
        return at < len(hashes) and hashes[at] == key, bucket, at

    def _number_of(self, manifest: str) -> int:
        number = self._numbers.get(manifest)
        if number is None:
            number = self._numbers[manifest] = len(self._parents)
            self._names[number] = manifest
            self._parents.append(number)
        return number

    def _root(self, number: int) -> int:
        parents = self._parents
        root = number
        while parents[root] != root:
            root = parents[root]
        while parents[number] != root:
            parents[number], number = root, parents[number]
        return root

    def _split(self) -> None:
        """Twice as many buckets, each cut in the middle of its range."""
        self._bits += 1
        hashes: list[array[int]] = []
        places: list[array[int]] = []
        for bucket, (part, where) in enumerate(zip(self._hashes, self._places, strict=True)):
            cut = bisect_left(part, (2 * bucket + 1) << (_HASH_BITS - self._bits))
            hashes += (part[:cut], part[cut:])
            places += (where[:cut], where[cut:])
        self._hashes, self._places = hashes, places

    def _renumber(self) -> None:
        """Give numbers out anew, to the manifests that still have files."""
        names = [self._names[root] for root in self._names]
        new = {root: number for number, root in enumerate(self._names)}
        self._places = [array("I", [new[self._root(number)] for number in part]) for part in self._places]
        self._parents = array("I", range(len(names)))
        self._numbers = {name: number for number, name in enumerate(names)}
        self._names = dict(enumerate(names))
