"""New files that are written piece by piece: on a disk under their own name, for an object store in a temporary file.

Nobody reads them before a commit names them, so half a file under its name does no harm. It is durable when `close`
returns, because a commit that survives a power cut must not lose what it names.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from pathlib import Path
from typing import BinaryIO, cast

from firn.model.errors import AlreadyExists, Unavailable
from firn.storage.files import FileStore
from firn.storage.locations import FILE_SCHEME, normalize, scheme_of


class NewFile:
    """One new file at `location`; `stream` takes its bytes until `close`, or `discard` removes all of it.

    Raises AlreadyExists for a name that is taken, Unavailable when the disk refuses; an object store's errors are
    those of `FileStore.create`, which `close` calls.
    """

    def __init__(self, location: str, files: FileStore) -> None:
        self.location = location
        self._files = files
        self._local = scheme_of(location) == FILE_SCHEME
        self._path = Path(normalize(location)) if self._local else None
        self.stream: BinaryIO = self._opened()

    def close(self) -> None:
        """Make the file durable under its name."""
        try:
            self.stream.flush()
            if self._path is not None:
                os.fsync(self.stream.fileno())
                self.stream.close()
                _sync_folder(self._path.parent)
                return
        except OSError as error:
            raise Unavailable(f"{self.location}: {error}") from error
        if self.stream.tell() == 0:
            self._files.create(self.location, b"")
        else:
            with mmap.mmap(self.stream.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
                self._files.create(self.location, cast("bytes", view))
        self.stream.close()

    def discard(self) -> None:
        """Leave nothing; for a file that is not closed yet."""
        self.stream.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _opened(self) -> BinaryIO:
        if self._path is None:
            return cast("BinaryIO", tempfile.TemporaryFile(prefix="firn-upload-"))
        try:
            _make_folder(self._path.parent)
            return self._path.open("xb")
        except FileExistsError as error:
            raise AlreadyExists(self.location) from error
        except OSError as error:
            raise Unavailable(f"{self.location}: {error}") from error


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, each durable in the one above it."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):
            path.mkdir()
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
