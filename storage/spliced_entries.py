"""The entries of a manifest that takes another's place when some of its files go: most are copied as bytes.

Of what goes, and of it alone, the beginning of its record is decoded: partition, rows and size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from firn.model.datafile import CONTENT_CODES, DataFile
from firn.model.manifest import FieldSummary, ManifestContent, ManifestEntry, ManifestFile, Status
from firn.model.manifest_inheritance import inherit
from firn.model.manifest_summary import ManifestCounts, summarize_partitions
from firn.model.partitioning import PartitionSpec
from firn.model.schema import Schema
from firn.storage.avro import decode_record, write_avro
from firn.storage.avro_numbers import encode_long
from firn.storage.avro_schema import compile_schema
from firn.storage.avro_steps import content_of, long_of
from firn.storage.avro_walk import Walk
from firn.storage.manifest_pieces import Layout, Piece, StoredBlock, blocks_of
from firn.storage.manifest_rows import FILE_FORMATS
from firn.storage.manifest_schema import file_start_schema, manifest_schema
from firn.storage.manifests import EncodedManifest, manifest_header
from firn.storage.packed_entries import PackedEntries, carried_over, joined, unpack
from firn.storage.partition_data import PartitionDecoder

_ZERO: Final = encode_long(0)
_NO_TEXT: Final = _ZERO
_LONG_MASK: Final = 2**64 - 1


class SplicedEntries:
    """Entries as they are to be stored, in pieces, and what a manifest list says of them.

    `least_sequence_number` and `partitions` are those of the manifest before where blocks stay as they are: its files
    may have been the oldest, or the only ones of their partition. They are decoded when they are iterated over.
    """

    __slots__ = ("_decoded", "counts", "layout", "least_sequence_number", "manifest", "partitions", "pieces")

    def __init__(
        self,
        pieces: Sequence[Piece],
        *,
        manifest: ManifestFile,
        layout: Layout,
        counts: ManifestCounts,
        least_sequence_number: int | None,
        partitions: tuple[FieldSummary, ...],
    ) -> None:
        """`manifest` is that from which they are."""
        self.pieces = tuple(pieces)
        self.manifest = manifest
        self.layout = layout
        self.counts = counts
        self.least_sequence_number = least_sequence_number
        self.partitions = partitions
        self._decoded: list[ManifestEntry] | None = None

    def __iter__(self) -> Iterator[ManifestEntry]:
        if self._decoded is None:
            self._decoded = [entry for piece in self.pieces for entry in self._unpacked(piece)]
        return iter(self._decoded)

    def removed(self) -> list[ManifestEntry]:
        """The tombstones among them."""
        cut = [piece for piece in self.pieces if isinstance(piece, PackedEntries)]
        return [entry for piece in cut for entry in self._unpacked(_chosen(piece, _places(piece, Status.DELETED)))]

    def _unpacked(self, piece: Piece) -> list[ManifestEntry]:
        if isinstance(piece, StoredBlock):
            piece = piece.cut(piece.content(location=self.manifest.manifest_path), self.manifest, self.layout)
        return unpack(piece, spec_id=self.manifest.partition_spec_id)


class Splice(msgspec.Struct, frozen=True, eq=False):
    """What becomes of a manifest: its entries, and the files that went, of which metrics are not said."""

    entries: SplicedEntries
    removed: tuple[DataFile, ...]


def splice(
    pieces: Sequence[Piece],
    manifest: ManifestFile,
    paths: Collection[str],
    *,
    layout: Layout,
    partitions: tuple[FieldSummary, ...] | None,
    snapshot_id: int,
    exact_age: bool,
) -> Splice | None:
    """The data manifest of these pieces when `snapshot_id` removes the files: as `rewrite_without` makes it.

    `partitions` are what is known of the manifest's. With `exact_age` the least sequence number is that of the files
    that stay, even if all blocks have to be opened. None where the files are not all there, or too little is known of
    the manifest. Raises CorruptFile, InvalidInput.
    """
    files, rows = manifest.live_files_count, manifest.live_rows_count
    if files is None or rows is None:
        return None
    found = _Found(paths, manifest, layout)
    made: list[Piece] = []
    gone: list[PackedEntries] = []
    for piece in pieces:
        packed, places = found.of(piece)
        made.append(piece if packed is None else _without(packed, places, snapshot_id))
        gone += [_chosen(packed, places)] if packed is not None and places else []
    if not found.all_found:
        return None
    numbers = [mark[2] for one in gone for mark in one.marks]
    if exact_age and manifest.min_sequence_number in numbers:
        made = [found.opened(piece) if isinstance(piece, StoredBlock) else piece for piece in made]
    all_cut = [piece for piece in made if isinstance(piece, PackedEntries)]
    is_cut = len(all_cut) == len(made)
    if is_cut and (partitions is None or manifest.deleted_files_count != 0):  # older tombstones are gone
        partitions = _summaries(all_cut, layout)
    if partitions is None or len(partitions) != len(layout.partition_type.fields):
        return None
    removed = tuple([file for one in gone for file in _files(one, layout, manifest.partition_spec_id)])
    removed_rows = sum(file.record_count for file in removed)
    counts = ManifestCounts(
        existing_files=files - len(removed),
        deleted_files=len(removed),
        existing_rows=rows - removed_rows,
        deleted_rows=removed_rows,
    )
    least = _least(all_cut) if is_cut else manifest.min_sequence_number
    entries = SplicedEntries(
        made, manifest=manifest, layout=layout, counts=counts, least_sequence_number=least, partitions=partitions
    )
    return Splice(entries, removed)


def named_entries(
    pieces: Sequence[Piece], manifest: ManifestFile, paths: Collection[str], *, layout: Layout
) -> list[ManifestEntry] | None:
    """The live entries of some files, as existing and with all that they inherit; None where not all are there."""
    found = _Found(paths, manifest, layout)
    chosen = [(packed, places) for packed, places in map(found.of, pieces) if packed is not None and places]
    if not found.all_found:
        return None
    spec_id = manifest.partition_spec_id
    listed = (entry for packed, places in chosen for entry in unpack(_chosen(packed, places), spec_id=spec_id))
    return inherit(listed, manifest)  # in v1 no entry states its numbers


def encode_spliced(
    entries: SplicedEntries, *, schema: Schema, spec: PartitionSpec, content: ManifestContent, snapshot_id: int
) -> EncodedManifest:
    """The manifest of these entries."""
    type_, version = entries.layout.partition_type, entries.layout.format_version
    made = blocks_of(entries.pieces, content=content, format_version=version)
    header = manifest_header(schema, spec, content=content, format_version=version)
    cut = [piece for piece in entries.pieces if isinstance(piece, PackedEntries)]
    return EncodedManifest(
        data=write_avro(manifest_schema(type_, version), made.blocks, metadata=header | dict(made.header)),
        content=content,
        format_version=version,
        spec_id=spec.spec_id,
        snapshot_id=snapshot_id,
        counts=entries.counts,
        min_sequence_number=entries.least_sequence_number,
        partitions=entries.partitions,
        packed=joined(cut) if len(cut) == len(entries.pieces) else None,
    )


class _Found:
    """Looks for files in the pieces of a manifest."""

    def __init__(self, paths: Collection[str], manifest: ManifestFile, layout: Layout) -> None:
        self._manifest = manifest
        self._layout = layout
        self._wanted = frozenset(path.encode() for path in paths)
        self._common = _common_start(min(self._wanted), max(self._wanted))
        self._lengths = sorted({len(path) for path in self._wanted})
        self._seen: set[bytes] = set()

    @property
    def all_found(self) -> bool:
        """Whether each of the files was in some piece."""
        return len(self._seen) == len(self._wanted)

    def of(self, piece: Piece) -> tuple[PackedEntries | None, list[int]]:
        """The live entries of a piece with what they inherit, and where the files are among them; None for a block
        that has none of them and can stay as it is.
        """
        if isinstance(piece, PackedEntries):
            packed = carried_over(piece, self._manifest)
            return packed, self._places(packed)
        content = piece.content(location=self._manifest.manifest_path)
        if not self._may_hold(content):
            return None, []
        packed = piece.cut(content, self._manifest, self._layout)
        places = self._places(packed)
        return (packed if places else None), places

    def opened(self, block: StoredBlock) -> PackedEntries:
        """The entries of a block."""
        return block.cut(block.content(location=self._manifest.manifest_path), self._manifest, self._layout)

    def _places(self, packed: PackedEntries) -> list[int]:
        start = 0 if self._layout.format_version == 1 else 1  # content, which is 0 for data files
        places: list[int] = []
        for place, (head, _) in enumerate(packed.files):
            path = _text_at(head, start)
            if path in self._wanted:
                places.append(place)
                self._seen.add(path)
        return places

    def _may_hold(self, content: bytes) -> bool:
        """Whether one of the locations stands anywhere in the bytes."""
        common, wanted, lengths = self._common, self._wanted, self._lengths
        at = content.find(common)
        while at >= 0:
            if any(content[at : at + length] in wanted for length in lengths):
                return True
            at = content.find(common, at + 1)
        return False


def _text_at(content: bytes, at: int) -> bytes:
    """What a text says that is stored from there on."""
    size = shift = 0
    while True:
        byte = content[at]
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return content[at : at + ((size & _LONG_MASK) >> 1)]
        shift += 7


def _common_start(one: bytes, other: bytes) -> bytes:
    same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:same]


def _places(packed: PackedEntries, status: Status) -> list[int]:
    return [place for place, mark in enumerate(packed.marks) if mark[0] == status]


def _chosen(packed: PackedEntries, places: Sequence[int]) -> PackedEntries:
    files, marks = packed.files, packed.marks
    return msgspec.structs.replace(
        packed, files=tuple([files[n] for n in places]), marks=tuple([marks[n] for n in places])
    )


def _without(packed: PackedEntries, places: Sequence[int], snapshot_id: int) -> PackedEntries:
    """The entries with tombstones of the snapshot at some places."""
    if not places:
        return packed
    marks = list(packed.marks)
    for place in places:
        marks[place] = (int(Status.DELETED), snapshot_id, *marks[place][2:])
    return msgspec.structs.replace(packed, marks=tuple(marks))


def _least(pieces: Sequence[PackedEntries]) -> int | None:
    """As `firn.model.manifest_summary.least_sequence_number`, of entries that state their numbers."""
    numbers = {mark[2] for piece in pieces for mark in piece.marks if mark[0] != Status.DELETED}
    return min((number for number in numbers if number is not None), default=None)


def _summaries(pieces: Sequence[PackedEntries], layout: Layout) -> tuple[FieldSummary, ...] | None:
    """The ranges of all partitions, of tombstones' too; None where a value has no place in one."""
    starts = _file_starts(layout)
    partitions = {starts.of(head).partition for piece in pieces for head, _ in piece.files}
    return summarize_partitions(layout.partition_type, [starts.partition(one) for one in partitions])


