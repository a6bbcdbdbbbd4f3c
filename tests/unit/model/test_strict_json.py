"""What two JSON parsers could read differently is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from firn.model.errors import InvalidInput, TooLarge
from firn.model.strict_json import LONG_DIGITS_MAX, loads
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


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (b'{"a": 1, "unknown": [' + b"[]," * 100 + b"[]]}", "f.json.unknown"),
        (b'{"a": 1, "unknown": [' + b"{}," * 100 + b"{}]}", "f.json.unknown"),
        (b'{"a": 1, "numbers": [' + b"0," * 100 + b"0]}", "f.json.numbers"),
        (b'{"a": 1, "deep": ' + b"[" * 100 + b"]" * 100 + b"}", "f.json.deep"),
        (b'{"properties": {' + b",".join(b'"p%d": "v"' % n for n in range(100)) + b'}, "z": 1}', "f.json.properties"),
        (b"{" + b",".join(b'"p%d": 0' % n for n in range(100)) + b"}", "f.json.p48"),
        (b'{"a": "\\"[[,,", "b\\\\": [' + b"0," * 100 + b"0]}", "f.json.b"),
        (b"[" + b"[]," * 100 + b"[]]", "f.json"),
        (b'{"a": [' + b'""' * 300 + b",[" * 60 + b"]}", "f.json.a"),
    ],
)
def test_more_values_than_the_limit_are_refused_before_any_is_decoded(text, where, monkeypatch):
    monkeypatch.setattr(json, "loads", pytest.fail)
    with pytest.raises(TooLarge, match="more than 50 JSON values") as caught:
        loads(text, where="f.json", values_max=50)
    assert caught.value.where == where


@pytest.mark.parametrize(
    "value",
    [
        {"text": "[{,}]" * 100, '[,"\\,' * 50: "\\" * 99 + '"'},
        {"a": [0] * 47},
        ["\\", '"', ",,,,", '\\"' * 100],
    ],
)
def test_signs_inside_strings_are_no_values(value):
    assert loads(json.dumps(value), where="x", values_max=50) == value


def test_many_long_digit_strings_are_no_reason_to_look_at_each():
    value = ["7" * 19 + "a"] * (LONG_DIGITS_MAX + 1) + [2**64 - 1]
    assert loads(json.dumps(value), where="x") == value
    with pytest.raises(InvalidInput, match="does not fit in 64 bits"):
        loads(json.dumps([*value, 2**64]), where="x")


@given(JSON_VALUES)
@examples(50)
def test_every_plain_value_reads_back(value):
    assert loads(json.dumps(value), where="x") == value
    assert loads(json.dumps(value, ensure_ascii=False).encode(), where="x") == value
