"""Having the kernel write a file to the disk before anybody waits for that, or bit by bit."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Final

_sync_file_range = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)
"""Python has `posix_fadvise` only, which would wait until all processors have looked through their lists of pages."""

if _sync_file_range is not None:
    _sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)

_WRITE: Final = 2  # SYNC_FILE_RANGE_WRITE
_WAIT: Final = 4  # SYNC_FILE_RANGE_WAIT_AFTER

PIECE_BYTES: Final = 256 * 1024

_NOT_OFFERED: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ESPIPE, errno.EPERM, errno.EOPNOTSUPP})


def begin_writing_back(descriptor: int) -> None:
    """Begin to write a file that is synced soon, so that the syncs of several files wait together.

    Linux only; elsewhere this does nothing. What cannot be written, the sync will say.
    """
    if _sync_file_range is not None:
        _sync_file_range(descriptor, 0, 0, _WRITE)


def write_piecewise(descriptor: int, data: bytes | memoryview) -> None:
    """Write a new file, no more than a piece of it on its way to the disk at a time.

    Who syncs a small file meanwhile would wait for all that is on its way before it: ext4 writes the data of whatever
    its journal tells of. Linux only; elsewhere the file is written at once. Raises OSError.
    """
    view, at = memoryview(data), 0
    in_pieces = len(view) > PIECE_BYTES
    while view:
        written = os.write(descriptor, view[:PIECE_BYTES] if in_pieces else view)
        view = view[written:]
        in_pieces = in_pieces and _is_written_back(descriptor, at, written)
        at += written


def _is_written_back(descriptor: int, start: int, size: int) -> bool:
    """Wait until a piece is on the disk; False where the system does not offer that.

    An error has to be raised from here: the sync that follows is not told of it again.
    """
    if _sync_file_range is None:
        return False
    if _sync_file_range(descriptor, start, size, _WRITE | _WAIT) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_OFFERED:
        return False
    raise OSError(number, os.strerror(number))
