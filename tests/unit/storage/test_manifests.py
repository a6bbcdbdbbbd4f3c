"""Manifests: entries survive writing and reading, and inherit what they must.

Whatever is decoded here is also walked over for the locations of its live files, which must be the same.
"""

import json
import math
import re
import uuid
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from firn.model.errors import CorruptFile, InvalidInput, Unsupported
from firn.model.internal_values import decimal_width
from firn.model.manifest import UNASSIGNED_SEQUENCE_NUMBER, Status
from firn.model.manifest_summary import ManifestCounts
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.types import DOUBLE, NestedField, StructType
from firn.storage.avro import SEAL_KEY, open_avro
from firn.storage.manifest_schema import avro_name, manifest_schema
from firn.storage.manifests import (
    BLOCK_ENTRIES,
    encode_manifests,
    manifest_file,
)
from tests.strategies.examples import examples
from tests.strategies.manifests import (
    DAY_SCHEMA,
    DAY_SPEC,
    EXAMPLE_PARTITION,
    SCHEMA,
    SPEC,
    added,
    deleted,
    entries,
    existing,
)
from tests.unit.storage.manifest_writing import (
    COMMIT,
    committed,
    decode,
    encode,
    replace,
)

# ---------------------------------------------------------------------------------------------------------------------
# Round trips


def as_read(entry, *, version, number):
    """What must come back of an entry that `encode_manifest` was given, in a manifest of this number."""
    file = entry.data_file
    if version == 1:
        return replace(
            entry, snapshot_id=5 if entry.status is Status.ADDED else entry.snapshot_id, sequence_number=number,
            file_sequence_number=number,
        )  # fmt: skip
    if entry.status is not Status.ADDED:
        return entry
    return replace(
        entry,
        snapshot_id=5,
        sequence_number=number if entry.sequence_number is None else entry.sequence_number,
        file_sequence_number=number,
        data_file=replace(file, first_row_id=None),
    )


