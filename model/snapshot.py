"""Snapshots, references to them and the logs of a table (table specification, "Snapshots", "Table Metadata")."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from firn.model.errors import InvalidMetadata
from firn.model.json_members import (
    as_object,
    extra_of,
    int_or_none,
    join,
    long_of,
    long_or_none,
    put,
    str_map,
    str_of,
    str_or_none,
    strs_of,
)

MAIN_BRANCH: Final = "main"

Operation = Literal["append", "replace", "overwrite", "delete"]
RefType = Literal["branch", "tag"]

_SNAPSHOT_MEMBERS: Final = frozenset(
    {
        "snapshot-id", "parent-snapshot-id", "sequence-number", "timestamp-ms", "manifest-list", "manifests", "summary",
        "schema-id", "first-row-id", "added-rows", "key-id",
    }
)  # fmt: skip
_REF_MEMBERS: Final = frozenset(
    {"snapshot-id", "type", "min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms"}
)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The state of a table at one time.

    `summary` holds ``operation`` with the totals, all as strings. v1 snapshots may lack `sequence_number` (read as 0),
    `summary`, and may list `manifests` instead of a `manifest_list`.
    """

    snapshot_id: int
    parent_snapshot_id: int | None = None
    sequence_number: int = 0
    timestamp_ms: int
    manifest_list: str | None = None
    manifests: tuple[str, ...] | None = None
    summary: dict[str, str] | None = None
    schema_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None
    key_id: str | None = None
    extra: dict[str, Any] = {}

    @property
    def operation(self) -> str | None:
        """The summary's operation, None where a v1 writer left none."""
        return None if self.summary is None else self.summary.get("operation")

    @property
    def encoded(self) -> bytes:
        """The snapshot's JSON text from v2 on. It is not kept here: whoever writes metadata keeps the text of all."""
        return msgspec.json.encode(snapshot_to_json(self))

    @property
    def encoded_v1(self) -> bytes:
        """As `encoded`, for the metadata of a v1 table."""
        return msgspec.json.encode(snapshot_to_json(self, format_version=1))


