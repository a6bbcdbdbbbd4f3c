"""Table metadata from and to its JSON, for format versions 1 to 3 (table specification, Appendix C).

Reading is as lenient as the specification's table of fields: what v1 may leave out is filled in, so that the value has
one shape. Writing is what Java writes, including the fields that only readers of v1 still need.
"""

from __future__ import annotations

from typing import Any, Final

from firn.model.errors import InvalidMetadata, Unsupported
from firn.model.json_members import (
    as_object,
    extra_of,
    int_of,
    int_or_none,
    join,
    list_of,
    list_or_none,
    long_of,
    long_or_none,
    missing,
    put,
    str_map,
    str_of,
    str_or_none,
)
from firn.model.metadata import FORMAT_VERSION_MAX, TableMetadata
from firn.model.metadata_check import check_encryption_key, check_metadata, check_statistics, strip_slashes
from firn.model.partitioning import (
    PARTITION_FIELD_ID_START,
    PartitionSpec,
    same_partitioning,
    spec_fields_to_json,
    spec_from_json,
    spec_to_json,
)
from firn.model.schema import Schema, schema_from_json, schema_to_json
from firn.model.snapshot import (
    MAIN_BRANCH,
    MetadataLogEntry,
    SnapshotLogEntry,
    SnapshotRef,
    ref_from_json,
    ref_to_json,
    snapshot_from_json,
    snapshot_to_json,
)
from firn.model.sorting import UNSORTED, SortOrder, order_from_json, order_to_json
from firn.model.strict_json import loads

METADATA_BYTES_MAX: Final = 128 * 1024 * 1024
"""Bytes of metadata JSON that are read: ten times as much as 10 000 snapshots take."""

_MEMBERS: Final = frozenset(
    {
        "format-version", "table-uuid", "location", "last-sequence-number", "last-updated-ms", "last-column-id",
        "schema", "schemas", "current-schema-id", "partition-spec", "partition-specs", "default-spec-id",
        "last-partition-id",
        "default-sort-order-id", "sort-orders", "properties", "current-snapshot-id", "refs", "snapshots", "statistics",
        "partition-statistics", "snapshot-log", "metadata-log", "next-row-id", "encryption-keys",
    }
)  # fmt: skip
_LOG_TIMES: Final = "timestamp-ms"
_NO_SNAPSHOT: Final = -1  # Java's spelling of null in v1 and v2 (Appendix F)


def metadata_from_json(source: Any, *, where: str = "metadata") -> TableMetadata:
    """Table metadata from a decoded JSON object, or from the bytes of its text.

    Raises InvalidMetadata naming the missing or wrong member under `where`, Unsupported for a newer format version,
    InvalidInput for text that is not strict JSON.
    """
    obj = loads(source, where=where, bytes_max=METADATA_BYTES_MAX) if isinstance(source, (bytes, str)) else source
    members = as_object(obj, where=where)
    version = int_of(members, "format-version", where=where)
    if version > FORMAT_VERSION_MAX:
        raise Unsupported(
            f"cannot read unsupported version {version}, the newest supported is {FORMAT_VERSION_MAX}",
            where=join(where, "format-version"),
        )
    if version < 1:
        raise InvalidMetadata(f"must be at least 1, not {version}", where=join(where, "format-version"))
    schemas, current_schema_id = _schemas(members, version, where)
    specs, default_spec_id = _specs(members, version, where)
    orders, default_order_id = _orders(members, version, where)
    snapshots = tuple(
        snapshot_from_json(item, where=f"{join(where, 'snapshots')}[{i}]")
        for i, item in enumerate(list_or_none(members, "snapshots", where=where) or ())
    )
    current_id = long_or_none(members, "current-snapshot-id", where=where)
    if current_id == _NO_SNAPSHOT:
        current_id = None
    metadata = TableMetadata(
        format_version=version,
        table_uuid=_uuid(members, version, where),
        location=_location(members, where),
        last_sequence_number=long_of(members, "last-sequence-number", where=where, low=0) if version > 1 else 0,
        last_updated_ms=long_of(members, "last-updated-ms", where=where),
        last_column_id=int_of(members, "last-column-id", where=where),
        schemas=schemas,
        current_schema_id=current_schema_id,
        partition_specs=specs,
        default_spec_id=default_spec_id,
        last_partition_id=_last_partition_id(members, version, specs, where),
        properties=_properties(members, where),
        current_snapshot_id=current_id,
        snapshots=snapshots,
        snapshot_log=_snapshot_log(members, where),
        metadata_log=_metadata_log(members, where),
        sort_orders=orders,
        default_sort_order_id=default_order_id,
        refs=_refs(members, current_id, where),
        statistics=_objects(members, "statistics", where),
        partition_statistics=_objects(members, "partition-statistics", where),
        next_row_id=long_of(members, "next-row-id", where=where, low=0) if version > 2 else None,
        encryption_keys=_objects(members, "encryption-keys", where) if version > 2 else (),
        extra=extra_of(members, _MEMBERS),
    )
    check_metadata(metadata, where=where)
    return metadata


