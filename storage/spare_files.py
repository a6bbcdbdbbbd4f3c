"""Files that are made before anybody asks for them: empty, and without a name (``O_TMPFILE``, Linux).

To make a file takes a file system longer than to name one: it looks for a free inode, and an ext4 without a journal
passes over all that were freed in the last minute or more. So the process that writes a daemon's local files makes the
next batch's beside the commit path, and a commit only writes and names them. Such a file goes with the process.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

SPARE_MAX: Final = 256
"""Files that are spare at once, four for a table: each is a descriptor, of which a process has a thousand."""

IDLE_S: Final = 10.0
"""After so long without a commit the files of a folder may give way to another's."""

FAILURES_MAX: Final = 3
"""After so many in a row that could not be made or named no more are made: not every file system can."""


class _Folder(msgspec.Struct, eq=False):
    """The descriptors that are spare for a folder, and when files were last made there."""

    spare: list[int]
    used_at: float = 0.0


class SpareFiles:
    """Spare files by the folder that they are for; for threads. Whoever takes one closes it."""

    def __init__(self, *, spare_max: int = SPARE_MAX, clock: Callable[[], float] = time.monotonic) -> None:
        self._spare_max = spare_max
        self._clock = clock
        self._lock = threading.Lock()
        self._folders: OrderedDict[str, _Folder] = OrderedDict()
        """The one used last is the last."""
        self._count = 0
        self._failures = 0

    def take(self, folder: str) -> int | None:
        """The descriptor of a new, empty file that can be given a name in `folder`; None when there is none."""
        with self._lock:
            found = self._folders.get(folder)
            if found is None or not found.spare:
                return None
            self._count -= 1
            return found.spare.pop()

    def restock(self, folders: Iterable[str]) -> None:
        """Have a file ready for each of `folders`, as often as it is named, as far as there is room."""
        for folder, wanted in Counter(folders).items():
            with self._lock:
                found = self._folders.setdefault(folder, _Folder([]))
                found.used_at = self._clock()
                self._folders.move_to_end(folder)
                missing = wanted - len(found.spare)
            for _ in range(missing):
                if self._failures >= FAILURES_MAX or not self._has_room():
                    return
                try:
                    made = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666)
                except OSError:
                    self._failures += 1
                    return
                with self._lock:
                    self._folders.setdefault(folder, found).spare.append(made)
                    self._count += 1

    def worked(self) -> None:
        """Files that were taken have been given their names."""
        self._failures = 0

    def failed(self, folders: Iterable[str]) -> None:
        """One that was taken could not be used: the next files in these folders are made the usual way."""
        self._failures += 1
        for folder in set(folders):
            self._drop(folder)

    def close(self) -> None:
        """Give all up."""
        for folder in list(self._folders):
            self._drop(folder)

    def _has_room(self) -> bool:
        """Whether another may be made, for which the files of a folder that is not used any more may have to go."""
        with self._lock:
            if self._count < self._spare_max:
                return True
            oldest, found = next(iter(self._folders.items()))
            if self._clock() - found.used_at < IDLE_S:
                return False
        self._drop(oldest)
        return self._has_room()

    def _drop(self, folder: str) -> None:
        with self._lock:
            found = self._folders.pop(folder, _Folder([]))
            given_up, found.spare = found.spare, []
            self._count -= len(given_up)
        for descriptor in given_up:
            os.close(descriptor)
