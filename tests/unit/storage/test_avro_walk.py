"""Walking over records finds what decoding them finds, whatever the schema and however arrays are cut into blocks."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.storage.avro import decode_block
from firn.storage.avro_numbers import encode_long
from firn.storage.avro_schema import compile_schema
from firn.storage.avro_steps import CHUNK_ITEMS, SHORT_BYTES_MAX, content_of, long_of
from firn.storage.avro_walk import LongNumberError, Walk
from tests.strategies.avro_records import LONGS, TYPES, WANTED, datum, record, with_names


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_what_is_kept_of_a_record_is_what_a_decoder_finds(data):
    outer = record(
        data.draw(st.lists(TYPES, max_size=3)), data.draw(st.lists(st.tuples(st.integers(0, 3), WANTED), max_size=2))
    )
    inner = record(data.draw(st.lists(TYPES, max_size=4)), [(data.draw(st.integers(0, 4)), data.draw(WANTED))])
    inner_type = data.draw(st.sampled_from([inner, ["null", inner], [inner, "null"]]))
    outer["fields"].append({"name": "inner", "type": inner_type, "field-id": 50})
    schema = compile_schema(json.dumps(with_names(outer)).encode())
    some = datum(schema.layout)
    is_there = not isinstance(inner_type, list)
    count = data.draw(st.integers(1, 3))
    records = [data.draw(some) for _ in range(count)]
    content = b"".join(records)
    decoded = decode_block(schema, content, count)
    wanted = [(50, 1), (2,), (1,), (99,)]
    walk = Walk(schema, wanted, long=[(2,)] if data.draw(st.booleans()) else [])
    found = walk.records(content, count)
    end = 0
    for one, size in zip(decoded, map(len, records), strict=True):
        if not is_there and one["f50"] is None:
            with pytest.raises(ValueError, match="missing"):
                next(found)
            return
        end += size
        at, (nested, second, first, unknown) = next(found)
        assert at == end
        assert unknown is None
        for stored, value in ((nested, one["f50"]["f1"]), (second, one.get("f2")), (first, one.get("f1"))):
            assert as_decoded(stored, like=value) == value
    assert list(found) == []


def as_decoded(stored, *, like):
    """What a decoder makes of stored bytes that are a number, or a text as the value that they are compared with."""
    if stored is None:
        return None
    return content_of(stored).decode() if isinstance(like, str) else long_of(stored)


KEY_VALUE = {"type": "record", "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}]}


@pytest.mark.parametrize("count", [0, 1, CHUNK_ITEMS - 1, CHUNK_ITEMS, CHUNK_ITEMS + 1, 3 * CHUNK_ITEMS + 7])
@pytest.mark.parametrize("size", [0, 8, SHORT_BYTES_MAX, SHORT_BYTES_MAX + 1, 5_000])
@pytest.mark.parametrize("sized", [False, True])
def test_arrays_of_any_length_are_passed_over(count, size, sized):
    schema = schema_of({"type": "array", "items": KEY_VALUE}, {"type": "array", "items": "long"})
    items = b"".join(encode_long(n * n) + encode_long(size) + b"\xff" * size for n in range(count))
    longs = b"".join(encode_long(-n * n * n) for n in range(count))
    content = (block(count, items, sized=sized) if count else b"") + b"\0"
    content += (block(count, longs, sized=sized) if count else b"") + b"\0" + encode_long(77)
    assert list(Walk(schema, [(1,)]).records(content * 2, 2)) == [(len(content) * n, [encode_long(77)]) for n in (1, 2)]


def block(count, content, *, sized):
    return (encode_long(-count) + encode_long(len(content)) if sized else encode_long(count)) + content


LAST = {"name": "last", "type": "long", "field-id": 1}


def schema_of(*types):
    fields = [{"name": f"a{n}", "type": t} for n, t in enumerate(types)]
    fields.append(LAST)
    return compile_schema(json.dumps(with_names({"type": "record", "fields": fields})).encode())


@pytest.mark.parametrize(
    ("types", "content"),
    [
        ([], b""),  # cut before the value
        ([], b"\x80"),  # inside a number
        ([], b"\xff" * 11 + b"\0"),  # a number without an end
        (["bytes"], b"\x04x"),  # inside a text
        (["bytes"], b"\x01\0"),  # a text of negative length
        (["bytes"], encode_long(2**62) + b"\0"),
        ([["null", "long"]], b"\x04\0\0"),  # a branch that is not there
        ([{"type": "fixed", "size": 9}], b"12345678"),
        ([{"type": "array", "items": "long"}], encode_long(2**40) + b"\0" * 9),  # more items than bytes
        ([{"type": "array", "items": "long"}], encode_long(-(2**63)) + b"\0" * 9),
        ([{"type": "array", "items": "long"}], b"\x03\x08\0\0\0\0"),  # two items of one byte in four bytes
        ([{"type": "array", "items": "long"}], b"\x02\0"),  # no end of the array
        ([], b"\0\0"),  # something left over
    ],
)
def test_bytes_that_are_no_record_are_refused(types, content):
    with pytest.raises((ValueError, IndexError)):
        list(Walk(schema_of(*types), [(1,)]).records(content, 1))


LONGER = b"\x80" * 8
"""Between the first and the last of ten bytes of a number."""


@pytest.mark.parametrize(
    ("types", "content"),
    [
        ([["null", "long"]], b"\x82\0\x04"),  # a mark of two bytes
        ([["null", "long"]], b"\x80\0"),
        ([["null", "long"]], b"\x82" + LONGER + b"\x7e\x04"),  # bits beyond the 64th
        (["bytes"], b"\x82" + LONGER + b"\x02x"),
        ([{"type": "array", "items": "long"}], b"\x82" + LONGER + b"\x02\x04\x80\0"),
        ([{"type": "array", "items": "long"}], b"\x81\0\x82\x80\0\x04\x80" + LONGER + b"\x02"),
    ],
)
def test_numbers_may_take_more_bytes_than_they_need(types, content):
    schema, last = schema_of(*types), b"\x8e" + LONGER + b"\x40"
    (record,) = decode_block(schema, content + last, 1)
    ((_, (stored,)),) = Walk(schema, [(1,)]).records(content + last, 1)
    assert as_decoded(stored, like=7) == record["f1"] == 7


@pytest.mark.parametrize(("mark", "value"), [(b"\x80\0", None), (b"\x82\0", b"\x0e")])
def test_long_marks_are_read_or_said_so(mark, value):
    """Not where somebody tells from what is kept of a field where it begins."""
    schema = schema_of()
    optional = compile_schema(
        json.dumps({"type": "record", "name": "r", "fields": [{**LAST, "type": ["null", "long"]}]}).encode()
    )
    content = mark + (value or b"")
    assert list(Walk(optional, [(1,)]).records(content, 1)) == [(len(content), [value])]
    with pytest.raises(LongNumberError):
        list(Walk(optional, [(1,)], short_marks=True).records(content, 1))
    assert list(Walk(schema, [(1,)], short_marks=True).records(b"\x8e\0", 1)) == [(2, [b"\x8e\0"])]


@given(LONGS)
def test_numbers_and_texts_are_read_back(number):
    assert long_of(encode_long(number)) == number
    text = b"x" * (number % 300)
    assert content_of(encode_long(len(text)) + text) == text
