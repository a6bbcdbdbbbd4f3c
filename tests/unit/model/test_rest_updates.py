"""The REST specification's updates: read as it writes them, applied all or not at all."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest
from pydantic import TypeAdapter
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.update import TableUpdate, update_table_metadata

from firn.model.errors import FirnError, InvalidInput, InvalidMetadata, InvalidSchema, NotFound, Unsupported
from firn.model.metadata_json import metadata_to_json
from firn.model.rest_apply import apply_updates
from firn.model.rest_updates import (
    AddSchema,
    RemoveProperties,
    SetProperties,
    update_from_json,
    updates_from_json,
    updates_to_json,
)
from tests.strategies.metadata import BY_BUCKET, START_MS, UUID, appended, table

NOW = START_MS + 10**6
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 1,
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "data", "required": False, "type": "string"},
        {"id": 3, "name": "more", "required": False, "type": "int"},
    ],
}
SNAPSHOT = {
    "snapshot-id": 3, "parent-snapshot-id": 2, "sequence-number": 3, "timestamp-ms": START_MS + 3000,
    "manifest-list": "s3://b/m.avro", "summary": {"operation": "append"}, "schema-id": 0,
}  # fmt: skip
STATISTICS = {
    "snapshot-id": 1, "statistics-path": "p", "file-size-in-bytes": 9, "file-footer-size-in-bytes": 3,
    "blob-metadata": [],
}  # fmt: skip
EVERY = [
    {"action": "upgrade-format-version", "format-version": 2},
    {"action": "add-schema", "schema": SCHEMA, "last-column-id": 3},
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "add-spec", "spec": {"spec-id": 1, "fields": [
        {"name": "more", "transform": "identity", "source-id": 3, "field-id": 1000}]}},
    {"action": "set-default-spec", "spec-id": -1},
    {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [
        {"transform": "identity", "source-id": 3, "direction": "asc", "null-order": "nulls-first"}]}},
    {"action": "set-default-sort-order", "sort-order-id": -1},
    {"action": "add-snapshot", "snapshot": SNAPSHOT},
    {"action": "set-snapshot-ref", "ref-name": "main", "snapshot-id": 3, "type": "branch"},
    {"action": "set-snapshot-ref", "ref-name": "v1", "snapshot-id": 2, "type": "tag", "max-ref-age-ms": 9},
    {"action": "remove-snapshot-ref", "ref-name": "old"},
    {"action": "set-location", "location": "s3://b/new"},
    {"action": "set-properties", "updates": {"a": "b", "c": "d"}},
    {"action": "remove-properties", "removals": ["c"]},
    {"action": "set-statistics", "statistics": {**STATISTICS, "snapshot-id": 2}},
    {"action": "set-statistics", "statistics": STATISTICS},
    {"action": "remove-statistics", "snapshot-id": 1},
]  # fmt: skip
NOT_IN_PYICEBERG = [
    {"action": "assign-uuid", "uuid": UUID},
    {"action": "remove-snapshots", "snapshot-ids": [1]},
    {"action": "set-partition-statistics", "partition-statistics": {
        "snapshot-id": 2, "statistics-path": "q", "file-size-in-bytes": 9}},
    {"action": "remove-partition-statistics", "snapshot-id": 2},
    {"action": "remove-partition-specs", "spec-ids": [0]},
    {"action": "remove-schemas", "schema-ids": [7]},
]  # fmt: skip
BASE = appended(table(), 1, 2)


def applied(*updates, base=BASE):
    return apply_updates(base, updates_from_json(list(updates)), now_ms=NOW)


def test_every_update_is_written_as_it_was_read():
    keys = [
        {"action": "add-encryption-key", "encryption-key": {"key-id": "k", "encrypted-key-metadata": "eA=="}},
        {"action": "remove-encryption-key", "key-id": "k"},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": [
            {"name": "b", "transform": "bucket[4]", "source-id": 1}]}},
    ]  # fmt: skip
    every = [*EVERY, *NOT_IN_PYICEBERG, *keys]
    assert updates_to_json(updates_from_json(every)) == every


def test_updates_make_the_same_table_as_in_pyiceberg():
    theirs = update_table_metadata(
        TableMetadataUtil.parse_raw(json.dumps(metadata_to_json(BASE))),
        TypeAdapter(tuple[TableUpdate, ...]).validate_python(tuple(copy.deepcopy(EVERY))),
    )
    ours = TableMetadataUtil.parse_raw(json.dumps(metadata_to_json(applied(*EVERY))))
    same = {"last_updated_ms": 0, "snapshot_log": [], "metadata_log": []}
    assert ours.model_copy(update=same) == theirs.model_copy(update=same)
    assert [entry.snapshot_id for entry in ours.snapshot_log] == [entry.snapshot_id for entry in theirs.snapshot_log]


def test_everything_at_once():
    metadata = applied(*EVERY, *NOT_IN_PYICEBERG)
    assert [one.snapshot_id for one in metadata.snapshots] == [2, 3]
    assert [entry.snapshot_id for entry in metadata.snapshot_log] == [2, 3]
    assert [schema.schema_id for schema in metadata.schemas] == [0, 1]
    assert [spec.spec_id for spec in metadata.partition_specs] == [1]
    assert metadata.partition_statistics == ()
    assert metadata.last_updated_ms >= NOW


def test_a_table_is_created_from_updates_alone():
    create = [
        {"action": "assign-uuid", "uuid": UUID},
        {"action": "upgrade-format-version", "format-version": 3},
        {"action": "add-schema", "schema": SCHEMA},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": "s3://b/t"},
        {"action": "set-properties", "updates": {"a": "b"}},
    ]  # fmt: skip
    metadata = applied(*create, base=None)
    assert applied(*create[:6], *create[8:], base=None).sort_orders == metadata.sort_orders
    assert (metadata.format_version, metadata.table_uuid, metadata.next_row_id) == (3, UUID, 0)
    assert (metadata.last_column_id, metadata.last_partition_id) == (3, 999)
    TableMetadataUtil.parse_raw(json.dumps(metadata_to_json(metadata)))
    for missing in (0, 2, 4, 8):
        with pytest.raises(InvalidMetadata):
            applied(*create[:missing], *create[missing + 2 :], base=None)


def test_intermediate_snapshots_of_one_request_stay_out_of_the_log():
    def snapshot(number, parent):
        return {**SNAPSHOT, "snapshot-id": number, "parent-snapshot-id": parent, "sequence-number": number}

    def to(number):
        return {"action": "set-snapshot-ref", "ref-name": "main", "snapshot-id": number, "type": "branch"}

    metadata = applied(
        {"action": "add-snapshot", "snapshot": snapshot(3, 2)}, to(3),
        {"action": "add-snapshot", "snapshot": snapshot(4, 3)}, to(4),
    )  # fmt: skip
    assert [entry.snapshot_id for entry in metadata.snapshot_log] == [1, 2, 4]


def test_equal_schemas_specs_and_orders_are_reused():
    once = applied(*EVERY[1:7])
    again = applied(*EVERY[1:7], base=once)
    assert again is once
    assert applied({"action": "add-schema", "schema": SCHEMA}, base=once) is once


def test_partition_fields_without_ids_get_those_of_the_tables_history():
    base = table(BY_BUCKET)
    spec = {"fields": [
        {"name": "d", "transform": "identity", "source-id": 2},
        {"name": "b", "transform": "bucket[16]", "source-id": 1},
    ]}  # fmt: skip
    metadata = applied({"action": "add-spec", "spec": spec}, base=base)
    assert [part.field_id for part in metadata.partition_specs[1].fields] == [1001, 1000]
    assert metadata.last_partition_id == 1001


def test_a_column_and_its_partition_field_go_together():
    base = table(BY_BUCKET)
    without_id = {"type": "struct", "fields": [{"id": 2, "name": "data", "required": False, "type": "string"}]}
    drop = ({"action": "add-schema", "schema": without_id}, {"action": "set-current-schema", "schema-id": -1})
    with pytest.raises(InvalidMetadata, match="cannot find source column 1 for id_bucket"):
        applied(*drop, base=base)
    unpartitioned = ({"action": "add-spec", "spec": {"fields": []}}, {"action": "set-default-spec", "spec-id": -1})
    assert applied(*drop, *unpartitioned, base=base).default_spec.fields == ()


@pytest.mark.parametrize(
    ("updates", "error", "complaint"),
    [
        ([{"action": "set-current-schema", "schema-id": -1}], InvalidMetadata, "no schema has been added"),
        ([{"action": "set-default-spec", "spec-id": -1}], InvalidMetadata, "no spec has been added"),
        ([{"action": "set-default-sort-order", "sort-order-id": -1}], InvalidMetadata, "no sort order has been added"),
        ([{"action": "set-current-schema", "schema-id": 7}], NotFound, "unknown schema: 7"),
        ([{"action": "set-default-spec", "spec-id": 7}], NotFound, "unknown spec: 7"),
        ([{"action": "set-default-sort-order", "sort-order-id": 7}], NotFound, "unknown order: 7"),
        ([{"action": "remove-schemas", "schema-ids": [0]}], InvalidInput, "cannot remove the current schema"),
        ([*EVERY[1:3], {"action": "remove-schemas", "schema-ids": [0]}], InvalidInput, "snapshot 1 has it"),
        ([{"action": "remove-partition-specs", "spec-ids": [0]}], InvalidInput, "default partition spec"),
        ([{"action": "remove-snapshots", "snapshot-ids": [2]}], InvalidMetadata, "cannot remove snapshot 2"),
        ([{"action": "upgrade-format-version", "format-version": 1}], InvalidMetadata, "cannot downgrade"),
        ([{"action": "upgrade-format-version", "format-version": 4}], Unsupported, "v4"),
        ([{"action": "assign-uuid", "uuid": UUID.replace("9", "8")}], InvalidMetadata, "cannot be reassigned"),
        ([{"action": "add-snapshot", "snapshot": {**SNAPSHOT, "sequence-number": 2}}], InvalidMetadata, "older than"),
        ([{"action": "set-snapshot-ref", "ref-name": "main", "snapshot-id": 1, "type": "tag"}], InvalidInput, "a tag"),
        ([{"action": "set-snapshot-ref", "ref-name": "b", "snapshot-id": 9, "type": "tag"}], NotFound, "unknown"),
        ([{"action": "set-statistics", "statistics": {**STATISTICS, "snapshot-id": 9}}], InvalidMetadata, "exist"),
        ([{"action": "set-properties", "updates": {"uuid": "x"}}], InvalidMetadata, "reserved"),
        ([{"action": "add-schema", "schema": {**SCHEMA, "fields": [SCHEMA["fields"][0]] * 2}}], InvalidSchema, "id 1"),
        ([{"action": "add-spec", "spec": {"fields": [
            {"name": "x", "transform": "day", "source-id": 1}]}}], InvalidMetadata, "day"),
    ],
)  # fmt: skip
def test_an_update_that_is_not_allowed_changes_nothing_and_is_named(updates, error, complaint):
    with pytest.raises(error) as caught:
        applied(*updates)
    assert complaint in str(caught.value)
    if isinstance(caught.value, InvalidInput) and not isinstance(caught.value, InvalidSchema):
        assert str(caught.value).startswith("updates[")


@pytest.mark.parametrize(
    ("update", "where"),
    [
        ({}, "u.action"),
        ({"action": "add-column"}, "u.action"),
        ({"action": "add-view-version"}, "u.action"),
        ([], "u"),
        ({"action": "assign-uuid"}, "u.uuid"),
        ({"action": "assign-uuid", "uuid": "x", "force": True}, "u.force"),
        ({"action": "set-properties", "updates": {"a": 1}}, "u.updates.a"),
        ({"action": "remove-properties", "removals": ["a", 1]}, "u.removals[1]"),
        ({"action": "remove-snapshots", "snapshot-ids": [1, 2**63]}, "u.snapshot-ids[1]"),
        ({"action": "remove-snapshots", "snapshot-ids": [True]}, "u.snapshot-ids[0]"),
        ({"action": "add-spec", "spec": []}, "u.spec"),
        ({"action": "add-schema"}, "u.schema"),
        ({"action": "set-snapshot-ref", "ref-name": "x", "snapshot-id": 1}, "u.type"),
        ({"action": "set-statistics", "statistics": {}}, "u.statistics.snapshot-id"),
        ({"action": "set-default-spec", "spec-id": "0"}, "u.spec-id"),
        ({"action": "add-encryption-key", "encryption-key": {}}, "u.encryption-key.key-id"),
    ],
)
def test_a_malformed_update_is_refused_by_member(update, where):
    with pytest.raises(InvalidInput) as caught:
        update_from_json(update, where="u")
    assert caught.value.where == where


def test_old_names_of_members_are_understood():
    old = [{"action": "set-properties", "updated": {"a": "b"}}, {"action": "remove-properties", "removed": ["a"]}]
    assert updates_from_json(old) == (SetProperties(updates={"a": "b"}), RemoveProperties(removals=("a",)))


def test_unknown_column_ids_of_a_schema_raise_the_last_one():
    schema = msgspec.structs.replace(BASE.current_schema, extra={"x": 1})
    assert isinstance(update_from_json({"action": "add-schema", "schema": SCHEMA}), AddSchema)
    assert apply_updates(BASE, [AddSchema(schema=schema)], now_ms=NOW) is BASE
    assert applied({"action": "add-schema", "schema": SCHEMA}).last_column_id == 3


def test_errors_are_of_firn():
    with pytest.raises(FirnError):
        applied({"action": "set-location", "location": ""})
