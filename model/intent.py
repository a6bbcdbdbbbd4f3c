"""Intents: what a writer asks for. One stream entry carries one intent as JSON in its field ``intent``.

An intent is the operation, its files and the assumptions it was planned under; never a snapshot. Every operation is a
struct of its own, so that a field that does not belong to it is refused, not ignored. The field names are the Iceberg
REST specification's where it has one (``docs/wire-format.md``).
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Final, Literal

import msgspec

from firn.model.datafile import Content, FileFormat

INTENT_FIELD: Final = b"intent"
"""The one field of a stream entry."""

REPLY_STREAM_PREFIX: Final = "firn:replies:"
"""Where outcomes may be sent to: a writer must not make the daemon write to any other key."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
FieldId = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
SnapshotId = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Path = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class CountMap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Column id → count, as two lists of equal length (REST ``CountMap``)."""

    keys: tuple[FieldId, ...]
    values: tuple[Count, ...]


class ValueMap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Column id → binary single value in hexadecimal, as two lists of equal length (REST ``ValueMap``)."""

    keys: tuple[FieldId, ...]
    values: tuple[str, ...]


class ContentFile(
    msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True, omit_defaults=True
):
    """A data or delete file on the wire (REST ``ContentFile``); see `firn.model.content_file` for its binding."""

    content: Content = "data"
    file_path: Path
    file_format: FileFormat
    spec_id: FieldId
    partition: tuple[Any, ...] = ()
    record_count: Count
    file_size_in_bytes: Count
    column_sizes: CountMap | None = None
    value_counts: CountMap | None = None
    null_value_counts: CountMap | None = None
    nan_value_counts: CountMap | None = None
    lower_bounds: ValueMap | None = None
    upper_bounds: ValueMap | None = None
    key_metadata: str | None = None
    split_offsets: tuple[Count, ...] | None = None
    equality_ids: tuple[FieldId, ...] | None = None
    sort_order_id: FieldId | None = None
    referenced_data_file: Path | None = None
    content_offset: Count | None = None
    content_size_in_bytes: Count | None = None


class _Common(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="kebab",
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="operation",
):
    """What every intent has.

    `intent_id` is a UUIDv7 made by the writer; submitting the same intent again must keep it. `writer` with
    `writer_sequence` (rising) makes a streaming writer's epochs exactly-once even when it makes new intents for them.
    `deadline_ms` is a time (ms since 1970-01-01 UTC) after which the intent must not be applied any more.
    `digest` is `digest_of(intent)`: it lets the daemon see that an entry was damaged on its way.
    """

    intent_id: str
    table: str
    table_uuid: str | None = None
    writer: Name | None = None
    writer_sequence: Count | None = None
    reply_to: str | None = None
    deadline_ms: Count | None = None
    priority: Literal["ingest", "maintenance"] = "ingest"
    summary: dict[str, str] = {}
    digest: str | None = None


class Append(_Common, frozen=True, kw_only=True, tag="append"):
    """Add data files; never conflicts."""

    branch: Name = "main"
    data_files: Annotated[tuple[ContentFile, ...], msgspec.Meta(min_length=1)]
    base_snapshot_id: SnapshotId | None = None


class DeleteFiles(_Common, frozen=True, kw_only=True, tag="delete-files"):
    """Remove whole data files, each of which must be live."""

    branch: Name = "main"
    removed_data_files: Annotated[tuple[Path, ...], msgspec.Meta(min_length=1)]
    base_snapshot_id: SnapshotId | None = None


class Replace(_Common, frozen=True, kw_only=True, tag="replace"):
    """Rewrite data files without changing rows (compaction); planned on `base_snapshot_id`."""

    branch: Name = "main"
    base_snapshot_id: SnapshotId
    removed_data_files: Annotated[tuple[Path, ...], msgspec.Meta(min_length=1)]
    data_files: tuple[ContentFile, ...] = ()


class CreateTable(_Common, frozen=True, kw_only=True, tag="create-table"):
    """Create a table from a schema, a partition spec and a sort order (REST JSON forms).

    `location` None places it under the daemon's warehouse. Ids in schema and spec are assigned anew. A ``file-system``
    table is opened by its path: its newest ``v<N>.metadata.json`` is the table.
    """

    schema: dict[str, Any]
    partition_spec: dict[str, Any] | None = None
    write_order: dict[str, Any] | None = None
    location: Path | None = None
    properties: dict[str, str] = {}
    format_version: Annotated[int, msgspec.Meta(ge=1, le=3)] = 2
    catalog: Literal["metastore", "file-system"] = "metastore"


class RegisterTable(_Common, frozen=True, kw_only=True, tag="register-table"):
    """Take over a table that exists in storage, as it is.

    A ``metastore`` table is given by its metadata file. A ``file-system`` table is given by its folder, and goes on to
    be one: engines that open it by path see firn's commits, and firn sees theirs.
    """

    metadata_location: Path | None = None
    location: Path | None = None
    catalog: Literal["metastore", "file-system"] = "metastore"


class DropTable(_Common, frozen=True, kw_only=True, tag="drop-table"):
    """Forget a table's pointer; its files stay (they may be shared) until they are purged on purpose."""


Intent = Append | DeleteFiles | Replace | CreateTable | RegisterTable | DropTable

OPERATIONS: Final[dict[type, str]] = {
    operation: str(operation.__struct_config__.tag)
    for operation in (Append, DeleteFiles, Replace, CreateTable, RegisterTable, DropTable)
}
"""Operation name by struct, as on the wire."""

_CANONICAL: Final = msgspec.json.Encoder(order="sorted")


def encode_intent(intent: Intent) -> bytes:
    """The JSON that goes into the stream entry."""
    return msgspec.json.encode(intent)


def digest_of(intent: Intent) -> str:
    """Identity of the content: 128 bits in hexadecimal over everything but `reply_to` and `digest`.

    `reply_to` is left out because a writer that restarts may resubmit the same intent from another process.
    """
    bare = msgspec.structs.replace(intent, reply_to=None, digest=None)
    return hashlib.blake2b(_CANONICAL.encode(bare), digest_size=16).hexdigest()


def added_files(intent: Intent) -> tuple[ContentFile, ...]:
    """Files that the intent would add."""
    return intent.data_files if isinstance(intent, Append | Replace) else ()


def removed_files(intent: Intent) -> tuple[str, ...]:
    """Locations of files that the intent would remove."""
    return intent.removed_data_files if isinstance(intent, DeleteFiles | Replace) else ()
