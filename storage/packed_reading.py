"""The packed entries of a stored manifest, cut out of its blocks without decoding them.

That can be done where the manifest is laid out as firn lays its own out, whoever wrote it and whatever its fields are
called. A merge of what nobody has in memory is then copying.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from firn.model.datafile import CONTENT_CODES
from firn.model.errors import CorruptFile, InvalidInput
from firn.model.manifest import ManifestContent, ManifestFile, Status
from firn.model.manifest_summary import ManifestCounts, count_mismatches
from firn.model.types import StructType
from firn.storage.avro import AvroFile
from firn.storage.avro_schema import AvroSchema, compile_schema
from firn.storage.avro_steps import long_of
from firn.storage.avro_walk import LongNumberError, Walk
from firn.storage.manifest_bytes import FileBytes
from firn.storage.manifest_paths import checked_file
from firn.storage.manifest_schema import manifest_schema
from firn.storage.packed_entries import Mark, PackedEntries, joined, pack

_NUMBERS: Final = ((0,), (1,), (3,), (4,))
"""Status, snapshot id, data and file sequence number: what stands before a file."""

_FILE: Final = ((2, 134), (2, 100), (2, 101), (2, 103), (2, 104))
"""Content, location, format, rows and size."""

_ROW_ID: Final = (2, 142)
_BEHIND: Final = ((2, 143), (2, 144), (2, 145))
"""What stands behind a file's first row id in v3."""

_CONTENTS: Final = {
    "data": frozenset({None, CONTENT_CODES["data"]}),
    "deletes": frozenset(code for name, code in CONTENT_CODES.items() if name != "data"),
}


def cut_manifest(
    file: AvroFile, manifest: ManifestFile, *, partition_type: StructType, format_version: int
) -> PackedEntries | None:
    """The entries of a manifest that is laid out as firn's are; None where its bytes do not say where to cut.

    Raises CorruptFile naming the check that failed.
    """
    try:
        parts = [
            _cut_block(content, count, manifest, partition_type=partition_type, format_version=format_version)
            for count, content in file.read_contents()
        ]
    except LongNumberError:  # which is no error in Avro
        return None
    packed = joined(parts) if parts else pack((), partition_type, format_version=format_version)
    mismatches = count_mismatches(manifest, _counts(packed.marks))
    if mismatches:
        raise CorruptFile(file.location, "; ".join(mismatches))
    return packed


def cut_block(
    content: bytes, count: int, manifest: ManifestFile, *, partition_type: StructType, format_version: int
) -> PackedEntries:
    """The entries of one block that firn wrote, from what it holds decompressed. Raises CorruptFile."""
    try:
        return _cut_block(content, count, manifest, partition_type=partition_type, format_version=format_version)
    except LongNumberError as error:
        raise CorruptFile(manifest.manifest_path, str(error)) from None


def _cut_block(
    content: bytes, count: int, manifest: ManifestFile, *, partition_type: StructType, format_version: int
) -> PackedEntries:
    """The entries of one block of a manifest that is laid out as firn's are. Raises CorruptFile, LongNumberError."""
    try:
        files, marks = _cut(content, count, partition_type, manifest.content, format_version)
    except (InvalidInput, ValueError, IndexError) as error:
        raise CorruptFile(manifest.manifest_path, str(error)) from None
    return PackedEntries(
        format_version=format_version, partition_type=partition_type, files=tuple(files), marks=tuple(marks)
    )


def _cut(
    content: bytes, count: int, partition_type: StructType, kinds: ManifestContent, version: int
) -> tuple[list[FileBytes], list[Mark]]:
    """Raises InvalidInput, ValueError or IndexError for bytes that are no such entries."""
    files: list[FileBytes] = []
    marks: list[Mark] = []
    start = 0
    walk = _walk(compile_schema(manifest_schema(partition_type, version)))
    for end, found in walk.records(content, count):
        status, snapshot_id, number, file_number, kind, path, file_format, rows, size, row_id, *behind = found
        _, row_count = checked_file(path, file_format, rows, size)
        if status is None or _number(kind) not in _CONTENTS[kinds]:
            raise InvalidInput(f"an entry that does not belong in a manifest of {kinds}")
        if kind is not None and len(kind) > 1:
            raise LongNumberError("a content of more than one byte, behind which a location is looked for")
        if version == 1:
            head = start + len(status) + len(snapshot_id or b"")
        else:
            head = start + len(status) + sum(map(_stored, (snapshot_id, number, file_number)))
        tail = end - sum(map(_stored, behind)) if version > 2 else end
        cut = tail - _stored(row_id) if version > 2 else end
        files.append((content[head:cut], content[tail:end]))
        marks.append((
            int(Status(long_of(status))), _number(snapshot_id), _number(number), _number(file_number),
            _number(row_id), row_count,
        ))  # fmt: skip
        start = end
    return files, marks


@lru_cache(maxsize=64)
def _walk(schema: AvroSchema) -> Walk:
    return Walk(schema, (*_NUMBERS, *_FILE, _ROW_ID, *_BEHIND), long=((2, 100), (2, 143)), short_marks=True)


def _stored(value: bytes | None) -> int:
    """Bytes that an optional field takes."""
    return 1 if value is None else 1 + len(value)


def _number(value: bytes | None) -> int | None:
    return None if value is None else long_of(value)


def _counts(marks: Sequence[Mark]) -> ManifestCounts:
    files, rows = [0, 0, 0], [0, 0, 0]
    for mark in marks:
        files[mark[0]] += 1
        rows[mark[0]] += mark[5]
    return ManifestCounts(
        added_files=files[Status.ADDED],
        existing_files=files[Status.EXISTING],
        deleted_files=files[Status.DELETED],
        added_rows=rows[Status.ADDED],
        existing_rows=rows[Status.EXISTING],
        deleted_rows=rows[Status.DELETED],
    )
