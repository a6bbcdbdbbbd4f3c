"""Manifests: what firn writes it and PyIceberg read alike, entries inherit what they must, and damage is named.

Whatever is decoded here is also walked over for the locations of its live files, which must be the same.
"""

import json
import math
import re
import uuid
from decimal import Decimal

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg import manifest as peer
from pyiceberg import schema as peer_schema
from pyiceberg import types as peer_types
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField as PeerField
from pyiceberg.partitioning import PartitionSpec as PeerSpec
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.typedef import Record

from firn.model.errors import CorruptFile, InvalidInput, Unsupported
from firn.model.manifest import UNASSIGNED_SEQUENCE_NUMBER, Status
from firn.model.manifest_summary import ManifestCounts
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.types import DOUBLE, LONG, TIMESTAMP_NS, TIMESTAMPTZ_NS, UUID, DecimalType, NestedField, StructType
from firn.storage.avro import SEAL_KEY, compress, encode_block, open_avro, write_avro
from firn.storage.avro_schema import compile_schema
from firn.storage.manifest_paths import live_paths
from firn.storage.manifest_schema import avro_name, decimal_width, manifest_schema
from firn.storage.manifests import (
    BLOCK_ENTRIES,
    decode_manifest,
    encode_manifest,
    encode_manifests,
    manifest_file,
    manifest_file_of_v1,
)
from tests.strategies.manifests import (
    DAY_SCHEMA,
    DAY_SPEC,
    EXAMPLE_PARTITION,
    SCHEMA,
    SPEC,
    TYPES,
    added,
    data_file,
    deleted,
    entries,
    existing,
)
from tests.strategies.older_avro import unsealed

replace = msgspec.structs.replace
COMMIT = 9


def encode(rows, *, version=2, content="data", spec=DAY_SPEC, schema=DAY_SCHEMA, snapshot_id=5, **options):
    return encode_manifest(
        rows,
        schema=schema,
        spec=spec,
        content=content,
        format_version=version,
        snapshot_id=snapshot_id,
        **options,
    )


def committed(encoded, path="file:///t/m.avro", *, sequence_number=COMMIT, first_row_id=None):
    """The manifest's row once its snapshot has numbers."""
    row = manifest_file(encoded, path)
    least = row.min_sequence_number
    return replace(
        row,
        sequence_number=sequence_number,
        min_sequence_number=sequence_number if least == UNASSIGNED_SEQUENCE_NUMBER else least,
        first_row_id=first_row_id,
    )


def decode(encoded, row=None, *, spec=DAY_SPEC, schema=DAY_SCHEMA, **options):
    row = committed(encoded) if row is None else row
    return decoded_and_walked(encoded.data, manifest=row, specs={spec.spec_id: spec}, schemas=[schema], **options)


def decoded_and_walked(data, *, manifest, **options):
    """The entries; of a data manifest their live locations must be found without decoding, too."""
    entries = decode_manifest(data, manifest=manifest, **options)
    if manifest.content == "data":
        assert live_paths(data, manifest=manifest) == [e.data_file.file_path for e in entries if e.is_live]
    return entries


def refused_by_both(data, why, *, manifest, **options):
    """Neither decoding nor walking takes the bytes; what decoding says of them."""
    with pytest.raises(CorruptFile):
        live_paths(data, manifest=manifest)
    with pytest.raises(CorruptFile, match=why) as caught:
        decode_manifest(data, manifest=manifest, **options)
    return caught.value


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
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
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
        ([added(partition=(1,))], {}, "1 values for 2 fields"),
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


# ---------------------------------------------------------------------------------------------------------------------
# Reading what others wrote


def rewritten(encoded, change_schema, *, metadata=None):
    """The manifest under another schema text of the same layout."""
    file = open_avro(encoded.data, location="m")
    root = json.loads(file.metadata["avro.schema"])
    change_schema(root)
    header = {k: v.decode() for k, v in file.metadata.items() if not k.startswith("avro.")}
    header = {**header, **(metadata or {})}
    blocks = [(block.count, encoded.data[block.start : block.end]) for block in file.blocks]
    data = write_avro(json.dumps(root).encode(), blocks, metadata=header, codec=file.codec)
    return replace(encoded, data=data)


def rename_everything(node):
    if isinstance(node, dict):
        if "field-id" in node:
            node["name"] = f"n{node['field-id']}"
        for child in node.values():
            rename_everything(child)
    elif isinstance(node, list):
        for child in node:
            rename_everything(child)


