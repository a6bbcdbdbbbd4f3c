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

UNUSED_BYTES_MIN: Final = 4 * 1024 * 1024
"""Bytes that are free between others from which on they are looked through."""

_SETTINGS: Final = {
    "MALLOC_TRIM_THRESHOLD_": (-1, TRIM_THRESHOLD_BYTES),
    "MALLOC_MMAP_THRESHOLD_": (-3, MMAP_THRESHOLD_BYTES),
    "MALLOC_ARENA_MAX": (-8, ARENAS_MAX),
}
"""By the environment variable that says the same: mallopt's number (malloc.h), and the value."""


class _Use(ctypes.Structure):
    """``struct mallinfo2`` (malloc.h), bytes and counts."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


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


def give_holes_back() -> int:
    """Give back pages that are free between others, where there are many; the bytes that were free.

    Texts that grow leave holes in which their next ones do not fit. Looking through 300 MB takes some 10 ms, in which
    other threads get no memory, but run. Without glibc 2.33 or later this does nothing.
    """
    library = ctypes.CDLL(None)
    look, trim = getattr(library, "mallinfo2", None), getattr(library, "malloc_trim", None)
    if look is None or trim is None:
        return 0
    look.restype = _Use
    unused: int = look().fordblks
    if unused >= UNUSED_BYTES_MIN:
        trim(0)
    return unused
