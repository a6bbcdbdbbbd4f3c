"""An intent means the same whether or not it is spelled as firn's own clients spell it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.model import intent_codec
from firn.model.errors import InvalidIntent
from firn.model.identifiers import uuid7
from firn.model.intent import Append, ContentFile, CountMap, ValueMap, digest_of, encode_intent
from firn.model.intent_codec import decode_intent
from firn.model.limits import Limits

ID = uuid7(now_ms=1_760_000_000_000, entropy=bytes(10))


FILE: dict[str, Any] = {
    "file_path": "/wh/t/a.parquet",
    "file_format": "parquet",
    "spec_id": 0,
    "partition": (1, "x"),
    "record_count": 3,
    "file_size_in_bytes": 9,
    "column_sizes": CountMap((1, 2), (3, 4)),
    "lower_bounds": ValueMap((1,), ("00ff",)),
}
APPEND = Append(intent_id=ID, table="db.t", data_files=(ContentFile(**FILE),), reply_to="firn:replies:a")


def own(**changes: Any) -> bytes:
    """An append as the client encodes it."""
    return encode_intent(msgspec.structs.replace(APPEND, data_files=(ContentFile(**FILE | changes),)))


def result(payload: bytes) -> object:
    try:
        return decode_intent(payload, limits=Limits(json_depth_max=16))
    except InvalidIntent as error:
        return error.rule, str(error)


PLAIN = own()
ENCODED = own(column_sizes=None, lower_bounds=None, encoded=b"\0")
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
    "another order": PLAIN.replace(
        b'"record-count":3,"file-size-in-bytes":9', b'"file-size-in-bytes":9,"record-count":3'
    ),
    "minus zero": PLAIN.replace(b'"spec-id":0', b'"spec-id":-0'),
    "a short float that makes room for a member twice": PLAIN.replace(b'[1,"x"]', b'[1e15,"x"]').replace(
        b'"spec-id":0', b'"spec-id":0,"spec-id":0'
    ),
    "two files": encode_intent(
        Append(intent_id=ID, table="db.t", data_files=(ContentFile(**FILE), ContentFile(**FILE)))
    ),
    "encoded": ENCODED,
    "encoded with other bits at the end": ENCODED.replace(b"AA==", b"AB=="),
    "encoded without padding": ENCODED.replace(b"AA==", b"AA"),
    "encoded beside metrics": own(encoded=b"\0"),
    "encoded of deletes": ENCODED.replace(b'"file-path"', b'"content":"position-deletes","file-path"'),
    "with a digest": encode_intent(msgspec.structs.replace(APPEND, digest=digest_of(APPEND))),
    "with another digest": encode_intent(msgspec.structs.replace(APPEND, digest="0" * 32)),
    "with all of the address": encode_intent(
        msgspec.structs.replace(APPEND, traceparent=f"00-{'a' * 32}-{'b' * 16}-01", digest=digest_of(APPEND))
    ),
    "default spelled out, which is text": PLAIN.replace(b'"reply-to"', b'"branch":"main","reply-to"'),
    "with a summary": encode_intent(msgspec.structs.replace(APPEND, summary={"b": "é", "a": "\u2028"})),
    "with a key of its summary twice": encode_intent(
        msgspec.structs.replace(APPEND, summary={"b": "", "a": ""})
    ).replace(b'"b"', b'"a"'),
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_payload_means_the_same_by_the_fast_way_and_by_the_slow_one(name: str, monkeypatch: Any) -> None:
    fast = result(PAYLOADS[name])
    monkeypatch.setattr(intent_codec, "_in_own_spelling", lambda *_, **__: None)
    assert fast == result(PAYLOADS[name])


def test_whatever_befalls_a_byte_a_payload_means_the_same_by_both_ways(monkeypatch: Any) -> None:
    changed = [
        PLAIN[:at] + new + PLAIN[at + cut :]
        for at in range(len(PLAIN))
        for cut in (0, 1)
        for new in (b"", b"0", b"-", b".", b"e", b'"', b",", b" ", b"[]", b"\\", b"\x7f", b"\xc3")
    ]
    fast = [result(payload) for payload in changed]
    monkeypatch.setattr(intent_codec, "_in_own_spelling", lambda *_, **__: None)
    for payload, found in zip(changed, fast, strict=True):
        assert found == result(payload), payload


def test_the_clients_spelling_is_read_the_fast_way() -> None:
    assert intent_codec._in_own_spelling(PLAIN, depth_max=16) is not None


@pytest.mark.parametrize("name", ["spaced", "member twice", "too deep", "escaped", "default spelled out", "minus zero"])
def test_another_spelling_is_not(name: str) -> None:
    assert intent_codec._in_own_spelling(PAYLOADS[name], depth_max=16) is None
