"""Deletion vectors and Puffin files against the bytes that Iceberg's own libraries read and write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firn.model.deletion_vector import POSITION_MAX, DeletionVector, from_blob, from_roaring
from firn.model.errors import CorruptFile, InvalidInput
from firn.storage.puffin import Blob, PuffinFile, deletion_vector_blob, encode_puffin, read_footer

CASES = json.loads((Path(__file__).parent / "data" / "puffin_dv.json").read_text(encoding="utf-8"))
FILES = {name: bytes.fromhex(content) for name, content in CASES["files"].items()}
SAMPLE_CREATED_BY = {"created-by": "Test 1234"}
SECOND_BLOB = "some blob \0 binary data 🤯 that is not very very very very very very long, is it?"


def vector_of(case) -> DeletionVector:
    ranges = (DeletionVector.of_range(start=start, stop=stop) for start, stop in case["ranges"])
    return DeletionVector.of(case["positions"]).union(*ranges)


def sample_blobs(compression=None) -> list[Blob]:
    return [
        Blob(
            type=kind,
            fields=(field,),
            data=text.encode(),
            snapshot_id=2,
            sequence_number=1,
            compression=compression,
        )
        for kind, field, text in (("some-blob", 1, "abcdefghi"), ("some-other-blob", 2, SECOND_BLOB))
    ]


@pytest.mark.parametrize("case", CASES["deletion_vectors"], ids=lambda case: case["file"])
def test_a_deletion_vector_is_read_and_written_byte_for_byte(case):
    blob = FILES[case["file"]]
    expected = vector_of(case)
    assert from_blob(blob, location="dv", cardinality=expected.cardinality) == expected
    assert expected.to_blob() == blob
    assert DeletionVector.of(list(expected)).to_blob() == blob


@pytest.mark.parametrize("case", CASES["roaring"], ids=lambda case: case["file"])
def test_a_bare_roaring_map_is_read(case):
    expected = [key << 32 | low for key in case["keys"] for low in case["low"]]
    assert list(from_roaring(FILES[case["file"]], location="map")) == expected


@pytest.mark.parametrize("name", CASES["roaring_refused"])
def test_a_key_with_the_sign_bit_is_refused(name):
    with pytest.raises(CorruptFile, match="key"):
        from_roaring(FILES[name], location="map")


def test_a_wrong_crc_is_refused_and_named():
    blob = bytearray(DeletionVector.of([1, 2]).to_blob())
    blob[-1] ^= 1
    with pytest.raises(CorruptFile, match="CRC 0x712fa6e8, expected 0x712fa6e9"):
        from_blob(bytes(blob), location="dv")


def test_repeated_positions_count_once():
    assert DeletionVector.of([10, 20, 30, 10]).cardinality == 3


def test_a_range_may_cross_keys():
    vector = DeletionVector.of_range(start=2**32 - 5, stop=2**32 + 5)
    assert vector.cardinality == 10
    assert {position >> 32 for position in vector} == {0, 1}


def test_a_backward_range_is_refused():
    with pytest.raises(InvalidInput, match="start position must not exceed end position"):
        DeletionVector.of_range(start=100, stop=50)


def test_a_position_past_the_largest_is_refused():
    assert POSITION_MAX in DeletionVector.of([POSITION_MAX])
    with pytest.raises(InvalidInput, match="larger than"):
        DeletionVector.of([POSITION_MAX + 1])


@pytest.mark.parametrize("case", CASES["puffin"], ids=lambda case: case["file"])
def test_a_puffin_file_is_read(case):
    puffin = PuffinFile.parse(FILES[case["file"]], location="stats")
    assert puffin.metadata.properties == case["expected"]["properties"]
    assert len(puffin.metadata.blobs) == len(case["expected"]["blobs"])
    for blob, expected in zip(puffin.metadata.blobs, case["expected"]["blobs"], strict=True):
        assert blob.type == expected["type"]
        assert list(blob.fields) == expected["fields"]
        assert (blob.offset, blob.length) == (expected["offset"], expected["length"])
        assert blob.compression_codec == expected["compression"]
        assert puffin.read(blob).decode() == expected["data_utf8"]


def test_an_empty_puffin_file_is_written_byte_for_byte():
    written, metadata = encode_puffin([])
    assert written == FILES["empty-puffin-uncompressed.bin"]
    assert metadata.blobs == ()


def test_a_puffin_file_with_blobs_is_written_byte_for_byte():
    written, _ = encode_puffin(sample_blobs(), properties=SAMPLE_CREATED_BY)
    assert written == FILES["sample-metric-data-uncompressed.bin"]


def test_zstd_blobs_are_read():
    puffin = PuffinFile.parse(FILES["sample-metric-data-compressed-zstd.bin"], location="stats")
    assert [blob.compression_codec for blob in puffin.metadata.blobs] == ["zstd", "zstd"]
    first, second = (puffin.read(blob).decode() for blob in puffin.metadata.blobs)
    assert first == "abcdefghi"
    assert second.startswith("some blob \0 binary data 🤯 that is not very")
    assert puffin.metadata.properties == SAMPLE_CREATED_BY


@pytest.mark.parametrize("size", CASES["wrong_footer_sizes"])
def test_a_wrong_footer_size_is_refused(size):
    data = FILES["sample-metric-data-compressed-zstd.bin"]
    with pytest.raises(CorruptFile, match=r"magic at the start of the footer|too few"):
        read_footer(data[-size:] if size > 0 else b"", file_size=len(data), location="stats")


@pytest.mark.parametrize("case", CASES["cross_client"], ids=lambda case: case["origin"])
def test_a_deletion_vector_file_has_the_layout_that_other_clients_write(case):
    (expected,) = case["expected"]["blobs"]
    vector = DeletionVector.of(expected["positions"])
    _, metadata = encode_puffin([deletion_vector_blob(vector, data_file=expected["referenced_data_file"])])
    (blob,) = metadata.blobs
    assert (blob.offset, blob.length) == (expected["offset"], expected["length"])
    assert blob.properties["referenced-data-file"] == expected["referenced_data_file"]
    assert blob.properties["cardinality"] == expected["cardinality"]
    assert (blob.snapshot_id, blob.sequence_number, blob.compression_codec) == (-1, -1, None)
    assert list(blob.fields) == [2147483645]
