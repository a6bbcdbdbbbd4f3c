"""Damaged manifests are refused and named by who decodes them and by who walks over them."""

import re

import pytest

from firn.model.errors import CorruptFile, Unsupported
from firn.model.partitioning import PartitionSpec
from firn.model.types import StructType
from firn.storage.avro import encode_block, open_avro, write_avro
from firn.storage.avro_schema import compile_schema
from firn.storage.manifest_paths import live_paths
from firn.storage.manifest_schema import manifest_schema
from firn.storage.manifests import (
    BLOCK_ENTRIES,
    manifest_file_of_v1,
)
from tests.strategies.manifests import (
    DAY_SCHEMA,
    DAY_SPEC,
    added,
)
from tests.strategies.older_avro import unsealed
from tests.unit.storage.manifest_writing import committed, decode, encode, refused_by_both, replace, rewritten


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
