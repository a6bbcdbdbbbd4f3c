"""Records of dropped snapshots: they come back as written, or not at all, and say what is wrong."""

from __future__ import annotations

import pytest
from isal import igzip

from firn.model.dropped_snapshots import (
    Header,
    RecordRef,
    decode_record,
    decode_snapshot,
    encode_record,
    encode_snapshot,
)
from firn.model.errors import CorruptFile, NotFound
from firn.model.snapshot import Snapshot
from firn.storage.dropped_snapshots import CACHE_BYTES_MAX, RecordFiles, is_record, pack_record, record_location
from firn.storage.journal import home_of, is_journal_file
from firn.storage.memory_files import MemoryFiles

HOME = "memory://wh/db/t"
UUID = "11111111-2222-3333-4444-555555555555"
LOCATION = record_location(HOME, sequence=7, token="a")
EARLIER = RecordRef(location=record_location(HOME, sequence=3, token="b"), count=4, since_ms=1, until_ms=2)
HEADER = Header(table_uuid=UUID, since_ms=10, until_ms=20, earlier=(EARLIER,), beyond="x", statistics=("s",))


def snapshot(number: int) -> Snapshot:
    summary = {
        "operation": "overwrite", "firn.intent-id": "i", "firn.operation": "row-delta", "firn.writer": "w\n\u2028",
        "total-delete-files": "3", "wap.id": "audit", "added-records": "5", "partitions.a=1": "added-records=5",
    }  # fmt: skip
    return Snapshot(
        snapshot_id=number, parent_snapshot_id=number - 1, sequence_number=number, timestamp_ms=1_000 + number,
        manifest_list=f"{HOME}/metadata/snap-{number}.avro", summary=summary, schema_id=0, first_row_id=5, added_rows=2,
    )  # fmt: skip


SNAPSHOTS = [snapshot(number) for number in (2**63 - 1, 12, 11)]
LINES = [encode_snapshot(one) for one in SNAPSHOTS]
IDS = [one.snapshot_id for one in SNAPSHOTS]
TEXT = encode_record(HEADER, IDS, LINES)


def zipped(text: bytes) -> bytes:
    return igzip.compress(text, mtime=0)


def stored(data: bytes, *, location: str = LOCATION, bytes_max: int = 10**6) -> RecordFiles:
    files = MemoryFiles()
    files.create(location, data)
    return RecordFiles(files, bytes_max=bytes_max)


def test_a_record_comes_back_with_what_rules_ask_for() -> None:
    record = stored(pack_record(HEADER, IDS, LINES)).read(LOCATION, table_uuid=UUID)
    assert (record.header, record.snapshot_ids) == (HEADER, tuple(IDS))
    kept = list(record.snapshots())
    for found, written in zip(kept, SNAPSHOTS, strict=True):
        assert written.summary is not None
        summary = {k: v for k, v in written.summary.items() if not k.startswith(("added-", "partitions."))}
        assert found.summary == summary
        assert found.snapshot_id == written.snapshot_id
        assert (found.parent_snapshot_id, found.sequence_number) == (written.parent_snapshot_id, found.sequence_number)
        assert (found.manifest_list, found.first_row_id) == (written.manifest_list, 5)
    assert record.ref == RecordRef(location=LOCATION, count=3, since_ms=10, until_ms=20)


def test_a_snapshot_of_the_first_format_with_manifests_and_no_summary_comes_back() -> None:
    old = Snapshot(snapshot_id=3, timestamp_ms=5, manifests=("a.avro", "b.avro"))
    assert decode_snapshot(encode_snapshot(old), snapshot_id=3, location=LOCATION) == old


def test_names_are_of_the_journal_and_no_segments() -> None:
    assert is_journal_file(LOCATION)
    assert home_of(LOCATION) is None
    assert is_record(LOCATION)
    assert not is_record(f"{HOME}/metadata/_journal/0000000007-a.jsonl.gz")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "cut"),
        (b"no gzip", "does not decompress"),
        (zipped(TEXT)[:-9], "cut"),
        (zipped(TEXT) + b"x", "after its end"),
        (zipped(TEXT.removesuffix(b'{"end":3}\n')), "cut"),
        (zipped(TEXT.replace(LINES[1] + b"\n", b"")), "cut"),
        (zipped(encode_record(HEADER, IDS[:2], LINES)), "2 ids for 3"),
        (zipped(TEXT.replace(b'"dropped-snapshots"', b'"batch"')), "does not parse"),
        (zipped(TEXT.replace(b'"since-ms":10', b'"since-ms":"ten"')), "does not parse"),
        (zipped(b"[" * 100_000 + TEXT), "does not parse"),
        (zipped(TEXT.replace(UUID.encode(), b"another")), "of table another"),
        (zipped(TEXT + b" " * 2_000_000), "more than 1000000 bytes"),
        (zipped(b'{"end":0}\n'), "cut"),
    ],
    ids=range(13),
)
def test_what_is_no_whole_record_of_the_table_is_refused_by_name(data: bytes, said: str) -> None:
    with pytest.raises(CorruptFile, match=said) as caught:
        stored(data).read(LOCATION, table_uuid=UUID)
    assert LOCATION in str(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{}", "does not parse"),
        (b'{"snapshot-id":"x","timestamp-ms":1}', "does not parse"),
        (encode_snapshot(snapshot(99)), "lists dropped snapshot 99 as 11"),
        (b"\xff", "does not parse"),
    ],
)
def test_a_line_that_is_not_the_snapshot_of_its_id_is_refused(line: bytes, said: str) -> None:
    record = decode_record(encode_record(HEADER, [11], [line]), location=LOCATION, table_uuid=UUID)
    with pytest.raises(CorruptFile, match=said):
        list(record.snapshots())


@pytest.mark.parametrize("named", [f"{HOME}/data/secret.parquet", f"{HOME}/metadata/v1.metadata.json", "../x", ""])
def test_a_location_that_is_no_records_is_not_opened(named: str) -> None:
    with pytest.raises(CorruptFile, match="not named as a record"):
        RecordFiles(MemoryFiles(), bytes_max=10).read(named, table_uuid=UUID)


def test_a_record_is_read_once_and_no_more_than_the_cache_has_room_for_is_kept() -> None:
    files = MemoryFiles()
    line = encode_snapshot(snapshot(11))
    lines = [line] * (CACHE_BYTES_MAX // len(line) // 2)
    places = [record_location(HOME, sequence=n, token="t") for n in range(3)]
    for place in places:
        files.create(place, pack_record(HEADER, [11] * len(lines), lines))
    reader = RecordFiles(files, bytes_max=10**8)
    for place in places:
        reader.read(place, table_uuid=UUID)
    for place in places:
        files.delete(place)
    assert reader.read(places[2], table_uuid=UUID).ref.count == len(lines)
    with pytest.raises(NotFound):
        reader.read(places[0], table_uuid=UUID)
    large = record_location(HOME, sequence=9, token="t")
    files.create(large, pack_record(HEADER, [11] * (3 * len(lines)), lines * 3))
    assert reader.read(large, table_uuid=UUID).ref.count == 3 * len(lines)
    files.delete(large)
    with pytest.raises(NotFound):  # it is larger than all that may be kept
        reader.read(large, table_uuid=UUID)
    assert reader.read(places[2], table_uuid=UUID).ref.count == len(lines)
    with pytest.raises(NotFound):  # what is kept is another table's
        reader.read(places[2], table_uuid="another")
