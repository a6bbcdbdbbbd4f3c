"""Having the kernel write a file to the disk before anybody waits for that."""

from __future__ import annotations

import ctypes
from typing import Final

_sync_file_range = getattr(ctypes.CDLL(None), "sync_file_range", None)
"""Python has `posix_fadvise` only, which would wait until all processors have looked through their lists of pages."""

if _sync_file_range is not None:
    _sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)

_WRITE: Final = 2  # SYNC_FILE_RANGE_WRITE


def begin_writing_back(descriptor: int) -> None:
    """Begin to write a file that is synced soon, so that the syncs of several files wait together.

    Linux only; elsewhere this does nothing. What cannot be written, the sync will say.
    """
    if _sync_file_range is not None:
        _sync_file_range(descriptor, 0, 0, _WRITE)
