"""What local locations are on the disk: where symbolic links lead, and what is no regular file.

Locations of object stores have no links and no kinds of files; they pass every check. What cannot be looked at now (a
disk that is away, a folder without permission) passes too: the read or write that follows names the error.
"""

# Links and kinds of files are the point here; pathlib hides them.
# ruff: noqa: PTH114, PTH116

from __future__ import annotations

import errno
import os
import stat
from typing import Final

from firn.storage.locations import canonical

_UNUSABLE: Final = frozenset({errno.ENAMETOOLONG, errno.EINVAL, errno.ENOTDIR, errno.ELOOP, errno.EILSEQ})
"""Errors that a name has for good, whoever asks."""

_KINDS: Final = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)


class LocalPaths:
    """Looks at paths, and at each folder above them once: make a new one for every round of checks."""

    def __init__(self) -> None:
        self._real = {"": ""}

    def real(self, location: str) -> str:
        """Return the canonical location with symbolic links resolved; what does not exist yet resolves to itself."""
        name = canonical(location)
        if not name.startswith("/"):
            return name
        known, missing = name.rstrip("/"), list[str]()
        while known not in self._real:
            known, _, segment = known.rpartition("/")
            missing.append(segment)
        for segment in reversed(missing):
            path = f"{self._real[known]}/{segment}"
            known = f"{known}/{segment}"
            self._real[known] = os.path.realpath(path).rstrip("/") if os.path.islink(path) else path
        return self._real[known] or "/"

    def file_trouble(self, location: str, *, root: str) -> str | None:
        """Return why `location`, which is inside `root`, can be no file of a table; None if it can.

        A file that is not there passes. No symbolic link may lead to it from `root` on: it would have a second name.
        """
        name = canonical(location)
        if not name.startswith("/"):
            return None
        folder, _, own = name.rpartition("/")
        real, root = self.real(folder), canonical(root)
        if real != self.real(root) + folder[len(root) :]:
            return f"is behind a symbolic link: its folder is {real}"
        return _trouble(f"{real}/{own}")

    def folder_trouble(self, location: str) -> str | None:
        """Return why there can be no folder at `location`; None if there is one, or can be."""
        path = self.real(location)
        if not path.startswith("/"):
            return None
        try:
            return None if stat.S_ISDIR(os.stat(path).st_mode) else "is not a directory"
        except OSError as error:
            return _reason(error)


def _trouble(path: str) -> str | None:
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        return _reason(error)
    if stat.S_ISREG(mode):
        return None
    return next((f"is {kind}, not a regular file" for is_one, kind in _KINDS if is_one(mode)), "is no regular file")


def _reason(error: OSError) -> str | None:
    return f"cannot be opened: {error.strerror}" if error.errno in _UNUSABLE else None
