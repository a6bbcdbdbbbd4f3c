"""Manifest lists: what firn writes it and PyIceberg read alike, numbers are assigned once, and damage is named."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import manifest as peer
from pyiceberg.io.pyarrow import PyArrowFileIO

from firn.model.errors import CorruptFile, InvalidInput, Unsupported
from firn.model.manifest import UNASSIGNED_SEQUENCE_NUMBER, FieldSummary
from firn.model.snapshot import Snapshot
from firn.storage.avro import SEAL_KEY, encode_block, open_avro, write_avro
from firn.storage.avro_schema import compile_schema
from firn.storage.manifest_lists import (
    assign_first_row_ids,
    assign_sequence_numbers,
    check_totals,
    decode_manifest_list,
    encode_manifest_list,
    total_mismatches,
)
from firn.storage.manifest_schema import manifest_list_schema
from tests.strategies.manifests import manifest, manifest_files

replace = msgspec.structs.replace
UNASSIGNED = UNASSIGNED_SEQUENCE_NUMBER


def encode(rows, *, version=2, snapshot_id=5, sequence_number=9, parent=None, first_row_id=None):
    return encode_manifest_list(
        rows,
        format_version=version,
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent,
        sequence_number=sequence_number,
        first_row_id=100 if version == 3 and first_row_id is None else first_row_id,
    )


def decode(data, **options):
    return decode_manifest_list(data, location="file:///t/list.avro", **options)


# ---------------------------------------------------------------------------------------------------------------------
# Round trips


@pytest.mark.parametrize("version", [1, 2, 3])
@settings(max_examples=40)
@given(data=st.data())
def test_every_manifest_survives_writing_and_reading(version, data):
    files = manifest_files(format_version=version)
    rows = data.draw(st.lists(files, max_size=4, unique_by=lambda one: one.manifest_path))
    assert decode(encode(rows, version=version), snapshot_id=5) == rows


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("names", ["aa", "aba", "abcb"])
def test_a_list_that_names_a_manifest_twice_is_refused(version, names):
    ids = {"first_row_id": 40} if version == 3 else {}
    data = encode([manifest(name, **ids) for name in names], version=version)
    with pytest.raises(CorruptFile, match="is listed twice"):
        decode(data)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_pyiceberg_reads_what_firn_writes(version, tmp_path):
    summaries = (
        FieldSummary(contains_null=True, contains_nan=False),
        FieldSummary(contains_null=False, contains_nan=None, lower_bound=b"\1", upper_bound=b"\2"),
    )
    ids = {"first_row_id": 40} if version == 3 else {}
    numbers = {} if version > 1 else {"sequence_number": 0, "min_sequence_number": 0}
    rows = [manifest("a", partitions=summaries, **ids, **numbers)]
    if version > 1:
        rows.append(manifest("b", content="deletes", min_sequence_number=0, key_metadata=b"k", partition_spec_id=3))
    path = tmp_path / "list.avro"
    path.write_bytes(encode(rows, version=version))
    found = list(peer.read_manifest_list(PyArrowFileIO().new_input(str(path))))
    assert [describe_peer(row) for row in found] == [describe(row) for row in rows]


def describe(row):
    return (
        row.manifest_path, row.manifest_length, row.partition_spec_id, row.content, row.sequence_number,
        row.min_sequence_number, row.added_snapshot_id, row.added_files_count, row.existing_files_count,
        row.deleted_files_count, row.added_rows_count, row.existing_rows_count, row.deleted_rows_count,
        row.key_metadata,
        [(s.contains_null, s.contains_nan, s.lower_bound, s.upper_bound) for s in row.partitions],
    )  # fmt: skip


def describe_peer(row):
    return (
        row.manifest_path, row.manifest_length, row.partition_spec_id, "deletes" if row.content else "data",
        row.sequence_number, row.min_sequence_number, row.added_snapshot_id, row.added_files_count,
        row.existing_files_count, row.deleted_files_count, row.added_rows_count, row.existing_rows_count,
        row.deleted_rows_count, row.key_metadata,
        [(s.contains_null, s.contains_nan, s.lower_bound, s.upper_bound) for s in row.partitions],
    )  # fmt: skip


@pytest.mark.parametrize("version", [1, 2])
def test_firn_reads_what_pyiceberg_writes(version, tmp_path):
    row = manifest("a", partitions=(FieldSummary(contains_null=True, contains_nan=False, lower_bound=b"\1"),))
    summary = peer.PartitionFieldSummary.from_args(
        contains_null=True, contains_nan=False, lower_bound=b"\1", upper_bound=None
    )
    members = {name: getattr(row, name) for name in row.__struct_fields__ if name not in {"first_row_id", "extra"}}
    members |= {"content": peer.ManifestContent.DATA, "partitions": [summary]}
    path = tmp_path / "list.avro"
    output = PyArrowFileIO().new_output(str(path))
    with peer.write_manifest_list(version, output, 5, 4, 9, "deflate") as writer:
        writer.add_manifests([peer.ManifestFile.from_args(**members)])
    if version == 1:
        row = replace(row, sequence_number=0, min_sequence_number=0)
    assert decode(path.read_bytes(), snapshot_id=5) == [row]


# ---------------------------------------------------------------------------------------------------------------------
# What is written


HEADERS = {
    1: {"snapshot-id": "5", "parent-snapshot-id": "4", "format-version": "1"},
    2: {"snapshot-id": "5", "parent-snapshot-id": "4", "sequence-number": "9", "format-version": "2"},
    3: {
        "snapshot-id": "5",
        "parent-snapshot-id": "4",
        "sequence-number": "9",
        "first-row-id": "100",
        "format-version": "3",
    },
}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_header_is_what_java_writes(version):
    file = open_avro(encode([], version=version, parent=4), location="list")
    said = {key: file.text(key) for key in file.metadata if not key.startswith("avro.")}
    assert said == {**HEADERS[version], SEAL_KEY: "blake2b-128"}
    assert open_avro(encode([], version=version), location="list").text("parent-snapshot-id") == "null"


V2_IDS = [500, 501, 502, 517, 515, 516, 503, 504, 505, 506, 512, 513, 514, 507, 519]


@pytest.mark.parametrize(
    ("version", "ids"),
    [(1, [500, 501, 502, 503, 504, 505, 506, 507, 512, 513, 514, 519]), (2, V2_IDS), (3, [*V2_IDS, 520])],
)
def test_fields_have_the_ids_and_the_order_that_java_writes(version, ids):
    root = json.loads(manifest_list_schema(version))
    assert root["name"] == "manifest_file"
    assert [field["field-id"] for field in root["fields"]] == ids
    partitions = next(field for field in root["fields"] if field["field-id"] == 507)["type"][1]
    assert partitions["element-id"] == 508
    assert [field["field-id"] for field in partitions["items"]["fields"]] == [509, 518, 510, 511]


@pytest.mark.parametrize(
    ("row", "options", "why"),
    [
        (manifest(content="deletes"), {"version": 1}, "no delete manifests"),
        (manifest(added_snapshot_id=None), {}, "no added_snapshot_id"),
        (manifest(added_rows_count=None), {}, "need all counts"),
        (manifest(), {"version": 3}, "need a first row id"),
        (manifest(content="deletes", first_row_id=1), {"version": 3}, "delete manifests have none"),
        (manifest(), {"first_row_id": 0}, "belongs to v3"),
        (manifest(sequence_number=UNASSIGNED), {}, "no sequence number, but added by snapshot 1"),
        (manifest(min_sequence_number=UNASSIGNED), {}, "no sequence number, but added by snapshot 1"),
    ],
)
def test_rows_that_the_version_does_not_allow_are_refused(row, options, why):
    with pytest.raises(InvalidInput, match=why):
        encode([row], **options)


def test_a_v3_list_without_a_first_row_id_is_refused():
    with pytest.raises(InvalidInput, match="required"):
        encode_manifest_list([], format_version=3, snapshot_id=1, parent_snapshot_id=None, sequence_number=1)


def test_counts_that_a_v1_list_left_out_stay_unknown():
    row = manifest(added_files_count=None, deleted_rows_count=None, partitions=None)
    row = replace(row, sequence_number=0, min_sequence_number=0)
    (found,) = decode(encode([row], version=1))
    assert (found.added_files_count, found.deleted_rows_count, found.partitions) == (None, None, None)
    assert found.may_have_live_files
    assert (found.live_files_count, found.live_rows_count) == (None, 10)


# ---------------------------------------------------------------------------------------------------------------------
# Assigning


def test_new_manifests_get_the_commits_number_and_old_ones_keep_theirs():
    new = manifest("new", added_snapshot_id=5, sequence_number=UNASSIGNED, min_sequence_number=UNASSIGNED)
    mixed = manifest("mixed", added_snapshot_id=5, sequence_number=UNASSIGNED, min_sequence_number=2)
    old = manifest("old", sequence_number=3, min_sequence_number=1)
    expected = [(9, 9), (9, 2), (3, 1)]
    rows = assign_sequence_numbers([new, mixed, old], snapshot_id=5, sequence_number=9)
    assert [(row.sequence_number, row.min_sequence_number) for row in rows] == expected
    written = decode(encode([new, mixed, old]))
    assert [(row.sequence_number, row.min_sequence_number) for row in written] == expected


def test_the_specifications_example_of_first_row_ids():
    rows = [
        manifest("existing", added_rows_count=75, existing_rows_count=0, first_row_id=925),
        manifest("added1", added_rows_count=100, existing_rows_count=25),
        manifest("added2", added_rows_count=0, existing_rows_count=100),
        manifest("deletes", content="deletes", added_rows_count=7),
        manifest("added3", added_rows_count=125, existing_rows_count=25),
    ]
    assigned, next_row_id = assign_first_row_ids(rows, 1000)
    assert [row.first_row_id for row in assigned] == [925, 1000, 1125, None, 1225]
    assert next_row_id == 1375


def test_row_ids_are_not_given_out_where_row_counts_are_unknown():
    with pytest.raises(InvalidInput, match="row ids need row counts"):
        assign_first_row_ids([manifest(existing_rows_count=None)], 0)


@settings(max_examples=50)
@given(st.lists(manifest_files(format_version=3), max_size=6), st.integers(0, 2**40))
def test_row_id_ranges_of_new_manifests_never_overlap(rows, next_row_id):
    fresh = [replace(row, first_row_id=None) for row in rows]
    assigned, after = assign_first_row_ids(fresh, next_row_id)
    edges = [next_row_id]
    for row in assigned:
        if row.content == "data":
            first, rows_in_it = row.first_row_id, row.live_rows_count
            assert first is not None
            assert rows_in_it is not None
            edges += [first, first + rows_in_it]
    edges.append(after)
    assert edges == sorted(edges)
    assert all(row.first_row_id is None for row in assigned if row.content == "deletes")


# ---------------------------------------------------------------------------------------------------------------------
# Reading what others wrote, and damage


def list_of(record, fields=None):
    """A list of one row, given by field id, written with only the fields that it has."""
    root = json.loads(manifest_list_schema(3))
    root["fields"] = [field for field in root["fields"] if f"f{field['field-id']}" in record]
    for field in root["fields"]:
        field["type"] = (fields or {}).get(field["field-id"], field["type"])
    text = json.dumps(root).encode()
    return write_avro(text, [(1, encode_block(compile_schema(text), [record]))], metadata={}, codec="null")


LEAST = {"f500": "m", "f501": 7, "f502": 0}


def test_an_old_list_with_only_the_oldest_fields_is_read():
    (row,) = decode(list_of({**LEAST, "f503": 3}))
    assert (row.content, row.sequence_number, row.min_sequence_number) == ("data", 0, 0)
    assert (row.added_snapshot_id, row.added_files_count, row.partitions, row.first_row_id) == (3, None, None, None)
    assert decode(list_of(LEAST))[0].added_snapshot_id is None


@pytest.mark.parametrize(
    ("record", "fields", "why"),
    [
        ({"f500": "m", "f501": 1}, {}, "manifest_file.502: missing"),
        ({**LEAST, "f500": ""}, {}, "manifest ''"),
        ({**LEAST, "f501": -1}, {}, "length -1"),
        ({**LEAST, "f517": 2}, {}, "content 2"),
        ({**LEAST, "f504": -1}, {}, "negative counts"),
        ({**LEAST, "f500": b"m"}, {500: "bytes"}, "a bytes instead of string"),
        ({**LEAST, "f507": [1]}, {507: {"type": "array", "items": "int"}}, "other than records"),
    ],
)
def test_rows_that_no_list_has_are_refused(record, fields, why):
    with pytest.raises(CorruptFile, match=why):
        decode(list_of(record, fields))


def test_another_snapshots_list_is_refused():
    with pytest.raises(CorruptFile, match="the manifest list of snapshot 5, not of 6"):
        decode(encode([manifest()]), snapshot_id=6)


def test_a_list_of_a_later_format_is_unsupported_not_corrupt():
    text = manifest_list_schema(3)
    with pytest.raises(Unsupported, match="format version 4"):
        decode(write_avro(text, [], metadata={"format-version": "4"}, codec="null"))


def test_flipped_bytes_are_refused_or_read_as_other_values_but_never_crash():
    data = encode([manifest(f"s3://b/t/{i}.avro") for i in range(5)])
    refused = 0
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 1 << (at % 8)
        try:
            decode(bytes(broken), snapshot_id=5)
        except (CorruptFile, Unsupported):
            refused += 1
    assert refused > len(data) // 2


# ---------------------------------------------------------------------------------------------------------------------
# Totals


TOTALS = {
    "operation": "append",
    "total-data-files": "3",
    "total-delete-files": "1",
    "total-records": "30",
    "total-position-deletes": "4",
    "total-equality-deletes": "6",
}
ROWS = [
    manifest("a", added_files_count=1, existing_files_count=1, added_rows_count=10, existing_rows_count=10),
    manifest("b", deleted_files_count=7, deleted_rows_count=70),
    manifest("c", content="deletes"),
]


def snapshot(summary):
    return Snapshot(snapshot_id=5, timestamp_ms=1, manifest_list="file:///t/list.avro", summary=summary)


def test_totals_that_agree_pass():
    check_totals(snapshot(TOTALS), ROWS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("total-data-files", "4"),
        ("total-delete-files", "0"),
        ("total-records", "31"),
        ("total-position-deletes", "5"),
        ("total-equality-deletes", "-6"),
        ("total-records", "many"),
    ],
)
def test_a_total_that_differs_names_the_manifest_list(name, value):
    with pytest.raises(CorruptFile, match=f"{name}.* is ") as caught:
        check_totals(snapshot({**TOTALS, name: value}), ROWS)
    assert caught.value.location == "file:///t/list.avro"


def test_a_list_cut_between_blocks_is_noticed_by_its_totals():
    assert len(total_mismatches(snapshot(TOTALS), ROWS[:1])) == 4


@pytest.mark.parametrize("summary", [None, {}, {"operation": "append"}, {"total-position-deletes": "99"}])
def test_totals_that_are_not_stated_are_not_compared(summary):
    assert total_mismatches(snapshot(summary), ROWS) == ()


def test_totals_are_not_compared_with_counts_that_an_old_list_left_out():
    assert total_mismatches(snapshot(TOTALS), [replace(ROWS[0], existing_files_count=None), *ROWS[1:]]) == ()
