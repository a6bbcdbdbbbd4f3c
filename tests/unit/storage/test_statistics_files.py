"""Statistics files are known by their content: footers and schemas, not names."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from firn.model.deletion_vector import DeletionVector
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.storage.journal import JOURNAL_FOLDER
from firn.storage.memory_files import MemoryFiles
from firn.storage.puffin import deletion_vector_blob, encode_puffin
from firn.storage.statistics_files import PARTITION_COLUMNS, read_statistics_file
from tests.strategies.statistics_files import partition_statistics, sketch, write_statistics

PATH = "memory://wh/t/metadata/x"
PARTITION_FORMS: list[tuple[str, dict[str, Any]]] = [
    ("parquet", {}),
    ("parquet", {"compression": "zstd"}),
    ("avro", {}),
    ("avro", {"codec": "deflate"}),
    *(("orc", {"compression": codec}) for codec in ("uncompressed", "zlib", "snappy", "lz4", "zstd")),
]


def of(data: bytes, *, partition: bool) -> Any:
    files = MemoryFiles()
    files.create(PATH, data)
    return read_statistics_file(files, PATH, partition=partition)


def test_a_puffin_file_shows_its_sizes_and_blobs() -> None:
    files = MemoryFiles()
    members = write_statistics(files, PATH, 7, sketch(7), sketch(7, column=2))
    found = read_statistics_file(files, PATH, partition=False)
    assert (found.size, found.footer_size) == (members["file-size-in-bytes"], members["file-footer-size-in-bytes"])
    assert found.puffin is not None
    assert [blob.fields for blob in found.puffin.blobs] == [(1,), (2,)]


@pytest.mark.parametrize(("kind", "options"), PARTITION_FORMS)
def test_partition_statistics_are_known_by_their_columns(kind: str, options: dict[str, Any]) -> None:
    data = partition_statistics(kind, **options)
    assert of(data, partition=True).size == len(data)
    for column in PARTITION_COLUMNS:
        with pytest.raises(CorruptFile, match=f"no column '{column}'"):
            of(partition_statistics(kind, without=column, **options), partition=True)


@pytest.mark.parametrize(("kind", "options"), PARTITION_FORMS)
def test_damaged_partition_statistics_are_no_statistics(kind: str, options: dict[str, Any]) -> None:
    data = partition_statistics(kind, **options)
    for size in range(0, len(data), 7):
        with pytest.raises(CorruptFile):
            of(data[:size], partition=True)
    for at in range(0, len(data), 3):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        with contextlib.suppress(CorruptFile):
            of(bytes(damaged), partition=True)


def test_files_of_another_kind_are_no_statistics() -> None:
    vector, _ = encode_puffin([deletion_vector_blob(DeletionVector.of([1]), data_file="memory://wh/t/data/a.parquet")])
    puffin, _ = encode_puffin([])
    for data in (vector, partition_statistics("parquet"), b"", b"PFA1", b"{}", b"PFA1" * 20):
        with pytest.raises(CorruptFile):
            of(data, partition=False)
    for data in (vector, puffin, b"", b"PAR1", b"Obj\x01", b"ORC", b"{}", b"PAR1" * 20, b"ORC" * 20):
        with pytest.raises(CorruptFile):
            of(data, partition=True)


def test_a_file_that_is_missing_or_among_journal_segments_is_refused() -> None:
    files = MemoryFiles()
    with pytest.raises(NotFound):
        read_statistics_file(files, PATH, partition=False)
    segment = f"memory://wh/t/{JOURNAL_FOLDER}/s.stats"
    write_statistics(files, segment, 7)
    with pytest.raises(InvalidInput, match="journal"):
        read_statistics_file(files, segment, partition=False)
