"""Manifests: Avro bytes to entries and back (table specification, "Manifests").

Bytes in, bytes out; the caller moves them. What is read is checked against what the manifest list says of the file
(length, files and rows by status), because Avro itself notices neither a missing tail nor most flipped bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from firn.model.by_identity import ByIdentity
from firn.model.errors import CorruptFile, InvalidInput, Unsupported
from firn.model.manifest import (
    UNASSIGNED_SEQUENCE_NUMBER,
    FieldSummary,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Status,
)
from firn.model.manifest_inheritance import inherit
from firn.model.manifest_summary import (
    ManifestCounts,
    count_entries,
    count_mismatches,
    least_sequence_number,
    summarize_partitions,
)
from firn.model.partitioning import PartitionSpec, partition_type, spec_fields_to_json
from firn.model.schema import Schema, schema_to_json
from firn.model.types import StructType
from firn.storage.avro import (
    DEFAULT_LIMITS,
    AvroLimits,
    Codec,
    Header,
    compress,
    header_of,
    open_avro,
    write_blocks,
)
from firn.storage.deflate import stored_blocks
from firn.storage.manifest_container import open_manifest
from firn.storage.manifest_rows import RowDecoder
from firn.storage.manifest_schema import FORMAT_VERSIONS, manifest_schema
from firn.storage.packed_entries import PackedEntries, block_content, pack_as_stored

BLOCK_ENTRIES: Final = 100
"""Entries in one Avro block that firn writes: enough to compress well, few enough to split manifests between."""

STORED_BYTES_MAX: Final = 16 * 1024
"""Up to here a block that is not full is stored as it is: a few kilobytes less are not worth the time of the commit
that adds so few files, and its manifest is merged with others before long. Full blocks stay, so they are compressed.
"""


FORMS_KEPT_MAX: Final = 1_000
"""Tables' schemas and specs whose manifests' headers are kept, of some kilobytes each."""


class EncodedManifest(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest's bytes with what its manifest list will say of it.

    `min_sequence_number` is None when every live file inherits the commit's number. `partitions` is None where some
    partition value has no place in a range. `packed` are its entries, where no block of them was taken over as it is
    and all partition values are of the table's types.
    """

    data: bytes
    content: ManifestContent
    format_version: int
    spec_id: int
    snapshot_id: int | None
    counts: ManifestCounts
    min_sequence_number: int | None
    partitions: tuple[FieldSummary, ...] | None
    packed: PackedEntries | None


def manifest_file(encoded: EncodedManifest, path: str) -> ManifestFile:
    """The manifest as a manifest list's row, before its commit has numbers.

    Sequence numbers are UNASSIGNED_SEQUENCE_NUMBER where the commit's is to be filled in, and the first row id is
    None: `firn.storage.manifest_lists` assigns both.
    """
    counts = encoded.counts
    least = encoded.min_sequence_number
    return ManifestFile(
        manifest_path=path,
        manifest_length=len(encoded.data),
        partition_spec_id=encoded.spec_id,
        content=encoded.content,
        sequence_number=UNASSIGNED_SEQUENCE_NUMBER,
        min_sequence_number=UNASSIGNED_SEQUENCE_NUMBER if least is None else least,
        added_snapshot_id=encoded.snapshot_id,
        added_files_count=counts.added_files,
        existing_files_count=counts.existing_files,
        deleted_files_count=counts.deleted_files,
        added_rows_count=counts.added_rows,
        existing_rows_count=counts.existing_rows,
        deleted_rows_count=counts.deleted_rows,
        partitions=encoded.partitions,
    )


# ---------------------------------------------------------------------------------------------------------------------
# Writing


def encode_manifest(  # noqa: PLR0913 - a manifest is made of all these, and each has a name
    entries: Iterable[ManifestEntry],
    *,
    schema: Schema,
    spec: PartitionSpec,
    content: ManifestContent,
    format_version: int,
    snapshot_id: int | None,
    older_schemas: Iterable[Schema] = (),
    codec: Codec = "deflate",
    level: int | None = None,
) -> EncodedManifest:
    """One manifest of all `entries`, which must be at least one; see `encode_manifests`."""
    encoded = encode_manifests(
        entries,
        schema=schema,
        spec=spec,
        content=content,
        format_version=format_version,
        snapshot_id=snapshot_id,
        older_schemas=older_schemas,
        codec=codec,
        level=level,
    )
    if len(encoded) != 1:
        raise InvalidInput("a manifest needs at least one entry")
    return encoded[0]


def _block(content: bytes, entries: int, *, codec: Codec, level: int | None) -> bytes:
    if codec == "deflate" and level is None and entries < BLOCK_ENTRIES and len(content) <= STORED_BYTES_MAX:
        return stored_blocks(content)
    return compress(content, codec=codec, level=level)


