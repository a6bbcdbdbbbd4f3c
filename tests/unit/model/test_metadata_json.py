"""Table metadata survives its JSON in every format version, and wrong metadata is refused by name."""

from __future__ import annotations

import copy
import json

import msgspec
import pytest
from hypothesis import HealthCheck, given
from pyiceberg.table.metadata import TableMetadataUtil

from firn.model.errors import InvalidInput, InvalidMetadata, Unsupported
from firn.model.metadata_changes import set_statistics, upgrade
from firn.model.metadata_json import metadata_from_json, metadata_to_json
from firn.storage.metadata_files import encode_metadata
from tests.strategies.examples import examples
from tests.strategies.metadata import BY_BUCKET, BY_DATA, START_MS, appended, table, tables

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": True, "type": "long"}]}
V1_OLDEST = {
    "format-version": 1,
    "location": "s3://b/t/",
    "last-updated-ms": START_MS,
    "last-column-id": 1,
    "schema": SCHEMA,
    "partition-spec": [{"name": "x", "transform": "identity", "source-id": 1}],
}
STATISTICS = {
    "snapshot-id": 1,
    "statistics-path": "s3://b/t/stats.puffin",
    "file-size-in-bytes": 100,
    "file-footer-size-in-bytes": 20,
    "blob-metadata": [
        {"type": "apache-datasketches-theta-v1", "snapshot-id": 1, "sequence-number": 1, "fields": [1], "x": 1}
    ],
}


@pytest.fixture(params=[1, 2, 3])
def full(request):
    """JSON of a table with something in every list."""
    metadata = appended(table(BY_BUCKET, BY_DATA, format_version=request.param), 1, 2)
    metadata = set_statistics(metadata, STATISTICS, now_ms=START_MS)
    return json.loads(json.dumps(metadata_to_json(metadata)))


@given(tables())
@examples(60, suppress_health_check=[HealthCheck.too_slow])
def test_metadata_reads_back_as_it_was_written(metadata):
    obj = metadata_to_json(metadata)
    text = msgspec.json.encode(obj)
    assert metadata_from_json(text) == metadata
    assert metadata_to_json(metadata_from_json(text)) == json.loads(text)


@given(tables(versions=(1, 2)))
@examples(25, suppress_health_check=[HealthCheck.too_slow])
def test_pyiceberg_parses_arbitrary_metadata(metadata):
    theirs = TableMetadataUtil.parse_raw(msgspec.json.encode(metadata_to_json(metadata)).decode())
    assert [one.snapshot_id for one in theirs.snapshots] == [one.snapshot_id for one in metadata.snapshots]
    assert theirs.current_snapshot_id == metadata.current_snapshot_id
    assert set(theirs.refs) == set(metadata.refs)
    assert theirs.properties == metadata.properties


def test_pyiceberg_parses_a_table_with_everything_set(full):
    theirs = TableMetadataUtil.parse_raw(json.dumps(full))
    assert theirs.format_version == full["format-version"]
    assert theirs.current_snapshot_id == 2
    assert theirs.spec().fields[0].name == "id_bucket"
    assert theirs.sort_order().fields[0].source_id == 2
    assert theirs.statistics[0].file_size_in_bytes == 100


def test_the_oldest_v1_metadata_is_filled_in():
    metadata = metadata_from_json(V1_OLDEST)
    assert metadata.location == "s3://b/t"
    assert metadata.table_uuid == ""
    assert metadata.current_schema.schema_id == 0
    assert metadata.default_spec.fields[0].field_id == 1000
    assert metadata.last_partition_id == 1000
    assert metadata.default_order.fields == ()
    assert (metadata.snapshots, metadata.refs, metadata.properties, metadata.snapshot_log) == ((), {}, {}, ())
    assert metadata.current_snapshot is None
    assert metadata.last_sequence_number == 0


@pytest.mark.parametrize("key", ["schema", "partition-spec"])
def test_v1_needs_the_old_members_where_the_new_ones_are_missing(key):
    with pytest.raises(InvalidMetadata, match=f"{key}: missing"):
        metadata_from_json({name: value for name, value in V1_OLDEST.items() if name != key})


def test_v1_lists_without_a_choice_take_it_from_the_old_members():
    other = {"type": "struct", "schema-id": 4, "fields": []}
    same = {**SCHEMA, "schema-id": 3}
    specs = [{"spec-id": 5, "fields": V1_OLDEST["partition-spec"]}, {"spec-id": 6, "fields": []}]
    metadata = metadata_from_json({**V1_OLDEST, "schemas": [same, other], "partition-specs": specs})
    assert (metadata.current_schema_id, metadata.default_spec_id) == (3, 5)
    metadata = metadata_from_json({**V1_OLDEST, "schemas": [other], "partition-spec": None, "partition-specs": specs})
    assert (metadata.current_schema_id, metadata.default_spec_id) == (0, 6)