def test_fields_are_found_by_id_whatever_other_writers_call_them():
    rows = [added("a", lower_bounds={1: b"x"}, split_offsets=(4,))]
    encoded = encode(rows)
    foreign = rewritten(encoded, rename_everything)
    assert foreign.data != encoded.data
    assert decode(foreign) == decode(encoded)


def test_unknown_fields_are_passed_over():
    root = json.loads(manifest_schema(StructType(()), 1))
    data_file_type = root["fields"][-1]["type"]
    extra = {"type": "array", "element-id": 112, "items": "int"}
    data_file_type["fields"].append({"name": "sort_columns", "type": ["null", extra], "field-id": 107})
    counts = next(f["type"][1] for f in data_file_type["fields"] if f["field-id"] == 109)
    distinct = json.loads(json.dumps(counts).replace("k119_v120", "k123_v124"))
    data_file_type["fields"].append({"name": "distinct_counts", "type": distinct, "field-id": 111})
    text = json.dumps(root).encode()
    row = {
        "f0": 1, "f1": 5,
        "f2": {"f100": "a", "f101": "ORC", "f102": {}, "f103": 1, "f104": 2, "f105": 3, "f107": [1],
               "f111": [{"key": 1, "value": 2}]},
    }  # fmt: skip
    content = encode_block(compile_schema(text), [row])
    data = write_avro(text, [(1, compress(content, codec="null"))], metadata={}, codec="null")
    spec = PartitionSpec(spec_id=0)
    (entry,) = decoded_and_walked(
        data,
        manifest=manifest_file_of_v1(data, path="file:///m", snapshot_id=5),
        specs={0: spec},
        schemas=[DAY_SCHEMA],
    )
    assert entry.data_file == data_file("a", file_format="orc", partition=(), record_count=1, file_size_in_bytes=2)


def test_a_manifest_that_a_v1_snapshot_names_itself_is_read_without_a_list():
    encoded = encode([added("a"), existing("b")], version=1)
    row = manifest_file_of_v1(encoded.data, path="file:///m", snapshot_id=3)
    assert (row.partition_spec_id, row.added_snapshot_id, row.added_files_count) == (0, 3, None)
    assert [e.data_file.file_path for e in decode(encoded, row)] == ["a", "b"]


def test_partition_values_of_columns_that_are_gone_are_read_as_they_were_written():
    encoded = encode([added(spec_id=7, partition=EXAMPLE_PARTITION)], spec=SPEC, schema=SCHEMA)
    none_left = Schema(schema_id=4, struct=StructType(()))
    (entry,) = decode(encoded, spec=SPEC, schema=none_left)
    assert entry.data_file.partition == EXAMPLE_PARTITION


def test_a_partition_field_that_was_not_written_is_null():
    longer = replace(
        DAY_SPEC,
        fields=(*DAY_SPEC.fields, PartitionField(source_ids=(2,), field_id=1002, name="late", transform="void")),
    )
    encoded = encode([added()])
    assert decode(encoded, spec=longer)[0].data_file.partition == (19000, 3, None)


def test_a_partition_value_of_another_type_than_the_tables_is_refused():
    text_schema = Schema(
        schema_id=0, struct=StructType((NestedField(field_id=1, name="x", type=LONG, required=False),))
    )
    field = PartitionField(source_ids=(1,), field_id=1011, name="p", transform="identity")
    encoded = encode([added(spec_id=7, partition=EXAMPLE_PARTITION)], spec=SPEC, schema=SCHEMA)
    with pytest.raises(CorruptFile, match="a string for a field of type long"):
        decode(encoded, spec=PartitionSpec(spec_id=7, fields=(field,)), schema=text_schema)


# ---------------------------------------------------------------------------------------------------------------------
# Damage


def test_a_manifest_of_another_length_is_refused():
    encoded = encode([added()])
    refused_by_both(
        encoded.data + b"\0", "bytes where the manifest list says",
        manifest=committed(encoded), specs={0: DAY_SPEC}, schemas=[DAY_SCHEMA],
    )  # fmt: skip


