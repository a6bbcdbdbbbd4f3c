"""What must hold within one table metadata, whoever wrote it (table specification, "Table Metadata")."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from firn.model.errors import InvalidMetadata
from firn.model.json_members import as_object, join, list_of, long_of, str_map, str_of, str_or_none
from firn.model.metadata import TableMetadata
from firn.model.snapshot import MAIN_BRANCH

CLOCK_SKEW_MS_MAX: Final = 60_000
"""How far a log may run backwards, in milliseconds: writers' clocks differ, and Java tolerates as much."""

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def check_metadata(metadata: TableMetadata, *, where: str = "metadata") -> None:
    """Refuse metadata that contradicts itself; raises InvalidMetadata naming the member at fault."""
    _check_ids(metadata, where)
    _check_versions(metadata, where)
    _check_snapshots(metadata, where)
    _check_refs(metadata, where)
    _check_logs(metadata, where)


def _check_ids(metadata: TableMetadata, where: str) -> None:
    _check_unique((schema.schema_id for schema in metadata.schemas), join(where, "schemas"), "schema-id")
    _check_unique((spec.spec_id for spec in metadata.partition_specs), join(where, "partition-specs"), "spec-id")
    _check_unique((order.order_id for order in metadata.sort_orders), join(where, "sort-orders"), "order-id")
    if metadata.schema_by_id(metadata.current_schema_id) is None:
        raise InvalidMetadata(
            f"cannot find schema with current-schema-id={metadata.current_schema_id} from schemas",
            where=join(where, "current-schema-id"),
        )
    if metadata.spec_by_id(metadata.default_spec_id) is None:
        raise InvalidMetadata(
            f"cannot find spec with default-spec-id={metadata.default_spec_id} from partition-specs",
            where=join(where, "default-spec-id"),
        )
    if metadata.order_by_id(metadata.default_sort_order_id) is None:
        raise InvalidMetadata(
            f"cannot find order with default-sort-order-id={metadata.default_sort_order_id} from sort-orders",
            where=join(where, "default-sort-order-id"),
        )


def _check_unique(ids: Iterable[int], where: str, name: str) -> None:
    seen: set[int] = set()
    for i, number in enumerate(ids):
        if number in seen:
            raise InvalidMetadata(f"{name} {number} appears twice", where=f"{where}[{i}]")
        seen.add(number)


def _check_versions(metadata: TableMetadata, where: str) -> None:
    version = metadata.format_version
    if not metadata.location:
        raise InvalidMetadata("must not be empty", where=join(where, "location"))
    if version > 1 and not metadata.table_uuid:
        raise InvalidMetadata(f"missing, but required in format v{version}", where=join(where, "table-uuid"))
    if version == 1 and metadata.last_sequence_number != 0:
        raise InvalidMetadata(
            f"must be 0 in format v1, not {metadata.last_sequence_number}", where=join(where, "last-sequence-number")
        )
    if version > 2 and metadata.next_row_id is None:
        raise InvalidMetadata(f"missing, but required in format v{version}", where=join(where, "next-row-id"))


def _check_snapshots(metadata: TableMetadata, where: str) -> None:
    path = join(where, "snapshots")
    _check_unique((snapshot.snapshot_id for snapshot in metadata.snapshots), path, "snapshot-id")
    last = metadata.last_sequence_number
    for i, snapshot in enumerate(metadata.snapshots):
        if snapshot.sequence_number > last:
            raise InvalidMetadata(
                f"{snapshot.sequence_number} is greater than last-sequence-number {last}",
                where=f"{path}[{i}].sequence-number",
            )
    if metadata.current_snapshot_id is not None and metadata.snapshot_by_id(metadata.current_snapshot_id) is None:
        raise InvalidMetadata(
            f"cannot find snapshot {metadata.current_snapshot_id} in snapshots",
            where=join(where, "current-snapshot-id"),
        )


def _check_refs(metadata: TableMetadata, where: str) -> None:
    path = join(where, "refs")
    for name, ref in metadata.refs.items():
        if metadata.snapshot_by_id(ref.snapshot_id) is None:
            raise InvalidMetadata(
                f"names snapshot {ref.snapshot_id}, which is not in snapshots", where=join(path, name)
            )
    main = metadata.ref(MAIN_BRANCH)
    if main is None:
        return
    if main.type != "branch":
        raise InvalidMetadata("cannot be a tag, it must be a branch", where=join(path, MAIN_BRANCH))
    if metadata.current_snapshot_id is None:
        raise InvalidMetadata("current snapshot is not set, but main branch exists", where=join(path, MAIN_BRANCH))
    if main.snapshot_id != metadata.current_snapshot_id:
        raise InvalidMetadata(
            f"current-snapshot-id {metadata.current_snapshot_id} does not match main branch {main.snapshot_id}",
            where=join(path, MAIN_BRANCH),
        )


def _check_logs(metadata: TableMetadata, where: str) -> None:
    """Readers binary-search the logs, and Java refuses a table whose logs run backwards."""
    for name, times in (
        ("snapshot-log", [entry.timestamp_ms for entry in metadata.snapshot_log]),
        ("metadata-log", [entry.timestamp_ms for entry in metadata.metadata_log]),
    ):
        for i in range(1, len(times)):
            if times[i] - times[i - 1] < -CLOCK_SKEW_MS_MAX:
                raise InvalidMetadata(
                    f"timestamp-ms {times[i]} is more than {CLOCK_SKEW_MS_MAX} ms before the entry before it",
                    where=f"{join(where, name)}[{i}]",
                )
        if times and metadata.last_updated_ms - times[-1] < -CLOCK_SKEW_MS_MAX:
            raise InvalidMetadata(
                f"{metadata.last_updated_ms} is before the last entry of {name} at {times[-1]}",
                where=join(where, "last-updated-ms"),
            )


def check_uuid(text: str, *, where: str) -> None:
    """Refuse a new table's UUID that is none: PyIceberg and the Rust library could not read the table."""
    if not _UUID.fullmatch(text):
        raise InvalidMetadata(f"must be a UUID in its 36 character form, not {text[:40]!r}", where=where)


def strip_slashes(location: str) -> str:
    """A table's location without trailing slashes, so that paths under it are formed and compared one way."""
    while location.endswith("/") and not location.endswith("://") and len(location) > 1:
        location = location[:-1]
    return location


def check_encryption_key(obj: dict[str, Any], *, where: str) -> None:
    """Refuse an encryption key object that lacks what the specification requires."""
    str_of(obj, "key-id", where=where)
    # Appendix C writes the second name where "Encryption Keys" defines the first.
    if str_or_none(obj, "encrypted-key-metadata", where=where) is None:
        str_of(obj, "key-metadata", where=where)


def check_statistics(obj: dict[str, Any], *, partition: bool, where: str) -> None:
    """Refuse a statistics or partition-statistics object that lacks what the specification requires."""
    long_of(obj, "snapshot-id", where=where)
    str_of(obj, "statistics-path", where=where)
    long_of(obj, "file-size-in-bytes", where=where, low=0)
    if partition:
        return
    long_of(obj, "file-footer-size-in-bytes", where=where, low=0)
    for i, item in enumerate(list_of(obj, "blob-metadata", where=where)):
        at = f"{join(where, 'blob-metadata')}[{i}]"
        blob = as_object(item, where=at)
        str_of(blob, "type", where=at)
        long_of(blob, "snapshot-id", where=at)
        long_of(blob, "sequence-number", where=at)
        list_of(blob, "fields", where=at)
        if blob.get("properties") is not None:
            str_map(blob["properties"], where=join(at, "properties"))