def test_v1_is_written_with_what_readers_of_v1_need():
    out = metadata_to_json(appended(table(BY_BUCKET, format_version=1), 1))
    assert out["schema"] == out["schemas"][0]
    assert out["partition-spec"] == out["partition-specs"][0]["fields"]
    assert "last-sequence-number" not in out
    assert "sequence-number" not in out["snapshots"][0]


def test_snapshots_from_before_an_upgrade_get_the_sequence_number_that_v2_requires():
    metadata = appended(table(BY_BUCKET, format_version=1), 1)
    upgraded = upgrade(metadata, 2, now_ms=START_MS)
    assert metadata_to_json(upgraded)["snapshots"][0]["sequence-number"] == 0
    for one, expected in ((metadata, None), (upgraded, 0)):
        stored = json.loads(encode_metadata(one))
        assert stored["snapshots"][0].get("sequence-number") == expected


@pytest.mark.parametrize(("version", "written"), [(1, -1), (2, -1), (3, None)])
def test_no_current_snapshot_is_spelled_as_java_spells_it(version, written):
    out = metadata_to_json(table(format_version=version))
    assert out["current-snapshot-id"] is written or out["current-snapshot-id"] == written
    for spelling in (-1, None):
        assert metadata_from_json({**out, "current-snapshot-id": spelling}).current_snapshot_id is None
    del out["current-snapshot-id"]
    assert metadata_from_json(out).current_snapshot_id is None


@pytest.mark.parametrize("refs", [None, {}, "absent"])
def test_main_follows_the_current_snapshot_where_refs_do_not_say(full, refs):
    full["refs"] = refs
    if refs == "absent":
        del full["refs"]
    metadata = metadata_from_json(full)
    assert metadata.current_snapshot_id == 2
    assert metadata.refs["main"].snapshot_id == 2
    assert metadata.head("main") is metadata.current_snapshot


def test_an_empty_list_of_sort_orders_is_mended(full):
    out = metadata_from_json({**full, "sort-orders": [], "default-sort-order-id": 0})
    assert metadata_to_json(out)["sort-orders"] == [{"order-id": 0, "fields": []}]


def test_v1_snapshots_may_list_manifests_and_lack_a_summary():
    snapshot = {"snapshot-id": 5, "timestamp-ms": START_MS, "manifests": ["s3://b/m0.avro"]}
    metadata = metadata_from_json({**V1_OLDEST, "snapshots": [snapshot], "current-snapshot-id": 5})
    assert metadata.snapshots[0].manifests == ("s3://b/m0.avro",)
    assert metadata.snapshots[0].operation is None
    assert metadata_to_json(metadata)["snapshots"] == [snapshot]


def test_a_summary_without_operation_reads_as_overwrite(full):
    full["snapshots"][0]["summary"] = {"total-records": "3"}
    assert metadata_from_json(full).snapshots[0].operation == "overwrite"


def test_unknown_members_survive_at_every_level(full):
    marked = copy.deepcopy(full)
    for obj in (
        marked,
        marked["snapshots"][0],
        marked["refs"]["main"],
        marked["schemas"][0],
        marked["schemas"][0]["fields"][0],
        marked["partition-specs"][0],
        marked["partition-specs"][0]["fields"][0],
        marked["sort-orders"][0],
        marked["sort-orders"][0]["fields"][0],
        marked["statistics"][0],
    ):
        obj["from-the-future"] = {"a": [1]}
    out = metadata_to_json(metadata_from_json(marked))
    for derived in ("schema", "partition-spec"):
        marked.pop(derived, None)
        out.pop(derived, None)
    assert out == marked


REQUIRED = {
    1: ["format-version", "location", "last-updated-ms", "last-column-id"],
    2: [
        "table-uuid", "last-sequence-number", "schemas", "current-schema-id", "partition-specs", "default-spec-id",
        "last-partition-id", "sort-orders", "default-sort-order-id",
    ],
    3: ["next-row-id"],
}  # fmt: skip


@pytest.mark.parametrize("key", [key for keys in REQUIRED.values() for key in keys])
def test_a_missing_required_member_is_named(full, key):
    version = full["format-version"]
    required = any(key in keys for since, keys in REQUIRED.items() if since <= version)
    full.pop(key, None)
    if required:
        with pytest.raises(InvalidMetadata) as caught:
            metadata_from_json(full)
        assert key in str(caught.value.where)
        assert "missing" in caught.value.message
    else:
        assert metadata_from_json(full).format_version == version


