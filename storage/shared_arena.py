"""Memory that a process shares with one that it starts: bytes are put there once instead of through a socket."""

from __future__ import annotations

import mmap
import os
from bisect import insort
from collections.abc import Sequence
from typing import Final, Self

ALIGNMENT: Final = 64

KEPT_BYTES: Final = 4 * 1024 * 1024
"""Memory at the beginning that stays taken when nobody uses it: what commits and pages of intents use all the time."""


class SharedArena:
    """Places for bytes in anonymous memory behind a descriptor. The lowest place that is large enough is taken.

    So only as much memory is touched as is in use at once; what is free behind all places, and behind the first
    `KEPT_BYTES`, goes back to the operating system. For one thread; the other process gets `descriptor` and is told
    places. Linux only.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.descriptor = os.memfd_create("firn-arena", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, size)
        self._memory = mmap.mmap(self.descriptor, size)
        self._free = [(0, size)]
        self._taken: dict[int, int] = {}
        self._touched = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def put(self, parts: Sequence[bytes | memoryview]) -> int | None:
        """Copy `parts` in, one after the other; where they begin, or None when there is no room for all of them."""
        needed = max(ALIGNMENT, -(-sum(map(len, parts)) // ALIGNMENT) * ALIGNMENT)
        for index, (start, size) in enumerate(self._free):
            if size < needed:
                continue
            if size == needed:
                del self._free[index]
            else:
                self._free[index] = (start + needed, size - needed)
            self._taken[start] = needed
            self._touched = max(self._touched, start + needed)
            position = start
            for part in parts:
                self._memory[position : position + len(part)] = part
                position += len(part)
            return start
        return None

    def memory(self, start: int) -> memoryview:
        """The place that begins at `start`, as long as it is not given back."""
        return memoryview(self._memory)[start : start + self._taken[start]]

    def give_back(self, start: int) -> None:
        """What begins at `start` is no longer read by anybody."""
        size = self._taken.pop(start)
        insort(self._free, (start, size))
        joined: list[tuple[int, int]] = []
        for place in self._free:
            if joined and sum(joined[-1]) == place[0]:
                joined[-1] = (joined[-1][0], joined[-1][1] + place[1])
            else:
                joined.append(place)
        self._free = joined
        self._let_go()

    def _let_go(self) -> None:
        """Give memory back that is free behind everything else."""
        last = max((start + size for start, size in self._taken.items()), default=0)
        kept = -(-max(last, KEPT_BYTES) // mmap.PAGESIZE) * mmap.PAGESIZE
        if self._touched > kept:
            self._memory.madvise(mmap.MADV_REMOVE, kept, -(-self._touched // mmap.PAGESIZE) * mmap.PAGESIZE - kept)
            self._touched = kept

    def close(self) -> None:
        """Let go of the memory; a process that has it keeps it."""
        self._memory.close()
        os.close(self.descriptor)
