"""The journal on storage: one immutable, compressed segment per swap beside the table's metadata.

Segments name each other, and the pointer names the newest, by location. A segment that was written to the old folder
may have been copied to the new one: both files are the same segment, and its name is the location it was written to.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from isal import igzip

from firn.model.errors import CorruptFile, NotFound
from firn.model.journal import Segment, decode_segment, encode_segment
from firn.storage.files import FileStore
from firn.storage.locations import canonical

JOURNAL_FOLDER: Final = "metadata/_journal"
"""Orphan removal by Iceberg's engines skips files and folders whose names begin with an underscore."""

OLD_JOURNAL_FOLDER: Final = "metadata/journal"
"""Where versions before 25 November 2026 wrote segments. Orphan removal by other engines deletes them there."""

JOURNAL_FOLDERS: Final = (JOURNAL_FOLDER, OLD_JOURNAL_FOLDER)
SEGMENT_SUFFIX: Final = ".jsonl.gz"
_COMPRESSION_LEVEL: Final = 1


def segment_location(table_location: str, *, sequence: int, token: str) -> str:
    """Return the name of a new segment: its number in the table's journal, then the attempt that wrote it."""
    return f"{table_location}/{JOURNAL_FOLDER}/{sequence:010d}-{token}{SEGMENT_SUFFIX}"


def home_of(location: str) -> str | None:
    """Return the folder of the table that a segment is in; None for a file that is no segment."""
    folder, _, name = location.rpartition("/")
    if not name.endswith(SEGMENT_SUFFIX) or sequence_of(name) < 1:
        return None
    return next((folder.removesuffix(f"/{one}") for one in JOURNAL_FOLDERS if folder.endswith(f"/{one}")), None)


def both_locations(location: str) -> tuple[str, str]:
    """Return where a segment may be, in the new folder and in the old; a file that is no segment has one place only."""
    home, name = home_of(location), location.rpartition("/")[2]
    if home is None:
        return location, location
    return f"{home}/{JOURNAL_FOLDER}/{name}", f"{home}/{OLD_JOURNAL_FOLDER}/{name}"


def segment_key(location: str) -> str:
    """Return the text by which segments are compared: the same for a segment and its copy in the other folder."""
    return both_locations(location)[0]


def is_same_segment(a: str | None, b: str | None) -> bool:
    """Return whether two locations are one segment, or both None."""
    return a == b or (a is not None and b is not None and segment_key(a) == segment_key(b))


def is_journal_file(location: str) -> bool:
    """Return whether a location is inside a journal folder, of any table and in any spelling."""
    name = canonical(location)
    return any(f"/{folder}/" in name for folder in JOURNAL_FOLDERS)


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
    """Reads segments, newest to oldest.

    A segment that is missing where it was written is read from the other folder. It keeps the location that was asked
    for, because that is the one by which pointers, segments and checkpoints name it.
    """

    def __init__(self, files: FileStore, *, bytes_max: int) -> None:
        self._files = files
        self._bytes_max = bytes_max

    def read(self, location: str) -> Segment:
        """Return one segment. Raises NotFound, CorruptFile, Unavailable."""
        return unpack_segment(self._data(location), location=location, bytes_max=self._bytes_max)

    def _data(self, location: str) -> bytes:
        try:
            return self._files.read(location, bytes_max=self._bytes_max)
        except NotFound:
            for copy in set(both_locations(location)) - {location}:
                with suppress(NotFound):
                    return self._files.read(copy, bytes_max=self._bytes_max)
            raise

    def walk(self, head: str | None, *, until: str | None = None) -> Iterator[Segment]:
        """Segments from `head` backwards, to the first or to the one after `until`."""
        location = head
        while location is not None and not is_same_segment(location, until):
            segment = self.read(location)
            yield segment
            location = segment.batch.previous_segment
