"""Table updates of the REST specification: values, their JSON, and what they do to metadata (``TableUpdate``).

Unknown members of an update are refused: a misspelt one would silently be another change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from firn.model import json_members as members
from firn.model.errors import InvalidInput, InvalidMetadata
from firn.model.metadata_check import check_encryption_key, check_statistics
from firn.model.operations.rest import UPDATES_MAX
from firn.model.partitioning import PartitionSpec, spec_from_json, spec_to_json
from firn.model.schema import Schema, schema_from_json, schema_to_json
from firn.model.snapshot import (
    Snapshot,
    SnapshotRef,
    ref_from_json,
    ref_to_json,
    snapshot_from_json,
    snapshot_to_json,
)
from firn.model.sorting import SortOrder, order_from_json, order_to_json

LAST_ADDED: Final = -1
"""In place of an id: the schema, spec or order that an update before this one added."""


class _Update(msgspec.Struct, frozen=True, kw_only=True, tag_field="action"):
    """One change; its tag is the REST specification's ``action``."""


class AssignUuid(_Update, frozen=True, kw_only=True, tag="assign-uuid"):
    """Give a UUID to a table that has none."""

    uuid: str


class UpgradeFormatVersion(_Update, frozen=True, kw_only=True, tag="upgrade-format-version"):
    """Move to a newer format version."""

    format_version: int


class AddSchema(_Update, frozen=True, kw_only=True, tag="add-schema"):
    """Add a schema; the id that it carries is not the one that it gets."""

    schema: Schema


class SetCurrentSchema(_Update, frozen=True, kw_only=True, tag="set-current-schema"):
    """Choose the schema for new data; `LAST_ADDED` for the one just added."""

    schema_id: int


class AddSpec(_Update, frozen=True, kw_only=True, tag="add-spec"):
    """Add a partition spec; with `assign_ids` its fields came without ids."""

    spec: PartitionSpec
    assign_ids: bool = False


class SetDefaultSpec(_Update, frozen=True, kw_only=True, tag="set-default-spec"):
    """Choose the spec for new data; `LAST_ADDED` for the one just added."""

    spec_id: int


class AddSortOrder(_Update, frozen=True, kw_only=True, tag="add-sort-order"):
    """Add a sort order."""

    sort_order: SortOrder


class SetDefaultSortOrder(_Update, frozen=True, kw_only=True, tag="set-default-sort-order"):
    """Choose the order for new data; `LAST_ADDED` for the one just added."""

    sort_order_id: int


class AddSnapshot(_Update, frozen=True, kw_only=True, tag="add-snapshot"):
    """Add a snapshot that no reference names yet."""

    snapshot: Snapshot


class SetSnapshotRef(_Update, frozen=True, kw_only=True, tag="set-snapshot-ref"):
    """Create or change a branch or tag."""

    ref_name: str
    ref: SnapshotRef


class RemoveSnapshots(_Update, frozen=True, kw_only=True, tag="remove-snapshots"):
    """Remove snapshots that no reference names."""

    snapshot_ids: tuple[int, ...]


class RemoveSnapshotRef(_Update, frozen=True, kw_only=True, tag="remove-snapshot-ref"):
    """Remove a branch or tag."""

    ref_name: str


class SetLocation(_Update, frozen=True, kw_only=True, tag="set-location"):
    """Set the base location for new files."""

    location: str


class SetProperties(_Update, frozen=True, kw_only=True, tag="set-properties"):
    """Set table properties."""

    updates: dict[str, str]


class RemoveProperties(_Update, frozen=True, kw_only=True, tag="remove-properties"):
    """Remove table properties."""

    removals: tuple[str, ...]


class SetStatistics(_Update, frozen=True, kw_only=True, tag="set-statistics"):
    """Set a snapshot's statistics file."""

    statistics: dict[str, Any]


class RemoveStatistics(_Update, frozen=True, kw_only=True, tag="remove-statistics"):
    """Remove a snapshot's statistics file."""

    snapshot_id: int


class SetPartitionStatistics(_Update, frozen=True, kw_only=True, tag="set-partition-statistics"):
    """Set a snapshot's partition statistics file."""

    partition_statistics: dict[str, Any]


class RemovePartitionStatistics(_Update, frozen=True, kw_only=True, tag="remove-partition-statistics"):
    """Remove a snapshot's partition statistics file."""

    snapshot_id: int


class RemovePartitionSpecs(_Update, frozen=True, kw_only=True, tag="remove-partition-specs"):
    """Remove specs that no manifest is written with."""

    spec_ids: tuple[int, ...]


class RemoveSchemas(_Update, frozen=True, kw_only=True, tag="remove-schemas"):
    """Remove schemas that no snapshot names."""

    schema_ids: tuple[int, ...]