class _Start(msgspec.Struct, frozen=True):
    """What a file's record begins with, each as it is stored."""

    path: bytes
    file_format: bytes
    partition: bytes
    rows: bytes
    size: bytes


class _FileStarts:
    """Reads what the records of data files begin with."""

    def __init__(self, layout: Layout) -> None:
        schema = compile_schema(file_start_schema(layout.partition_type, layout.format_version))
        self._walk = Walk(schema, ((100,), (101,), (102,), (103,), (104,)), long=((100,),))
        self._before = b"" if layout.format_version == 1 else encode_long(CONTENT_CODES["data"])
        self._schema = schema
        self._decoder = PartitionDecoder(layout.partition_type, schema.root.field(102))

    def of(self, head: bytes) -> _Start:
        """The beginning of a record that was cut out of a manifest."""
        _, found = next(self._walk.records(head, 1))
        path, file_format, partition, rows, size = found
        assert path is not None
        assert file_format is not None
        assert partition is not None
        assert rows is not None
        assert size is not None
        return _Start(path, file_format, partition, rows, size)

    def partition(self, stored: bytes) -> tuple[Any, ...]:
        """The tuple of a partition that is stored so."""
        content = b"".join((self._before, _NO_TEXT, _NO_TEXT, stored, _ZERO, _ZERO))
        record = decode_record(self._schema, content, text_errors="surrogateescape")
        return self._decoder.decode(record["f102"])


@lru_cache(maxsize=64)
def _file_starts(layout: Layout) -> _FileStarts:
    return _FileStarts(layout)


def _files(packed: PackedEntries, layout: Layout, spec_id: int) -> list[DataFile]:
    """The data files of entries, without their metrics."""
    starts = _file_starts(layout)
    partitions: dict[bytes, tuple[Any, ...]] = {}
    files: list[DataFile] = []
    for head, _ in packed.files:
        start = starts.of(head)
        if start.partition not in partitions:
            partitions[start.partition] = starts.partition(start.partition)
        files.append(
            DataFile(
                file_path=content_of(start.path).decode(),
                file_format=FILE_FORMATS[content_of(start.file_format).decode().lower()],
                spec_id=spec_id,
                partition=partitions[start.partition],
                record_count=long_of(start.rows),
                file_size_in_bytes=long_of(start.size),
            )
        )
    return files
