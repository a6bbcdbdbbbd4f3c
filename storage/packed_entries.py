"""The entries of a manifest as they stand in its Avro blocks, each a file's bytes and a mark.

What a merge changes of an entry is its mark, so that a file is encoded once, when it is added, and copied from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from firn.model.errors import InvalidInput
from firn.model.foreign_value import stored_type
from firn.model.manifest import ManifestEntry, ManifestFile, Status
from firn.model.types import StructType
from firn.storage.avro import decode_block
from firn.storage.avro_schema import compile_schema
from firn.storage.manifest_bytes import EntryEncoder, FileBytes, entry_encoder
from firn.storage.manifest_rows import RowDecoder
from firn.storage.manifest_schema import manifest_schema

ENTRY_OVERHEAD_BYTES: Final = 250
"""What Python adds to the bytes of a packed entry, about."""

Mark = tuple[int, int | None, int | None, int | None, int | None, int]
"""Status, snapshot id, data sequence number, file sequence number, first row id (each None where it is inherited),
and the file's rows, which the bytes say, too."""


class PackedEntries(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Entries in a manifest's order; `files` and `marks` are of the same length."""

    format_version: int
    partition_type: StructType
    files: tuple[FileBytes, ...]
    marks: tuple[Mark, ...]

    def part(self, start: int, end: int) -> PackedEntries:
        """Some neighbours among the entries."""
        if start == 0 and end == len(self.files):
            return self
        return msgspec.structs.replace(self, files=self.files[start:end], marks=self.marks[start:end])

    @property
    def memory(self) -> int:
        """Bytes that this takes, about."""
        return sum(len(head) + len(tail) for head, tail in self.files) + ENTRY_OVERHEAD_BYTES * len(self.files)


def pack(entries: Iterable[ManifestEntry], partition_type: StructType, *, format_version: int) -> PackedEntries:
    """Encode entries whose numbers are as they are to be stored. Raises InvalidInput naming what does not fit."""
    encode = entry_encoder(partition_type, format_version=format_version).file
    listed = list(entries)
    return PackedEntries(
        format_version=format_version,
        partition_type=partition_type,
        files=tuple([encode(entry.data_file) for entry in listed]),
        marks=tuple([_mark(entry) for entry in listed]),
    )


def pack_as_stored(
    entries: Iterable[ManifestEntry], partition_type: StructType, *, format_version: int
) -> PackedEntries:
    """Encode entries as `pack` does, under another partition type where stored values are not of `partition_type`.

    Raises InvalidInput naming what does not fit: values of added files under any other type.
    """
    listed = list(entries)
    try:
        return pack(listed, partition_type, format_version=format_version)
    except InvalidInput:
        added = [entry.data_file.partition for entry in listed if entry.status is Status.ADDED]
        type_ = stored_type(partition_type, [entry.data_file.partition for entry in listed])
        if type_ == partition_type or stored_type(partition_type, added) != partition_type:
            raise
    return pack(listed, type_, format_version=format_version)


def _mark(entry: ManifestEntry) -> Mark:
    file = entry.data_file
    return (
        int(entry.status),
        entry.snapshot_id,
        entry.sequence_number,
        entry.file_sequence_number,
        file.first_row_id,
        file.record_count,
    )


def block_content(packed: PackedEntries, start: int = 0, end: int | None = None) -> bytes:
    """The datum bytes of some of the entries, as they stand in an Avro block."""
    encoder = entry_encoder(packed.partition_type, format_version=packed.format_version)
    known: dict[tuple[int | None, ...], tuple[bytes, bytes]] = {}
    parts: list[bytes] = []
    for (head, tail), mark in zip(packed.files[start:end], packed.marks[start:end], strict=True):
        numbers = known.get(mark[:5])
        if numbers is None:
            numbers = known[mark[:5]] = (_numbers(encoder, mark), encoder.row_id(mark[4]))
        parts += (numbers[0], head, numbers[1], tail)
    return b"".join(parts)


def _numbers(encoder: EntryEncoder, mark: Mark) -> bytes:
    status, snapshot_id, sequence_number, file_sequence_number, _, _ = mark
    return encoder.numbers(
        status, snapshot_id=snapshot_id, sequence_number=sequence_number, file_sequence_number=file_sequence_number
    )


def unpack(packed: PackedEntries, *, spec_id: int) -> list[ManifestEntry]:
    """The entries again, as they are stored."""
    schema = compile_schema(manifest_schema(packed.partition_type, packed.format_version))
    decoder = RowDecoder(schema.root, partition_type=packed.partition_type, spec_id=spec_id)
    records = decode_block(schema, block_content(packed), len(packed.files), text_errors="surrogateescape")
    return [decoder.decode(record) for record in records]


def carried_over(packed: PackedEntries, manifest: ManifestFile) -> PackedEntries:
    """The live entries of a stored manifest as another manifest lists them: existing, and with all that they inherit.

    Raises InvalidInput for a file whose age cannot be known.
    """
    row_id = manifest.first_row_id if manifest.content == "data" else None
    files: list[FileBytes] = []
    marks: list[Mark] = []
    known: dict[Mark, Mark] = {}
    for file, mark in zip(packed.files, packed.marks, strict=True):
        if mark[0] == Status.DELETED:
            continue
        carried = known.get(mark)
        if carried is None:
            carried = _carried(mark, manifest)
            if row_id is None:  # else each has its own
                known[mark] = carried
        if row_id is not None and carried[4] is None:
            carried = (*carried[:4], row_id, mark[5])
            row_id += mark[5]
        files.append(file)
        marks.append(carried)
    return msgspec.structs.replace(packed, files=tuple(files), marks=tuple(marks))


def _carried(mark: Mark, manifest: ManifestFile) -> Mark:
    status, snapshot_id, sequence_number, file_sequence_number, first_row_id, rows = mark
    commit = manifest.sequence_number
    if status == Status.ADDED or commit == 0:
        sequence_number = commit if sequence_number is None else sequence_number
        file_sequence_number = commit if file_sequence_number is None else file_sequence_number
    if sequence_number is None:
        raise InvalidInput("an existing file without a data sequence number", where=manifest.manifest_path)
    if manifest.content != "data" or manifest.first_row_id is None:
        first_row_id = None  # the snapshot is from before row lineage
    return (
        int(Status.EXISTING),
        manifest.added_snapshot_id if snapshot_id is None else snapshot_id,
        sequence_number,
        file_sequence_number,
        first_row_id,
        rows,
    )


def joined(parts: Sequence[PackedEntries]) -> PackedEntries:
    """The entries of several manifests of one format version and partition type, one after the other."""
    return msgspec.structs.replace(
        parts[0],
        files=tuple([file for part in parts for file in part.files]),
        marks=tuple([mark for part in parts for mark in part.marks]),
    )
