"""Folders that are what they were: each has a file, its mark, that says which folder it is.

Where a disk is mounted there is an empty folder as soon as it is not. To a writer who makes missing folders that is a
place like any other: what it writes there is hidden when the disk comes back, or is a second, other table. So every
operation below a marked folder looks for the mark first, and after a change once more, which takes two microseconds.
The mark is found by content: a disk may come back as another device, a warehouse be copied to a new one.
"""

# Flags and descriptors are the point here; pathlib hides them.
# ruff: noqa: PTH116

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from firn.model.errors import CorruptFile, NotFound, Unavailable, UnknownOutcome
from firn.storage.files import FileInfo, FileStore
from firn.storage.locations import FILE_SCHEME, MARK_NAME, normalize, scheme_of

MARK_BYTES_MAX: Final = 256

_Identity = tuple[int, int, int]


class MarkedFolders:
    """Which mark each of some local folders has; for threads."""

    def __init__(self, marks: Mapping[str, str] | None = None) -> None:
        self._marks = {normalize(folder): mark for folder, mark in (marks or {}).items()}
        self._seen: dict[str, _Identity] = {}
        """Of mark files that have been read: device, inode and time of change."""

    @property
    def marks(self) -> Mapping[str, str]:
        """The mark by folder."""
        return self._marks

    def check(self, locations: Iterable[str]) -> None:
        """Raise Unavailable where one of `locations` is below a marked folder that is not there."""
        for folder, mark in self._marks.items():
            if any(_is_below(location, folder) for location in locations):
                self._check(folder, mark)

    @contextlib.contextmanager
    def reading(self, *locations: str) -> Iterator[None]:
        """Within: what is read or looked for is the folder's. What is not found is missed there, and not elsewhere."""
        self.check(locations)
        try:
            yield
        except NotFound:
            self.check(locations)
            raise

    @contextlib.contextmanager
    def changing(self, *locations: str) -> Iterator[None]:
        """Within: files are changed. Raises UnknownOutcome when the folder is not there any more afterwards."""
        with self.reading(*locations):
            yield
        try:
            self.check(locations)
        except Unavailable as error:
            raise UnknownOutcome(f"{error} It went while files were written.") from error

    def _check(self, folder: str, mark: str) -> None:
        path = f"{folder}/{MARK_NAME}"
        try:
            found = os.stat(path)
            identity = found.st_dev, found.st_ino, found.st_ctime_ns
            if self._seen.get(folder) == identity:
                return
            text = _read(path)
        except FileNotFoundError as error:
            raise Unavailable(
                f"{folder} is not the folder it was: its mark {MARK_NAME} is missing. Mount its disk, and all goes "
                f"on; if this is the right folder and only the mark was lost: echo {mark} > {path}."
            ) from error
        except OSError as error:
            raise Unavailable(f"{path}: {error.strerror or error}.") from error
        if text != mark:
            raise Unavailable(
                f"{folder} is another folder than it was: its mark {MARK_NAME} says {text!a} and not {mark}. Mount the "
                f"right disk, and all goes on; if this is the right folder: echo {mark} > {path}."
            )
        self._seen[folder] = identity


class MarkedFiles:
    """The `FileStore` `inner`, which is `Unavailable` below a marked folder that is not there."""

    def __init__(self, inner: FileStore, folders: MarkedFolders) -> None:
        self._inner = inner
        self._folders = folders

    def read(self, location: str, *, bytes_max: int) -> bytes:
        with self._folders.reading(location):
            return self._inner.read(location, bytes_max=bytes_max)

    def read_range(self, location: str, *, offset: int, length: int) -> bytes:
        with self._folders.reading(location):
            return self._inner.read_range(location, offset=offset, length=length)

    def create(self, location: str, data: bytes) -> None:
        with self._folders.changing(location):
            self._inner.create(location, data)

    def create_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        with self._folders.changing(*(location for location, _ in files)):
            self._inner.create_all(files)

    def replace(self, location: str, data: bytes) -> None:
        with self._folders.changing(location):
            self._inner.replace(location, data)

    def size(self, location: str) -> int:
        with self._folders.reading(location):
            return self._inner.size(location)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[FileInfo]:
        self._folders.check([prefix])
        yield from self._inner.list(prefix, after=after)
        self._folders.check([prefix])

    def delete(self, location: str) -> None:
        with self._folders.changing(location):
            self._inner.delete(location)


def read_mark(files: FileStore, folder: str) -> str | None:
    """A folder's mark, None where it has none. Raises CorruptFile, Unavailable; InvalidInput for a file too large."""
    location = f"{folder}/{MARK_NAME}"
    try:
        mark = _text(files.read(location, bytes_max=MARK_BYTES_MAX))
    except NotFound:
        return None
    if not mark:
        raise CorruptFile(location, "is empty, and was to say which folder this is: remove it, and start again")
    return mark


def _read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return _text(os.read(descriptor, MARK_BYTES_MAX))
    finally:
        os.close(descriptor)


def _text(data: bytes) -> str:
    return data.decode(errors="replace").strip()


def _is_below(location: str, folder: str) -> bool:
    return scheme_of(location) == FILE_SCHEME and f"{normalize(location)}/".startswith(f"{folder.rstrip('/')}/")