SNAPSHOT = "snapshots[1]"


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        (["format-version"], 0, "format-version"),
        (["format-version"], True, "format-version"),
        (["format-version"], "2", "format-version"),
        (["location"], "", "location"),
        (["location"], 3, "location"),
        (["last-updated-ms"], 2**63, "last-updated-ms"),
        (["last-updated-ms"], 1, "last-updated-ms"),
        (["last-column-id"], 2**31, "last-column-id"),
        (["schemas"], {}, "schemas"),
        (["schemas"], [], "current-schema-id"),
        (["current-schema-id"], 7, "current-schema-id"),
        (["partition-specs"], [], "default-spec-id"),
        (["default-spec-id"], 7, "default-spec-id"),
        (["default-sort-order-id"], 7, "default-sort-order-id"),
        (["properties"], [], "properties"),
        (["properties", "write.summary.partition-limit"], 5, "properties.write.summary.partition-limit"),
        (["current-snapshot-id"], 99, "current-snapshot-id"),
        (["current-snapshot-id"], 1, "refs.main"),
        (["current-snapshot-id"], -1, "refs.main"),
        (["refs"], [], "refs"),
        (["refs", "main"], None, "refs.main"),
        (["refs", "main", "type"], "tag", "refs.main"),
        (["refs", "main", "type"], "twig", "refs.main.type"),
        (["refs", "main", "snapshot-id"], 99, "refs.main"),
        (["refs", "main", "min-snapshots-to-keep"], 0, "refs.main.min-snapshots-to-keep"),
        (["refs", "v1"], {"snapshot-id": 1, "type": "tag", "max-snapshot-age-ms": 1}, "refs.v1.max-snapshot-age-ms"),
        (["snapshots"], {}, "snapshots"),
        (["snapshots", 1], 5, SNAPSHOT),
        (["snapshots", 1, "snapshot-id"], "2", f"{SNAPSHOT}.snapshot-id"),
        (["snapshots", 1, "snapshot-id"], 1, SNAPSHOT),
        (["snapshots", 1, "timestamp-ms"], None, f"{SNAPSHOT}.timestamp-ms"),
        (["snapshots", 1, "manifest-list"], None, f"{SNAPSHOT}.manifest-list"),
        (["snapshots", 1, "summary"], ["a"], f"{SNAPSHOT}.summary"),
        (["snapshots", 1, "summary", "total-records"], 3, f"{SNAPSHOT}.summary.total-records"),
        (["snapshots", 1, "sequence-number"], 9, f"{SNAPSHOT}.sequence-number"),
        (["snapshots", 1, "first-row-id"], -1, f"{SNAPSHOT}.first-row-id"),
        (["snapshot-log", 0], 1, "snapshot-log[0]"),
        (["snapshot-log", 1, "timestamp-ms"], START_MS - 10**6, "snapshot-log[1]"),
        (["metadata-log"], [{"timestamp-ms": 1}], "metadata-log[0].metadata-file"),
        (["statistics", 0, "statistics-path"], None, "statistics[0].statistics-path"),
        (["statistics", 0, "blob-metadata", 0, "fields"], 1, "statistics[0].blob-metadata[0].fields"),
        (["partition-statistics"], [{"snapshot-id": 1, "statistics-path": "p"}], "partition-statistics[0].file-size"),
    ],
)
def test_a_wrong_member_is_named(full, path, value, where):
    *parents, last = path
    obj = full
    for key in parents:
        obj = obj[key]
    obj[last] = value
    with pytest.raises(InvalidInput) as caught:
        metadata_from_json(full, where="t.json")
    assert str(caught.value.where).startswith(f"t.json.{where}")


@pytest.mark.parametrize("version", [4, 42, 2**31 - 1])
def test_a_newer_format_is_not_guessed_at(full, version):
    with pytest.raises(Unsupported, match=f"cannot read unsupported version {version}"):
        metadata_from_json({**full, "format-version": version})


@pytest.mark.parametrize("value", [None, [], "{}x", 5, b"[]"])
def test_something_else_than_an_object_is_refused(value):
    with pytest.raises(InvalidInput):
        metadata_from_json(value)


def test_encryption_keys_survive():
    out = metadata_to_json(table(format_version=3))
    keys = [{"key-id": "5f819b", "encrypted-key-metadata": "aWNlYmVyZwo=", "properties": {"a": "b"}}]
    assert metadata_to_json(metadata_from_json({**out, "encryption-keys": keys}))["encryption-keys"] == keys
    with pytest.raises(InvalidMetadata, match=r"encryption-keys\[0\].key-id"):
        metadata_from_json({**out, "encryption-keys": [{}]})