class AddEncryptionKey(_Update, frozen=True, kw_only=True, tag="add-encryption-key"):
    """Add an encryption key."""

    encryption_key: dict[str, Any]


class RemoveEncryptionKey(_Update, frozen=True, kw_only=True, tag="remove-encryption-key"):
    """Remove an encryption key."""

    key_id: str


Update = (
    AssignUuid
    | UpgradeFormatVersion
    | AddSchema
    | SetCurrentSchema
    | AddSpec
    | SetDefaultSpec
    | AddSortOrder
    | SetDefaultSortOrder
    | AddSnapshot
    | SetSnapshotRef
    | RemoveSnapshots
    | RemoveSnapshotRef
    | SetLocation
    | SetProperties
    | RemoveProperties
    | SetStatistics
    | RemoveStatistics
    | SetPartitionStatistics
    | RemovePartitionStatistics
    | RemovePartitionSpecs
    | RemoveSchemas
    | AddEncryptionKey
    | RemoveEncryptionKey
)


def action_of(update: Update) -> str:
    """The update's name in the REST specification."""
    return str(update.__struct_config__.tag)


# ---------------------------------------------------------------------------------------------------------------------
# JSON


def updates_from_json(value: Any, *, where: str = "updates") -> tuple[Update, ...]:
    """A list of updates; raises InvalidInput naming the member that is wrong."""
    if not isinstance(value, list):
        raise InvalidMetadata(f"must be an array, not {members.describe(value)}", where=where)
    if len(value) > UPDATES_MAX:
        raise InvalidInput(f"{len(value)} updates, the limit is {UPDATES_MAX}", where=where)
    return tuple(update_from_json(item, where=f"{where}[{i}]") for i, item in enumerate(value))


def update_from_json(value: Any, *, where: str = "update") -> Update:
    """One update of the REST specification; raises InvalidInput naming the member that is wrong."""
    obj = members.as_object(value, where=where)
    action = members.str_of(obj, "action", where=where)
    reader = _READERS.get(action)
    if reader is None:
        raise InvalidMetadata(f"unknown action {action[:60]!r}", where=members.join(where, "action"))
    allowed, read = reader
    for key in obj:
        if key != "action" and key not in allowed:
            raise InvalidMetadata(f"unknown member of {action}", where=members.join(where, key))
    return read(obj, where)


def _add_schema(obj: dict[str, Any], where: str) -> Update:
    return AddSchema(schema=schema_from_json(_needed(obj, "schema", where), where=members.join(where, "schema")))


def _add_spec(obj: dict[str, Any], where: str) -> Update:
    path = members.join(where, "spec")
    spec_obj = members.as_object(_needed(obj, "spec", where), where=path)
    spec = spec_from_json(spec_obj, where=path, spec_id=0)
    listed = spec_obj["fields"]
    return AddSpec(spec=spec, assign_ids=any(field.get("field-id") is None for field in listed))


def _add_sort_order(obj: dict[str, Any], where: str) -> Update:
    order = order_from_json(_needed(obj, "sort-order", where), where=members.join(where, "sort-order"), order_id=1)
    return AddSortOrder(sort_order=order)


def _add_snapshot(obj: dict[str, Any], where: str) -> Update:
    path = members.join(where, "snapshot")
    return AddSnapshot(snapshot=snapshot_from_json(_needed(obj, "snapshot", where), where=path))


def _set_snapshot_ref(obj: dict[str, Any], where: str) -> Update:
    ref = ref_from_json({key: obj[key] for key in obj if key not in {"action", "ref-name"}}, where=where)
    return SetSnapshotRef(ref_name=members.str_of(obj, "ref-name", where=where), ref=ref)


def _set_properties(obj: dict[str, Any], where: str) -> Update:
    # Java calls the member "updated" in old clients.
    key = "updates" if "updates" in obj or "updated" not in obj else "updated"
    return SetProperties(updates=members.str_map(_needed(obj, key, where), where=members.join(where, key)))


def _remove_properties(obj: dict[str, Any], where: str) -> Update:
    key = "removals" if "removals" in obj or "removed" not in obj else "removed"
    return RemoveProperties(removals=members.strs_of(obj, key, where=where))


def _set_statistics(obj: dict[str, Any], where: str) -> Update:
    path = members.join(where, "statistics")
    statistics = members.as_object(_needed(obj, "statistics", where), where=path)
    check_statistics(statistics, partition=False, where=path)
    return SetStatistics(statistics=statistics)


def _set_partition_statistics(obj: dict[str, Any], where: str) -> Update:
    path = members.join(where, "partition-statistics")
    statistics = members.as_object(_needed(obj, "partition-statistics", where), where=path)
    check_statistics(statistics, partition=True, where=path)
    return SetPartitionStatistics(partition_statistics=statistics)


