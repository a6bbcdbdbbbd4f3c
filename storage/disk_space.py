"""Free space of the file system that a local folder is on. Object stores have no such limit."""

from __future__ import annotations

import os

import msgspec

from firn.storage.locations import FILE_SCHEME, canonical, scheme_of


class DiskSpace(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a file system: all that it has, and those that firn's user may still use."""

    size: int
    free: int


def disk_space(location: str) -> DiskSpace | None:
    """Return the space of the file system under `location`; None for an object store. Raises OSError.

    A folder that does not exist yet is measured where it would be made.
    """
    if scheme_of(location) != FILE_SCHEME:
        return None
    folder = canonical(location)
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):  # noqa: PTH112, PTH120 - a text as stored
        folder = os.path.dirname(folder)  # noqa: PTH120
    found = os.statvfs(folder)
    return DiskSpace(size=found.f_blocks * found.f_frsize, free=found.f_bavail * found.f_frsize)
