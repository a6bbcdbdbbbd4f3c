from __future__ import annotations

import struct

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from firn.model.deletion_vector import DeletionVector
from firn.model.errors import CorruptFile, InvalidInput, Unsupported
from firn.storage import puffin
from firn.storage.puffin import Blob, PuffinFile, deletion_vector_blob, encode_puffin, footer_range, read_footer
from tests.strategies.examples import examples


def blob(data=b"content", kind="some-blob", **members) -> Blob:
    return Blob(type=kind, fields=(1,), data=data, snapshot_id=2, sequence_number=1, **members)


def file_with(payload: bytes, *, flags=0, body=b"0123456789", size=None) -> bytes:
    stated = len(payload) if size is None else size
    return b"PFA1" + body + b"PFA1" + payload + struct.pack("<iI", stated, flags) + b"PFA1"


def parse(data: bytes) -> PuffinFile:
    return PuffinFile.parse(data, location="file.puffin")


@examples(40)
@given(
    st.lists(st.tuples(st.binary(max_size=200), st.sampled_from([None, "lz4", "zstd"])), max_size=5),
    st.dictionaries(st.text(max_size=10), st.text(max_size=10), max_size=3),
    st.booleans(),
)
def test_what_is_written_is_read(contents, properties, compress_footer):
    blobs = [blob(data, compression=codec, properties=properties) for data, codec in contents]
    data, written = encode_puffin(blobs, properties=properties, compress_footer=compress_footer)
    read = parse(data)
    assert read.metadata == written
    assert [read.read(one) for one in read.metadata.blobs] == [data for data, _ in contents]


def test_a_footer_can_be_fetched_by_range():
    data, written = encode_puffin([blob(b"x" * 1000)])
    start, size = footer_range(data[-12:], file_size=len(data), location="file.puffin")
    assert read_footer(data[start : start + size], file_size=len(data), location="file.puffin") == written


def test_unknown_blob_types_and_members_are_kept():
    payload = (
        b'{"blobs":[{"type":"of-tomorrow","fields":[],"snapshot-id":1,"sequence-number":1,"offset":4,"length":2,'
        b'"shape":[1]}],"later":true}'
    )
    read = parse(file_with(payload))
    assert read.metadata.blobs[0].type == "of-tomorrow"
    assert read.metadata.blobs[0].extra == {"shape": [1]}
    assert read.metadata.extra == {"later": True}


BLOB = '{"type":"t","fields":[1],"snapshot-id":1,"sequence-number":1,"offset":%s,"length":%s}'


@pytest.mark.parametrize(
    ("payload", "check"),
    [
        (b"", "JSON"),
        (b"[]", "footer: must be an object"),
        (b"{}", r"footer\.blobs"),
        (b'{"blobs":{}}', r"footer\.blobs"),
        (b'{"blobs":[1]}', r"footer\.blobs\[0\]: must be an object"),
        (b'{"blobs":[],"blobs":[]}', "duplicate key"),
        (b'{"blobs":[{"fields":[]}]}', r"footer\.blobs\[0\]"),
        (b'{"blobs":[{"type":"t","fields":[true]}]}', r"fields\[0\]"),
        (b'{"blobs":[{"type":"t","fields":[9999999999]}]}', r"fields\[0\]"),
        (b'{"blobs":[],"properties":{"a":1}}', r"properties\.a"),
        (b'{"blobs":' + b"[" * 100_000, "levels|JSON"),
        (f'{{"blobs":[{BLOB % (3, 2)}]}}'.encode(), "outside"),
        (f'{{"blobs":[{BLOB % (4, 11)}]}}'.encode(), "outside"),
        (f'{{"blobs":[{BLOB % (4, 2**62)}]}}'.encode(), "outside"),
        (f'{{"blobs":[{BLOB % (-1, 2)}]}}'.encode(), "offset"),
        (f'{{"blobs":[{BLOB % (4, 5)},{BLOB % (8, 2)}]}}'.encode(), "overlap"),
    ],
)
def test_a_malformed_footer_is_refused_with_the_check_that_failed(payload, check):
    with pytest.raises(CorruptFile, match=check):
        parse(file_with(payload))


EMPTY = b'{"blobs":[]}'


@pytest.mark.parametrize(
    ("data", "check"),
    [
        (b"", "magic"),
        (b"PFA1" * 4, "too few"),
        (b"PFA2" + file_with(EMPTY)[4:], "magic at the start"),
        (file_with(EMPTY)[:-1] + b"2", "ends in"),
        (file_with(EMPTY).replace(b"PFA1{", b"PFA2{"), "start of the footer"),
        (file_with(EMPTY, size=11), "start of the footer"),
        (file_with(EMPTY, size=-1), "payload size -1"),
        (file_with(EMPTY, size=2**31 - 1), "payload size"),
        (file_with(EMPTY, size=1000), "payload size 1000"),
        (file_with(EMPTY, flags=2), "flags 0x00000002"),
        (file_with(EMPTY, flags=1 << 31), "flags"),
        (file_with(EMPTY, flags=1), "lz4"),
        (file_with(lz4.frame.compress(EMPTY, store_size=False), flags=1), "without content size"),
        (file_with(lz4.frame.compress(EMPTY, store_size=True)[:-5], flags=1), "cut short"),
        (file_with(lz4.frame.compress(EMPTY, store_size=True) + b"x", flags=1), "bytes follow"),
    ],
)
def test_a_malformed_file_is_refused_with_the_check_that_failed(data, check):
    with pytest.raises(CorruptFile, match=check):
        parse(data)


