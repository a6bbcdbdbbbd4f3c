"""Statistics files of tables: reading as much of one as proves its kind.

A snapshot's statistics are a Puffin file. Its partition statistics are a Parquet, Avro or ORC file with a row for each
partition. Only headers and footers are decoded, by firn itself: Arrow may end the process over a damaged one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from firn.model.errors import CorruptFile, InvalidInput
from firn.model.puffin import DELETION_VECTOR, PuffinMetadata, StatisticsFile
from firn.storage import orc_tail
from firn.storage.avro import MAGIC as AVRO_MAGIC
from firn.storage.avro import open_avro
from firn.storage.files import FileStore
from firn.storage.journal import is_journal_file
from firn.storage.puffin import FOOTER_TAIL_BYTES, MAGIC, footer_range, read_footer
from firn.storage.thrift import read_struct

PARTITION_COLUMNS: Final = frozenset({"partition", "spec_id", "data_record_count", "data_file_count"})
"""Columns that every file of partition statistics has: its required ones in the table specification."""

AVRO_BYTES_MAX: Final = 64 * 1024 * 1024
FOOTER_BYTES_MAX: Final = 1024 * 1024
"""Parquet and ORC: the footer of one row group or stripe of such a file takes a kilobyte or two."""

_PARQUET_MAGIC: Final = b"PAR1"
_PARQUET_TAIL_BYTES: Final = 8
_SCHEMA, _NAME, _CHILDREN = 2, 4, 5  # fields of FileMetaData and SchemaElement in parquet.thrift


def read_statistics_file(files: FileStore, location: str, *, partition: bool) -> StatisticsFile:
    """Return the size and footer of a statistics file.

    Raises CorruptFile for a file of another kind, InvalidInput for one that is not regular or too large, NotFound,
    Unavailable.
    """
    if is_journal_file(location):
        raise InvalidInput("is in the folder of a table's journal", where=location)
    size = files.size(location)
    if partition:
        _require_partition_columns(files, location, size)
        return StatisticsFile(size=size)
    puffin, footer_size = read_puffin_footer(files, location, size)
    if any(blob.type == DELETION_VECTOR for blob in puffin.blobs):
        raise CorruptFile(location, "holds deletion vectors, not statistics")
    return StatisticsFile(size=size, footer_size=footer_size, puffin=puffin)


def read_puffin_footer(files: FileStore, location: str, size: int) -> tuple[PuffinMetadata, int]:
    """Return the footer of a Puffin file of `size` bytes, and the footer's size. Raises CorruptFile and what reading
    the file raises.
    """
    length = min(size, FOOTER_TAIL_BYTES)
    tail = files.read_range(location, offset=size - length, length=length)
    start, footer_size = footer_range(tail, file_size=size, location=location)
    if files.read_range(location, offset=0, length=len(MAGIC)) != MAGIC:
        raise CorruptFile(location, f"it does not begin with {MAGIC.hex()}")
    footer = files.read_range(location, offset=start, length=footer_size)
    return read_footer(footer, file_size=size, location=location), footer_size


def _require_partition_columns(files: FileStore, location: str, size: int) -> None:
    magic = files.read_range(location, offset=0, length=min(size, len(AVRO_MAGIC)))
    try:
        if magic == _PARQUET_MAGIC:
            names = _parquet_columns(files, location, size)
        elif magic == AVRO_MAGIC:
            names = _avro_columns(files, location)
        elif magic.startswith(orc_tail.MAGIC):
            names = orc_tail.column_names(_orc_tail(files, location, size))
        else:
            raise CorruptFile(location, "is not a Parquet, Avro or ORC file")
    except InvalidInput as error:
        raise CorruptFile(location, f"its columns cannot be read: {error}") from error
    missing = PARTITION_COLUMNS.difference(names)
    if missing:
        raise CorruptFile(location, f"is not a file of partition statistics: it has no column {min(missing)!r}")


def _parquet_columns(files: FileStore, location: str, size: int) -> list[str]:
    if size < len(_PARQUET_MAGIC) + _PARQUET_TAIL_BYTES:
        raise InvalidInput("it has no footer")
    tail = files.read_range(location, offset=size - _PARQUET_TAIL_BYTES, length=_PARQUET_TAIL_BYTES)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _PARQUET_MAGIC or length > size - _PARQUET_TAIL_BYTES:
        raise InvalidInput("it has no footer")
    if length > FOOTER_BYTES_MAX:
        raise InvalidInput(f"its footer has {length} bytes, at most {FOOTER_BYTES_MAX} are read")
    footer = read_struct(files.read_range(location, offset=size - _PARQUET_TAIL_BYTES - length, length=length))
    try:
        return list(_top_names(footer[_SCHEMA]))
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise InvalidInput("its footer has no schema") from error


def _top_names(elements: list[dict[int, Any]]) -> Iterable[str]:
    """Yield the names of the root's children. `elements` are the schema's nodes, parents before children."""
    below = 0
    for element in elements[1:]:
        if below:
            below -= 1
        else:
            yield element[_NAME].decode()
        below += element.get(_CHILDREN, 0)


def _avro_columns(files: FileStore, location: str) -> list[str]:
    header = open_avro(files.read(location, bytes_max=AVRO_BYTES_MAX), location=location).metadata
    schema = msgspec.json.decode(header["avro.schema"])  # which has been checked: it is a record
    return [str(field.get("name")) for field in schema["fields"]]


def _orc_tail(files: FileStore, location: str, size: int) -> bytes:
    length = min(size, FOOTER_BYTES_MAX)
    return files.read_range(location, offset=size - length, length=length)
