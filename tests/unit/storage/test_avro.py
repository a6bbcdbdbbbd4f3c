"""The Avro container: what is written others read, and what is broken or hostile is refused in bounded memory."""

import contextlib
import io
import json
import tracemalloc
import zlib
from typing import Any

import fastavro
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.model.errors import CorruptFile, InvalidInput
from firn.storage import avro
from firn.storage.avro import SEAL, SEAL_KEY, AvroLimits, compress, encode_block, is_sealed, open_avro, write_avro
from firn.storage.avro_numbers import encode_long
from firn.storage.avro_schema import SCHEMA_DEPTH_MAX, SCHEMA_NODES_MAX, compile_schema
from firn.storage.snappy import decompress
from tests.strategies.older_avro import unsealed

SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "long", "field-id": 1},
        {"name": "name", "type": ["null", "string"], "default": None, "field-id": 2},
        {
            "name": "sizes",
            "field-id": 3,
            "type": {
                "type": "array",
                "logicalType": "map",
                "items": {
                    "type": "record",
                    "name": "k4_v5",
                    "fields": [
                        {"name": "key", "type": "int", "field-id": 4},
                        {"name": "value", "type": "bytes", "field-id": 5},
                    ],
                },
            },
        },
    ],
}
TEXT = json.dumps(SCHEMA).encode()
ROWS = [{"f1": i, "f2": None if i % 3 else f"name {i}", "f3": [{"key": i, "value": bytes([i])}]} for i in range(20)]


