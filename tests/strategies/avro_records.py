"""Avro schemas of any kind, and the bytes of some of their values, arrays cut into blocks of either form."""

import struct

from hypothesis import strategies as st

from firn.storage.avro_numbers import encode_long
from firn.storage.avro_steps import SHORT_BYTES_MAX

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