def _uuid(members: dict[str, Any], version: int, where: str) -> str:
    uuid = str_or_none(members, "table-uuid", where=where)
    if not uuid and version > 1:
        raise InvalidMetadata(f"missing, but required in format v{version}", where=join(where, "table-uuid"))
    return uuid or ""


def _location(members: dict[str, Any], where: str) -> str:
    return strip_slashes(str_of(members, "location", where=where))


def _required_since_v2(key: str, version: int, where: str) -> InvalidMetadata:
    return InvalidMetadata(f"missing, but must exist in format v{version}", where=join(where, key))


def _schemas(members: dict[str, Any], version: int, where: str) -> tuple[tuple[Schema, ...], int]:
    listed = list_or_none(members, "schemas", where=where)
    if listed is None and version > 1:
        raise _required_since_v2("schemas", version, where)
    schemas = tuple(_schema(item, f"{join(where, 'schemas')}[{i}]") for i, item in enumerate(listed or ()))
    current_id = int_or_none(members, "current-schema-id", where=where)
    if listed is None or (current_id is None and version == 1 and members.get("schema") is not None):
        return _with_v1_schema(members, schemas, where)
    if current_id is None:
        raise missing("current-schema-id", where=where)
    if all(schema.schema_id != current_id for schema in schemas):
        raise InvalidMetadata(
            f"cannot find schema with current-schema-id={current_id} from schemas",
            where=join(where, "current-schema-id"),
        )
    return schemas, current_id


def _with_v1_schema(members: dict[str, Any], schemas: tuple[Schema, ...], where: str) -> tuple[tuple[Schema, ...], int]:
    """The schemas with the one that v1 calls ``schema``, which is the current one where no id says otherwise."""
    if members.get("schema") is None:
        raise missing("schema", where=where)
    current = _schema(members["schema"], join(where, "schema"))
    for schema in schemas:
        if schema.struct == current.struct:
            return schemas, schema.schema_id
    return (*schemas, current), current.schema_id


def _schema(obj: Any, where: str) -> Schema:
    """A schema that says its type, as the specification's JSON form has it and Java requires."""
    str_of(as_object(obj, where=where), "type", where=where)
    return schema_from_json(obj, where=where)


def _specs(members: dict[str, Any], version: int, where: str) -> tuple[tuple[PartitionSpec, ...], int]:
    listed = list_or_none(members, "partition-specs", where=where)
    if listed is None:
        if version > 1:
            raise _required_since_v2("partition-specs", version, where)
        return (_v1_spec(members, where),), 0
    specs = tuple(spec_from_json(item, where=f"{join(where, 'partition-specs')}[{i}]") for i, item in enumerate(listed))
    default_id = int_or_none(members, "default-spec-id", where=where)
    if default_id is not None:
        return specs, default_id
    if version > 1 or not specs:
        raise missing("default-spec-id", where=where)
    if members.get("partition-spec") is not None:
        default = _v1_spec(members, where)
        for spec in specs:
            if same_partitioning(spec, default):
                return specs, spec.spec_id
    return specs, max(spec.spec_id for spec in specs)


def _v1_spec(members: dict[str, Any], where: str) -> PartitionSpec:
    fields = list_of(members, "partition-spec", where=where)
    return spec_from_json(fields, where=join(where, "partition-spec"))


def _last_partition_id(members: dict[str, Any], version: int, specs: tuple[PartitionSpec, ...], where: str) -> int:
    last = int_or_none(members, "last-partition-id", where=where)
    if last is not None:
        return last
    if version > 1:
        raise _required_since_v2("last-partition-id", version, where)
    ids = [field.field_id for spec in specs for field in spec.fields]
    return max(ids, default=PARTITION_FIELD_ID_START - 1)


def _orders(members: dict[str, Any], version: int, where: str) -> tuple[tuple[SortOrder, ...], int]:
    listed = list_or_none(members, "sort-orders", where=where)
    if listed is None:
        if version > 1:
            raise _required_since_v2("sort-orders", version, where)
        return (UNSORTED,), UNSORTED.order_id
    orders = tuple(order_from_json(item, where=f"{join(where, 'sort-orders')}[{i}]") for i, item in enumerate(listed))
    # Java refuses an empty list although nothing is lost with it; writing the unsorted order out mends the table.
    default_id = int_or_none(members, "default-sort-order-id", where=where)
    if default_id is None and version > 1:
        raise missing("default-sort-order-id", where=where)
    return orders or (UNSORTED,), UNSORTED.order_id if default_id is None else default_id


def _properties(members: dict[str, Any], where: str) -> dict[str, str]:
    value = members.get("properties")
    return {} if value is None else str_map(value, where=join(where, "properties"))


