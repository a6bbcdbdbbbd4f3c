from __future__ import annotations

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from firn.model.deletion_vector import MAGIC, POSITION_MAX, DeletionVector, from_blob, from_roaring
from firn.model.errors import CorruptFile, InvalidInput

positions = st.sets(
    st.one_of(
        st.integers(0, 100), st.integers(2**16 - 5, 2**16 + 5), st.integers(2**32 - 5, 2**32 + 5), st.just(POSITION_MAX)
    ),
    max_size=60,
)


def framed(vector: bytes) -> bytes:
    checked = MAGIC + vector
    return len(checked).to_bytes(4, "big") + checked + zlib.crc32(checked).to_bytes(4, "big")


@settings(max_examples=60)
@given(positions)
def test_what_is_written_is_read(expected):
    vector = from_blob(DeletionVector.of(expected).to_blob(), location="dv", cardinality=len(expected))
    assert list(vector) == sorted(expected)


@settings(max_examples=40)
@given(positions, positions)
def test_a_merged_vector_deletes_what_either_deletes(left, right):
    older, newer = DeletionVector.of(left), DeletionVector.of(right)
    merged = older.union(newer)
    assert set(merged) == left | right
    assert older.added_by(newer) == len(right - left)
    assert set(older) == left


@settings(max_examples=60)
@given(positions, st.data())
def test_any_flipped_bit_is_noticed(expected, data):
    blob = bytearray(DeletionVector.of(expected).to_blob())
    bit = data.draw(st.integers(0, len(blob) * 8 - 1))
    blob[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptFile):
        from_blob(bytes(blob), location="dv")


@settings(max_examples=200)
@given(st.binary(max_size=80))
def test_no_bytes_crash_the_reader(data):
    try:
        vector = from_roaring(data, location="dv")
    except CorruptFile:
        return
    assert from_roaring(BitMap64(vector.bitmap).serialize(), location="dv") == vector


def test_a_cut_anywhere_is_refused_though_the_frame_is_right():
    vector = BitMap64([1, 70000, 2**33])
    vector.add_range(200_000, 300_000)
    vector.run_optimize()
    whole = vector.serialize()
    assert set(from_blob(framed(whole), location="dv")) == set(vector)
    for end in range(len(whole)):
        with pytest.raises(CorruptFile):
            from_blob(framed(whole[:end]), location="dv")


@pytest.mark.parametrize(
    ("vector", "check"),
    [
        (b"\xff" * 8, "bitmaps in"),
        (b"\x01" + bytes(7) + b"\x00\x00\x00\x00\x3a\x30\x00\x00\xff\xff\xff\xff", "containers"),
        (b"\x01" + bytes(7) + b"\x00\x00\x00\x80\x3a\x30\x00\x00\x00\x00\x00\x00", "larger than"),
        (b"\x02" + bytes(7) + b"\x01\x00\x00\x00\x3a\x30\x00\x00\x00\x00\x00\x00" * 2, "comes after"),
        (b"\x01" + bytes(7) + b"\x00\x00\x00\x00\x3c\x30\x00\x00\x00\x00\x00\x00", "cookie"),
        (bytes(8) + b"\x00", "end at byte 8 of 9"),
        (
            b"\x01" + bytes(11) + b"\x3a\x30\x00\x00\x01\x00\x00\x00\x00\x00\x01\x00\x10" + bytes(3) + b"\x05\x00" * 2,
            "not a roaring bitmap",
        ),
    ],
)  # fmt: skip
def test_a_malformed_vector_is_refused_with_the_check_that_failed(vector, check):
    with pytest.raises(CorruptFile, match=check):
        from_blob(framed(vector), location="dv")


def test_empty_bitmaps_between_keys_are_read_as_the_java_library_writes_them():
    empty = b"\x3a\x30\x00\x00\x00\x00\x00\x00"
    last = BitMap64([7]).serialize()[12:]
    dense = b"\x03" + bytes(7) + bytes(4) + empty + b"\x01\0\0\0" + empty + b"\x02\0\0\0" + last
    assert list(from_roaring(dense, location="dv")) == [2 << 32 | 7]


def test_another_cardinality_than_the_manifest_states_is_refused():
    with pytest.raises(CorruptFile, match="holds 2 positions, expected 3"):
        from_blob(DeletionVector.of([1, 2]).to_blob(), location="dv", cardinality=3)


@pytest.mark.parametrize("blob", [b"", b"\x00" * 11, DeletionVector.of([1]).to_blob() + b"\x00"])
def test_a_blob_of_the_wrong_length_is_refused(blob):
    with pytest.raises(CorruptFile, match=r"length|too short"):
        from_blob(blob, location="dv")


@pytest.mark.parametrize("position", [-1, 2**63, 2**64, "1", None, POSITION_MAX + 1])
def test_a_position_outside_the_range_is_refused(position):
    with pytest.raises(InvalidInput, match="position"):
        DeletionVector.of([position])


def test_membership_asks_for_a_position_and_nothing_else():
    vector = DeletionVector.of([0, 5])
    assert 5 in vector
    assert 4 not in vector
    assert -1 not in vector
    assert 2**70 not in vector
    assert "5" not in vector
    assert vector
    assert not DeletionVector.of([])


def test_positions_of_a_batch_are_those_inside_it():
    vector = DeletionVector.of([1, 9, 10, 19, 20])
    assert vector.positions_in(start=10, stop=20) == [10, 19]


def test_a_vector_names_its_data_file_and_its_cardinality():
    assert DeletionVector.of([3, 4]).blob_properties("s3://t/a.parquet") == {
        "referenced-data-file": "s3://t/a.parquet",
        "cardinality": "2",
    }
