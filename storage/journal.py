"""The journal on storage: one immutable, compressed segment per swap beside the table's metadata."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from isal import igzip

from firn.model.errors import CorruptFile
from firn.model.journal import Segment, decode_segment, encode_segment
from firn.storage.files import FileStore
from firn.storage.locations import canonical

JOURNAL_FOLDER: Final = "metadata/journal"
_COMPRESSION_LEVEL: Final = 1


def segment_location(table_location: str, *, sequence: int, token: str) -> str:
    """Name of a segment: its number in the table's journal, then the attempt that wrote it."""
    return f"{table_location}/{JOURNAL_FOLDER}/{sequence:010d}-{token}.jsonl.gz"


def is_journal_file(location: str) -> bool:
    """Return whether a location is inside a journal folder, of any table and in any spelling."""
    return f"/{JOURNAL_FOLDER}/" in canonical(location)


def sequence_of(location: str) -> int:
    """The number of a segment in its table's journal, from its name; -1 for a name that is none."""
    number = location.rpartition("/")[2].partition("-")[0]
    return int(number) if number.isascii() and number.isdecimal() else -1


def pack_segment(segment: Segment) -> bytes:
    """The bytes of a segment file."""
    return igzip.compress(encode_segment(segment), compresslevel=_COMPRESSION_LEVEL, mtime=0)


def unpack_segment(data: bytes, *, location: str, bytes_max: int) -> Segment:
    """The inverse of `pack_segment`. Raises CorruptFile for anything that is not one whole segment."""
    inflate = zlib.decompressobj(wbits=31)
    try:
        text = inflate.decompress(data, bytes_max)
    except zlib.error as error:
        raise CorruptFile(location, f"journal segment does not decompress: {error}") from error
    if inflate.unconsumed_tail:
        raise CorruptFile(location, f"journal segment has more than {bytes_max} bytes decompressed")
    if not inflate.eof or inflate.unused_data:
        raise CorruptFile(location, "journal segment is cut or has something after its end")
    return decode_segment(text, location=location)


class JournalFiles:
    """Reads segments, newest to oldest."""

    def __init__(self, files: FileStore, *, bytes_max: int) -> None:
        self._files = files
        self._bytes_max = bytes_max

    def read(self, location: str) -> Segment:
        """One segment. Raises NotFound, CorruptFile, Unavailable."""
        data = self._files.read(location, bytes_max=self._bytes_max)
        return unpack_segment(data, location=location, bytes_max=self._bytes_max)

    def walk(self, head: str | None, *, until: str | None = None) -> Iterator[Segment]:
        """Segments from `head` backwards, to the first or to the one after `until`."""
        location = head
        while location is not None and location != until:
            segment = self.read(location)
            yield segment
            location = segment.batch.previous_segment
