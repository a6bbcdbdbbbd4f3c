from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import CorruptFile, InvalidInput, Unsupported
from firn.storage import parquet_footer
from firn.storage.parquet_footer import check_not_encrypted, read_footer
from firn.storage.thrift import read_struct
from tests.strategies.examples import examples

TABLE = pa.table({"a": [1, None, 3, 4], "s": ["x", "y", None, "zz"], "l": [[1.0], [], None, [2.0, 3.0]]})


def file_of(table=TABLE, **options) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def test_it_says_what_the_arrow_library_says():
    metadata = pq.read_metadata(io.BytesIO(file_of(row_group_size=2)))
    footer = read_footer(metadata, location="f")
    assert footer.rows == 4
    assert len(footer.row_groups) == 2
    for group, chunks in enumerate(footer.row_groups):
        for index, chunk in enumerate(chunks):
            theirs = metadata.row_group(group).column(index)
            assert chunk.physical == theirs.physical_type
            assert chunk.values == theirs.num_values
            assert chunk.size == theirs.total_compressed_size
            assert chunk.start == theirs.dictionary_page_offset
            assert chunk.nulls == theirs.statistics.null_count
            assert chunk.low == theirs.statistics.min_raw
            assert chunk.high == theirs.statistics.max_raw


def test_a_file_without_statistics_says_nothing_of_values():
    footer = read_footer(pq.read_metadata(io.BytesIO(file_of(write_statistics=False))), location="f")
    (chunk, *_) = footer.row_groups[0]
    assert (chunk.low, chunk.high) == (None, None)
    assert chunk.nulls == 1  # the levels say so


@pytest.mark.parametrize(
    ("data", "error", "reason"),
    [
        (b"", CorruptFile, "ends in"),
        (b"PAR1" + bytes(20) + b"\1\0\0\0PARE", Unsupported, "encrypted"),
        (b"PAR1" + bytes(4) + b"\xff\0\0\0PAR1", CorruptFile, "footer of 255 bytes"),
        (b"PAR1" + b"\x1c" * 4 + b"\4\0\0\0PAR1", CorruptFile, "ends early"),
        (b"PAR1" + b"\x8c\0\0" + b"\3\0\0\0PAR1", Unsupported, "encrypted"),
    ],
)
def test_what_is_no_plain_parquet_file_is_refused(data, error, reason):
    with pytest.raises(error, match=reason):
        check_not_encrypted(io.BytesIO(data), location="f")


def test_damage_that_ends_the_arrow_library_is_an_error_here():
    """The physical type of a column chunk is changed: Arrow aborts the process when it is asked for such a column."""
    data = file_of(TABLE.select(["a"]), compression="none")
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    # field 1 of ColumnMetaData: type INT64 (2, zigzag 4), followed by field 2, a list of encodings
    at = data.index(b"\x15\x04\x19", start + 20)
    damaged = data[:at] + b"\x15\x06" + data[at + 2 :]
    metadata = pq.read_metadata(io.BytesIO(damaged))
    assert read_footer(metadata, location="f").row_groups[0][0].physical == "INT96"


def test_too_many_row_groups_are_refused(monkeypatch):
    monkeypatch.setattr(parquet_footer, "ROW_GROUPS_MAX", 3)
    with pytest.raises(CorruptFile, match="4 row groups"):
        read_footer(pq.read_metadata(io.BytesIO(file_of(row_group_size=1))), location="f")


@examples(200)
@given(st.binary(max_size=60))
def test_no_bytes_crash_the_thrift_reader(data):
    try:
        fields = read_struct(data)
    except InvalidInput:
        return
    assert isinstance(fields, dict)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x15",
        b"\x1c" * 1000,
        b"\x19" * 1000,
        b"\x19\xfc\xff\xff\xff\xff\x0f",
        b"\x18\xff\xff\xff\xff\x0f",
        b"\x1b\xff\xff\xff\xff\x0f\x88",
        b"\x15" + b"\xff" * 11,
        b"\x1f\x00",
    ],
)
def test_malformed_thrift_is_refused(data):
    with pytest.raises(InvalidInput):
        read_struct(data)


def test_every_thrift_type_is_read():
    data = bytes(
        [0x11, 0x12, 0x13, 0x07, 0x15, 0x03, 0x17, *b"\0\0\0\0\0\0\xf8\x3f", 0x18, 2, *b"ab", 0x19, 0x21, 1, 2]
    )
    data += bytes([0x1C, 0x05, 0x02, 0x04, 0x00, 0x1B, 0x01, 0x85, 1, 0x61, 0x04, 0x1D, *range(16), 0x00])
    assert read_struct(data) == {
        1: True, 2: False, 3: 7, 4: -2, 5: 1.5, 6: b"ab", 7: [True, False], 8: {1: 2}, 9: [(b"a", 2)],
        10: bytes(range(16)),
    }  # fmt: skip
