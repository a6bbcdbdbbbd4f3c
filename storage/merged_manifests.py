"""A merged manifest made of stored ones without decoding their entries, where that can be.

What others added is existing, what they deleted is gone, and each entry states all that it inherited; so the bytes do
not depend on the snapshot that will list the manifest, and it can be written before anybody knows which that is. What
they do depend on is gathered first, so that another process can make them (`firn.storage.merge_messages`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from firn.model.amounts import plural
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.manifest import (
    UNASSIGNED_SEQUENCE_NUMBER,
    FieldSummary,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from firn.model.manifest_summary import combine_summaries
from firn.model.metadata import TableMetadata
from firn.model.types import StructType
from firn.storage.avro import write_avro
from firn.storage.manifest_merge import merge_entries
from firn.storage.manifest_pieces import Layout, Piece, StoredBlock, blocks_of, layout_of, read_pieces
from firn.storage.manifest_schema import manifest_schema
from firn.storage.manifests import manifest_header
from firn.storage.packed_entries import PackedEntries, carried_over, joined, pack_as_stored

ROWS_MAX: Final = 2**63 - 1
"""Rows of a manifest: their number is a long in manifest lists."""

TAKEN_OVER_FROM: Final = 1_000
"""Entries of a merged manifest from which on its next merge takes its blocks over from the file, although its entries
may be in memory: to lay them out and to compress them once more takes longer than to read them."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where the entries of manifests come from: kept in memory, the file's bytes, or decoded with what they inherit."""

    packed: Callable[[ManifestFile], PackedEntries | None]
    read: Callable[[ManifestFile], bytes]
    entries: Callable[[TableMetadata, ManifestFile], Sequence[ManifestEntry]]


