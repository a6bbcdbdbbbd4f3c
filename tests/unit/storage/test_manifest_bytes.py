"""Entries written by hand decode to what a general encoder's do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidInput
from firn.model.partitioning import partition_type
from firn.storage.avro import decode_block, encode_block
from firn.storage.avro_numbers import LONGS, encode_long, encode_longs
from firn.storage.avro_schema import compile_schema
from firn.storage.manifest_lists import list_record
from firn.storage.manifest_schema import manifest_list_schema, manifest_schema
from firn.storage.packed_entries import block_content, pack
from tests.strategies.manifests import LONGS as ANY_LONG
from tests.strategies.manifests import SCHEMA, SPEC, entries, manifest_files
from tests.unit.storage.reference_rows import RowEncoder, list_row

TYPE = partition_type(SPEC, SCHEMA)


@pytest.mark.parametrize(
    ("version", "content"),
    [(1, "data")] + [(v, c) for v in (2, 3) for c in ("data", "position-deletes", "equality-deletes")],
)
@given(data=st.data())
def test_entries_decode_to_what_the_general_encoder_writes(version, content, data):
    listed = data.draw(st.lists(entries(content=content, format_version=version), min_size=1, max_size=3))
    if version == 1:
        listed = [entry if entry.snapshot_id is not None else _in_snapshot(entry, 5) for entry in listed]
    schema = compile_schema(manifest_schema(TYPE, version))
    reference = RowEncoder(TYPE, format_version=version)
    expected = encode_block(schema, [reference.encode(entry) for entry in listed])
    written = block_content(pack(listed, TYPE, format_version=version))
    assert decode_block(schema, written, len(listed)) == decode_block(schema, expected, len(listed))
    assert written == expected


def _in_snapshot(entry, snapshot_id):
    return type(entry)(status=entry.status, snapshot_id=snapshot_id, data_file=entry.data_file)


@pytest.mark.parametrize("version", [1, 2, 3])
@given(data=st.data())
def test_records_of_manifest_lists_are_what_the_general_encoder_writes(version, data):
    manifests = data.draw(st.lists(manifest_files(format_version=version), min_size=1, max_size=3))
    expected = encode_block(
        compile_schema(manifest_list_schema(version)), [list_row(manifest, version) for manifest in manifests]
    )
    assert b"".join(list_record(manifest, version) for manifest in manifests) == expected


def _zigzag(number):
    rest, expected = (number << 1) ^ (number >> 63), []
    while rest > 0x7F:
        expected.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*expected, rest])


@given(ANY_LONG)
def test_a_long_is_zigzag_and_seven_bits_a_byte(number):
    assert encode_long(number) == LONGS[number] == _zigzag(number)


@pytest.mark.parametrize("bits", range(63))
def test_longs_at_the_edges_of_the_tables_are_right(bits):
    for number in (2**bits - 1, 2**bits, -(2**bits), -(2**bits) - 1):
        assert encode_long(number) == LONGS[number] == _zigzag(number)
        assert list(encode_longs([number, 1])) == [_zigzag(number), _zigzag(1)]


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_what_is_no_long_is_refused(number):
    with pytest.raises(InvalidInput, match="64-bit"):
        encode_long(number)
    with pytest.raises(InvalidInput, match="64-bit"):
        LONGS[number]