def container(*, codec="deflate", blocks=2, rows=ROWS, schema=TEXT, metadata=None):
    compiled = compile_schema(schema)
    size = max(1, len(rows) // blocks)
    parts = [rows[at : at + size] for at in range(0, len(rows), size)]
    encoded = [(len(part), compress(encode_block(compiled, part), codec=codec)) for part in parts]
    return write_avro(schema, encoded, metadata=metadata or {"format-version": "2"}, codec=codec)


def read(data, **limits):
    file = open_avro(data, location="file:///x.avro", limits=AvroLimits(**limits))
    return [record for block in file.read_blocks() for record in block]


def raw_container(stored, *, count=1, codec="null", schema=TEXT):
    return write_avro(schema, [(count, stored)], metadata={}, codec=codec)


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_what_is_written_is_read_back_and_fastavro_reads_the_same(codec):
    data = container(codec=codec)
    assert read(data) == ROWS
    if codec != "zstandard":  # fastavro wants another package for it
        foreign: list[Any] = list(fastavro.reader(io.BytesIO(data)))
        assert [(row["id"], row["name"]) for row in foreign] == [(row["f1"], row["f2"]) for row in ROWS]


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_files_of_fastavro_are_read(codec):
    out = io.BytesIO()
    rows = [{"id": row["f1"], "name": row["f2"], "sizes": row["f3"]} for row in ROWS]
    fastavro.writer(out, SCHEMA, rows, codec=codec, sync_interval=50)
    assert read(out.getvalue()) == ROWS


def test_the_same_content_gives_the_same_bytes():
    assert container() == container()
    assert container() != container(metadata={"format-version": "1"})


def test_fields_are_found_by_id_whatever_they_are_called():
    renamed = json.loads(TEXT)
    renamed["fields"][0]["name"] = "old_id"
    renamed["fields"][0]["aliases"] = ["name"]
    data = container(schema=json.dumps(renamed).encode())
    assert read(data) == ROWS


def test_a_named_type_that_is_used_again_is_resolved():
    schema = {
        "type": "record", "name": "row", "namespace": "n",
        "fields": [
            {"name": "a", "type": {"type": "fixed", "name": "two", "size": 2}, "field-id": 1},
            {"name": "b", "type": ["null", "n.two"], "field-id": 2},
            {"name": "c", "type": "two", "field-id": 3},
        ],
    }  # fmt: skip
    assert read(raw_container(b"aa\x02bbcc", schema=json.dumps(schema).encode())) == [
        {"f1": b"aa", "f2": b"bb", "f3": b"cc"}
    ]


def test_header_values_are_text_or_numbers_or_refused():
    file = open_avro(container(metadata={"a": "12", "b": "1x"}), location="file:///x.avro")
    assert (file.integer("a"), file.integer("absent"), file.text("b")) == (12, None, "1x")
    with pytest.raises(CorruptFile, match="header value b is not a number"):
        file.integer("b")


# ---------------------------------------------------------------------------------------------------------------------
# Damage


def test_a_flipped_bit_of_what_firn_wrote_is_refused_wherever_it_is():
    data = container()
    unnoticed = set()
    for at in range(len(data)):
        for bit in range(8):
            broken = bytearray(data)
            broken[at] ^= 1 << bit
            with contextlib.suppress(CorruptFile):
                assert read(bytes(broken)) == ROWS
                unnoticed.add(at)
    seal = data.index(SEAL_KEY.encode())
    assert unnoticed <= set(range(seal, seal + len(SEAL_KEY) + 1 + len(SEAL))), "only the word itself"


def test_what_firn_wrote_is_not_read_when_a_block_of_it_is_gone():
    data = container(blocks=4)
    for block in open_avro(data, location="x").blocks[:-1]:
        with pytest.raises(CorruptFile, match="not those that firn wrote"):
            open_avro(data[: block.end + 16], location="x")


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_what_an_older_firn_wrote_is_read_and_known_to_be_whole(codec):
    for rows in (ROWS, []):
        older = open_avro(unsealed(container(codec=codec, rows=rows)), location="x")
        assert SEAL_KEY not in older.metadata
        assert is_sealed(older)
        assert [record for block in older.read_blocks() for record in block] == rows


def test_a_flipped_byte_is_refused_or_changes_values_but_never_crashes():
    data = unsealed(container())
    refused = 0
    for at in range(len(data)):
        for flip in (0x01, 0x80, 0xFF):
            broken = bytearray(data)
            broken[at] ^= flip
            try:
                read(bytes(broken))
            except CorruptFile:
                refused += 1
    assert refused > len(data)


def test_a_truncation_anywhere_but_between_blocks_is_refused():
    data = unsealed(container())
    file = open_avro(data, location="file:///x.avro")
    header_end = file.blocks[0].start - 3
    survived = {}
    for size in range(len(data)):
        try:
            survived[size] = read(data[:size])
        except CorruptFile:
            continue
    # Avro has no end mark: what is left between blocks is a shorter file, which only counts from elsewhere can tell.
    assert survived == {header_end: [], file.blocks[0].end + 16: ROWS[:10]}


def test_a_file_cut_at_a_block_boundary_announces_fewer_records():
    data = unsealed(container())
    file = open_avro(data, location="file:///x.avro")
    cut = open_avro(data[: file.blocks[0].end + 16], location="file:///x.avro")
    assert cut.record_count < file.record_count


@pytest.mark.parametrize(
    ("stored", "count", "why"),
    [
        (b"\x02\x00\x00", 2, "2 records in 3 bytes"),
        (b"\x02\x00\x00\x00", 1, "left over"),
        (b"\x02\x00\x00" * 2 + b"\x02\x02\x00\x00", 2, "3 records instead of 2"),
        (b"\x02\x00\x00" * 2 + b"\x00", 2, "left over"),
        (b"\x02\x00", 1, "1 record in 2 bytes|EOFError"),
        (b"\x02\x09\x00", 1, "IndexError"),
        (b"\x02\x02\x04\xff\xff\x00", 1, "UnicodeDecodeError"),
        (b"\x02\x02\x03\x00\x00", 1, "block 0"),
        (b"\x02\x02\xfe\xff\xff\xff\x0f\x00", 1, "EOFError"),
        (b"x", 0, "1 bytes for no records"),
    ],
)
def test_a_block_must_hold_exactly_its_records(stored, count, why):
    with pytest.raises(CorruptFile, match=why):
        read(raw_container(stored, count=count))


@pytest.mark.parametrize("codec", ["deflate", "zstandard", "snappy"])
def test_damaged_compression_is_refused(codec):
    with pytest.raises(CorruptFile, match=codec):
        read(raw_container(b"\x00garbage", codec=codec))


def test_deflated_data_must_end_where_its_block_does():
    content = encode_block(compile_schema(TEXT), ROWS)
    stored = compress(content, codec="deflate")
    trailed = stored + b"\x00" * 3  # what zlib's checksum leaves when a writer cuts off the wrapping by hand
    assert read(raw_container(trailed, count=len(ROWS), codec="deflate")) == ROWS
    for broken in (stored[:-1], stored + b"\x00" * 5):
        with pytest.raises(CorruptFile, match="does not end"):
            read(raw_container(broken, count=len(ROWS), codec="deflate"))


def test_an_unknown_codec_is_named():
    data = container(codec="null").replace(b"\x08null", b"\x08lzma")
    with pytest.raises(CorruptFile, match="unknown codec 'lzma'"):
        read(data)


@pytest.mark.parametrize("data", [b"", b"Obj", b"Obj\x01", b"PAR1" + b"\x00" * 100, b"Obj\x01\x00" + b"\x00" * 8])
def test_something_else_than_avro_is_refused(data):
    with pytest.raises(CorruptFile):
        read(data)


@settings(max_examples=200)
@given(st.binary(max_size=60), st.integers(0, 20))
def test_random_block_content_never_escapes_as_another_error(content, count):
    with contextlib.suppress(CorruptFile):
        read(raw_container(content, count=count))


# ---------------------------------------------------------------------------------------------------------------------
# Bombs


def bounded(call, *, megabytes):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] < megabytes * 1024 * 1024
    finally:
        tracemalloc.stop()