def test_a_manifest_cut_between_blocks_is_refused_even_at_its_length():
    encoded = encode([added(str(i)) for i in range(BLOCK_ENTRIES * 2)])
    whole = unsealed(encoded.data)
    cut = replace(encoded, data=whole[: open_avro(whole, location="m").blocks[0].end + 16])
    row = replace(committed(encoded), manifest_length=len(cut.data))
    refused_by_both(
        cut.data, "100 entries where the manifest list says 200",
        manifest=row, specs={0: DAY_SPEC}, schemas=[DAY_SCHEMA],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"added_files_count": 1, "existing_files_count": 1}, "2 added files where the manifest list says 1"),
        ({"added_rows_count": 19}, "20 added rows where the manifest list says 19"),
        ({"deleted_rows_count": 1}, "0 deleted rows where the manifest list says 1"),
        ({"added_files_count": 3}, "2 entries where the manifest list says 3"),
        ({"content": "deletes"}, "content 'data' where the manifest list says deletes"),
        ({"partition_spec_id": 1}, "partition spec 0 where the manifest list says 1"),
        ({"partition_spec_id": 2}, "partition spec 2 is not in the table's metadata"),
    ],
)
def test_what_the_manifest_list_says_must_be_true(changes, why):
    encoded = encode([added("a"), added("b")])
    row = replace(committed(encoded), **changes)
    specs = {0: DAY_SPEC, 1: replace(DAY_SPEC, spec_id=1)}
    error = refused_by_both(encoded.data, why, manifest=row, specs=specs, schemas=[DAY_SCHEMA])
    assert error.location == row.manifest_path


def test_a_delete_file_among_data_files_is_refused():
    encoded = encode([added(content="position-deletes")], content="deletes")
    lying = rewritten(encoded, lambda root: None, metadata={"content": "data"})
    row = replace(committed(encoded), content="data", manifest_length=len(lying.data))
    refused_by_both(
        lying.data, "position-deletes file in a manifest of data",
        manifest=row, specs={0: DAY_SPEC}, schemas=[DAY_SCHEMA],
    )  # fmt: skip


def test_a_manifest_of_a_later_format_is_unsupported_not_corrupt():
    encoded = rewritten(encode([added()]), lambda root: None, metadata={"format-version": "4"})
    with pytest.raises(Unsupported, match="format version 4"):
        decode(encoded)


def change_type(field_id, type_):
    def change(root):
        for field in [*root["fields"], *root["fields"][-1]["type"]["fields"]]:
            if field.get("field-id") == field_id:
                field["type"] = type_

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (change_type(100, "bytes"), "data_file.100"),
        (change_type(0, "boolean"), "manifest_entry.0"),
        (change_type(108, ["null", "bytes"]), "instead of a map"),
        (change_type(132, ["null", "string"]), "list of integers"),
        (change_type(102, "string"), "data_file.102"),
        (lambda root: root["fields"][-1].update({"field-id": 99}), "no data_file"),
        (lambda root: root["fields"][-1]["type"]["fields"][1].update({"field-id": 99}), "data_file.100: missing"),
    ],
)
def test_a_schema_that_is_no_manifests_is_refused(change, why):
    encoded = rewritten(encode([added()]), change)
    refused_by_both(
        encoded.data, re.escape(why), manifest=committed(encoded), specs={0: DAY_SPEC}, schemas=[DAY_SCHEMA]
    )


@pytest.mark.parametrize(
    "row",
    [
        {"f0": 3}, {"f0": -1}, {"f2.f134": 3}, {"f2.f134": -1}, {"f2.f101": "csv"}, {"f2.f100": ""}, {"f2.f103": -1},
        {"f2.f104": -5},
    ],
)  # fmt: skip
def test_values_that_no_entry_has_are_refused(row):
    text = manifest_schema(StructType(()), 2)
    file = {"f134": 0, "f100": "a", "f101": "PARQUET", "f102": {}, "f103": 1, "f104": 2}
    record = {"f0": 1, "f2": file}
    for name, value in row.items():
        *outer, last = name.split(".")
        (file if outer else record)[last] = value
    content = encode_block(compile_schema(text), [record])
    data = write_avro(text, [(1, content)], metadata={}, codec="null")
    refused_by_both(
        data, None, manifest=manifest_file_of_v1(data, path="file:///m", snapshot_id=5),
        specs={0: PartitionSpec(spec_id=0)}, schemas=[DAY_SCHEMA],
    )  # fmt: skip


def test_flipped_bytes_are_named_as_corruption_or_leave_the_counts_true():
    sealed = encode([added(f"s3://b/t/{i}.parquet", value_counts={1: i, 2: 3}) for i in range(30)])
    encoded = replace(sealed, data=unsealed(sealed.data))
    row = committed(encoded)
    refused = 0
    for at in range(0, len(encoded.data), 3):
        broken = bytearray(encoded.data)
        broken[at] ^= 1 << (at % 8)
        try:
            decoded = decode(replace(encoded, data=bytes(broken)), row)
        except (CorruptFile, Unsupported):
            refused += 1
        else:
            assert len(decoded) == 30
            assert sum(entry.data_file.record_count for entry in decoded) == 300
    assert refused > 0


