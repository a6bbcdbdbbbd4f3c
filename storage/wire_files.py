"""The data files of an append, from the JSON of the wire to what a manifest has of them, by compiled code.

Where it is not there, or for files that are not like most, nothing is read here, and `firn.model.intent_codec` and
`firn.storage.wire_metrics` do it, whose answers are the same. See docs/decisions/0017-compiled-reading.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from firn.model.datafile import FileFormat
from firn.model.intent_codec import FilesRead
from firn.storage.compiled import compiled
from firn.storage.wire_metrics import EncodedFile

_File = tuple[str, FileFormat, int, tuple[Any, ...], int, int, bytes]
_Read = Callable[[bytes, int], tuple[int, bytes, list[_File]] | None]
_Fits = Callable[[bytes, bytes], bool]

_read: _Read | None = None if compiled is None else compiled.read
compiled_fits: _Fits | None = None if compiled is None else compiled.fits

_LIST: Final = b'"data-files":['


def read_files(payload: bytes) -> FilesRead | None:
    """The data files of an append with their metrics as bytes. None where they are to be read in another way.

    Nothing is said of the rest of the payload: it may be anything.
    """
    found = payload.find(_LIST)
    if _read is None or found < 0:
        return None
    first = found + len(_LIST)
    read = _read(payload, first)
    if read is None:
        return None
    end, canonical, files = read
    return FilesRead(first - 1, end, canonical, tuple([_file(*file) for file in files]))


def _file(
    location: str, kind: FileFormat, spec_id: int, partition: tuple[Any, ...], rows: int, size: int, encoded: bytes
) -> EncodedFile:
    return EncodedFile(
        file_path=location,
        file_format=kind,
        spec_id=spec_id,
        partition=partition,
        record_count=rows,
        file_size_in_bytes=size,
        encoded=encoded,
    )