def array_of(items):
    return json.dumps({
        "type": "record", "name": "r",
        "fields": [{"name": "a", "field-id": 1, "type": {"type": "array", "items": items}}],
    }).encode()  # fmt: skip


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "record", "name": "e", "fields": []},
        {"type": "fixed", "name": "f", "size": 0},
        {"type": "record", "name": "e", "fields": [{"name": "n", "type": "null"}]},
    ],
)
def test_array_items_without_bytes_are_refused_before_decoding(items):
    hostile = write_avro(array_of(items), [(1, b"\xfe\xff\xff\xff\x0f\x00")], metadata={}, codec="null")

    def call():
        with pytest.raises(CorruptFile, match="take no bytes"):
            read(hostile)

    assert bounded(call, megabytes=8)


def test_a_record_without_bytes_is_refused():
    schema = b'{"type": "record", "name": "r", "fields": [{"name": "a", "type": "null"}]}'
    with pytest.raises(CorruptFile, match="takes no bytes"):
        read(write_avro(schema, [(2**40, b"")], metadata={}, codec="null"))


def test_more_records_than_bytes_are_refused():
    with pytest.raises(CorruptFile, match="records in 3 bytes"):
        read(raw_container(b"\x02\x00\x00", count=1_000_000))


@pytest.mark.parametrize("codec", ["deflate", "zstandard"])
def test_a_decompression_bomb_stops_at_the_limit(codec):
    zeros = bytes(64 * 1024 * 1024)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    stored = packer.compress(zeros) + packer.flush() if codec == "deflate" else zstandard.compress(zeros)
    data = raw_container(stored, codec=codec)

    def call():
        with pytest.raises(CorruptFile, match="more than 1048576 bytes"):
            read(data, decompressed_bytes_max=1024 * 1024)

    assert bounded(call, megabytes=16)


def test_the_decompressed_limit_counts_all_blocks_together():
    with pytest.raises(CorruptFile, match="block 1: deflate: more than"):
        read(container(blocks=2), decompressed_bytes_max=len(encode_block(compile_schema(TEXT), ROWS)) - 1)


def test_a_small_file_may_not_unpack_to_a_large_one():
    """A few hundred kilobytes must not become hundreds of megabytes, though each block of them is small enough."""
    content = encode_block(compile_schema(TEXT), [ROWS[0]] * 10_000)
    blocks = [(10_000, compress(content, codec="deflate"))] * 4
    data = write_avro(TEXT, blocks, metadata={})
    assert len(content) * 4 > 10 * len(data)
    assert len(read(data, small_bytes=1_000, ratio_max=10_000)) == 40_000
    with pytest.raises(CorruptFile, match="deflate: more than"):
        read(data, small_bytes=1_000, ratio_max=10)