@pytest.mark.parametrize(
    ("version", "content"), [(1, "data"), (2, "data"), (2, "deletes"), (3, "data"), (3, "deletes")]
)
@examples(25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_every_entry_survives_writing_and_reading(version, content, data):
    kinds = ["data"] if content == "data" else ["position-deletes", "equality-deletes"]
    each = st.sampled_from(kinds).flatmap(lambda kind: entries(content=kind, format_version=version))
    rows = data.draw(st.lists(each, min_size=1, max_size=4))
    encoded = encode(rows, version=version, content=content, spec=SPEC, schema=SCHEMA)
    number = 0 if version == 1 else COMMIT
    row = committed(encoded, sequence_number=number)
    decoded = decode(encoded, row, spec=SPEC, schema=SCHEMA, committed=False)
    wanted = [as_read(entry, version=version, number=number) for entry in rows]
    if version == 1:
        wanted = [replace(w, data_file=replace(w.data_file, referenced_data_file=None)) for w in wanted]
    assert decoded == wanted
    # Equal floats may differ in the sign of zero, which orders them.
    assert repr(decoded) == repr(wanted)


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_entries_survive_every_codec_over_many_blocks(codec):
    rows = [added(f"s3://b/t/{i}.parquet") for i in range(BLOCK_ENTRIES * 2 + 1)]
    encoded = encode(rows, codec=codec)
    assert [e.data_file for e in decode(encoded)] == [e.data_file for e in rows]


def test_nan_and_both_zeros_keep_their_bits():
    schema = Schema(schema_id=0, struct=StructType((NestedField(field_id=1, name="d", type=DOUBLE, required=False),)))
    field = PartitionField(source_ids=(1,), field_id=1000, name="d", transform="identity")
    spec = PartitionSpec(spec_id=0, fields=(field,))
    values = [0.0, -0.0, math.nan, math.inf, None]
    encoded = encode([added(f"{v}", partition=(v,)) for v in values], schema=schema, spec=spec)
    assert repr([e.data_file.partition[0] for e in decode(encoded, schema=schema, spec=spec)]) == repr(values)
    (summary,) = encoded.partitions
    assert (summary.contains_null, summary.contains_nan) == (True, True)
    assert summary.lower_bound == bytes.fromhex("0000000000000080")  # -0.0, which Python calls equal to the next
    assert summary.upper_bound == bytes.fromhex("000000000000f07f")


def test_the_same_entries_give_the_same_bytes():
    assert encode([added()]).data == encode([added()]).data


# ---------------------------------------------------------------------------------------------------------------------
# What is written


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_header_has_what_the_specification_requires(version):
    file = open_avro(encode([added()], version=version).data, location="m")
    header = {key: file.text(key) or "" for key in file.metadata if not key.startswith("avro.")}
    assert header.pop("content", None) == (None if version == 1 else "data")
    assert json.loads(header.pop("schema"))["fields"][0]["name"] == "ts"
    assert [field["field-id"] for field in json.loads(header.pop("partition-spec"))] == [1000, 1001]
    assert header.pop(SEAL_KEY) == "blake2b-128"
    assert header == {"schema-id": "0", "partition-spec-id": "0", "format-version": str(version)}


FIELD_IDS = {
    1: [100, 101, 102, 103, 104, 105, 108, 109, 110, 137, 125, 128, 131, 132, 140],
    2: [134, 100, 101, 102, 103, 104, 108, 109, 110, 137, 125, 128, 131, 132, 135, 140, 143],
    3: [134, 100, 101, 102, 103, 104, 108, 109, 110, 137, 125, 128, 131, 132, 135, 140, 142, 143, 144, 145],
}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_fields_have_the_ids_and_the_order_that_java_writes(version):
    root = json.loads(manifest_schema(StructType(()), version))
    assert root["name"] == "manifest_entry"
    assert [field["field-id"] for field in root["fields"]] == ([0, 1, 2] if version == 1 else [0, 1, 3, 4, 2])
    data_file_type = root["fields"][-1]["type"]
    assert [field["field-id"] for field in data_file_type["fields"]] == FIELD_IDS[version]
    sizes = next(field for field in data_file_type["fields"] if field["field-id"] == 108)["type"]
    assert sizes[0] == "null"
    assert sizes[1]["logicalType"] == "map"
    assert [field["field-id"] for field in sizes[1]["items"]["fields"]] == [117, 118]
    optional = [field for field in data_file_type["fields"] if isinstance(field["type"], list)]
    assert all(field["default"] is None for field in optional)


def test_partition_names_are_made_valid_for_avro_and_stay_unique():
    fields = json.loads(manifest_schema_of(SPEC))["fields"]
    names = [field["name"] for field in fields]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) for name in names)
    originals = {field["field-id"]: field.get("iceberg-field-name", field["name"]) for field in fields}
    assert originals == {field.field_id: field.name for field in SPEC.fields}


def manifest_schema_of(spec):
    file = open_avro(
        encode([added(spec_id=7, partition=EXAMPLE_PARTITION)], spec=spec, schema=SCHEMA).data, location="m"
    )
    root = json.loads(file.metadata["avro.schema"])
    data_file_type = root["fields"][-1]["type"]
    return json.dumps(next(field["type"] for field in data_file_type["fields"] if field["field-id"] == 102))


@pytest.mark.parametrize(
    ("name", "spelled"),
    [("a_1", "a_1"), ("1a", "_1a"), ("a b", "a_x20b"), ("é", "_xE9"), ("🧊", "_xD83E_xDDCA"), ("a.b", "a_x2Eb")],
)
def test_names_are_escaped_as_java_escapes_them(name, spelled):
    assert avro_name(name) == spelled


def test_decimals_take_the_fewest_bytes_for_their_precision():
    assert [decimal_width(precision) for precision in (1, 2, 3, 4, 9, 10, 18, 19, 38)] == [1, 1, 2, 2, 4, 5, 8, 9, 16]