def encode_manifests(  # noqa: PLR0913 - see encode_manifest
    entries: Iterable[ManifestEntry],
    *,
    schema: Schema,
    spec: PartitionSpec,
    content: ManifestContent,
    format_version: int,
    snapshot_id: int | None,
    older_schemas: Iterable[Schema] = (),
    codec: Codec = "deflate",
    level: int | None = None,
    target_bytes: int | None = None,
) -> list[EncodedManifest]:
    """Manifests of `entries` in their order, split so that each is about `target_bytes` (None: never split).

    Added entries are stored as the specification wants new files: in `snapshot_id`, file sequence number and first row
    id left to inherit, the data sequence number too unless the entry states one. Existing and deleted entries must
    state their numbers. `snapshot_id` None leaves it to inherit (v2 and later). Columns of `spec` that `schema` has
    lost are looked for in `older_schemas`. A partition field with values of other types than its own, which only other
    writers store, keeps the type in which they were stored.

    Raises InvalidInput for entries that the version, the content or the spec does not allow.
    """
    if format_version not in FORMAT_VERSIONS:
        raise Unsupported(f"format version {format_version}", where="format-version")
    if format_version == 1 and (content != "data" or snapshot_id is None):
        raise InvalidInput("a v1 manifest holds data files of a known snapshot")
    older = older_schemas if isinstance(older_schemas, tuple) else tuple(older_schemas)
    form = _form(schema, spec, older, content, format_version, codec)
    type_ = form.partition_type
    listed = [_to_store(entry, spec=spec, content=content, version=format_version, snapshot_id=snapshot_id)
              for entry in entries]  # fmt: skip
    packed, header = pack_as_stored(listed, type_, format_version=format_version), form.header
    if packed.partition_type is not type_:
        metadata = manifest_header(schema, spec, content=content, format_version=format_version)
        header = header_of(manifest_schema(packed.partition_type, format_version), metadata=metadata, codec=codec)
    parts: list[tuple[int, int, list[tuple[int, bytes]]]] = []
    blocks: list[tuple[int, bytes]] = []
    start, stored = 0, 0
    for at in range(0, len(listed), BLOCK_ENTRIES):
        end = min(at + BLOCK_ENTRIES, len(listed))
        block = _block(block_content(packed, at, end), end - at, codec=codec, level=level)
        if blocks and target_bytes is not None and stored + len(block) > target_bytes:
            parts.append((start, at, blocks))
            blocks, start, stored = [], at, 0
        blocks.append((end - at, block))
        stored += len(block)
    if blocks:
        parts.append((start, len(listed), blocks))
    return [
        EncodedManifest(
            data=write_blocks(header, own_blocks),
            content=content,
            format_version=format_version,
            spec_id=spec.spec_id,
            snapshot_id=snapshot_id,
            counts=count_entries(listed[start:end]),
            min_sequence_number=least_sequence_number(listed[start:end]),
            partitions=summarize_partitions(type_, [entry.data_file.partition for entry in listed[start:end]]),
            packed=packed.part(start, end) if packed.partition_type is type_ else None,
        )
        for start, end, own_blocks in parts
    ]


class _Form(msgspec.Struct, frozen=True, eq=False):
    """What manifests of one schema, spec, content, format version and codec have in common."""

    partition_type: StructType
    header: Header


def _form_of(
    schema: Schema,
    spec: PartitionSpec,
    older: tuple[Schema, ...],
    content: ManifestContent,
    format_version: int,
    codec: Codec,
) -> _Form:
    type_ = partition_type(spec, schema, older=older)
    metadata = manifest_header(schema, spec, content=content, format_version=format_version)
    return _Form(type_, header_of(manifest_schema(type_, format_version), metadata=metadata, codec=codec))


_form: Final = ByIdentity(_form_of, kept_max=FORMS_KEPT_MAX)


def manifest_header(
    schema: Schema, spec: PartitionSpec, *, content: ManifestContent, format_version: int
) -> dict[str, str]:
    """What a manifest's header says besides its Avro schema and codec."""
    header = {
        "schema": _schema_text(schema),
        "schema-id": str(schema.schema_id),
        "partition-spec": _spec_text(spec),
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(format_version),
    }
    return header if format_version == 1 else {**header, "content": content}


@lru_cache(maxsize=32)
def _schema_text(schema: Schema) -> str:
    return msgspec.json.encode(schema_to_json(schema)).decode()


@lru_cache(maxsize=32)
def _spec_text(spec: PartitionSpec) -> str:
    return msgspec.json.encode(spec_fields_to_json(spec)).decode()


