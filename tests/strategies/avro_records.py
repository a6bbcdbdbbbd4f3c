"""Avro schemas of any kind, and the bytes of some of their values, as other writers may put them, too.

Arrays are cut into blocks of either form. Numbers take more bytes than they need at times, up to the ten that a decoder
takes, of whose last one it knows the lowest bit only.
"""

import struct

from hypothesis import strategies as st

from firn.storage.avro_numbers import encode_long
from firn.storage.avro_steps import SHORT_BYTES_MAX, long_at, step_of

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


LONGER = st.just(0) | st.integers(0, 9)
"""Bytes that are added to a number where there is room for them."""

HIGH_BITS = st.just(0) | st.integers(0, 0x3F).map(lambda bits: bits << 1)
"""What the tenth byte of a number says beyond its 64 bits."""


@st.composite
def spelt(draw, number):
    """The bytes of a number, which may be more than it needs."""
    short = encode_long(number)
    size = min(len(short) + draw(LONGER), 10)
    full = bytes(byte | 0x80 for byte in short) + b"\x80" * (size - len(short))
    last = full[-1] & 0x7F
    return full[:-1] + bytes((last | draw(HIGH_BITS) if size == 10 else last,))


@st.composite
def datum(draw, layout):
    """The bytes of some value."""
    if isinstance(layout, list):
        branch = draw(st.integers(0, len(layout) - 1))
        return draw(spelt(branch)) + draw(datum(layout[branch]))
    kind = layout if isinstance(layout, str) else layout["type"]
    match kind:
        case "null":
            return b""
        case "boolean":
            return draw(st.sampled_from([b"\0", b"\1"]))
        case "int" | "long":
            return draw(spelt(draw(LONGS)))
        case "float" | "double":
            return draw(st.binary(min_size=struct.calcsize(kind[0]), max_size=struct.calcsize(kind[0])))
        case "bytes" | "string":
            content = draw(TEXTS).encode()
            return draw(spelt(len(content))) + content
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
        blocks += draw(spelt(-len(items))) + draw(spelt(len(content))) if sized else draw(spelt(len(items)))
        blocks += content
    return blocks + draw(spelt(0))


def record(types, wanted):
    """The schema of a record with fields of any type, and of the `wanted` types under the ids from 1 on."""
    fields = [{"name": f"a{n}", "type": t} for n, t in enumerate(types)]
    for field_id, (place, type_) in enumerate(wanted, start=1):
        fields.insert(place, {"name": f"w{field_id}", "type": type_, "field-id": field_id})
    return {"type": "record", "fields": fields}


WANTED = st.sampled_from(["long", "int", ["null", "long"], ["int", "null"], "string", ["null", "string"], ["long"]])


@st.composite
def spelt_anew(draw, layout, content, count):
    """The bytes of the same records as other writers may put them."""
    at, records = 0, []
    for _ in range(count):
        record, at = _spelt_anew(draw, layout, content, at)
        records.append(record)
    assert at == len(content)
    return b"".join(records)


def _spelt_anew(draw, layout, content, at):
    if isinstance(layout, list):
        branch, at = long_at(content, at)
        value, at = _spelt_anew(draw, layout[branch], content, at)
        return draw(spelt(branch)) + value, at
    kind = layout if isinstance(layout, str) else layout["type"]
    if kind == "record":
        fields = []
        for field in layout["fields"]:
            value, at = _spelt_anew(draw, field["type"], content, at)
            fields.append(value)
        return b"".join(fields), at
    if kind == "array":
        return _array_spelt_anew(draw, layout["items"], content, at)
    if kind in {"int", "long"}:
        number, at = long_at(content, at)
        return draw(spelt(number)), at
    if kind in {"bytes", "string"}:
        size, at = long_at(content, at)
        return draw(spelt(size)) + content[at : at + size], at + size
    end = step_of(layout).skip(content, at)
    return content[at:end], end


def _array_spelt_anew(draw, item, content, at):
    """Each of its blocks in one or two, of either form."""
    blocks = b""
    count, at = long_at(content, at)
    while count:
        items = []
        for _ in range(count):
            one, at = _spelt_anew(draw, item, content, at)
            items.append(one)
        cut = draw(st.integers(0, count - 1))
        for some in filter(None, (items[:cut], items[cut:])):
            inside = b"".join(some)
            sized = draw(st.booleans())
            blocks += draw(spelt(-len(some))) + draw(spelt(len(inside))) if sized else draw(spelt(len(some)))
            blocks += inside
        count, at = long_at(content, at)
    return blocks + draw(spelt(0)), at
