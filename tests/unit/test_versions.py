"""What each reader does with what another version wrote: docs/upgrade.md, line by line."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from firn.coordinator.config import load_settings
from firn.model.errors import CorruptFile, InvalidIntent, Misconfigured
from firn.model.identifiers import uuid7
from firn.model.intent_codec import decode_intent
from firn.model.journal import Batch, Decided, Segment, decode_segment, encode_segment
from firn.model.limits import Limits
from firn.model.outcome import Committed, decode_outcome, encode_outcome
from firn.storage.content_digests import begun_digest, digest_of_parts
from firn.storage.intent_streams import SharedSettings
from firn.storage.pointers import Pointer, pointer_from_json, pointer_to_json, with_digest

ID = uuid7(now_ms=1_760_000_000_000, entropy=bytes(10))
INTENT = {"operation": "append", "intent-id": ID, "table": "db.t", "data-files": [
    {"file-path": "/wh/db/t/a.parquet", "file-format": "parquet", "spec-id": 0, "record-count": 1,
     "file-size-in-bytes": 9},
]}  # fmt: skip
OUTCOME = Committed(intent_id=ID, table="db.t", batch="b", latency_ms=1.0)
SEGMENT = Segment(
    location="/wh/db/t/metadata/journal/0000000001-b.jsonl.gz",
    batch=Batch(batch="b", table="db.t", table_uuid="u", sequence=1, daemon="d", lock_token=1, timestamp_ms=2),
    decided=(Decided(intent_id=ID, digest="0" * 32, operation="append", outcome=OUTCOME, entry="e/0/1-0"),),
)
POINTER = Pointer(table="db.t", uuid="u", location="/wh/db/t", metadata_location="/wh/db/t/metadata/1.metadata.json")


def lines_of(segment: Segment) -> list[dict[str, object]]:
    return [json.loads(line) for line in encode_segment(segment).splitlines()]


def encoded(lines: list[dict[str, object]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@pytest.mark.parametrize(
    ("newer", "rule"),
    [
        ({"shiny": 1}, "unknown-field"),
        ({"operation": "shine"}, "unknown-operation"),
        ({"data-files": [{**INTENT["data-files"][0], "shiny": 1}]}, "unknown-field"),  # type: ignore[dict-item]
    ],
)
def test_nothing_of_a_newer_intent_is_left_out_in_silence(newer: dict[str, object], rule: str) -> None:
    decode_intent(json.dumps(INTENT).encode(), limits=Limits())
    with pytest.raises(InvalidIntent) as refused:
        decode_intent(json.dumps(INTENT | newer).encode(), limits=Limits())
    assert refused.value.rule == rule


def test_a_newer_outcome_is_read_without_what_is_new() -> None:
    newer = json.loads(encode_outcome(OUTCOME)) | {"shiny": 1}
    assert decode_outcome(json.dumps(newer).encode()) == OUTCOME


def test_a_member_that_a_newer_journal_has_is_left_out() -> None:
    lines = lines_of(SEGMENT)
    for line in lines[:-1]:
        line["shiny"] = {"a": [1]}
    assert decode_segment(encoded(lines), location=SEGMENT.location) == SEGMENT


def test_a_record_that_a_newer_journal_has_is_not_passed_over() -> None:
    """It may be a decision: whoever does not know it must not build on the table."""
    *records, _end = lines_of(SEGMENT)
    newer: list[dict[str, object]] = [*records, {"record": "shiny"}, {"end": len(records) + 1}]
    with pytest.raises(CorruptFile, match=r"0000000001-b\.jsonl\.gz.*shiny"):
        decode_segment(encoded(newer), location=SEGMENT.location)


def test_a_journal_of_an_older_version_is_read() -> None:
    """Members that came later were never written, and have defaults."""
    batch, decided, end = lines_of(SEGMENT)
    required = {
        kind: {field.encode_name for field in msgspec.structs.fields(kind) if field.required}
        for kind in (Batch, Decided)
    }
    oldest = [
        {name: value for name, value in line.items() if name in required[kind] | {"record"}}
        for kind, line in ((Batch, batch), (Decided, decided))
    ]
    assert decode_segment(encoded([*oldest, end]), location=SEGMENT.location) == SEGMENT


def test_a_digest_that_an_older_version_puts_into_a_pointer_stands_before_one_that_it_does_not_know() -> None:
    parts = digest_of_parts([(3, begun_digest(b"abc"))])
    newer = with_digest(POINTER, parts)
    assert newer.digest == parts
    members = json.loads(pointer_to_json(newer))
    assert members["metadata-digest"] is None  # an older version compares nothing, and keeps the other
    moved = pointer_from_json(json.dumps(members | {"metadata-digest": "00ff"}).encode(), where="/tables/db.t")
    assert moved.digest == "00ff"
    assert with_digest(moved, parts).digest == parts
    assert with_digest(newer, None).digest is None


def test_what_a_newer_version_says_in_a_pointer_is_kept_and_written_back() -> None:
    newer = json.loads(pointer_to_json(POINTER)) | {"shiny": {"a": [1]}}
    read = pointer_from_json(json.dumps(newer).encode(), where="/tables/db.t")
    assert read.metadata_location == POINTER.metadata_location
    assert json.loads(pointer_to_json(read)) == newer


def test_writers_leave_out_what_newer_daemons_say() -> None:
    assert msgspec.json.decode(b'{"shards": 64, "shiny": 1}', type=SharedSettings) == SharedSettings(shards=64)


def test_an_unknown_setting_is_a_typo(tmp_path: Path) -> None:
    file = tmp_path / "firn.toml"
    file.write_text("[daemon]\nshiny = 1\n")
    with pytest.raises(Misconfigured, match="shiny"):
        load_settings(file, {})