def _to_store(
    entry: ManifestEntry, *, spec: PartitionSpec, content: ManifestContent, version: int, snapshot_id: int | None
) -> ManifestEntry:
    """`entry` as it is to be stored, or InvalidInput naming its file."""
    file = entry.data_file
    if file.spec_id != spec.spec_id:
        raise InvalidInput(f"a file of spec {file.spec_id} in a manifest of {spec.spec_id}", where=file.file_path)
    if (file.content == "data") != (content == "data"):
        raise InvalidInput(f"content {file.content} in a manifest of {content}", where=file.file_path)
    if file.content == "equality-deletes" and not file.equality_ids:
        raise InvalidInput("equality deletes without equality ids", where=file.file_path)
    if file.file_format == "puffin":
        pointers = (file.referenced_data_file, file.content_offset, file.content_size_in_bytes)
        if version < 3 or not file.is_deletion_vector or None in pointers:
            raise InvalidInput("a Puffin file must be a whole deletion vector, in v3", where=file.file_path)
    if entry.status is Status.ADDED:
        if entry.snapshot_id not in {None, snapshot_id}:
            raise InvalidInput(f"added by snapshot {entry.snapshot_id}, not {snapshot_id}", where=file.file_path)
        if entry.snapshot_id == snapshot_id and entry.file_sequence_number is None and file.first_row_id is None:
            return entry
        if file.first_row_id is not None:
            file = msgspec.structs.replace(file, first_row_id=None)
        elif entry.snapshot_id == snapshot_id and entry.file_sequence_number is None:
            return entry
        return ManifestEntry(
            status=Status.ADDED, snapshot_id=snapshot_id, sequence_number=entry.sequence_number, data_file=file
        )
    if entry.snapshot_id is None:
        raise InvalidInput("an existing or deleted file without a snapshot id", where=file.file_path)
    # The file sequence number may be missing: manifests from before it was specified have none to copy.
    if version > 1 and entry.sequence_number is None:
        raise InvalidInput("an existing or deleted file without a data sequence number", where=file.file_path)
    return entry


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def decode_manifest(
    data: bytes,
    *,
    manifest: ManifestFile,
    specs: Mapping[int, PartitionSpec],
    schemas: Sequence[Schema],
    committed: bool = True,
    limits: AvroLimits = DEFAULT_LIMITS,
) -> list[ManifestEntry]:
    """The entries of a manifest in its order, with everything inherited that it leaves to `manifest`.

    `specs` and `schemas` are the table's, by id and in any order (a column is taken from the first schema that has
    it). `committed` is false for a manifest that no snapshot names yet. Raises CorruptFile naming the check that
    failed, Unsupported for a format version that firn does not know.
    """
    location = manifest.manifest_path
    spec = specs.get(manifest.partition_spec_id)
    if spec is None:
        raise CorruptFile(location, f"partition spec {manifest.partition_spec_id} is not in the table's metadata")
    file = open_manifest(data, manifest=manifest, limits=limits)
    type_ = _partition_type(spec, schemas)
    entries: list[ManifestEntry] = []
    try:
        rows = RowDecoder(
            file.schema.root, partition_type=type_, spec_id=spec.spec_id, assumed=spec.fields_of_unknown_transforms
        )
        for block in file.read_blocks(text_errors="surrogateescape"):
            entries += [rows.decode(record) for record in block]
        inherited = inherit(entries, manifest, committed=committed)
    except (InvalidInput, ValueError) as exc:
        raise CorruptFile(location, str(exc)) from None
    mismatches = count_mismatches(manifest, count_entries(inherited))
    if mismatches:
        raise CorruptFile(location, "; ".join(mismatches))
    wants_data = manifest.content == "data"
    stray = next((e.data_file for e in inherited if (e.data_file.content == "data") is not wants_data), None)
    if stray is not None:
        raise CorruptFile(location, f"{stray.content} file in a manifest of {manifest.content}: {stray.file_path}")
    return inherited


def manifest_file_of_v1(
    data: bytes, *, path: str, snapshot_id: int, limits: AvroLimits = DEFAULT_LIMITS
) -> ManifestFile:
    """The row of a manifest that a v1 snapshot names itself (``manifests``), where there is no list to say it.

    Its counts are unknown, so `decode_manifest` has nothing to compare with. Raises CorruptFile.
    """
    file = open_avro(data, location=path, limits=limits)
    return ManifestFile(
        manifest_path=path,
        manifest_length=len(data),
        partition_spec_id=file.integer("partition-spec-id") or 0,
        added_snapshot_id=snapshot_id,
    )


def _partition_type(spec: PartitionSpec, schemas: Sequence[Schema]) -> StructType:
    return partition_type(spec, schemas[0], older=schemas[1:])