@pytest.mark.parametrize("step", range(4))
def test_flipped_bits_of_uncompressed_entries_never_move_a_location(step):
    paths = [f"s3://b/t/{i}.parquet" for i in range(8)]
    metrics = {"value_counts": {1: 300, 2: 3}, "lower_bounds": {1: b"12345678", 2: b"x"}, "split_offsets": (4,)}
    sealed = encode([added(path, **metrics) for path in paths], codec="null")
    encoded = replace(sealed, data=unsealed(sealed.data))
    row = committed(encoded)
    (block,) = open_avro(encoded.data, location="m").blocks
    for at in range(block.start + step, block.end, 4):
        for bit in range(8):
            broken = bytearray(encoded.data)
            broken[at] ^= 1 << bit
            try:
                found = live_paths(bytes(broken), manifest=row)
            except CorruptFile:
                continue
            # Avro has no checksum: what can be changed unseen is a letter, and only where the letter stands.
            assert sum(map(str.__ne__, found, paths)) <= 1
            assert [len(path.encode()) for path in found] == list(map(len, paths))


# ---------------------------------------------------------------------------------------------------------------------
# PyIceberg


@pytest.mark.parametrize("version", [1, 2, 3])
def test_pyiceberg_reads_what_firn_writes(version, tmp_path):
    partitions = [EXAMPLE_PARTITION, (None,) * len(EXAMPLE_PARTITION)]
    # PyIceberg 0.12 refuses the logical type of nanosecond timestamps in any Avro file.
    kept = [i for i, type_ in enumerate(TYPES) if type_ not in {TIMESTAMP_NS, TIMESTAMPTZ_NS}]
    spec = replace(SPEC, fields=tuple(SPEC.fields[i] for i in kept))
    partitions = [tuple(partition[i] for i in kept) for partition in partitions]
    rows = [
        added("s3://b/t/a", spec_id=7, partition=partitions[0], lower_bounds={1: b"\0"}, value_counts={1: 10, 2: 3}),
        existing("s3://b/t/b", spec_id=7, partition=partitions[1], split_offsets=(4, 900), sort_order_id=1),
        deleted("s3://b/t/c", snapshot_id=5, spec_id=7, partition=partitions[0], file_format="orc"),
    ]
    encoded = encode(rows, spec=spec, schema=SCHEMA, version=version)
    path = tmp_path / "m.avro"
    path.write_bytes(encoded.data)
    number = 0 if version == 1 else COMMIT
    foreign = peer.ManifestFile.from_args(
        manifest_path=str(path), manifest_length=len(encoded.data), partition_spec_id=7,
        content=peer.ManifestContent.DATA, sequence_number=number, min_sequence_number=0, added_snapshot_id=5,
    )  # fmt: skip
    found = foreign.fetch_manifest_entry(PyArrowFileIO(), discard_deleted=False)
    ours = decode(encoded, committed(encoded, sequence_number=number), spec=spec, schema=SCHEMA)
    assert [describe_peer(entry) for entry in found] == [describe(entry) for entry in ours]


def describe(entry):
    file = entry.data_file
    return (
        int(entry.status), entry.snapshot_id, entry.sequence_number, entry.file_sequence_number, file.file_path,
        file.file_format, file.partition, file.record_count, file.file_size_in_bytes, file.value_counts or {},
        file.lower_bounds or {}, file.split_offsets, file.sort_order_id, file.equality_ids,
    )  # fmt: skip


def describe_peer(entry):
    file = entry.data_file
    listed = [None if value is None else tuple(value) for value in (file.split_offsets, file.equality_ids)]
    return (
        int(entry.status), entry.snapshot_id, entry.sequence_number, entry.file_sequence_number, file.file_path,
        str(file.file_format.value).lower(), tuple(file.partition), file.record_count, file.file_size_in_bytes,
        dict(file.value_counts or {}), dict(file.lower_bounds or {}), listed[0], file.sort_order_id, listed[1],
    )  # fmt: skip


