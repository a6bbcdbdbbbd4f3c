"""A journal segment that somebody else has made: a registered table's properties may name one."""

from __future__ import annotations

import gzip

import pytest

from firn.model import journal
from firn.model.errors import CorruptFile
from firn.storage.journal import unpack_segment

END = b'{"end":1}\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"\n" * 1_000, "more than 100 records"),
        (b"{}\n" * 1_000, "more than 100 records"),
        (b'{"record":"batch","zzz":[' + b"[]," * 5_000 + b"[]]}\n" + END, "more than 6000 JSON values"),
        (
            b'{"record":"checkpoint","writers":{' + b'"a":[1],' * 5_000 + b'"b":1}}\n' + END,
            "more than 6000 JSON values",
        ),
        (b'{"record":"batch","zzz":' + b"[" * 5_000 + b"\n" + END, "does not parse"),
        (b'{"record":"batch","zzz":' + b'{"a":' * 5_000 + b"\n" + END, "does not parse"),
        (b'{"record":"batch","batch":"\xff\xfe"}\n' + END, "does not parse"),
        (b'{"record":"batch","sequence":' + b"7" * 5_000 + b"}\n" + END, "does not parse"),
        (b" " * 200_000, "more than 100000 bytes"),
    ],
)
def test_a_bomb_is_refused_before_it_is_decoded(text: bytes, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SEGMENT_RECORDS_MAX", 100)
    monkeypatch.setattr(journal, "SEGMENT_VALUES_MAX", 6_000)
    with pytest.raises(CorruptFile, match=why) as caught:
        unpack_segment(gzip.compress(text), location="s3://b/t/metadata/journal/1.jsonl.gz", bytes_max=100_000)
    assert caught.value.location == "s3://b/t/metadata/journal/1.jsonl.gz"


def test_members_behind_the_first_are_no_part_of_a_segment() -> None:
    with pytest.raises(CorruptFile, match="something after its end"):
        unpack_segment(gzip.compress(END) + gzip.compress(b" " * 10_000), location="1.jsonl.gz", bytes_max=50_000)