ARRAYS = {
    "numbers": {"type": "array", "items": "int"},
    "nulls": {"type": "array", "items": ["null", "int"]},
    "records": {"type": "array", "items": {
        "type": "record", "name": "k", "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "int"}],
    }},
    "arrays": {"type": "array", "items": {"type": "array", "items": "int"}},
    "texts": {"type": "array", "items": "string"},
    "maps": {"type": "array", "items": {"type": "map", "values": "null"}},
}  # fmt: skip


@pytest.mark.parametrize("items", ARRAYS)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_large_block_of_tiny_values_is_refused_within_its_budget(items, sign, monkeypatch):
    """Each takes a byte in the file and a hundred in memory, and no other thread runs while they are decoded."""
    monkeypatch.setattr(avro, "METERED_BYTES", 500)
    monkeypatch.setattr(avro, "BLOCK_READS_MAX", 1_000)
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": ARRAYS[items]}]}).encode()
    count = encode_long(5_000) if sign > 0 else encode_long(-5_000) + encode_long(10_000)
    data = write_avro(schema, [(1, count + bytes(10_000) + b"\x00")], metadata={}, codec="null")
    with pytest.raises(CorruptFile, match="more than 1000 numbers and texts in one block"):
        read(data)


@pytest.mark.parametrize("items", ['"null"', '{"type": "record", "name": "k", "fields": []}',
                                   '{"type": "fixed", "name": "k", "size": 0}'])  # fmt: skip
def test_arrays_of_items_without_bytes_are_refused(items):
    """Six bytes would stand for 4 GiB of them."""
    schema = b'{"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": %s}}]}'
    content = encode_long(2**32) + b"\x00"
    with pytest.raises(CorruptFile, match="items that take no bytes"):
        read(write_avro(schema % items.encode(), [(1, content)], metadata={}, codec="null"))


@pytest.mark.parametrize("count", [2**31, 2**62, -(2**31), -(2**62), -(2**63)])
def test_a_count_that_nothing_follows_is_refused(count):
    schema = b'{"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "int"}}]}'
    content = encode_long(count) + (encode_long(8) if count < 0 else b"") + b"\x00" * 8

    def call():
        with pytest.raises(CorruptFile):
            read(write_avro(schema, [(1, content)], metadata={}, codec="null"))

    assert bounded(call, megabytes=16)


def test_files_and_records_over_the_limits_are_refused():
    data = container()
    with pytest.raises(CorruptFile, match="bytes, over"):
        read(data, file_bytes_max=len(data) - 1)
    with pytest.raises(CorruptFile, match="more than 19 records"):
        read(data, records_max=19)


def test_a_schema_that_doubles_at_every_level_is_refused():
    schema: dict[str, Any] = {"type": "record", "name": "r0", "fields": [{"name": "a", "type": "int"}]}
    for level in range(1, 40):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"r{level - 1}"}]
        schema = {"type": "record", "name": f"r{level}", "fields": fields}
    with pytest.raises(InvalidInput, match=f"more than {SCHEMA_NODES_MAX} types|nested deeper"):
        compile_schema(json.dumps(schema).encode())


def test_recursive_and_deep_schemas_are_refused():
    recursive = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "r"]}]}
    with pytest.raises(InvalidInput, match=f"deeper than {SCHEMA_DEPTH_MAX}"):
        compile_schema(json.dumps(recursive).encode())
    deep = '{"type": "array", "items": ' * 5000 + '"int"' + "}" * 5000
    with pytest.raises(InvalidInput):
        compile_schema(deep.encode())