def _add_encryption_key(obj: dict[str, Any], where: str) -> Update:
    path = members.join(where, "encryption-key")
    key = members.as_object(_needed(obj, "encryption-key", where), where=path)
    check_encryption_key(key, where=path)
    return AddEncryptionKey(encryption_key=key)


def _needed(obj: dict[str, Any], key: str, where: str) -> Any:
    value = obj.get(key)
    if value is None:
        raise members.missing(key, where=where)
    return value


def _ids(obj: dict[str, Any], key: str, where: str) -> tuple[int, ...]:
    return members.longs_of(obj, key, where=where)


_Reader = Callable[[dict[str, Any], str], Update]
_REF_KEYS: Final = (
    "ref-name", "snapshot-id", "type", "min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms",
)  # fmt: skip
_READERS: Final[Mapping[str, tuple[tuple[str, ...], _Reader]]] = {
    "assign-uuid": (("uuid",), lambda o, w: AssignUuid(uuid=members.str_of(o, "uuid", where=w))),
    "upgrade-format-version": (
        ("format-version",),
        lambda o, w: UpgradeFormatVersion(format_version=members.int_of(o, "format-version", where=w)),
    ),
    # last-column-id is deprecated: it follows from the schema.
    "add-schema": (("schema", "last-column-id"), _add_schema),
    "set-current-schema": (
        ("schema-id",),
        lambda o, w: SetCurrentSchema(schema_id=members.int_of(o, "schema-id", where=w)),
    ),
    "add-spec": (("spec",), _add_spec),
    "set-default-spec": (("spec-id",), lambda o, w: SetDefaultSpec(spec_id=members.int_of(o, "spec-id", where=w))),
    "add-sort-order": (("sort-order",), _add_sort_order),
    "set-default-sort-order": (
        ("sort-order-id",),
        lambda o, w: SetDefaultSortOrder(sort_order_id=members.int_of(o, "sort-order-id", where=w)),
    ),
    "add-snapshot": (("snapshot",), _add_snapshot),
    "set-snapshot-ref": (_REF_KEYS, _set_snapshot_ref),
    "remove-snapshots": (("snapshot-ids",), lambda o, w: RemoveSnapshots(snapshot_ids=_ids(o, "snapshot-ids", w))),
    "remove-snapshot-ref": (
        ("ref-name",),
        lambda o, w: RemoveSnapshotRef(ref_name=members.str_of(o, "ref-name", where=w)),
    ),
    "set-location": (("location",), lambda o, w: SetLocation(location=members.str_of(o, "location", where=w))),
    "set-properties": (("updates", "updated"), _set_properties),
    "remove-properties": (("removals", "removed"), _remove_properties),
    # snapshot-id is deprecated: the statistics name their snapshot.
    "set-statistics": (("statistics", "snapshot-id"), _set_statistics),
    "remove-statistics": (
        ("snapshot-id",),
        lambda o, w: RemoveStatistics(snapshot_id=members.long_of(o, "snapshot-id", where=w)),
    ),
    "set-partition-statistics": (("partition-statistics",), _set_partition_statistics),
    "remove-partition-statistics": (
        ("snapshot-id",),
        lambda o, w: RemovePartitionStatistics(snapshot_id=members.long_of(o, "snapshot-id", where=w)),
    ),
    "remove-partition-specs": (("spec-ids",), lambda o, w: RemovePartitionSpecs(spec_ids=_ids(o, "spec-ids", w))),
    "remove-schemas": (("schema-ids",), lambda o, w: RemoveSchemas(schema_ids=_ids(o, "schema-ids", w))),
    "add-encryption-key": (("encryption-key",), _add_encryption_key),
    "remove-encryption-key": (
        ("key-id",),
        lambda o, w: RemoveEncryptionKey(key_id=members.str_of(o, "key-id", where=w)),
    ),
}


def update_to_json(update: Update) -> dict[str, Any]:
    """The update as the REST specification has it."""
    out: dict[str, Any] = {"action": action_of(update)}
    match update:
        case AddSchema():
            out["schema"] = schema_to_json(update.schema)
            out["last-column-id"] = update.schema.highest_field_id
        case AddSpec():
            out["spec"] = spec_to_json(update.spec)
            if update.assign_ids:
                for field in out["spec"]["fields"]:
                    del field["field-id"]
        case AddSortOrder():
            out["sort-order"] = order_to_json(update.sort_order)
        case AddSnapshot():
            out["snapshot"] = snapshot_to_json(update.snapshot)
        case SetSnapshotRef():
            out |= {"ref-name": update.ref_name, **ref_to_json(update.ref)}
        case _:
            for name in update.__struct_fields__:
                value = getattr(update, name)
                out[name.replace("_", "-")] = list(value) if isinstance(value, tuple) else value
    return out


def updates_to_json(updates: Iterable[Update]) -> list[dict[str, Any]]:
    """The updates as a JSON list."""
    return [update_to_json(update) for update in updates]