def test_pyiceberg_reads_delete_manifests_of_firn(tmp_path):
    rows = [
        added("s3://b/t/eq", content="equality-deletes", equality_ids=(1, 2)),
        added("s3://b/t/dv", content="position-deletes", file_format="puffin", referenced_data_file="s3://b/t/a",
              content_offset=4, content_size_in_bytes=40),
    ]  # fmt: skip
    encoded = encode(rows, content="deletes", version=3)
    path = tmp_path / "m.avro"
    path.write_bytes(encoded.data)
    foreign = peer.ManifestFile.from_args(
        manifest_path=str(path), manifest_length=len(encoded.data), partition_spec_id=0,
        content=peer.ManifestContent.DELETES, sequence_number=COMMIT, min_sequence_number=COMMIT, added_snapshot_id=5,
    )  # fmt: skip
    found = foreign.fetch_manifest_entry(PyArrowFileIO())
    assert [describe_peer(entry) for entry in found] == [describe(entry) for entry in decode(encoded)]
    assert [entry.data_file.content.name for entry in found] == ["EQUALITY_DELETES", "POSITION_DELETES"]


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
@pytest.mark.parametrize("version", [1, 2])
def test_firn_reads_what_pyiceberg_writes(version, codec, tmp_path):
    schema = peer_schema.Schema(
        peer_types.NestedField(1, "ts", peer_types.TimestamptzType(), required=False),
        peer_types.NestedField(2, "customer", peer_types.LongType(), required=False),
        peer_types.NestedField(3, "d", peer_types.DecimalType(9, 2), required=False),
        peer_types.NestedField(4, "u", peer_types.UUIDType(), required=False),
        schema_id=0,
    )
    spec = PeerSpec(
        PeerField(1, 1000, DayTransform(), "ts_day"),
        PeerField(2, 1001, BucketTransform(16), "customer_bucket"),
        PeerField(3, 1002, IdentityTransform(), "d"),
        PeerField(4, 1003, IdentityTransform(), "u"),
        spec_id=0,
    )
    tuples = [(19000, 3, Decimal("-1.25"), uuid.UUID(int=9)), (None, None, None, None)]
    path = tmp_path / "m.avro"
    output = PyArrowFileIO().new_output(str(path))
    with peer.write_manifest(version, spec, schema, output, 5, codec) as writer:
        for i, values in enumerate(tuples):
            file = peer.DataFile.from_args(
                content=peer.DataFileContent.DATA, file_path=f"s3://b/t/{i}",
                file_format=peer.FileFormat.PARQUET, partition=Record(*values), record_count=10,
                file_size_in_bytes=1000, column_sizes={1: 5}, value_counts={1: 10}, null_value_counts={1: 0},
                nan_value_counts={}, lower_bounds={1: b"\1"}, upper_bounds={1: b"\2"}, key_metadata=None,
                split_offsets=[4], equality_ids=None, sort_order_id=0,
            )  # fmt: skip
            status = peer.ManifestEntryStatus.ADDED
            writer.add(peer.ManifestEntry.from_args(status=status, snapshot_id=5, data_file=file))
    written = writer.to_manifest_file()
    data = path.read_bytes()
    extra = [
        PartitionField(source_ids=(i,), field_id=999 + i, name=name, transform="identity")
        for i, name in ((3, "d"), (4, "u"))
    ]
    ours = replace(DAY_SPEC, fields=(*DAY_SPEC.fields, *extra))
    columns = [
        NestedField(field_id=i, name=name, type=type_, required=False)
        for i, name, type_ in ((3, "d", DecimalType(9, 2)), (4, "u", UUID))
    ]
    our_schema = Schema(schema_id=0, struct=StructType((*DAY_SCHEMA.struct.fields, *columns)))
    rows = [added(f"s3://b/t/{i}", partition=values) for i, values in enumerate(tuples)]
    expected = encode(rows, spec=ours, schema=our_schema, version=version)
    number = 0 if version == 1 else COMMIT
    row = replace(committed(expected, str(path), sequence_number=number), manifest_length=len(data))
    decoded = decoded_and_walked(data, manifest=row, specs={0: ours}, schemas=[our_schema])
    assert [entry.data_file.partition for entry in decoded] == tuples
    assert decoded[0].data_file.column_sizes == {1: 5}
    assert decoded[0].sequence_number == number
    # Both summarise alike.
    assert [(s.contains_null, s.contains_nan, s.lower_bound, s.upper_bound) for s in written.partitions or []] == [
        (s.contains_null, s.contains_nan, s.lower_bound, s.upper_bound) for s in expected.partitions
    ]
