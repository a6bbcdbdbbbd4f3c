"""An intent means the same whether or not it is spelled as firn's own clients spell it."""

from __future__ import annotations

from typing import Any

import pytest

from firn.model import intent_codec
from firn.model.errors import InvalidIntent
from firn.model.identifiers import uuid7
from firn.model.intent import Append, ContentFile, CountMap, ValueMap, encode_intent
from firn.model.intent_codec import decode_intent
from firn.model.limits import Limits

ID = uuid7(now_ms=1_760_000_000_000, entropy=bytes(10))


def own(**changes: Any) -> bytes:
    """An append as the client encodes it."""
    file: dict[str, Any] = {
        "file_path": "/wh/t/a.parquet",
        "file_format": "parquet",
        "spec_id": 0,
        "partition": (1, "x"),
        "record_count": 3,
        "file_size_in_bytes": 9,
        "column_sizes": CountMap((1, 2), (3, 4)),
        "lower_bounds": ValueMap((1,), ("00ff",)),
        **changes,
    }
    return encode_intent(
        Append(intent_id=ID, table="db.t", data_files=(ContentFile(**file),), reply_to="firn:replies:a")
    )


def result(payload: bytes) -> object:
    try:
        return decode_intent(payload, limits=Limits(json_depth_max=16))
    except InvalidIntent as error:
        return error.rule, str(error)


PLAIN = own()
PAYLOADS = {
    "plain": PLAIN,
    "spaced": PLAIN.replace(b'":', b'": '),
    "member twice": PLAIN.replace(b'"table":"db.t"', b'"table":"db.u","table":"db.t"'),
    "member of a file twice": PLAIN.replace(b'"record-count":3', b'"record-count":4,"record-count":3'),
    "default spelled out": PLAIN.replace(b'"spec-id"', b'"content":"data","spec-id"'),
    "unknown member": PLAIN.replace(b'"spec-id"', b'"colour":1,"spec-id"'),
    "escaped": PLAIN.replace(b"db.t", b"d\\u0062.t"),
    "lone surrogate": PLAIN.replace(b"a.parquet", b"\\ud800"),
    "not UTF-8": PLAIN.replace(b"a.parquet", b"\xff"),
    "not a number": PLAIN.replace(b'[1,"x"]', b'[NaN,"x"]'),
    "too large a float": PLAIN.replace(b'[1,"x"]', b'[1e999,"x"]'),
    "a float in another form": PLAIN.replace(b'[1,"x"]', b'[1.50,"x"]'),
    "too long an integer": PLAIN.replace(b'[1,"x"]', b'[123456789012345678901234567890,"x"]'),
    "the longest integer": PLAIN.replace(b'[1,"x"]', b'[18446744073709551615,"x"]'),
    "negative count": PLAIN.replace(b'"record-count":3', b'"record-count":-3'),
    "cut": PLAIN[:-1],
    "more behind": PLAIN + b" 1",
    "as deep as allowed": own(partition=([[[[[[[[[[[[]]]]]]]]]]]],)),
    "too deep": own(partition=([[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]],)),
    "far too deep": PLAIN.replace(b'[1,"x"]', b"[" * 100_000 + b"]" * 100_000),
    "brackets in strings": own(file_path="/wh/t/]][[{{" + "[" * 40),
    "uneven counts": own(column_sizes=CountMap((1, 2), (3,))),
    "no hexadecimal": own(lower_bounds=ValueMap((1,), ("zz",))),
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_payload_means_the_same_by_the_fast_way_and_by_the_slow_one(name: str, monkeypatch: Any) -> None:
    fast = result(PAYLOADS[name])
    monkeypatch.setattr(intent_codec, "_in_own_spelling", lambda *_, **__: None)
    assert fast == result(PAYLOADS[name])


def test_the_clients_spelling_is_read_the_fast_way() -> None:
    assert intent_codec._in_own_spelling(PLAIN, depth_max=16) is not None


@pytest.mark.parametrize("name", ["spaced", "member twice", "too deep", "escaped", "default spelled out"])
def test_another_spelling_is_not(name: str) -> None:
    assert intent_codec._in_own_spelling(PAYLOADS[name], depth_max=16) is None