def test_a_footer_that_unpacks_past_the_limit_is_refused_before_it_unpacks(monkeypatch):
    monkeypatch.setattr(puffin, "FOOTER_PAYLOAD_BYTES_MAX", 1000)
    bomb = lz4.frame.compress(b" " * 100_000, store_size=True)
    with pytest.raises(CorruptFile, match="100000 bytes decompressed is larger than 1000"):
        parse(file_with(bomb, flags=1))


def stored_as(codec: str, stored: bytes) -> PuffinFile:
    entry = BLOB[:-1] % (4, len(stored)) + f',"compression-codec":"{codec}"}}'
    return parse(file_with(f'{{"blobs":[{entry}]}}'.encode(), body=stored))


@pytest.mark.parametrize(
    ("codec", "stored", "check"),
    [
        ("zstd", b"not zstd", "zstd"),
        ("zstd", zstandard.ZstdCompressor(write_content_size=False).compress(b"abc"), "without content size"),
        ("zstd", zstandard.ZstdCompressor().compress(b"abc") + b"x", "does not decompress"),
        ("zstd", zstandard.ZstdCompressor().compress(b"") + b"x", "left over"),
        ("zstd", zstandard.ZstdCompressor().compress(b"abc" * 100)[:-2], "does not decompress"),
        ("lz4", b"not lz4", "lz4"),
        ("lz4", lz4.frame.compress(b"abc", store_size=True) * 2, "bytes follow"),
    ],
)
def test_a_malformed_compressed_blob_is_refused(codec, stored, check):
    read = stored_as(codec, stored)
    with pytest.raises(CorruptFile, match=check):
        read.read(read.metadata.blobs[0])


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_blob_that_unpacks_past_the_limit_is_refused(codec, monkeypatch):
    data, _ = encode_puffin([blob(b"0" * 10_000, compression=codec)])
    monkeypatch.setattr(puffin, "BLOB_BYTES_MAX", 9_999)
    read = parse(data)
    with pytest.raises(CorruptFile, match="larger than 9999"):
        read.read(read.metadata.blobs[0])


def test_a_codec_of_the_future_is_unsupported_only_when_its_blob_is_read():
    read = stored_as("brotli", b"xyz")
    with pytest.raises(Unsupported, match="brotli"):
        read.read(read.metadata.blobs[0])


def test_an_unknown_codec_is_not_written():
    with pytest.raises(InvalidInput, match=r"blobs\[0\].*gzip"):
        encode_puffin([blob(compression="gzip")])


def test_one_file_holds_the_deletion_vectors_of_many_data_files():
    vectors = {f"s3://t/{n}.parquet": DeletionVector.of(range(n)) for n in range(1, 4)}
    data, metadata = encode_puffin(
        [deletion_vector_blob(vector, data_file=location) for location, vector in vectors.items()]
    )
    assert parse(data).deletion_vectors() == vectors
    assert [one.properties["cardinality"] for one in metadata.blobs] == ["1", "2", "3"]


def test_a_deletion_vector_is_never_compressed():
    one = deletion_vector_blob(DeletionVector.of([1]), data_file="f")
    with pytest.raises(InvalidInput, match="not compressed"):
        encode_puffin([blob(one.data, kind=one.type, compression="zstd")])


@pytest.mark.parametrize(
    ("properties", "check"),
    [
        ({"cardinality": "1"}, "referenced-data-file"),
        ({"referenced-data-file": "f"}, "cardinality"),
        ({"referenced-data-file": "f", "cardinality": "-1"}, "cardinality"),
        ({"referenced-data-file": "f", "cardinality": "1" * 5000}, "cardinality"),
        ({"referenced-data-file": "f", "cardinality": "2"}, "holds 1 positions, expected 2"),
    ],
)
def test_a_deletion_vector_without_its_properties_is_refused(properties, check):
    data, _ = encode_puffin([blob(DeletionVector.of([1]).to_blob(), kind="deletion-vector-v1", properties=properties)])
    with pytest.raises(CorruptFile, match=check):
        parse(data).deletion_vectors()


def test_two_vectors_of_one_data_file_are_refused():
    one = deletion_vector_blob(DeletionVector.of([1]), data_file="f")
    data, _ = encode_puffin([one, one])
    with pytest.raises(CorruptFile, match="two deletion vectors for f"):
        parse(data).deletion_vectors()