def _refs(members: dict[str, Any], current_id: int | None, where: str) -> dict[str, SnapshotRef]:
    """The references; ``main`` always follows the current snapshot, whether or not the file lists it."""
    path = join(where, "refs")
    value = members.get("refs")
    refs: dict[str, SnapshotRef] = {}
    if value is not None:
        for name, item in as_object(value, where=path).items():
            refs[name] = ref_from_json(item, where=join(path, name))
    if current_id is not None and MAIN_BRANCH not in refs:
        refs[MAIN_BRANCH] = SnapshotRef(snapshot_id=current_id, type="branch")
    return refs


def _snapshot_log(members: dict[str, Any], where: str) -> tuple[SnapshotLogEntry, ...]:
    path = join(where, "snapshot-log")
    entries = []
    for i, item in enumerate(list_or_none(members, "snapshot-log", where=where) or ()):
        at = f"{path}[{i}]"
        entry = as_object(item, where=at)
        entries.append(
            SnapshotLogEntry(
                snapshot_id=long_of(entry, "snapshot-id", where=at), timestamp_ms=long_of(entry, _LOG_TIMES, where=at)
            )
        )
    return tuple(entries)


def _metadata_log(members: dict[str, Any], where: str) -> tuple[MetadataLogEntry, ...]:
    path = join(where, "metadata-log")
    entries = []
    for i, item in enumerate(list_or_none(members, "metadata-log", where=where) or ()):
        at = f"{path}[{i}]"
        entry = as_object(item, where=at)
        entries.append(
            MetadataLogEntry(
                metadata_file=str_of(entry, "metadata-file", where=at),
                timestamp_ms=long_of(entry, _LOG_TIMES, where=at),
            )
        )
    return tuple(entries)


def _objects(members: dict[str, Any], key: str, where: str) -> tuple[dict[str, Any], ...]:
    path = join(where, key)
    listed = list_or_none(members, key, where=where) or ()
    objects = tuple(as_object(item, where=f"{path}[{i}]") for i, item in enumerate(listed))
    for i, item in enumerate(objects):
        at = f"{path}[{i}]"
        if key == "encryption-keys":
            check_encryption_key(item, where=at)
        else:
            check_statistics(item, partition=key == "partition-statistics", where=at)
    return objects


def metadata_to_json(metadata: TableMetadata) -> dict[str, Any]:
    """The JSON object of a metadata file: what stays as it is from commit to commit first, then in Java's order."""
    version = metadata.format_version
    return {
        **identifying_members(metadata),
        "snapshots": [snapshot_to_json(snapshot, format_version=version) for snapshot in metadata.snapshots],
        **changing_members(
            metadata,
            schemas=[schema_to_json(schema) for schema in metadata.schemas],
            partition_specs=[spec_to_json(spec) for spec in metadata.partition_specs],
            sort_orders=[order_to_json(order) for order in metadata.sort_orders],
            metadata_log=[
                {_LOG_TIMES: entry.timestamp_ms, "metadata-file": entry.metadata_file}
                for entry in metadata.metadata_log
            ],
        ),
        "snapshot-log": [
            {_LOG_TIMES: entry.timestamp_ms, "snapshot-id": entry.snapshot_id} for entry in metadata.snapshot_log
        ],
    }


def identifying_members(metadata: TableMetadata) -> dict[str, Any]:
    """The members before ``snapshots``."""
    out: dict[str, Any] = {"format-version": metadata.format_version}
    put(out, [("table-uuid", metadata.table_uuid or None)])
    out["location"] = metadata.location
    return out


def changing_members(
    metadata: TableMetadata, *, schemas: Any, partition_specs: Any, sort_orders: Any, metadata_log: Any
) -> dict[str, Any]:
    """The members between ``snapshots`` and ``snapshot-log``, with the values of those that may be encoded already."""
    version = metadata.format_version
    out: dict[str, Any] = {}
    if version > 1:
        out["last-sequence-number"] = metadata.last_sequence_number
    out["last-updated-ms"] = metadata.last_updated_ms
    out["last-column-id"] = metadata.last_column_id
    if version == 1:
        out["schema"] = schema_to_json(metadata.current_schema)
    out["current-schema-id"] = metadata.current_schema_id
    out["schemas"] = schemas
    if version == 1:
        out["partition-spec"] = spec_fields_to_json(metadata.default_spec)
    out["default-spec-id"] = metadata.default_spec_id
    out["partition-specs"] = partition_specs
    out["last-partition-id"] = metadata.last_partition_id
    out["default-sort-order-id"] = metadata.default_sort_order_id
    out["sort-orders"] = sort_orders
    out["properties"] = metadata.properties
    current_id = metadata.current_snapshot_id
    out["current-snapshot-id"] = _NO_SNAPSHOT if current_id is None and version < 3 else current_id
    if version > 2:
        out["next-row-id"] = metadata.next_row_id or 0
        if metadata.encryption_keys:
            out["encryption-keys"] = list(metadata.encryption_keys)
    out["refs"] = {name: ref_to_json(ref) for name, ref in metadata.refs.items()}
    out["statistics"] = list(metadata.statistics)
    out["partition-statistics"] = list(metadata.partition_statistics)
    out["metadata-log"] = metadata_log
    out.update(metadata.extra)
    return out