@pytest.mark.parametrize(
    "schema",
    [
        b"", b"nonsense", b"1", b'"long"', b'["null", "long"]', b'{"type": "record"}',
        b'{"type": "record", "fields": 1}',
        b'{"type": "record", "fields": [1]}', b'{"type": "record", "fields": [{"name": "a"}]}',
        b'{"type": "record", "fields": [{"name": "a", "type": "who"}]}',
        b'{"type": "record", "fields": [{"name": "a", "type": ["int", "long"]}]}',
        b'{"type": "record", "fields": [{"name": "a", "type": ["null", ["null", "long"]]}]}',
        b'{"type": "record", "fields": [{"name": "a", "type": "int", "field-id": "1"}]}',
        (b'{"type": "record", "fields": [{"name": "a", "type": "int", "field-id": 1}, '
        b'{"name": "b", "type": "int", "field-id": 1}]}'),
        b'{"type": "record", "fields": [{"name": "a", "type": {"type": "array"}}]}',
        b'{"type": "record", "fields": [{"name": "a", "type": {"type": "fixed", "name": "f", "size": -1}}]}',
    ],
)  # fmt: skip
def test_a_schema_that_no_iceberg_file_has_is_refused(schema):
    with pytest.raises(InvalidInput, match=r"avro\.schema"):
        compile_schema(schema)


def test_values_that_do_not_fit_their_type_are_refused_when_written():
    schema = compile_schema(TEXT)
    for row in ({"f1": "x", "f3": []}, {"f2": None}, {"f1": 1, "f3": [{"key": 1, "value": 2}]}):
        with pytest.raises(InvalidInput, match="Avro type"):
            encode_block(schema, [row])


# ---------------------------------------------------------------------------------------------------------------------
# Snappy


@pytest.mark.parametrize(
    ("stored", "content"),
    [
        (b"\x00", b""),
        (b"\x05\x10hello", b"hello"),
        (b"\x0a\x00a\x15\x01", b"a" * 10),
        (b"\x09\x08abc\x09\x03", b"abcabcabc"),
        (b"\x08\x00a\x1a\x01\x00", b"a" * 8),
        (b"\x08\x00a\x1b\x01\x00\x00\x00", b"a" * 8),
        (b"\x46\xf0\x45" + b"z" * 70, b"z" * 70),
    ],
)
def test_snappy_streams_are_decompressed(stored, content):
    assert decompress(stored, bytes_max=1000) == content


@settings(max_examples=50)
@given(st.lists(st.sampled_from([b"abc", b"a" * 100, bytes(range(256))]), max_size=40).map(b"".join))
def test_snappy_of_another_implementation_is_decompressed(content):
    stored = pa.Codec("snappy").compress(content, asbytes=True)
    assert decompress(stored, bytes_max=len(content)) == content


@pytest.mark.parametrize(
    "stored",
    [b"", b"\xff" * 6, b"\x05\x10hell", b"\x05\x10hello\x00!", b"\x06\x10hello", b"\x04\x01\x01", b"\x05\x00a\x01\x00",
     b"\x05\x00a\x01\x02", b"\x05\x00a\x02\x01"],
)  # fmt: skip
def test_a_snappy_stream_that_makes_no_sense_is_refused(stored):
    with pytest.raises(InvalidInput):
        decompress(stored, bytes_max=1000)


def test_snappy_output_is_bounded_by_what_its_header_says():
    with pytest.raises(InvalidInput, match="over 1000"):
        decompress(b"\xff\xff\xff\xff\x0f", bytes_max=1000)
    with pytest.raises(InvalidInput, match="more Snappy content"):
        decompress(b"\x02\x10hello", bytes_max=1000)


@settings(max_examples=100)
@given(st.binary(max_size=50))
def test_random_snappy_never_escapes_as_another_error(data):
    with contextlib.suppress(InvalidInput):
        assert len(decompress(data, bytes_max=10_000)) <= 10_000


def test_snappy_blocks_with_their_checksum_are_read():
    content = encode_block(compile_schema(TEXT), ROWS[:1])
    stored = bytes([len(content), (len(content) - 1) << 2]) + content
    assert read(raw_container(stored + zlib.crc32(content).to_bytes(4, "big"), codec="snappy")) == ROWS[:1]
    with pytest.raises(CorruptFile, match="wrong checksum"):
        read(raw_container(stored + b"\x00\x00\x00\x00", codec="snappy"))
