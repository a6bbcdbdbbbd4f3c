"""Manifest lists: which manifests make a snapshot, and the numbers they are given when it is committed
(table specification, "Manifest Lists", "First Row ID Assignment").

Bytes in, bytes out. Table metadata does not say how long a manifest list is, so that one cut at the end of an Avro
block is only noticed by comparing the snapshot's totals: `check_totals`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from firn.model.errors import CorruptFile, InvalidInput, Unsupported
from firn.model.manifest import (
    MANIFEST_CONTENT_CODES,
    UNASSIGNED_SEQUENCE_NUMBER,
    FieldSummary,
    ManifestContent,
    ManifestFile,
)
from firn.model.snapshot import Snapshot
from firn.storage.avro import AvroLimits, Codec, compress, open_avro, write_avro
from firn.storage.avro_numbers import LONGS
from firn.storage.avro_schema import AvroType
from firn.storage.manifest_schema import FORMAT_VERSIONS, manifest_list_schema

Block = tuple[int, bytes]
"""How many records, and their bytes compressed."""

LIST_LIMITS: Final = AvroLimits(records_max=1_000_000)
"""How much a manifest list may hold; its records are manifests."""

_CONTENTS: Final[Mapping[int, ManifestContent]] = {code: name for name, code in MANIFEST_CONTENT_CODES.items()}
_COUNTS: Final[Mapping[int, str]] = {
    504: "added_files_count",
    505: "existing_files_count",
    506: "deleted_files_count",
    512: "added_rows_count",
    513: "existing_rows_count",
    514: "deleted_rows_count",
}

_long: Final = LONGS.__getitem__

_NULL: Final = b"\x00"
_SOME: Final = b"\x02"
_END: Final = b"\x00"

_INTEGER: Final = frozenset({"int", "long"})
_KINDS: Final = {
    **dict.fromkeys((501, 502, 503, 515, 516, 517, 520, *_COUNTS), _INTEGER),
    500: frozenset({"string"}),
    507: frozenset({"array"}),
    519: frozenset({"bytes", "fixed"}),
}
_SUMMARY_KINDS: Final = {
    509: frozenset({"boolean"}),
    518: frozenset({"boolean"}),
    510: frozenset({"bytes", "fixed"}),
    511: frozenset({"bytes", "fixed"}),
}


# ---------------------------------------------------------------------------------------------------------------------
# Assigning


def assign_sequence_numbers(
    manifests: Iterable[ManifestFile], *, snapshot_id: int, sequence_number: int
) -> tuple[ManifestFile, ...]:
    """The manifests with the commit's number where theirs is UNASSIGNED_SEQUENCE_NUMBER.

    Raises InvalidInput for such a one that `snapshot_id` did not add: its number was lost, and this commit's would
    make its files younger than they are.
    """
    return tuple(_numbered(manifest, snapshot_id, sequence_number) for manifest in manifests)


def _numbered(manifest: ManifestFile, snapshot_id: int, sequence_number: int) -> ManifestFile:
    own, least = manifest.sequence_number, manifest.min_sequence_number
    if UNASSIGNED_SEQUENCE_NUMBER not in {own, least}:
        return manifest
    if manifest.added_snapshot_id != snapshot_id:
        raise InvalidInput(
            f"no sequence number, but added by snapshot {manifest.added_snapshot_id}", where=manifest.manifest_path
        )
    return msgspec.structs.replace(
        manifest,
        sequence_number=sequence_number if own == UNASSIGNED_SEQUENCE_NUMBER else own,
        min_sequence_number=sequence_number if least == UNASSIGNED_SEQUENCE_NUMBER else least,
    )


def assign_first_row_ids(manifests: Iterable[ManifestFile], next_row_id: int) -> tuple[tuple[ManifestFile, ...], int]:
    """The manifests of a v3 snapshot with row ids for those that have none, and the table's next row id after them.

    Each data manifest without a first row id takes room for all its live rows, since any of its files may be without
    one (after an upgrade all are). Raises InvalidInput where the row counts are unknown.
    """
    assigned: list[ManifestFile] = []
    for manifest in manifests:
        if manifest.content != "data" or manifest.first_row_id is not None:
            assigned.append(manifest)
            continue
        if manifest.live_rows_count is None:
            raise InvalidInput("row ids need row counts", where=manifest.manifest_path)
        assigned.append(msgspec.structs.replace(manifest, first_row_id=next_row_id))
        next_row_id += manifest.live_rows_count
    return tuple(assigned), next_row_id


# ---------------------------------------------------------------------------------------------------------------------
# Writing


def encode_manifest_list(
    manifests: Iterable[ManifestFile],
    *,
    format_version: int,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    first_row_id: int | None = None,
    codec: Codec = "deflate",
) -> bytes:
    """The manifest list of a snapshot. `first_row_id` is the snapshot's, required in v3 and absent before.

    Unassigned sequence numbers become `sequence_number`; first row ids must have been assigned. Raises InvalidInput
    for rows that the version does not allow.
    """
    numbered = assign_sequence_numbers(manifests, snapshot_id=snapshot_id, sequence_number=sequence_number)
    records = (
        [list_record(manifest, format_version) for manifest in numbered] if format_version in FORMAT_VERSIONS else []
    )
    return manifest_list_of(
        [(len(records), compress(b"".join(records), codec=codec))] if records else [],
        format_version=format_version,
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent_snapshot_id,
        sequence_number=sequence_number,
        first_row_id=first_row_id,
        codec=codec,
    )


def manifest_list_of(
    blocks: Sequence[Block],
    *,
    format_version: int,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    first_row_id: int | None = None,
    codec: Codec = "deflate",
) -> bytes:
    """As `encode_manifest_list`, of records that are encoded and compressed."""
    if format_version not in FORMAT_VERSIONS:
        raise Unsupported(f"format version {format_version}", where="format-version")
    if (first_row_id is not None) != (format_version == 3):
        raise InvalidInput("a snapshot's first row id belongs to v3, where it is required", where="first-row-id")
    header = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_snapshot_id is None else str(parent_snapshot_id),
    }
    if format_version > 1:
        header["sequence-number"] = str(sequence_number)
    if first_row_id is not None:
        header["first-row-id"] = str(first_row_id)
    header["format-version"] = str(format_version)
    return write_avro(manifest_list_schema(format_version), blocks, metadata=header, codec=codec)


def list_record(manifest: ManifestFile, format_version: int) -> bytes:
    """The Avro record of a manifest: encoded once, however many lists have it."""
    cached: dict[int, bytes] = manifest.__dict__.setdefault("list_records", {})
    record = cached.get(format_version)
    if record is None:
        record = cached[format_version] = _encoded(manifest, format_version)
    return record


def _encoded(manifest: ManifestFile, format_version: int) -> bytes:
    where = manifest.manifest_path
    if manifest.added_snapshot_id is None:
        raise InvalidInput("no added_snapshot_id", where=where)
    counts = [getattr(manifest, name) for name in _COUNTS.values()]
    start = [
        _text(manifest.manifest_path),
        _long(manifest.manifest_length),
        _long(manifest.partition_spec_id),
    ]
    added_by, partitions = _long(manifest.added_snapshot_id), _partitions(manifest.partitions)
    key_metadata = _optional_bytes(manifest.key_metadata)
    if format_version == 1:
        if manifest.content != "data":
            raise InvalidInput("a v1 table has no delete manifests", where=where)
        files, rows = map(_optional_long, counts[:3]), map(_optional_long, counts[3:])
        return b"".join((*start, added_by, *files, partitions, *rows, key_metadata))
    if None in counts:  # a v1 list did not say; whoever carries the manifest over has to count
        raise InvalidInput(f"v{format_version} lists need all counts", where=where)
    start += (
        _long(MANIFEST_CONTENT_CODES[manifest.content]),
        _long(manifest.sequence_number),
        _long(manifest.min_sequence_number),
        added_by,
        *map(_long, counts),
        partitions,
        key_metadata,
    )
    if format_version > 2:
        if (manifest.first_row_id is None) != (manifest.content == "deletes"):
            raise InvalidInput("data manifests need a first row id, delete manifests have none", where=where)
        start.append(_optional_long(manifest.first_row_id))
    return b"".join(start)


def _partitions(summaries: Sequence[FieldSummary] | None) -> bytes:
    if not summaries:
        return _NULL if summaries is None else _SOME + _END
    parts = [_SOME, _long(len(summaries))]
    for summary in summaries:
        parts += (
            _boolean(summary.contains_null),
            _NULL if summary.contains_nan is None else _SOME + _boolean(summary.contains_nan),
            _optional_bytes(summary.lower_bound),
            _optional_bytes(summary.upper_bound),
        )
    return b"".join((*parts, _END))


def _boolean(value: bool) -> bytes:  # noqa: FBT001 - the value itself
    return b"\x01" if value else b"\x00"


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _long(len(encoded)) + encoded


def _optional_long(value: int | None) -> bytes:
    return _NULL if value is None else _SOME + _long(value)


def _optional_bytes(value: bytes | None) -> bytes:
    return _NULL if value is None else b"".join((_SOME, _long(len(value)), value))


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def decode_manifest_list(
    data: bytes,
    *,
    location: str,
    snapshot_id: int | None = None,
    limits: AvroLimits = LIST_LIMITS,
    refuse_repeated: bool = True,
) -> list[ManifestFile]:
    """The manifests of a list of any format version, in its order.

    Fields are found by id; what v1 does not have reads as the specification says (sequence numbers 0, content data,
    counts unknown). `snapshot_id` is compared with the header's where both are there. Raises CorruptFile naming the
    check that failed, Unsupported for a format version that firn does not know. A manifest that is listed twice is one
    such check, unless the caller looks for those itself.
    """
    file = open_avro(data, location=location, limits=limits)
    version = file.integer("format-version")
    if version is not None and version not in FORMAT_VERSIONS:
        raise Unsupported(f"manifest list of format version {version}", where=location)
    written_for = file.integer("snapshot-id")
    if snapshot_id is not None and written_for is not None and written_for != snapshot_id:
        raise CorruptFile(location, f"the manifest list of snapshot {written_for}, not of {snapshot_id}")
    manifests: list[ManifestFile] = []
    paths: set[str] = set()
    try:
        _check_schema(file.schema.root)
        for block in file.read_blocks():
            for record in block:
                manifest = _manifest(record)
                if refuse_repeated and manifest.manifest_path in paths:
                    raise InvalidInput("is listed twice", where=f"manifest {manifest.manifest_path}")
                paths.add(manifest.manifest_path)
                manifests.append(manifest)
    except InvalidInput as exc:
        raise CorruptFile(location, str(exc)) from None
    return manifests


def _check_schema(root: AvroType) -> None:
    for field_id in (500, 501, 502):
        if root.field(field_id) is None:
            raise InvalidInput("missing, but required", where=f"manifest_file.{field_id}")
    _check_kinds(root, _KINDS, where="manifest_file")
    partitions = root.field(507)
    if partitions is not None:
        if partitions.items is None or partitions.items.kind != "record":
            raise InvalidInput("a list of something other than records", where="manifest_file.507")
        _check_kinds(partitions.items, _SUMMARY_KINDS, where="field_summary")


def _check_kinds(record: AvroType, kinds: Mapping[int, frozenset[str]], *, where: str) -> None:
    for field_id, _, found in record.fields:
        expected = kinds.get(field_id) if field_id is not None else None
        if expected is not None and found.kind not in expected:
            raise InvalidInput(f"a {found.kind} instead of {'/'.join(sorted(expected))}", where=f"{where}.{field_id}")


def _manifest(record: Mapping[str, Any]) -> ManifestFile:
    path, length, spec_id = record["f500"], record["f501"], record["f502"]
    if not path or length is None or length < 0 or spec_id is None:
        raise InvalidInput(f"length {length}, spec {spec_id}", where=f"manifest {path!r:.200}")
    code = record.get("f517")
    content: ManifestContent | None = "data" if code is None else _CONTENTS.get(code)
    if content is None:
        raise InvalidInput(f"content {code}", where=path)
    counts: dict[str, Any] = {name: record.get(f"f{field_id}") for field_id, name in _COUNTS.items()}
    if any(count is not None and count < 0 for count in counts.values()):
        raise InvalidInput(f"negative counts: {counts}", where=path)
    partitions = record.get("f507")
    return ManifestFile(
        manifest_path=path,
        manifest_length=length,
        partition_spec_id=spec_id,
        content=content,
        sequence_number=record.get("f515") or 0,
        min_sequence_number=record.get("f516") or 0,
        added_snapshot_id=record.get("f503"),
        partitions=None if partitions is None else tuple(_summary(summary) for summary in partitions),
        key_metadata=record.get("f519"),
        # Row ids are for data files; whatever a delete manifest has there is to be read as null.
        first_row_id=record.get("f520") if content == "data" else None,
        **counts,
    )


def _summary(record: Mapping[str, Any] | None) -> FieldSummary:
    if record is None or record.get("f509") is None:
        raise InvalidInput("no contains_null", where="field_summary")
    return FieldSummary(
        contains_null=record["f509"],
        contains_nan=record.get("f518"),
        lower_bound=record.get("f510"),
        upper_bound=record.get("f511"),
    )


# ---------------------------------------------------------------------------------------------------------------------
# Checking


def total_mismatches(snapshot: Snapshot, manifests: Sequence[ManifestFile]) -> tuple[str, ...]:
    """Where a snapshot's summary and the sums over its manifests differ; totals that either leaves out are skipped.

    Summaries are optional in the specification and other writers may let totals drift, so that the caller decides
    what a difference means to it.
    """
    summary = snapshot.summary or {}
    found: list[str] = []
    for names, listed in _sums(manifests):
        stated = [summary[name] for name in names if name in summary]
        if listed is None or len(stated) < len(names):
            continue
        label = " + ".join(names)
        if not all(map(_is_count, stated)):
            found.append(f"{label} is not a number")
        elif sum(map(int, stated)) != listed:
            found.append(f"{label} is {sum(map(int, stated))} in the summary, {listed} in the manifest list")
    return tuple(found)


def right_totals(summary: Mapping[str, str], manifests: Sequence[ManifestFile]) -> dict[str, str]:
    """A snapshot's summary, whoever wrote it, with its totals as its manifests have them.

    What is not there is not added; what is wrong and cannot be told from the manifests is left out.
    """
    right = dict(summary)
    for names, listed in _sums(manifests):
        stated = [right[name] for name in names if name in right]
        if listed is None or not stated:
            continue
        if len(names) == 1:
            right[names[0]] = str(listed)
        elif not all(map(_is_count, stated)) or sum(map(int, stated)) != listed:
            for name in names:
                right.pop(name, None)
    return right


def _sums(manifests: Sequence[ManifestFile]) -> tuple[tuple[tuple[str, ...], int | None], ...]:
    """Totals of a summary, by themselves or several together, as manifests have them; None where some do not say."""
    data = [manifest for manifest in manifests if manifest.content == "data"]
    deletes = [manifest for manifest in manifests if manifest.content == "deletes"]
    return (
        (("total-data-files",), _sum(manifest.live_files_count for manifest in data)),
        (("total-delete-files",), _sum(manifest.live_files_count for manifest in deletes)),
        (("total-records",), _sum(manifest.live_rows_count for manifest in data)),
        (("total-position-deletes", "total-equality-deletes"), _sum(manifest.live_rows_count for manifest in deletes)),
    )


def _is_count(text: str) -> bool:
    return len(text) < 20 and text.isascii() and text.isdecimal()


def check_totals(snapshot: Snapshot, manifests: Sequence[ManifestFile]) -> None:
    """Raise CorruptFile naming the manifest list when it does not add up to the snapshot's summary."""
    mismatches = total_mismatches(snapshot, manifests)
    if mismatches:
        location = snapshot.manifest_list or f"snapshot {snapshot.snapshot_id}"
        raise CorruptFile(location, "; ".join(mismatches))


def _sum(counts: Iterable[int | None]) -> int | None:
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)
