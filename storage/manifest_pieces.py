"""A stored manifest in pieces: its entries cut out of their blocks, or whole blocks that can stay as they are.

A block can stay when all its entries are existing ones that inherit nothing: whichever manifest lists them then, they
say the same. Which blocks are so stands in the header of what firn rewrites, and its seal (`firn.storage.avro`) says
that this is true. A large manifest that loses some files is then copied but for a block or two.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import msgspec

from firn.model.errors import CorruptFile
from firn.model.manifest import ManifestContent, ManifestFile, Status
from firn.model.metadata import TableMetadata
from firn.model.partitioning import partition_type
from firn.model.types import StructType
from firn.storage.avro import SEAL, SEAL_KEY, AvroFile, compress, inflate
from firn.storage.avro_schema import AvroSchema, AvroType, compile_schema
from firn.storage.manifest_container import open_manifest
from firn.storage.manifest_schema import manifest_schema
from firn.storage.manifests import BLOCK_ENTRIES
from firn.storage.packed_entries import PackedEntries, block_content, joined
from firn.storage.packed_reading import cut_block, cut_manifest

ROW_IDS_KEY: Final = "firn.row-ids"
"""Header entry of a v3 manifest in which every entry states its first row id, or has none to state."""

STATED: Final = "stated"

UNSETTLED_KEY: Final = "firn.unsettled-blocks"
"""Header entry: the numbers, from 0 and with spaces between, of the blocks with entries that are not existing ones."""


class StoredBlock(msgspec.Struct, frozen=True, eq=False):
    """A deflated block of `count` existing entries that inherit nothing."""

    count: int
    stored: bytes

    def content(self, *, location: str) -> bytes:
        """The datum bytes of its entries; `location` is for errors. Raises CorruptFile."""
        return inflate(self.stored, location=location)

    def cut(self, content: bytes, manifest: ManifestFile, layout: Layout) -> PackedEntries:
        """Its entries, of that content."""
        return cut_block(
            content, self.count, manifest, partition_type=layout.partition_type, format_version=layout.format_version
        )


Piece = PackedEntries | StoredBlock
"""Some neighbours among the entries of a manifest."""


class Layout(msgspec.Struct, frozen=True):
    """What the bytes of an entry depend on."""

    partition_type: StructType
    format_version: int


def layout_of(metadata: TableMetadata, manifest: ManifestFile) -> Layout | None:
    """How entries of the manifest's partition spec are written for the table; None for a spec that it does not have."""
    spec = metadata.spec_by_id(manifest.partition_spec_id)
    if spec is None:
        return None
    type_ = partition_type(spec, metadata.current_schema, older=metadata.schemas)
    return Layout(type_, metadata.format_version)


def read_pieces(data: bytes, manifest: ManifestFile, layout: Layout) -> tuple[Piece, ...] | None:
    """The pieces of a manifest in its order; None for one that is laid out in another way.

    Raises CorruptFile naming the check that failed, Unsupported for a format version that firn does not know.
    """
    file = open_manifest(data, manifest=manifest)
    type_, version = layout.partition_type, layout.format_version
    if not is_laid_out_as(file.schema, compile_schema(manifest_schema(type_, version))):
        return None
    unsettled = _unsettled(file, manifest, version=version)
    if unsettled is None:
        packed = cut_manifest(file, manifest, partition_type=type_, format_version=version)
        return None if packed is None else (packed,)
    pieces: list[Piece] = []
    for number, block in enumerate(file.blocks):
        one = StoredBlock(block.count, data[block.start : block.end])
        content = one.content(location=file.location) if number in unsettled else None
        pieces.append(one if content is None else one.cut(content, manifest, layout))
    return tuple(pieces)


def is_laid_out_as(written: AvroSchema, own: AvroSchema) -> bool:
    """Whether entries written under one schema are the bytes of equal entries under another, partition values included.

    Numbers of the same bytes may stand for other values: microseconds and milliseconds, decimals of two scales.
    """
    return written is own or (written.layout == own.layout and _partition(written) == _partition(own))


def _partition(schema: AvroSchema) -> AvroType | None:
    data_file = schema.root.field(2)
    return None if data_file is None else data_file.field(102)


def _unsettled(file: AvroFile, manifest: ManifestFile, *, version: int) -> Collection[int] | None:
    """The blocks that cannot stay as they are; None where the file does not say, or may say what is not so."""
    if file.metadata.get(SEAL_KEY) != SEAL or file.codec != "deflate":
        return None
    if version > 2 and file.text(ROW_IDS_KEY) != STATED:
        return None
    if manifest.content == "data" and version > 2 and manifest.first_row_id is None:
        return None  # from before row lineage: ids that it states were never the table's
    listed = file.text(UNSETTLED_KEY)
    if listed is None:  # merged ones say it by having no other entries
        return () if manifest.added_files_count == 0 and manifest.deleted_files_count == 0 else None
    numbers = frozenset(int(number) for number in listed.split() if number.isdecimal())
    if len(numbers) != len(listed.split()) or any(number >= len(file.blocks) for number in numbers):
        raise CorruptFile(file.location, f"header value {UNSETTLED_KEY} names no blocks: {listed[:40]!r}")
    return numbers


class Blocks(msgspec.Struct, frozen=True):
    """Blocks as they are written, each the number of its entries and its compressed content.

    `header` is what a manifest of them has to say of them besides, as `UNSETTLED_KEY` and `ROW_IDS_KEY` are.
    """

    blocks: Sequence[tuple[int, bytes]]
    header: Mapping[str, str]


def blocks_of(
    pieces: Sequence[Piece],
    *,
    content: ManifestContent,
    format_version: int,
    after_each: Callable[[], object] = lambda: None,
) -> Blocks:
    """All pieces in order; neighbours that were cut share blocks. `after_each` is called after each that is made."""
    blocks: list[tuple[int, bytes]] = []
    unsettled: list[int] = []
    for piece in _gathered(pieces):
        if isinstance(piece, StoredBlock):
            blocks.append((piece.count, piece.stored))
            continue
        for at in range(0, len(piece.files), BLOCK_ENTRIES):
            marks = piece.marks[at : at + BLOCK_ENTRIES]
            if any(mark[0] != Status.EXISTING for mark in marks):
                unsettled.append(len(blocks))
            blocks.append((len(marks), compress(block_content(piece, at, at + BLOCK_ENTRIES), codec="deflate")))
            after_each()
    header: dict[str, str] = {}
    if format_version > 2:
        cut = [piece for piece in pieces if isinstance(piece, PackedEntries)]
        if content == "data" and any(mark[4] is None for piece in cut for mark in piece.marks):
            return Blocks(blocks, header)
        header[ROW_IDS_KEY] = STATED
    if unsettled:
        header[UNSETTLED_KEY] = " ".join(map(str, unsettled))
    return Blocks(blocks, header)


def _gathered(pieces: Sequence[Piece]) -> list[Piece]:
    """The same with neighbours that were cut as one, and none that are empty."""
    gathered: list[Piece] = []
    run: list[PackedEntries] = []
    for piece in pieces:
        if isinstance(piece, PackedEntries):
            run += [piece] if piece.files else []
            continue
        gathered += [joined(run), piece] if run else [piece]
        run = []
    return [*gathered, joined(run)] if run else gathered