def test_two_partition_fields_of_one_decimal_type_do_not_define_a_name_twice():
    fields = tuple(
        PartitionField(source_ids=(16,), field_id=1000 + i, name=f"d{i}", transform="identity") for i in range(2)
    )
    spec = PartitionSpec(spec_id=0, fields=fields)
    value = Decimal("1.50")
    encoded = encode([added(partition=(value, value))], spec=spec, schema=SCHEMA)
    assert decode(encoded, spec=spec, schema=SCHEMA)[0].data_file.partition == (value, value)
    text = open_avro(encoded.data, location="m").metadata["avro.schema"].decode()
    assert len(set(re.findall(r'"name":"(decimal_[^"]+)"', text))) == 2


def test_a_manifest_is_described_by_its_counts_numbers_and_partition_ranges():
    rows = [
        added("a", partition=(10, 3), record_count=1),
        existing("b", sequence_number=4, partition=(None, 1), record_count=2),
        existing("c", sequence_number=6, partition=(30, 2), record_count=4),
        deleted("d", sequence_number=2, partition=(20, 2), record_count=8),
    ]
    encoded = encode(rows)
    assert encoded.counts == ManifestCounts(
        added_files=1, existing_files=2, deleted_files=1, added_rows=1, existing_rows=6, deleted_rows=8
    )
    assert encoded.min_sequence_number == 4  # a tombstone's number does not count: its file applies to nothing
    day, bucket = encoded.partitions
    assert (day.contains_null, day.lower_bound, day.upper_bound) == (True, b"\x0a\0\0\0", b"\x1e\0\0\0")
    assert (bucket.contains_null, bucket.contains_nan) == (False, False)
    row = manifest_file(encoded, "file:///m")
    assert (row.manifest_length, row.sequence_number, row.min_sequence_number) == (len(encoded.data), -1, 4)
    assert manifest_file(encode([added()]), "file:///m").min_sequence_number == UNASSIGNED_SEQUENCE_NUMBER


def test_manifests_are_split_between_blocks_once_they_reach_the_target():
    rows = [added(f"s3://b/t/{uuid.UUID(int=i * 7919**9 % 2**128)}.parquet") for i in range(BLOCK_ENTRIES * 5)]
    whole = encode(rows)
    parts = encode_manifests(
        rows, schema=DAY_SCHEMA, spec=DAY_SPEC, content="data", format_version=2, snapshot_id=5,
        target_bytes=len(whole.data) // 3,
    )  # fmt: skip
    assert len(parts) > 2
    assert all(part.counts.added_files % BLOCK_ENTRIES == 0 for part in parts)
    paths = [entry.data_file.file_path for part in parts for entry in decode(part)]
    assert paths == [entry.data_file.file_path for entry in rows]
    nothing = encode_manifests([], schema=DAY_SCHEMA, spec=DAY_SPEC, content="data", format_version=2, snapshot_id=5)
    assert nothing == []


@pytest.mark.parametrize(
    ("rows", "options", "why"),
    [
        ([], {}, "at least one entry"),
        ([added(spec_id=1)], {}, "of spec 1 in a manifest of 0"),
        ([added(content="position-deletes")], {}, "position-deletes in a manifest of data"),
        ([added()], {"content": "deletes"}, "data in a manifest of deletes"),
        ([added(content="equality-deletes")], {"content": "deletes"}, "without equality ids"),
        ([added(content="position-deletes", file_format="puffin")], {"content": "deletes", "version": 3}, "Puffin"),
        ([added(snapshot_id=4)], {}, "added by snapshot 4, not 5"),
        ([replace(existing(), snapshot_id=None)], {}, "without a snapshot id"),
        ([replace(deleted(), sequence_number=None)], {}, "without a data sequence number"),
        ([added(content="position-deletes")], {"content": "deletes", "version": 1}, "a v1 manifest"),
        ([added()], {"version": 1, "snapshot_id": None}, "a v1 manifest"),
        ([added(partition=(1,))], {}, "1 value for 2 fields"),
        ([added(partition=("x", 1))], {}, "partition.ts_day"),
        ([added(partition=(2**31, 1))], {}, "partition.ts_day"),
        ([added(record_count=2**64)], {}, "Avro type"),
    ],
)
def test_entries_that_no_manifest_may_hold_are_refused(rows, options, why):
    with pytest.raises(InvalidInput, match=why):
        encode(rows, **options)