class Ingredients(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """All that the bytes of a merged manifest depend on.

    `parts` are manifests in their order, each with its entries where these are kept in memory, else with the bytes of
    its file. `header` is what the merged one says of the table.
    """

    layout: Layout
    content: ManifestContent
    header: Mapping[str, str]
    parts: tuple[tuple[ManifestFile, PackedEntries | bytes], ...]

    @property
    def files(self) -> int:
        """Live files that the manifest list has of all parts."""
        return sum(row.live_files_count or 0 for row, _ in self.parts)


class LaidOut(msgspec.Struct, frozen=True, eq=False):
    """The bytes of a merged manifest.

    `packed` are its entries where all of them were at hand, and few enough to be laid out again by the next merge.
    """

    data: bytes
    packed: PackedEntries | None = None


class MergedManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of a merged manifest, and its row in a manifest list but for what its commit gives it.

    `packed` is as `LaidOut` has it.
    """

    data: bytes
    row: ManifestFile
    packed: PackedEntries | None


def merged_manifest(
    parts: Sequence[ManifestFile],
    metadata: TableMetadata,
    source: Source,
    *,
    location: str,
    elsewhere: Callable[[Ingredients], bytes | None] = lambda _: None,
) -> MergedManifest:
    """Merge manifests of one content and partition spec, in their order.

    A merge of which nothing would be kept in memory is offered `elsewhere` first, which gives the bytes, or None.
    Raises what reading the manifests raises; CorruptFile when they do not hold what the manifest list says.
    """
    rows = sum(part.live_rows_count or 0 for part in parts)
    if rows > ROWS_MAX:
        raise InvalidInput(
            f"a merged manifest of {plural(rows, 'row')}, more than a manifest list can record", where=location
        )
    made_of = gathered(parts, metadata, source)
    data = elsewhere(made_of) if made_of.files >= TAKEN_OVER_FROM else None
    made = LaidOut(data) if data is not None else laid_out(made_of, decode=lambda part: source.entries(metadata, part))
    row = ManifestFile(
        manifest_path=location,
        manifest_length=len(made.data),
        partition_spec_id=parts[0].partition_spec_id,
        content=made_of.content,
        sequence_number=UNASSIGNED_SEQUENCE_NUMBER,
        min_sequence_number=min(part.min_sequence_number for part in parts),
        added_snapshot_id=None,
        added_files_count=0,
        existing_files_count=made_of.files,
        deleted_files_count=0,
        added_rows_count=0,
        existing_rows_count=rows,
        deleted_rows_count=0,
        partitions=_summaries(parts, made_of.layout.partition_type),
    )
    return MergedManifest(data=made.data, row=row, packed=made.packed)


def gathered(parts: Sequence[ManifestFile], metadata: TableMetadata, source: Source) -> Ingredients:
    """What these manifests are merged from: all reading that a merge needs. Raises as `merged_manifest`."""
    content, layout = parts[0].content, layout_of(metadata, parts[0])
    spec = metadata.spec_by_id(parts[0].partition_spec_id)
    if layout is None or spec is None:
        raise InvalidInput(f"no partition spec {parts[0].partition_spec_id}", where=parts[0].manifest_path)
    return Ingredients(
        layout=layout,
        content=content,
        header=manifest_header(
            metadata.current_schema, spec, content=content, format_version=metadata.format_version
        ),
        parts=tuple((part, _kept(part, source, layout) or _read(part, source)) for part in parts),
    )  # fmt: skip


def _read(part: ManifestFile, source: Source) -> bytes:
    try:
        return source.read(part)
    except (InvalidInput, NotFound) as error:
        raise CorruptFile(part.manifest_path, f"cannot be merged: {error}") from error


def _kept(part: ManifestFile, source: Source, layout: Layout) -> PackedEntries | None:
    """The entries of a manifest where they are in memory, and to lay them out is less than to read them."""
    if (part.existing_files_count or 0) >= TAKEN_OVER_FROM:
        return None
    packed = source.packed(part)
    if packed is None or Layout(packed.partition_type, packed.format_version) != layout:
        return None
    return packed


def laid_out(
    made_of: Ingredients,
    *,
    decode: Callable[[ManifestFile], Sequence[ManifestEntry]],
    after_each: Callable[[], object] = lambda: None,
) -> LaidOut:
    """The merged manifest, to be made anywhere: bytes of bytes.

    `decode` gives the entries, with what they inherit, of a part that is laid out in another way than firn's manifests
    are. `after_each` is called again and again, after at most a few milliseconds. Raises as `merged_manifest`.
    """
    pieces: list[Piece] = []
    stored_as: list[tuple[ManifestFile, list[Piece]]] = []
    for part, stored in made_of.parts:
        try:
            own = _pieces(part, stored, made_of.layout, decode)
        except (InvalidInput, NotFound, ValueError, ArithmeticError, LookupError) as error:
            raise CorruptFile(part.manifest_path, f"cannot be merged: {error}") from error
        count = sum(piece.count if isinstance(piece, StoredBlock) else len(piece.files) for piece in own)
        if count != part.live_files_count:
            raise CorruptFile(
                part.manifest_path, f"holds {plural(count, 'live file')}, its list has {part.live_files_count}"
            )
        pieces += own
        stored_as.append((part, own))
        after_each()
    type_, version = _stored_type(stored_as, made_of.layout), made_of.layout.format_version
    made = blocks_of(pieces, content=made_of.content, format_version=version, after_each=after_each)
    files = made_of.files
    header = {**made_of.header, **made.header}
    data = write_avro(manifest_schema(type_, version), made.blocks, metadata=header)
    known = [piece for piece in pieces if isinstance(piece, PackedEntries)] if files < TAKEN_OVER_FROM else []
    is_kept = len(known) == len(pieces) and type_ == made_of.layout.partition_type
    return LaidOut(data, joined(known) if is_kept else None)


def _stored_type(stored_as: Sequence[tuple[ManifestFile, Sequence[Piece]]], layout: Layout) -> StructType:
    """The partition type under which all parts are laid out.

    Raises CorruptFile naming a part that has partition values of other types than the table's, beside one without.
    """
    declared = layout.partition_type
    types = [
        (part, one.partition_type if isinstance(one, PackedEntries) else declared)
        for part, own in stored_as
        for one in own
    ]
    if len({type_ for _, type_ in types}) <= 1:
        return types[0][1] if types else declared
    foreign = next(part for part, type_ in types if type_ != declared)
    raise CorruptFile(foreign.manifest_path, "cannot be merged: it has partition values of another type")


def _pieces(
    part: ManifestFile,
    stored: PackedEntries | bytes,
    layout: Layout,
    decode: Callable[[ManifestFile], Sequence[ManifestEntry]],
) -> list[Piece]:
    """The live entries of a manifest, existing and with all that they inherit."""
    if isinstance(stored, PackedEntries):
        return [carried_over(stored, part)]
    pieces = read_pieces(stored, part, layout)
    if pieces is None:
        listed = merge_entries([decode(part)], snapshot_id=None)
        return [pack_as_stored(listed, layout.partition_type, format_version=layout.format_version)]
    return [carried_over(one, part) if isinstance(one, PackedEntries) else one for one in pieces]


def _summaries(parts: Sequence[ManifestFile], type_: StructType) -> tuple[FieldSummary, ...] | None:
    """The ranges of all parts together; None where one does not say."""
    listed = [part.partitions for part in parts]
    known = [summaries for summaries in listed if summaries is not None and len(summaries) == len(type_.fields)]
    if len(known) < len(listed):
        return None
    try:
        return combine_summaries(type_, known)
    except InvalidInput:
        return None  # another writer's bound cannot be decoded; readers take the absence of ranges for any value
