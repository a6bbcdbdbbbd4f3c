"""Manifests that others wrote, and what PyIceberg reads of firn's: fields are known by their ids."""

import json
import uuid
from decimal import Decimal

import pytest
from pyiceberg import manifest as peer
from pyiceberg import schema as peer_schema
from pyiceberg import types as peer_types
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField as PeerField
from pyiceberg.partitioning import PartitionSpec as PeerSpec
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.typedef import Record

from firn.model.foreign_value import ForeignValue
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.types import LONG, STRING, TIMESTAMP_NS, TIMESTAMPTZ_NS, UUID, DecimalType, NestedField, StructType
from firn.storage.avro import compress, encode_block, write_avro
from firn.storage.avro_schema import compile_schema
from firn.storage.manifest_schema import manifest_schema
from firn.storage.manifests import (
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
    existing,
)
from tests.unit.storage.manifest_writing import (
    COMMIT,
    committed,
    decode,
    decoded_and_walked,
    encode,
    replace,
    rewritten,
)


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
    assert entry.data_file.partition == tuple(map(ForeignValue, TYPES, EXAMPLE_PARTITION))


def test_a_partition_field_that_was_not_written_is_null():
    longer = replace(
        DAY_SPEC,
        fields=(*DAY_SPEC.fields, PartitionField(source_ids=(2,), field_id=1002, name="late", transform="void")),
    )
    encoded = encode([added()])
    assert decode(encoded, spec=longer)[0].data_file.partition == (19000, 3, None)


def test_a_partition_value_of_another_type_than_the_tables_is_read_as_what_it_is():
    text_schema = Schema(
        schema_id=0, struct=StructType((NestedField(field_id=1, name="x", type=LONG, required=False),))
    )
    field = PartitionField(source_ids=(1,), field_id=1011, name="p", transform="identity")
    encoded = encode([added(spec_id=7, partition=EXAMPLE_PARTITION)], spec=SPEC, schema=SCHEMA)
    (entry,) = decode(encoded, spec=PartitionSpec(spec_id=7, fields=(field,)), schema=text_schema)
    (value,) = entry.data_file.partition
    assert value == ForeignValue(STRING, EXAMPLE_PARTITION[TYPES.index(STRING)])


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