class SnapshotRef(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A branch or tag. Ages are milliseconds; the two `*_snapshot*` settings are for branches only."""

    snapshot_id: int
    type: RefType
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None
    extra: dict[str, Any] = {}


class SnapshotLogEntry(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The current snapshot changed to `snapshot_id` at `timestamp_ms`."""

    snapshot_id: int
    timestamp_ms: int


class MetadataLogEntry(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A metadata file that was current until `timestamp_ms`."""

    metadata_file: str
    timestamp_ms: int


def snapshot_from_json(obj: Any, *, where: str = "snapshot") -> Snapshot:
    """A snapshot of any format version; a summary without ``operation`` reads as an overwrite, as in Java."""
    members = as_object(obj, where=where)
    manifest_list = str_or_none(members, "manifest-list", where=where)
    manifests = None
    if manifest_list is None:
        if members.get("manifests") is None:
            raise InvalidMetadata("missing, but required", where=join(where, "manifest-list"))
        manifests = strs_of(members, "manifests", where=where)
    summary = None
    if members.get("summary") is not None:
        summary = str_map(members["summary"], where=join(where, "summary"))
        if summary and "operation" not in summary:
            summary = {"operation": "overwrite", **summary}
    first_row_id = long_or_none(members, "first-row-id", where=where)
    added_rows = long_or_none(members, "added-rows", where=where)
    _check_row_ids(first_row_id, added_rows, where)
    return Snapshot(
        snapshot_id=long_of(members, "snapshot-id", where=where),
        parent_snapshot_id=long_or_none(members, "parent-snapshot-id", where=where),
        sequence_number=long_or_none(members, "sequence-number", where=where, low=0) or 0,
        timestamp_ms=long_of(members, "timestamp-ms", where=where),
        manifest_list=manifest_list,
        manifests=manifests,
        summary=summary or None,
        schema_id=int_or_none(members, "schema-id", where=where),
        first_row_id=first_row_id,
        added_rows=added_rows,
        key_id=str_or_none(members, "key-id", where=where),
        extra=extra_of(members, _SNAPSHOT_MEMBERS),
    )


def _check_row_ids(first_row_id: int | None, added_rows: int | None, where: str) -> None:
    """A range of row ids needs both ends: half of one cannot be kept apart from the next (v3, "Snapshot Row IDs")."""
    if first_row_id is not None and first_row_id < 0:
        raise InvalidMetadata(f"cannot be negative: {first_row_id}", where=join(where, "first-row-id"))
    if added_rows is not None and added_rows < 0:
        raise InvalidMetadata(f"cannot be negative: {added_rows}", where=join(where, "added-rows"))
    if first_row_id is not None and added_rows is None:
        raise InvalidMetadata("missing, but required when first-row-id is set", where=join(where, "added-rows"))


def snapshot_to_json(snapshot: Snapshot, *, format_version: int = 2) -> dict[str, Any]:
    """The snapshot as JSON, in metadata of that version.

    v1 has no sequence numbers. From v2 on they are required: Java leaves out the 0 of a snapshot from before the
    upgrade, and then iceberg-rust cannot read the table.
    """
    out: dict[str, Any] = {}
    if format_version > 1 or snapshot.sequence_number > 0:
        out["sequence-number"] = snapshot.sequence_number
    out["snapshot-id"] = snapshot.snapshot_id
    put(out, [("parent-snapshot-id", snapshot.parent_snapshot_id)])
    out["timestamp-ms"] = snapshot.timestamp_ms
    put(out, [("summary", snapshot.summary)])
    if snapshot.manifest_list is not None:
        out["manifest-list"] = snapshot.manifest_list
    else:
        out["manifests"] = list(snapshot.manifests or ())
    put(
        out,
        [
            ("schema-id", snapshot.schema_id),
            ("first-row-id", snapshot.first_row_id),
            ("added-rows", snapshot.added_rows),
            ("key-id", snapshot.key_id),
        ],
    )
    out.update(snapshot.extra)
    return out


def ref_from_json(obj: Any, *, where: str = "ref") -> SnapshotRef:
    """A branch or tag; retention settings must be positive, and two of them belong to branches only."""
    members = as_object(obj, where=where)
    type_name = str_of(members, "type", where=where).lower()
    ref = SnapshotRef(
        snapshot_id=long_of(members, "snapshot-id", where=where),
        type=_ref_type(type_name, where),
        min_snapshots_to_keep=int_or_none(members, "min-snapshots-to-keep", where=where),
        max_snapshot_age_ms=long_or_none(members, "max-snapshot-age-ms", where=where),
        max_ref_age_ms=long_or_none(members, "max-ref-age-ms", where=where),
        extra=extra_of(members, _REF_MEMBERS),
    )
    check_ref(ref, where=where)
    return ref


def _ref_type(name: str, where: str) -> RefType:
    if name == "branch":
        return "branch"
    if name == "tag":
        return "tag"
    raise InvalidMetadata(f"must be branch or tag, not {name!r}", where=join(where, "type"))


def check_ref(ref: SnapshotRef, *, where: str = "ref") -> None:
    """Refuse retention settings that no engine accepts; raises InvalidMetadata."""
    if ref.type == "tag" and ref.min_snapshots_to_keep is not None:
        raise InvalidMetadata("a tag has no history to keep", where=join(where, "min-snapshots-to-keep"))
    if ref.type == "tag" and ref.max_snapshot_age_ms is not None:
        raise InvalidMetadata("a tag has no history to age", where=join(where, "max-snapshot-age-ms"))
    for key, value in (
        ("min-snapshots-to-keep", ref.min_snapshots_to_keep),
        ("max-snapshot-age-ms", ref.max_snapshot_age_ms),
        ("max-ref-age-ms", ref.max_ref_age_ms),
    ):
        if value is not None and value <= 0:
            raise InvalidMetadata(f"must be greater than 0, not {value}", where=join(where, key))


def ref_to_json(ref: SnapshotRef) -> dict[str, Any]:
    """The reference as JSON."""
    out: dict[str, Any] = {"snapshot-id": ref.snapshot_id, "type": ref.type}
    put(
        out,
        [
            ("min-snapshots-to-keep", ref.min_snapshots_to_keep),
            ("max-snapshot-age-ms", ref.max_snapshot_age_ms),
            ("max-ref-age-ms", ref.max_ref_age_ms),
        ],
    )
    out.update(ref.extra)
    return out
