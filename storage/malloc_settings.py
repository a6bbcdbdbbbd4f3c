"""What the C library's allocator does with memory that is freed: give it back to the operating system.

glibc learns from a large block that was freed that such blocks will come again: from then on it keeps twice as much, in
each of its arenas, of which threads have up to eight a core. One merge of manifests leaves a daemon some 16 MB larger
so. Numbers of our own turn the learning off.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

MMAP_THRESHOLD_BYTES: Final = 1024 * 1024
"""Blocks of this size are mapped alone, and unmapped when they are freed. What commits use all the time is smaller."""

TRIM_THRESHOLD_BYTES: Final = 2 * 1024 * 1024
"""What is kept free at the end of each arena."""

ARENAS_MAX: Final = 2
"""One for the event loop, one for all other threads: they do not run at once anyway, but for compression."""

_SETTINGS: Final = {
    "MALLOC_TRIM_THRESHOLD_": (-1, TRIM_THRESHOLD_BYTES),
    "MALLOC_MMAP_THRESHOLD_": (-3, MMAP_THRESHOLD_BYTES),
    "MALLOC_ARENA_MAX": (-8, ARENAS_MAX),
}
"""By the environment variable that says the same: mallopt's number (malloc.h), and the value."""


def give_freed_memory_back() -> tuple[str, ...]:
    """Set glibc's allocator up for a process that lives long; call it before there are threads.

    Which settings were made, by name: those that the environment makes are left alone, and other C libraries have none.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        return ()
    return tuple(
        name for name, (number, value) in _SETTINGS.items() if name not in os.environ and mallopt(number, value) == 1
    )
