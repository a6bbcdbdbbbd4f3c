"""A writer's Parquet file, opened to be described; whatever is not one is told with what it is, and what to do."""

from __future__ import annotations

import io
import stat
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import pyarrow.parquet as pq

from firn.model.errors import CorruptFile, InvalidInput, NotFound, Unavailable
from firn.model.spelling import did_you_mean
from firn.storage.files import FileStore
from firn.storage.locations import FILE_SCHEME, normalize, scheme_of
from firn.storage.parquet_files import open_parquet

READ_BUFFER_BYTES: Final = 256 * 1024
"""Bytes read at once from an object store; a footer mostly fits."""

_UNWRITTEN: Final = "a file is written, and its writer closed, before it is added"


def open_source(location: str, files: FileStore | None) -> BinaryIO:
    """The file, to be read anywhere in it.

    Raises NotFound for one that is not there, InvalidInput for a folder, for one that may not be read, and for a scheme
    that `files` would be needed for; Unavailable when its store does not answer.
    """
    if scheme_of(location) == FILE_SCHEME:
        return _open_local(location, Path(normalize(location)))
    if files is None:
        raise InvalidInput(
            f"no file store for the scheme {scheme_of(location)!r} was given",
            where=location,
            hint="files=open_files({'s3': {…}})",
        )
    try:
        return cast("BinaryIO", io.BufferedReader(_StoredFile(files, location), READ_BUFFER_BYTES))
    except NotFound as error:
        raise NotFound(f"{error}: {_UNWRITTEN}") from error


def footer_of(source: BinaryIO, *, location: str) -> tuple[pq.ParquetFile, int]:
    """The opened file as Parquet, and its size in bytes. Raises CorruptFile, which says why it is none."""
    size = source.seek(0, io.SEEK_END)
    source.seek(0)
    if not size:
        raise CorruptFile(location, f"not a Parquet file: it is empty ({_UNWRITTEN})")
    try:
        return open_parquet(source, location=location), size
    except CorruptFile as error:
        raise CorruptFile(
            location,
            f"{error.check} (it has {size:,} bytes; was its writer closed, and is it the file that was meant?)",
        ) from error


def _open_local(location: str, path: Path) -> BinaryIO:
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return path.open("rb")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _missing(location, path) from error
    except PermissionError as error:
        raise InvalidInput(
            "may not be read by the user that this program runs as", where=location, hint=f"chmod, or chown, {path}"
        ) from error
    except OSError as error:
        raise Unavailable(f"{location}: {error.strerror or error}") from error
    if stat.S_ISDIR(mode):
        raise InvalidInput("is a folder, not a file", where=location, hint=f"name its Parquet files: {path}/*.parquet")
    raise InvalidInput("is no regular file", where=location, hint="name a Parquet file")


def _missing(location: str, path: Path) -> NotFound:
    """The error that says how far the path leads, or what beside it was meant."""
    folder = path.parent
    if not folder.is_dir():
        return NotFound(f"there is no file {location}: there is no folder {folder}")
    try:
        advice = did_you_mean(path.name, [one.name for one in folder.iterdir()])
    except OSError:  # a folder that may be passed through, and not be looked into
        advice = ""
    return NotFound(f"there is no file {location}: {advice or _UNWRITTEN}")


class _StoredFile(io.RawIOBase):
    """A file of a file store, for reading anywhere in it."""

    def __init__(self, files: FileStore, location: str) -> None:
        super().__init__()
        self._files = files
        self._location = location
        self._size = files.size(location)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        length = max(0, min(len(buffer), self._size - self._at))
        if length:
            buffer[:length] = self._files.read_range(self._location, offset=self._at, length=length)
            self._at += length
        return length
