"""Files that are begun before anybody asks for them: the next metadata file of a long history is most of the last one.

The process that writes a daemon's local files copies what only grows beside the commit path, into a file without a name
(``O_TMPFILE``, Linux), with spaces between, so that a commit only writes what is new, and names it. Such a file goes
with the process. The daemon keeps the book of them (`Beginnings`), the process the files (`BegunFiles`).
"""

# Descriptors and link counts are the point here; pathlib hides them.
# ruff: noqa: PTH120

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from itertools import pairwise
from typing import Final

import msgspec

from firn.storage.grown_content import GrowingText, GrownContent, Stretch
from firn.storage.write_back import begin_writing_back

BEGUN_MAX: Final = 64
"""Files that are begun at most, each for another table: they take as much disk as the tables' metadata files."""

IDLE_S: Final = 10.0
"""After so long without a commit a table's begun file may give way to another's."""

SWAP_S: Final = 0.001
"""How long what is done beside the commit path is put off: the swap that follows a write wants disk and processor.

With twice this the next batch of a fast machine is there before its file has been begun, and waits for that.
"""

TELLING_S: Final = 0.0005
"""How long a file is begun later still: outcomes are told then. Nearly always it is done when the next batch comes."""

FORGOTTEN_MAX: Final = 3
"""After so many files that could not be begun no more are asked for: there are file systems without nameless files."""


class BegunFile(msgspec.Struct, frozen=True):
    """The number of a begun file, and what is in it."""

    number: int
    stretches: tuple[Stretch, ...]


class Beginnings:
    """What the process has begun. Where there are too many busy tables, the others write their files whole."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: OrderedDict[GrowingText, tuple[BegunFile, float]] = OrderedDict()
        self._given_up: list[int] = []
        self._last_number = 0
        self._forgotten = 0

    def take(self, content: GrownContent) -> BegunFile | None:
        """The file that `content` goes on from, if there is one, and what of it holds; it is used up with this."""
        found, _ = self._begun.pop(content.stretches[0].text, (None, 0.0))
        if found is None:
            return None
        holds = content.continued(found.stretches)
        if not holds:
            self._given_up.append(found.number)
            return None
        return BegunFile(found.number, holds)

    def number_of_another(self) -> int | None:
        """A number for a file to be begun, None when there are enough of them or they cannot be had."""
        if self._forgotten >= FORGOTTEN_MAX:
            return None
        if len(self._begun) >= BEGUN_MAX:
            oldest, (file, at) = next(iter(self._begun.items()))
            if self._clock() - at < IDLE_S:
                return None
            del self._begun[oldest]
            self._given_up.append(file.number)
        self._last_number += 1
        return self._last_number

    def put(self, file: BegunFile) -> None:
        """The process is about to begin the file."""
        text = file.stretches[0].text
        before, _ = self._begun.pop(text, (None, 0.0))
        if before is not None:
            self._given_up.append(before.number)
        self._begun[text] = file, self._clock()

    def forgotten(self) -> None:
        """The process did not have a file that was taken."""
        self._forgotten += 1

    def given_up(self) -> tuple[int, ...]:
        """Files that nobody will take, once: the process is to be told."""
        numbers, self._given_up = tuple(self._given_up), []
        return numbers

    def give_up(self, numbers: Iterable[int]) -> None:
        """The process was not told."""
        self._given_up += numbers

    def clear(self) -> None:
        """The process has ended, and all files with it."""
        self._begun.clear()
        self._given_up.clear()
        self._forgotten = 0


class Announced:
    """A file that is about to be begun."""

    def __init__(self) -> None:
        self._begun: Future[int | None] = Future()
        self._wanted = threading.Event()

    def begin(self, path: str, stretches: Sequence[tuple[int, int]]) -> None:
        """Begin it with stretches (start, size) of a file. Where that cannot be, there is none to be taken."""
        self._wanted.wait(TELLING_S)
        try:
            self._begun.set_result(_copy_of(path, stretches))
        except OSError:
            self._begun.set_result(None)

    def descriptor(self) -> int | None:
        """The file, once it is begun; None where that could not be."""
        self._wanted.set()
        return self._begun.result()


class BegunFiles:
    """The files themselves, by number; for threads. Whoever takes one closes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: dict[int, Announced] = {}

    def announce(self, number: int) -> Announced:
        """A file will be begun under this number: who wants to take it waits for that."""
        announced = Announced()
        with self._lock:
            self._begun[number] = announced
        return announced

    def take(self, number: int, *, size: int | None = None) -> int | None:
        """The descriptor of a file, once it is begun, cut to `size` if it is longer; None when there is none such."""
        with self._lock:
            begun = self._begun.pop(number, None)
        descriptor = None if begun is None else begun.descriptor()
        if descriptor is None or size is None:
            return descriptor
        try:
            if os.fstat(descriptor).st_size > size:
                os.ftruncate(descriptor, size)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor

    def drop(self, number: int) -> None:
        """Nobody will take it."""
        descriptor = self.take(number)
        if descriptor is not None:
            os.close(descriptor)


def _copy_of(path: str, stretches: Sequence[tuple[int, int]]) -> int:
    """A file without a name that holds stretches of another where that has them, on its way to the disk."""
    descriptor = os.open(os.path.dirname(path), os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
    try:
        source = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            for start, size in stretches:
                _copy(source, descriptor, start=start, end=start + size)
            for (start, size), (following, _) in pairwise(stretches):
                os.pwrite(descriptor, b" " * (following - start - size), start + size)
        finally:
            os.close(source)
        begin_writing_back(descriptor)  # whoever finishes the file syncs all of it
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _copy(source: int, target: int, *, start: int, end: int) -> None:
    while start < end:
        copied = os.copy_file_range(source, target, end - start, start, start)
        if not copied:
            raise OSError(f"a file ended {end - start} bytes before what was written to it")
        start += copied
