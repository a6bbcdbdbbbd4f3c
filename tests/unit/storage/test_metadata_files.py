"""Metadata files: what is written is read back, and what is not what its name says is refused."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from msgspec.structs import replace

from firn.model.errors import CorruptFile, InvalidInput, InvalidMetadata, TooLarge
from firn.model.metadata_changes import set_properties
from firn.model.metadata_json import METADATA_BYTES_MAX, metadata_to_json
from firn.model.snapshot import Snapshot, SnapshotLogEntry
from firn.model.strict_json import JSON_VALUES_MAX, check_values, loads
from firn.storage import metadata_files
from firn.storage.content_digests import is_digest_of, is_of_parts
from firn.storage.grown_content import GrownContent
from firn.storage.metadata_files import (
    GZIP_MEMBERS_MAX,
    LOG_ROOM_BYTES,
    codec_for,
    codec_of,
    decode_metadata,
    decompressed,
    encode_metadata,
    encode_with_digest,
    forget_texts,
    is_kept_encoded,
    metastore_name,
    numbered_name,
    suffix,
    version_of,
)
from tests.strategies.metadata import START_MS, appended, table

PLAIN = "s3://b/t/metadata/00003-ab.metadata.json"
GZIPPED = "s3://b/t/metadata/00003-ab.gz.metadata.json"
TABLE = appended(table(), 1, 2, 3)


@pytest.mark.parametrize(("codec", "location"), [("none", PLAIN), ("gzip", GZIPPED)])
def test_a_file_reads_back(codec, location):
    data = encode_metadata(TABLE, codec=codec)
    assert decode_metadata(data, location=location) == TABLE
    assert encode_metadata(TABLE, codec=codec) == data


def test_cached_snapshots_are_written_like_fresh_ones():
    encode_metadata(TABLE)
    assert json.loads(encode_metadata(TABLE)) == metadata_to_json(TABLE)


@pytest.mark.parametrize("name", ["v3.gz.metadata.json", "v3.metadata.json.gz", "v3.metadata.json"])
def test_gzip_is_told_by_the_content_under_every_name(name):
    assert decode_metadata(encode_metadata(TABLE, codec="gzip"), location=name) == TABLE


def test_several_gzip_members_are_one_file():
    data = encode_metadata(TABLE)
    assert decode_metadata(gzip.compress(data[:100]) + gzip.compress(data[100:]), location=GZIPPED) == TABLE


def test_a_plain_file_under_a_gzip_name_is_corrupt():
    with pytest.raises(CorruptFile, match="its name says gzip"):
        decode_metadata(encode_metadata(TABLE), location=GZIPPED)


@pytest.mark.parametrize("cut", [3, 9, 20, 200, -9, -8, -1])
def test_a_cut_gzip_file_is_corrupt(cut):
    data = encode_metadata(TABLE, codec="gzip")
    with pytest.raises(CorruptFile, match="gzip stream"):
        decode_metadata(data[:cut], location=GZIPPED)


def test_no_flipped_byte_of_a_gzip_file_changes_the_table():
    data = encode_metadata(TABLE, codec="gzip")
    noticed = 0
    for i in [*range(20), *range(20, len(data), 7), *range(len(data) - 8, len(data))]:
        broken = data[:i] + bytes([data[i] ^ 0x40]) + data[i + 1 :]
        try:
            # Some bits mean nothing: the header's time, and the padding after the last block.
            assert decode_metadata(broken, location=GZIPPED) == TABLE
        except (CorruptFile, InvalidInput):
            noticed += 1
    assert noticed > 70


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_a_cut_plain_file_is_refused(cut):
    with pytest.raises(InvalidInput) as caught:
        decode_metadata(encode_metadata(TABLE)[:cut], location=PLAIN)
    assert str(caught.value).startswith(PLAIN)


def test_a_bomb_is_stopped_at_the_limit():
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 100_000
    with pytest.raises(InvalidInput, match="more than the limit of 1000000 bytes"):
        decode_metadata(bomb, location=GZIPPED, bytes_max=1_000_000)
    nested = gzip.compress(b"") * 999 + bomb
    with pytest.raises(InvalidInput, match="more than the limit"):
        decode_metadata(nested, location=GZIPPED, bytes_max=1_000_000)


@pytest.mark.parametrize(
    ("members", "member"),
    [
        ({"unknown": [[]] * 1_000}, "unknown"),
        ({"unknown": [{}] * 1_000}, "unknown"),
        ({"properties": {f"p{n}": "v" for n in range(1_000)}}, "properties"),
        ({"schemas": [{"type": "struct", "fields": [{"id": n} for n in range(500)]}]}, "schemas"),
        ({"snapshots": [{"snapshot-id": n} for n in range(500)]}, "snapshots"),
        ({"refs": {f"b{n}": {"snapshot-id": 1} for n in range(500)}}, "refs"),
    ],
)
@pytest.mark.parametrize("location", [PLAIN, GZIPPED])
def test_a_bomb_of_values_is_refused_naming_the_member(members, member, location):
    data = json.dumps({**metadata_to_json(TABLE), **members}).encode()
    stored = gzip.compress(data) if location == GZIPPED else data
    with pytest.raises(TooLarge, match="more than 900 JSON values") as caught:
        decode_metadata(stored, location=location, values_max=900)
    assert caught.value.where == f"{location}.{member}"


def test_a_stream_of_many_gzip_members_is_refused():
    with pytest.raises(TooLarge, match="gzip members"):
        decode_metadata(gzip.compress(b"") * (GZIP_MEMBERS_MAX + 1), location=GZIPPED)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_metadata_that_is_nested_too_deep_is_refused(opening):
    text = encode_metadata(TABLE)[:-1] + b',"unknown":' + opening.encode() * 100_000
    with pytest.raises(TooLarge, match="levels of arrays and objects"):
        decode_metadata(text, location=PLAIN)


def test_large_tables_are_within_the_limits():
    """10 000 snapshots with long summaries, and 100 schemas of 1 000 columns."""
    summary = {f"summary-entry-{n}": "1234567890" for n in range(20)}
    snapshot = {"snapshot-id": 2**60, "timestamp-ms": 2**40, "manifest-list": "s3://b/" + "x" * 100, "summary": summary}
    fields = [{"id": n, "name": f"column_{n:05d}", "required": False, "type": "string"} for n in range(1_000)]
    log = {"snapshot-id": 2**60, "timestamp-ms": 2**40}
    members = {
        "snapshots": [snapshot] * 10_000,
        "snapshot-log": [log] * 10_000,
        "schemas": [{"type": "struct", "schema-id": 1, "fields": fields}] * 100,
    }
    text = json.dumps(members).encode()
    assert len(text) < METADATA_BYTES_MAX
    check_values(text, where="", values_max=JSON_VALUES_MAX)


def test_only_one_large_file_is_decoded_at_a_time(monkeypatch):
    """Many that are registered at once must not take the memory of all of them."""
    at_once, most = 0, 0

    def counted(text, **limits):
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        time.sleep(0.01)
        try:
            return loads(text, **limits)
        finally:
            at_once -= 1

    monkeypatch.setattr(metadata_files, "loads", counted)
    monkeypatch.setattr(metadata_files, "LARGE_BYTES", 100)
    data = encode_metadata(TABLE, codec="gzip")
    with ThreadPoolExecutor(8) as threads:
        tables = list(threads.map(lambda _: decode_metadata(data, location=GZIPPED), range(8)))
    assert tables == [TABLE] * 8
    assert most == 1


def test_a_large_plain_file_is_refused_before_it_is_parsed():
    with pytest.raises(InvalidInput, match="1000 bytes"):
        decode_metadata(b"{" * 1001, location=PLAIN, bytes_max=1000)


def test_errors_name_file_and_member():
    obj = metadata_to_json(TABLE)
    obj["snapshots"][1]["snapshot-id"] = "x"
    with pytest.raises(InvalidMetadata) as caught:
        decode_metadata(json.dumps(obj).encode(), location=PLAIN)
    assert caught.value.where == f"{PLAIN}.snapshots[1].snapshot-id"


def test_raw_deflate_is_not_taken_for_gzip():
    with pytest.raises(CorruptFile):
        decode_metadata(zlib.compress(b"{}"), location=GZIPPED)


@pytest.mark.parametrize(
    ("location", "codec", "version"),
    [
        (metastore_name(version=7, unique="ab-cd", codec="none"), "none", 7),
        (metastore_name(version=123456, unique="ab-cd", codec="gzip"), "gzip", 123456),
        (numbered_name(version=7, codec="none"), "none", 7),
        (numbered_name(version=12, codec="gzip"), "gzip", 12),
        ("file:/t/metadata/v12.metadata.json.gz", "gzip", 12),
        ("s3://b/t/metadata/own-name.metadata.json", "none", None),
        ("s3://b/t.gz.metadata.json/v.metadata.json", "none", None),
    ],
)
def test_names_say_codec_and_version(location, codec, version):
    assert codec_of(location) == codec
    assert version_of(location) == version


@pytest.mark.parametrize("name", ["v1.json", "metadata.json.bak", "v1.metadata.json/", ""])
def test_other_names_are_not_metadata_files(name):
    with pytest.raises(InvalidInput, match=r"must end in \.metadata\.json"):
        codec_of(name)


def test_the_table_chooses_the_codec():
    assert codec_for(TABLE) == "none"
    chosen = set_properties(TABLE, {"write.metadata.compression-codec": "GZIP"}, now_ms=START_MS)
    assert codec_for(chosen) == "gzip"


def grown(count, *, first=1, name="s"):
    """A table with so many snapshots, the first of which has the number `first`."""
    snapshots = tuple(
        Snapshot(
            snapshot_id=n,
            sequence_number=n,
            timestamp_ms=n,
            manifest_list=f"s3://b/t/{name}-{n}.avro",
            summary={"operation": "append"},
        )
        for n in range(first, first + count)
    )
    log = tuple(SnapshotLogEntry(timestamp_ms=s.timestamp_ms, snapshot_id=s.snapshot_id) for s in snapshots)
    return replace(TABLE, snapshots=snapshots, snapshot_log=log)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_metadata_that_grew_is_what_it_would_be_if_it_were_written_anew(codec):
    steps = [grown(0), grown(3), grown(4), grown(300), grown(301), grown(3, first=200), grown(4, name="x"), grown(0)]
    long = [grown(count, first=first) for first in (1, 50) for count in (1_000, 1_001, 1_020, 1_300)]
    for metadata in [*steps, *long, *reversed(steps), replace(grown(1_001), format_version=1), grown(6)]:
        content, digest = encode_with_digest(metadata, codec=codec)
        data = bytes(content)
        assert is_digest_of(data, digest)
        assert len(data) == len(content)
        text = decompressed(data, location=f"v1{suffix(codec)}", bytes_max=10**7)
        assert json.loads(text) == metadata_to_json(metadata)


def test_long_metadata_begins_as_the_one_before_as_long_as_nothing_is_taken_away():
    shorter, longer, other = (encode_with_digest(grown(count))[0] for count in (2_000, 2_003, 2_001))
    assert isinstance(shorter, GrownContent)
    assert isinstance(longer, GrownContent)
    assert isinstance(other, GrownContent)
    assert longer.continued(shorter.stretches) == shorter.stretches
    assert other.continued(longer.stretches) == ()
    assert patched(shorter, longer) == bytes(longer)


def test_long_compressed_metadata_begins_as_the_one_before():
    shorter, longer, other = (encode_with_digest(grown(count), codec="gzip")[0] for count in (4_000, 4_003, 3_900))
    assert isinstance(shorter, GrownContent)
    assert isinstance(longer, GrownContent)
    assert isinstance(other, GrownContent)
    assert longer.continued(shorter.stretches) == shorter.stretches
    assert other.continued(longer.stretches) == ()
    assert patched(shorter, longer) == bytes(longer)
    assert is_kept_encoded(grown(3_900))
    forget_texts(grown(3_900))
    assert not is_kept_encoded(grown(3_900))


def test_a_long_log_stays_where_it_is_until_there_is_no_room_before_it():
    contents = [encode_with_digest(grown(count))[0] for count in range(5_000, 5_400, 3)]
    stayed = 0
    for before, now in pairwise(contents):
        assert isinstance(before, GrownContent)
        assert isinstance(now, GrownContent)
        assert json.loads(bytes(now))["snapshot-log"][-1]["snapshot-id"] > 0
        known = now.continued(before.stretches)
        assert known in (before.stretches, before.stretches[:1])
        assert patched(before, now) == bytes(now)
        stayed += len(known) == 2
        if len(known) == 2:
            assert sum(len(piece) for _, some in now.rest(known) for piece in some) < 2_000
        assert len(now) < sum(stretch.size for stretch in now.stretches) + 2_000 + LOG_ROOM_BYTES
    assert 0 < len(contents) - 1 - stayed < 5


def patched(before, now):
    """What comes of a file with the stretches of `before`, and spaces between, when what is new is written to it."""
    known = now.continued(before.stretches)
    data = bytearray(b" " * known[-1].end)
    for stretch in known:
        data[stretch.start : stretch.end] = bytes(before)[stretch.start : stretch.end]
    for start, some in now.rest(known):
        new = b"".join(some)
        data[start : start + len(new)] = new
    return bytes(data)


@pytest.mark.parametrize("first", [300, 10_000])
def test_a_log_is_a_part_of_its_own_and_whatever_part_changes_is_noticed(first):
    for count in (first, first + 1, first + 3):
        content, digest = encode_with_digest(grown(count))
        data = bytes(content)
        assert is_of_parts(digest)
        assert is_digest_of(data, digest)
        assert json.loads(data) == metadata_to_json(grown(count))
        for place in (1, data.index(b'"snapshot-log"') - 20, len(data) - 3):
            assert not is_digest_of(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :], digest)
        assert not is_digest_of(data[:-1], digest)
        assert not is_digest_of(data + b" ", digest)


def test_snapshots_of_a_long_history_are_found_however_it_changes():
    for metadata in (grown(300), grown(301), grown(301), grown(299, first=2), grown(300, name="x"), grown(2)):
        assert [metadata.snapshot_by_id(s.snapshot_id) for s in metadata.snapshots] == list(metadata.snapshots)
        assert metadata.snapshot_by_id(metadata.snapshots[-1].snapshot_id + 1) is None
