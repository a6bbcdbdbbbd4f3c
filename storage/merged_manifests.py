"""A merged manifest made of stored ones without decoding their entries, where that can be.

What others added is existing, what they deleted is gone, and each entry states all that it inherited; so the bytes do
not depend on the snapshot that will list the manifest, and it can be written before anybody knows which that is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from firn.model.errors import CorruptFile, InvalidInput
from firn.model.manifest import UNASSIGNED_SEQUENCE_NUMBER, FieldSummary, ManifestEntry, ManifestFile
from firn.model.manifest_summary import combine_summaries
from firn.model.metadata import TableMetadata
from firn.model.partitioning import partition_type
from firn.storage.avro import write_avro
from firn.storage.manifest_merge import merge_entries
from firn.storage.manifest_pieces import Layout, Piece, StoredBlock, blocks_of, read_pieces
from firn.storage.manifest_schema import manifest_schema
from firn.storage.manifests import manifest_header
from firn.storage.packed_entries import PackedEntries, carried_over, joined, pack

TAKEN_OVER_FROM: Final = 1_000
"""Entries of a merged manifest from which on its next merge takes its blocks over from the file, although its entries
may be in memory: to lay them out and to compress them once more takes longer than to read them."""

_NO_SNAPSHOT: Final = -1


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where the entries of manifests come from: kept in memory, the file's bytes, or decoded with what they inherit."""

    packed: Callable[[ManifestFile], PackedEntries | None]
    read: Callable[[ManifestFile], bytes]
    entries: Callable[[TableMetadata, ManifestFile], Sequence[ManifestEntry]]


class MergedManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of a merged manifest, and its row in a manifest list but for what its commit gives it.

    `packed` are its entries where all of them were at hand, and few enough to be laid out again by the next merge.
    """

    data: bytes
    row: ManifestFile
    packed: PackedEntries | None


def merged_manifest(
    parts: Sequence[ManifestFile], metadata: TableMetadata, source: Source, *, location: str
) -> MergedManifest:
    """Merge manifests of one content and partition spec, in their order.

    Raises what reading them raises; CorruptFile when they do not hold what the manifest list says.
    """
    spec = metadata.spec_by_id(parts[0].partition_spec_id)
    if spec is None:
        raise InvalidInput(f"no partition spec {parts[0].partition_spec_id}", where=parts[0].manifest_path)
    version, content = metadata.format_version, parts[0].content
    type_ = partition_type(spec, metadata.current_schema, older=metadata.schemas)
    layout = Layout(type_, version)
    pieces = [piece for part in parts for piece in _pieces(part, metadata, source, layout)]
    made = blocks_of(pieces, content=content, format_version=version)
    blocks = made.blocks
    files = sum(part.live_files_count or 0 for part in parts)
    if sum(count for count, _ in blocks) != files:
        raise CorruptFile(parts[0].manifest_path, f"or one merged with it does not hold the {files} live files listed")
    header = manifest_header(metadata.current_schema, spec, content=content, format_version=version)
    data = write_avro(manifest_schema(type_, version), blocks, metadata=header | dict(made.header))
    known = [piece for piece in pieces if isinstance(piece, PackedEntries)] if files < TAKEN_OVER_FROM else []
    row = ManifestFile(
        manifest_path=location,
        manifest_length=len(data),
        partition_spec_id=spec.spec_id,
        content=content,
        sequence_number=UNASSIGNED_SEQUENCE_NUMBER,
        min_sequence_number=min(part.min_sequence_number for part in parts),
        added_snapshot_id=None,
        added_files_count=0,
        existing_files_count=files,
        deleted_files_count=0,
        added_rows_count=0,
        existing_rows_count=sum(part.live_rows_count or 0 for part in parts),
        deleted_rows_count=0,
        partitions=_summaries(parts, metadata),
    )
    return MergedManifest(data=data, row=row, packed=joined(known) if len(known) == len(pieces) else None)


def _pieces(part: ManifestFile, metadata: TableMetadata, source: Source, layout: Layout) -> list[Piece]:
    """The live entries of a manifest, existing and with all that they inherit: from memory, or out of its file."""
    packed = source.packed(part)
    if packed is not None and (packed.format_version, packed.partition_type) != (
        layout.format_version, layout.partition_type
    ):  # fmt: skip
        packed = None
    if packed is not None and (part.existing_files_count or 0) < TAKEN_OVER_FROM:
        return [carried_over(packed, part)]
    stored = read_pieces(source.read(part), part, layout)
    if packed is not None and not any(isinstance(piece, StoredBlock) for piece in stored or ()):
        return [carried_over(packed, part)]
    if stored is None:
        listed = merge_entries([source.entries(metadata, part)], snapshot_id=_NO_SNAPSHOT)
        return [pack(listed, layout.partition_type, format_version=layout.format_version)]
    return [carried_over(one, part) if isinstance(one, PackedEntries) else one for one in stored]


def _summaries(parts: Sequence[ManifestFile], metadata: TableMetadata) -> tuple[FieldSummary, ...] | None:
    """The ranges of all parts together; None where one does not say."""
    spec = metadata.spec_by_id(parts[0].partition_spec_id)
    assert spec is not None
    type_ = partition_type(spec, metadata.current_schema, older=metadata.schemas)
    listed = [part.partitions for part in parts]
    known = [summaries for summaries in listed if summaries is not None and len(summaries) == len(type_.fields)]
    return combine_summaries(type_, known) if len(known) == len(listed) else None
