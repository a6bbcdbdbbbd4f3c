"""Which manifest holds a file, in ten bytes a file: 64 bits of a hash of its location, 16 bits for the manifest.

The hash is Python's own of the text: keyed anew in every process, so that nobody can make two locations collide, and
short enough that among a hundred million files two do by chance once in three thousand tables. Where a table has too
many files or manifests for it, numbers of manifests take 32 bits.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping
from itertools import compress
from sys import getsizeof
from types import MappingProxyType
from typing import Final, Literal

_HASH_BITS: Final = 64
_MASK: Final = (1 << _HASH_BITS) - 1
_BUCKET_FILES: Final = 1024
"""Files per bucket, on average at most: what is moved when one is put in is this many times ten bytes."""

_SHORT_NUMBERS: Final = 1 << 16
"""Numbers of 16 bits. Every manifest takes one; when all are used up, those that still have files get new ones."""

_LONG_NUMBERS: Final = 1_000_000
"""Numbers of 32 bits that are used up before, and four for each manifest that still has files: four bytes each."""

_NO_ORDER: Final[Mapping[str, int]] = MappingProxyType({})

_SHORT_FILES_MAX: Final = 4_000_000
"""Files up to which numbers are short: giving out new ones touches each file, 50 ns."""


class FileIndex:
    """Canonical locations of files → location of a manifest; files of manifests that are merged need not be touched.

    `has_aliases` is set by the owner where a manifest may have a file in another spelling (`firn.storage.locations`).

    A manifest has a number; that of one that was merged has the other's as its parent. Names are known of those that
    were not, and how many files they have: with its last file a manifest is forgotten.
    """

    __slots__ = (
        "_count", "_counts", "_hashes", "_names", "_numbers", "_numbers_max", "_parents", "_places", "_shift",
        "has_aliases",
    )  # fmt: skip

    def __init__(self) -> None:
        self._shift = _HASH_BITS
        self._count = 0
        self._hashes: list[array[int]] = [array("Q")]
        self._places: list[array[int]] = [array("H")]
        self._parents: array[int] = array("I")
        self._counts: dict[int, int] = {}
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._numbers_max = _SHORT_NUMBERS
        self.has_aliases = False

    def __len__(self) -> int:
        return self._count

    @property
    def memory(self) -> int:
        """Bytes that the files take; manifests take as much as their names besides."""
        return sum(map(getsizeof, (*self._hashes, *self._places, self._parents)))

    def copy(self) -> FileIndex:
        """Another of the same content."""
        other = FileIndex()
        other._shift, other._count = self._shift, self._count
        other._hashes = [part[:] for part in self._hashes]
        other._places = [part[:] for part in self._places]
        other._parents = self._parents[:]
        other._numbers, other._names, other._counts = dict(self._numbers), dict(self._names), dict(self._counts)
        other._numbers_max = self._numbers_max
        other.has_aliases = self.has_aliases
        return other

    def get(self, location: str) -> str | None:
        """The manifest that holds the file, None when none does."""
        found, bucket, at = self._find(location)
        return self._names[self._root(self._places[bucket][at])] if found else None

    def holds_any(self, locations: Iterable[str]) -> bool:
        """Whether any manifest holds one of these files."""
        hashes, shift = self._hashes, self._shift
        for location in locations:
            key = hash(location) & _MASK
            bucket = hashes[key >> shift]
            at = bisect_left(bucket, key)
            if at < len(bucket) and bucket[at] == key:
                return True
        return False

    def count_of(self, manifest: str) -> int:
        """How many files the manifest holds."""
        number = self._numbers.get(manifest)
        return 0 if number is None else self._counts[number]

    def put(self, location: str, manifest: str) -> None:
        """The file is in this manifest, whatever was said before."""
        self.put_all((location,), manifest)

    def put_all(self, locations: Iterable[str], manifest: str, *, order: Mapping[str, int] = _NO_ORDER) -> None:
        """As `put`, for several files of one manifest; but a file stays in one that has a higher place in `order`."""
        number, place = self._number_of(manifest), order.get(manifest, 0)
        before, full = self._count, _BUCKET_FILES * len(self._hashes)
        self._counts[number] += 1  # so that it is not forgotten meanwhile
        for location in locations:
            found, bucket, at = self._find(location)
            if found:
                if order and order.get(self._names[self._root(self._places[bucket][at])], -1) > place:
                    continue
                self._counts[number] += 1
                self._take_from(self._places[bucket][at])
                self._places[bucket][at] = number
                continue
            self._hashes[bucket].insert(at, hash(location) & _MASK)
            self._places[bucket].insert(at, number)
            self._count += 1
            if self._count > full:
                self._split()
                full *= 2
        self._counts[number] += self._count - before
        self._take_from(number)

    def discard(self, location: str) -> None:
        """The file is in no manifest."""
        found, bucket, at = self._find(location)
        if found:
            self._take_from(self._places[bucket][at])
            del self._hashes[bucket][at], self._places[bucket][at]
            self._count -= 1

    def keep_only(self, manifests: Container[str]) -> None:
        """Drop the files of all other manifests. Cost: the number of manifests, and a look at each file if any goes."""
        gone = {number for number, name in self._names.items() if name not in manifests}
        if not gone:
            return
        numbers = {number for number in range(len(self._parents)) if self._root(number) in gone}
        for bucket, places in enumerate(self._places):
            if not numbers.isdisjoint(places):
                stays = [number not in numbers for number in places]
                self._hashes[bucket] = array("Q", compress(self._hashes[bucket], stays))
                self._places[bucket] = array(places.typecode, compress(places, stays))
        for number in gone:
            self._count -= self._counts.pop(number)
            del self._numbers[self._names.pop(number)]

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
                self._counts[known] += self._counts.pop(number)

    def _find(self, location: str) -> tuple[bool, int, int]:
        key = hash(location) & _MASK
        bucket = key >> self._shift
        hashes = self._hashes[bucket]
        at = bisect_left(hashes, key)
        return at < len(hashes) and hashes[at] == key, bucket, at

    def _number_of(self, manifest: str) -> int:
        number = self._numbers.get(manifest)
        if number is None:
            if len(self._parents) >= self._numbers_max:
                self._renumber()
            number = self._numbers[manifest] = len(self._parents)
            self._names[number] = manifest
            self._counts[number] = 0
            self._parents.append(number)
        return number

    def _take_from(self, number: int) -> None:
        """The manifest that the number stands for has one file less; without any it is forgotten."""
        root = self._root(number)
        self._counts[root] -= 1
        if not self._counts[root]:
            del self._numbers[self._names.pop(root)], self._counts[root]

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
        self._shift -= 1
        if self._count > _SHORT_FILES_MAX and self._places[0].typecode == "H":
            self._places = [array("I", part) for part in self._places]
            self._numbers_max = _LONG_NUMBERS
        hashes: list[array[int]] = []
        places: list[array[int]] = []
        while self._hashes:  # from the last on, each let go of at once: the next ones take its memory
            part, where = self._hashes.pop(), self._places.pop()
            cut = bisect_left(part, (2 * len(self._hashes) + 1) << self._shift)
            hashes += (part[cut:], part[:cut])
            places += (where[cut:], where[:cut])
        hashes.reverse()
        places.reverse()
        self._hashes, self._places = hashes, places

    def _renumber(self) -> None:
        """Give numbers out anew, to the manifests that still have files: long ones where short ones would not do."""
        roots = list(self._names)
        own = {root: number for number, root in enumerate(roots)}
        new = [own.get(self._root(number), 0) for number in range(len(self._parents))]  # 0: stands for no file
        short = self._count <= _SHORT_FILES_MAX and len(roots) <= _SHORT_NUMBERS // 2
        code: Literal["H", "I"] = "H" if short else "I"
        self._places = [array(code, map(new.__getitem__, part)) for part in self._places]
        self._parents = array("I", range(len(roots)))
        self._numbers_max = _SHORT_NUMBERS if short else _LONG_NUMBERS + 4 * len(roots)
        self._names = {own[root]: name for root, name in self._names.items()}
        self._numbers = {name: number for number, name in self._names.items()}
        self._counts = {own[root]: count for root, count in self._counts.items()}
