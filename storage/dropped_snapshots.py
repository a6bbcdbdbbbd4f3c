"""Records of dropped snapshots on storage: compressed JSON lines beside the journal's segments."""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from isal import igzip

from firn.model.dropped_snapshots import Header, Record, decode_record, encode_record
from firn.model.errors import CorruptFile
from firn.storage.files import FileStore
from firn.storage.journal import JOURNAL_FOLDER

RECORDS_FOLDER: Final = f"{JOURNAL_FOLDER}/dropped"
RECORD_SUFFIX: Final = ".jsonl.gz"

CACHE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Records, as text, that a daemon keeps in memory for the next intent of the same job."""

_COMPRESSION_LEVEL: Final = 1


def record_location(table_location: str, *, sequence: int, token: str) -> str:
    """Return the name of a new record: the number of the swap's journal segment, then the attempt that wrote it."""
    return f"{table_location}/{RECORDS_FOLDER}/{sequence:010d}-{token}{RECORD_SUFFIX}"


def is_record(location: str) -> bool:
    """Return whether a location is one of a record of dropped snapshots, of any table."""
    return f"/{RECORDS_FOLDER}/" in location and location.endswith(RECORD_SUFFIX)


def pack_record(header: Header, snapshot_ids: Sequence[int], lines: Sequence[bytes]) -> bytes:
    """Return the bytes of a record file."""
    return igzip.compress(encode_record(header, snapshot_ids, lines), compresslevel=_COMPRESSION_LEVEL, mtime=0)


class RecordFiles:
    """Reads records. Safe to share between threads."""

    def __init__(self, files: FileStore, *, bytes_max: int) -> None:
        self._files = files
        self._bytes_max = bytes_max
        self._kept: OrderedDict[str, tuple[Record, int]] = OrderedDict()
        self._kept_bytes = 0
        self._lock = threading.Lock()

    def read(self, location: str, *, table_uuid: str) -> Record:
        """Return a table's record. Raises NotFound, CorruptFile, InvalidInput, Unavailable.

        Only files in a folder of records are opened: the property that names them may have been set by anybody.
        """
        if not is_record(location):
            raise CorruptFile(location, "is not named as a record of dropped snapshots")
        with self._lock:
            kept = self._kept.get(location)
            if kept is not None and kept[0].header.table_uuid == table_uuid:
                self._kept.move_to_end(location)
                return kept[0]
        text = self._text(location)
        record = decode_record(text, location=location, table_uuid=table_uuid)
        self._keep(record, len(text))
        return record

    def _text(self, location: str) -> bytes:
        inflate = zlib.decompressobj(wbits=31)
        try:
            text = inflate.decompress(self._files.read(location, bytes_max=self._bytes_max), self._bytes_max)
        except zlib.error as error:
            raise CorruptFile(location, f"record of dropped snapshots does not decompress: {error}") from error
        if inflate.unconsumed_tail:
            raise CorruptFile(location, f"record of dropped snapshots has more than {self._bytes_max} bytes")
        if not inflate.eof or inflate.unused_data:
            raise CorruptFile(location, "record of dropped snapshots is cut or has something after its end")
        return text

    def _keep(self, record: Record, size: int) -> None:
        if size > CACHE_BYTES_MAX:
            return
        with self._lock:
            _, before = self._kept.pop(record.location, (None, 0))
            self._kept[record.location] = (record, size)
            self._kept_bytes += size - before
            while self._kept_bytes > CACHE_BYTES_MAX:
                _, (_, gone) = self._kept.popitem(last=False)
                self._kept_bytes -= gone