def test_a_format_version_that_firn_does_not_know_is_refused():
    with pytest.raises(Unsupported, match="format version 4"):
        encode([added()], version=4)


# ---------------------------------------------------------------------------------------------------------------------
# Inheritance


def test_added_files_take_their_numbers_from_the_manifest_and_others_keep_theirs():
    rows = [added("a"), added("b", sequence_number=3), existing("c", sequence_number=2), deleted("d", snapshot_id=5)]
    first, second, third, fourth = decode(encode(rows))
    assert (first.snapshot_id, first.sequence_number, first.file_sequence_number) == (5, COMMIT, COMMIT)
    assert (second.sequence_number, second.file_sequence_number) == (3, COMMIT)
    assert (third.snapshot_id, third.sequence_number, third.file_sequence_number) == (1, 2, 2)
    assert (fourth.snapshot_id, fourth.sequence_number, fourth.file_sequence_number) == (5, 1, 1)


def test_a_manifest_that_is_not_committed_leaves_numbers_open():
    encoded = encode([added("a"), existing("b", sequence_number=2)], snapshot_id=None)
    row = manifest_file(encoded, "file:///m")
    new, old = decode(encoded, row, committed=False)
    assert (new.snapshot_id, new.sequence_number, new.file_sequence_number) == (None, None, None)
    assert old.sequence_number == 2


def test_v1_manifests_in_later_tables_are_of_age_zero():
    encoded = encode([added("a"), existing("b"), deleted("c")], version=1)
    decoded = decode(encoded, committed(encoded, sequence_number=0))
    assert [(e.sequence_number, e.file_sequence_number) for e in decoded] == [(0, 0)] * 3
    assert all(e.data_file.content == "data" for e in decoded)


def test_a_v1_manifest_that_a_later_commit_adds_is_as_old_as_that_commit():
    # Age zero would let every equality delete of the table apply to rows that came after it.
    encoded = encode([added("a")], version=1)
    assert decode(encoded, committed(encoded, sequence_number=COMMIT))[0].sequence_number == COMMIT


def test_row_ids_are_given_to_live_files_without_one_in_order():
    rows = [
        existing("a", first_row_id=800, record_count=25),
        added("b", record_count=50),
        deleted("c", record_count=1000),
        added("d", first_row_id=7, record_count=50),
        existing("e", record_count=5),
    ]
    encoded = encode(rows, version=3)
    decoded = decode(encoded, committed(encoded, first_row_id=1000))
    assert [e.data_file.first_row_id for e in decoded] == [800, 1000, None, 1050, 1100]


def test_row_ids_of_snapshots_from_before_row_lineage_are_null():
    encoded = encode([existing("a", first_row_id=800)], version=3)
    assert decode(encoded)[0].data_file.first_row_id is None
    assert decode(encoded, committed=False)[0].data_file.first_row_id == 800


def test_delete_files_have_no_row_ids():
    encoded = encode([existing("a", content="position-deletes", first_row_id=3)], content="deletes", version=3)
    assert decode(encoded, committed=False)[0].data_file.first_row_id is None


def test_an_existing_file_whose_age_is_lost_is_refused():
    encoded = encode([existing("a")], version=1)
    with pytest.raises(CorruptFile, match="existing file without a data sequence number"):
        decode(encoded, committed(encoded, sequence_number=COMMIT))


@pytest.mark.parametrize(("count", "is_stored"), [(16, True), (BLOCK_ENTRIES - 1, True), (BLOCK_ENTRIES, False)])
def test_few_entries_are_stored_as_they_are_and_full_blocks_are_compressed(count, is_stored):
    listed = [added(f"/warehouse/t/data/{number:05d}.parquet") for number in range(count)]
    (encoded,) = encode_manifests(
        listed, schema=DAY_SCHEMA, spec=DAY_SPEC, content="data", format_version=2, snapshot_id=1
    )
    contains_paths = all(entry.data_file.file_path.encode() in encoded.data for entry in listed)
    assert contains_paths == is_stored
