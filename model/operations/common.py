"""What operations are made of: constrained values, content files on the wire, the members that every intent has."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from firn.model.datafile import Content, FileFormat

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
FieldId = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
SnapshotId = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Path = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


# Files and their maps are no work for the garbage collector (gc=False): nothing read from JSON refers back to them, and
# in a full lane there are so many that looking at them again and again took longer than reading them.


class CountMap(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Column id → count, as two lists of equal length (REST ``CountMap``)."""

    keys: tuple[FieldId, ...]
    values: tuple[Count, ...]


class ValueMap(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Column id → binary single value in hexadecimal, as two lists of equal length (REST ``ValueMap``)."""

    keys: tuple[FieldId, ...]
    values: tuple[str, ...]


class ContentFile(
    msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True, omit_defaults=True, gc=False
):
    """A data or delete file on the wire (REST ``ContentFile``); see `firn.model.content_file` for its binding.

    `encoded` says what the members from `column_sizes` to `sort_order_id` would, in the bytes that a manifest has of
    them (`firn.storage.encoded_metrics`, base64 in JSON); none of these is given with it.

    `table_uuid` and `schema_id` say for which table the file was described, and by which of its schemas
    (`firn.model.file_origins`); better the intent says it, once for all of its files.
    """

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
    encoded: Annotated[bytes, msgspec.Meta(min_length=1)] | None = None
    table_uuid: str | None = None
    schema_id: FieldId | None = None


class Operation(
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
    `epoch_label` is what the writer itself calls the content of the epoch: another label is another content.
    `deadline_ms` is a time (ms since 1970-01-01 UTC) after which the intent must not be applied any more.
    `digest` is `digest_of(intent)`: it lets the daemon see that an entry was damaged on its way. `reservation_id` names
    the reservation under which the work was done: it ends when the intent is committed. `traceparent` is the span that
    made it (`firn.model.traceparent`).
    """

    intent_id: str
    table: str
    table_uuid: str | None = None
    writer: Name | None = None
    writer_sequence: Count | None = None
    epoch_label: Name | None = None
    reply_to: str | None = None
    deadline_ms: Count | None = None
    priority: Literal["ingest", "maintenance"] = "ingest"
    summary: dict[str, str] = {}
    digest: str | None = None
    reservation_id: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] | None = None
    traceparent: str | None = None
