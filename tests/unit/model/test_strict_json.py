"""What two JSON parsers could read differently is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from firn.model.errors import InvalidInput
from firn.model.strict_json import loads
from tests.strategies.examples import examples
from tests.strategies.metadata import JSON_VALUES


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "duplicate key 'c'"),
        (b'{"a": 1, "\\u0061": 2}', "duplicate key 'a'"),
        (b"[NaN]", "NaN is not JSON"),
        (b"[Infinity]", "Infinity is not JSON"),
        (b"[-Infinity]", "-Infinity is not JSON"),
        (b"[1e999]", "number 1e999 is too large"),
        (b"[18446744073709551616]", "does not fit in 64 bits"),
        (b"[-9223372036854775809000]", "does not fit in 64 bits"),
        (b"[-9223372036854775809]", "does not fit in 64 bits"),
        (b'{"a":18446744073709551616}', "does not fit in 64 bits"),
        (b"18446744073709551616", "does not fit in 64 bits"),
        (b'["00000000000000000000", \t18446744073709551616]', "does not fit in 64 bits"),
        (b'["a00000000000000000000",\n-9223372036854775809]', "does not fit in 64 bits"),
        (b"[" + b"7" * 5000 + b"]", "5000 characters) does not fit in 64 bits"),
        (b'{"a": ["\\ud800"]}', "lone surrogate U+D800"),
        (b'{"\\udfff": 1}', "lone surrogate U+DFFF"),
        (b'"\xed\xa0\x80"', "not UTF-8 at byte 1"),
        (b"\xff", "not UTF-8 at byte 0"),
        (b"\xef\xbb\xbf{}", "not JSON at line 1"),
        (b"", "not JSON at line 1, column 1"),
        (b'{"a":\n 1,}', "not JSON at line 2"),
        (b"{} {}", "Extra data"),
        (b'"a\x01"', "Invalid control character"),
        (b"{'a': 1}", "not JSON"),
        (b"01", "Extra data"),
    ],
)
def test_ambiguous_json_is_refused_with_its_place(text, complaint):
    with pytest.raises(InvalidInput) as caught:
        loads(text, where="intent")
    assert complaint in str(caught.value)
    assert str(caught.value).startswith("intent")


def test_a_surrogate_pair_is_one_character():
    assert loads(b'"\\ud83d\\ude00"', where="x") == "\U0001f600"


def test_64_bit_integers_are_kept_exactly_beside_long_digit_strings():
    numbers = [2**64 - 1, 2**63 - 1, -(2**63), "1" * 30]
    assert loads(json.dumps(numbers), where="x") == numbers


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_depth_is_limited(opening):
    closing = "]" if opening == "[" else "}"
    assert loads(opening * 3 + "1" + closing * 3, where="x", depth_max=3)
    for depth in (4, 65, 100_000):
        with pytest.raises(InvalidInput, match="more than 3 levels"):
            loads(opening * depth + "1" + closing * depth, where="x", depth_max=3)


def test_size_is_limited_before_parsing():
    with pytest.raises(InvalidInput, match="11 bytes of JSON, the limit is 10 bytes"):
        loads(b"{{{{{{{{{{{", where="x", bytes_max=10)


@given(JSON_VALUES)
@examples(50)
def test_every_plain_value_reads_back(value):
    assert loads(json.dumps(value), where="x") == value
    assert loads(json.dumps(value, ensure_ascii=False).encode(), where="x") == value
