"""Walking over records finds what decoding them finds, whatever the schema and however arrays are cut into blocks."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.storage.avro import decode_block
from firn.storage.avro_numbers import encode_long
from firn.storage.avro_schema import compile_schema
from firn.storage.avro_steps import CHUNK_ITEMS, SHORT_BYTES_MAX, content_of, long_of
from firn.storage.avro_walk import Walk
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
        assert nested in as_stored(one["f50"]["f1"])
        assert second in as_stored(one.get("f2"))
        assert first in as_stored(one.get("f1"))
    assert list(found) == []


def as_stored(decoded):
    """The bytes that a decoded value may have come from."""
    if decoded is None:
        return [None]
    if isinstance(decoded, str):
        return [encode_long(len(decoded.encode())) + decoded.encode()]
    return [encode_long(decoded)]


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


def schema_of(*types):
    fields = [{"name": f"a{n}", "type": t} for n, t in enumerate(types)]
    fields.append({"name": "last", "type": "long", "field-id": 1})
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


@given(LONGS)
def test_numbers_and_texts_are_read_back(number):
    assert long_of(encode_long(number)) == number
    text = b"x" * (number % 300)
    assert content_of(encode_long(len(text)) + text) == text
