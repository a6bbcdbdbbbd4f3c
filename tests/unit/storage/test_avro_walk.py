"""Walking over records finds what decoding them finds, whatever the schema and however arrays are cut into blocks."""

import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.storage.avro import decode_block
from firn.storage.avro_numbers import encode_long
from firn.storage.avro_schema import compile_schema
from firn.storage.avro_walk import CHUNK_ITEMS, SHORT_BYTES_MAX, Walk, content_of, long_of

LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70)
TEXTS = st.text(max_size=12) | st.integers(SHORT_BYTES_MAX - 3, SHORT_BYTES_MAX + 20).map(lambda n: "x" * n)

PLAIN = st.sampled_from(["boolean", "int", "long", "float", "double", "bytes", "string"])


def optional(inner):
    return inner.flatmap(lambda one: st.sampled_from([["null", one], [one, "null"], [one]]))


def named(kind, members):
    """A type with a name of its own, which `with_names` gives it."""
    return members.map(lambda more: {"type": kind, **more})


LEAVES = (
    PLAIN
    | named("fixed", st.integers(1, 9).map(lambda size: {"size": size}))
    | named("enum", st.just({"symbols": ["A", "B"]}))
)
TYPES = st.recursive(
    LEAVES,
    lambda inner: (
        optional(inner.filter(lambda one: not isinstance(one, list)))
        | inner.map(lambda items: {"type": "array", "items": items})
        | inner.map(lambda values: {"type": "map", "values": values})
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda types: {"type": "record", "fields": [{"name": f"m{n}", "type": t} for n, t in enumerate(types)]}
        )
    ),
    max_leaves=8,
)


def with_names(schema, names=None):
    """The schema with a name for each type that needs one."""
    names = iter(range(10_000)) if names is None else names
    if isinstance(schema, list):
        return [with_names(branch, names) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: with_names(value, names) if key in {"items", "values"} else value for key, value in schema.items()}
    if schema.get("type") in {"record", "fixed", "enum"}:
        out["name"] = f"n{next(names)}"
    if "fields" in schema:
        out["fields"] = [{**field, "type": with_names(field["type"], names)} for field in schema["fields"]]
    return out


@st.composite
def datum(draw, layout):
    """The bytes of some value; arrays and maps are cut into blocks of either form."""
    if isinstance(layout, list):
        branch = draw(st.integers(0, len(layout) - 1))
        return encode_long(branch) + draw(datum(layout[branch]))
    kind = layout if isinstance(layout, str) else layout["type"]
    match kind:
        case "null":
            return b""
        case "boolean":
            return draw(st.sampled_from([b"\0", b"\1"]))
        case "int" | "long":
            return encode_long(draw(LONGS))
        case "float" | "double":
            return draw(st.binary(min_size=struct.calcsize(kind[0]), max_size=struct.calcsize(kind[0])))
        case "bytes" | "string":
            content = draw(TEXTS).encode()
            return encode_long(len(content)) + content
        case "fixed":
            return draw(st.binary(min_size=layout["size"], max_size=layout["size"]))
        case "record":
            return b"".join([draw(datum(field["type"])) for field in layout["fields"]])
    keyed = kind == "map"
    item = st.tuples(datum("string"), datum(layout["values"])).map(b"".join) if keyed else datum(layout["items"])
    blocks = b""
    for _ in range(draw(st.integers(0, 2))):
        items = [draw(item) for _ in range(draw(st.integers(1, 3)))]
        content = b"".join(items)
        sized = draw(st.booleans())
        blocks += encode_long(-len(items)) + encode_long(len(content)) if sized else encode_long(len(items))
        blocks += content
    return blocks + b"\0"


def record(types, wanted):
    """The schema of a record with fields of any type, and of the `wanted` types under the ids from 1 on."""
    fields = [{"name": f"a{n}", "type": t} for n, t in enumerate(types)]
    for field_id, (place, type_) in enumerate(wanted, start=1):
        fields.insert(place, {"name": f"w{field_id}", "type": type_, "field-id": field_id})
    return {"type": "record", "fields": fields}


WANTED = st.sampled_from(["long", "int", ["null", "long"], ["int", "null"], "string", ["null", "string"], ["long"]])


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
