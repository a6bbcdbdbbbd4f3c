"""Avro schemas as firn reads them: checked, bounded, and with fields named by their Iceberg field id.

A writer's schema decides how much memory a few bytes take (an array of items that need no bytes, a record that doubles
at every level), so it is checked before any decoder sees it. What comes out is a schema of the same binary layout in
which the field with id 100 is called ``f100`` and logical types are gone: other writers may spell names as they
like, and values arrive as the plain ints and bytes that were stored (table specification, Appendix A, "Avro").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import fastavro
import msgspec

from firn.model.errors import InvalidInput

SCHEMA_BYTES_MAX: Final = 4 * 1024 * 1024
"""Size of the schema's JSON in a file header, in bytes."""

SCHEMA_DEPTH_MAX: Final = 64
"""Levels of nesting in an Avro schema."""

SCHEMA_NODES_MAX: Final = 20_000
"""Types in a schema once every named reference is written out."""

SCHEMAS_CACHED_MAX: Final = 64
"""Compiled schemas that are kept; a table has one for each partition spec and writer."""

BLOCK_FIELD: Final = "block"
"""Name of the one field of `AvroSchema.block`."""

_NAMED: Final = frozenset({"record", "fixed", "enum"})
_PRIMITIVE_WIDTHS: Final = {
    "null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroType:
    """One type of a checked schema.

    `kind` is Avro's name of it (``long``, ``fixed``, ``record`` …), or ``map-array`` for Iceberg's arrays of key and
    value. `width` is the fewest bytes that a value takes, `size` the bytes of a fixed, `zoned` is Iceberg's
    ``adjust-to-utc``. `fields` are (field id or None, name in decoded records, type). A nullable type is `nullable`
    rather than a union.
    """

    kind: str
    width: int
    nullable: bool = False
    logical: str | None = None
    size: int = 0
    precision: int = 0
    scale: int = 0
    zoned: bool | None = None
    items: AvroType | None = None
    fields: tuple[tuple[int | None, str, AvroType], ...] = ()

    def field(self, field_id: int) -> AvroType | None:
        """The type of the field with this id, None when a record has no such field."""
        return next((type_ for id_, _, type_ in self.fields if id_ == field_id), None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AvroSchema:
    """A checked schema: `root` describes a record, `layout` is its plain form for whoever walks over the bytes, and
    `block` is fastavro's parsed form of ``{block: [record, …]}``.

    The bytes of an Avro block with a count before and a zero behind are exactly one such array, so that one call
    decodes or encodes a whole block.
    """

    root: AvroType
    layout: Any
    block: Any


def compile_schema(text: bytes) -> AvroSchema:
    """Check a schema's JSON and compile it, from a cache when it was seen before.

    Raises InvalidInput naming the place in the schema for anything that Iceberg's files do not have: unions other than
    optional ones, recursive types, array items without bytes, more than the limits.
    """
    if len(text) > SCHEMA_BYTES_MAX:
        raise InvalidInput(f"{len(text)} bytes of schema, over {SCHEMA_BYTES_MAX}", where="avro.schema")
    return _compile_cached(bytes(text))


@lru_cache(maxsize=SCHEMAS_CACHED_MAX)
def _compile_cached(text: bytes) -> AvroSchema:
    try:
        schema = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
        raise InvalidInput(f"not JSON: {exc}", where="avro.schema") from None
    compiler = _Compiler()
    layout, root = compiler.compile(schema, where="avro.schema", depth=0)
    if root.kind != "record" or root.nullable:
        raise InvalidInput("the schema of a file must be a record", where="avro.schema")
    if root.width == 0:
        raise InvalidInput("a record that takes no bytes", where="avro.schema")
    wrapped = {
        "type": "record",
        "name": "Block",
        "fields": [{"name": BLOCK_FIELD, "type": {"type": "array", "items": layout}}],
    }
    return AvroSchema(root=root, layout=layout, block=fastavro.parse_schema(wrapped))


class _Compiler:
    """Walks one schema; counts types and knows the names defined so far."""

    def __init__(self) -> None:
        self._nodes = 0
        self._names: dict[str, tuple[Any, str]] = {}  # by full name: the definition, and the namespace it stands in
        self._namespace = ""

    def compile(self, schema: Any, *, where: str, depth: int) -> tuple[Any, AvroType]:
        """The layout for fastavro and the checked type."""
        self._nodes += 1
        if self._nodes > SCHEMA_NODES_MAX:
            raise InvalidInput(f"more than {SCHEMA_NODES_MAX} types", where=where)
        if depth > SCHEMA_DEPTH_MAX:
            raise InvalidInput(f"nested deeper than {SCHEMA_DEPTH_MAX}, or recursive", where=where)
        if isinstance(schema, list):
            return self._union(schema, where=where, depth=depth)
        properties = schema if isinstance(schema, dict) else {}
        kind = properties.get("type") if properties else schema
        if isinstance(kind, dict | list):  # {"type": {"type": …}}: properties of both levels count, inner first
            inner = {**properties, **kind} if isinstance(kind, dict) else kind
            return self.compile(inner, where=where, depth=depth + 1)
        if not isinstance(kind, str):
            raise InvalidInput("an Avro type must be a name, an object or an array", where=where)
        if kind in _PRIMITIVE_WIDTHS:
            return kind, AvroType(
                kind=kind,
                width=_PRIMITIVE_WIDTHS[kind],
                logical=_text(properties, "logicalType"),
                precision=_integer(properties, "precision"),
                scale=_integer(properties, "scale"),
                zoned=_flag(properties, "adjust-to-utc"),
            )
        if kind in _NAMED:
            return self._named(properties, kind=kind, where=where, depth=depth)
        if kind in {"array", "map"}:
            return self._collection(properties, kind=kind, where=where, depth=depth)
        defined = self._names.get(self._full_name(kind)) or self._names.get(kind)
        if defined is None:
            raise InvalidInput(f"unknown Avro type {kind[:80]!r}", where=where)
        outer = self._namespace
        definition, self._namespace = defined
        compiled = self.compile(definition, where=where, depth=depth + 1)
        self._namespace = outer
        return compiled

    def _named(self, schema: dict[str, Any], *, kind: str, where: str, depth: int) -> tuple[Any, AvroType]:
        """Define a type, whose namespace is that of the names inside it."""
        outer = self._namespace
        full_name = self._full_name(_text(schema, "name") or "", _text(schema, "namespace"))
        self._names[full_name] = (schema, outer)
        self._namespace = full_name.rpartition(".")[0]
        compiled = self._record(schema, where, depth) if kind == "record" else self._fixed(schema, where)
        self._namespace = outer
        return compiled

    def _full_name(self, name: str, namespace: str | None = None) -> str:
        space = self._namespace if namespace is None else namespace
        return f"{space}.{name}" if space and "." not in name else name

    def _union(self, schema: list[Any], *, where: str, depth: int) -> tuple[Any, AvroType]:
        others = [branch for branch in schema if branch != "null"]
        if len(others) != 1 or len(schema) > 2:
            raise InvalidInput("a union that is not an optional type", where=where)
        layout, type_ = self.compile(others[0], where=where, depth=depth + 1)
        if isinstance(layout, list):
            raise InvalidInput("a union in a union", where=where)
        if len(schema) == 1:
            return [layout], _changed(type_, width=1 + type_.width)
        return ["null" if branch == "null" else layout for branch in schema], _changed(type_, nullable=True, width=1)

    def _record(self, schema: dict[str, Any], where: str, depth: int) -> tuple[Any, AvroType]:
        members = schema.get("fields")
        if not isinstance(members, list):
            raise InvalidInput("a record without fields", where=where)
        layout, fields = [], []
        seen: set[int] = set()
        name = f"R{self._nodes}"
        for index, member in enumerate(members):
            here = f"{where}.fields[{index}]"
            if not isinstance(member, dict) or "type" not in member:
                raise InvalidInput("a field must be an object with a type", where=here)
            field_id = member.get("field-id")
            if field_id is not None and (type(field_id) is not int or field_id in seen):
                raise InvalidInput("a field-id must be an integer of its own", where=here)
            own_name = f"x{index}" if field_id is None else f"f{field_id}"
            if field_id is not None:
                seen.add(field_id)
            field_layout, field_type = self.compile(member["type"], where=here, depth=depth + 1)
            layout.append({"name": own_name, "type": field_layout})
            fields.append((field_id, own_name, field_type))
        width = sum(type_.width for _, _, type_ in fields)
        return {"type": "record", "name": name, "fields": layout}, AvroType(
            kind="record", width=width, fields=tuple(fields)
        )

    def _fixed(self, schema: dict[str, Any], where: str) -> tuple[Any, AvroType]:
        if schema["type"] == "enum":
            return "int", AvroType(kind="enum", width=1)
        size = _integer(schema, "size")
        if size < 0:
            raise InvalidInput("a fixed of negative size", where=where)
        layout = {"type": "fixed", "name": f"F{self._nodes}", "size": size}
        return layout, AvroType(
            kind="fixed",
            width=size,
            size=size,
            logical=_text(schema, "logicalType"),
            precision=_integer(schema, "precision"),
            scale=_integer(schema, "scale"),
        )

    def _collection(self, schema: dict[str, Any], *, kind: str, where: str, depth: int) -> tuple[Any, AvroType]:
        member = "items" if kind == "array" else "values"
        if member not in schema:
            raise InvalidInput(f"an {kind} without {member}", where=where)
        layout, items = self.compile(schema[member], where=f"{where}.{member}", depth=depth + 1)
        if kind == "map":  # its keys take a byte each, so any value will do
            return {"type": "map", "values": layout}, AvroType(kind="map", width=1, items=items)
        if items.width == 0:
            raise InvalidInput("array items that take no bytes", where=where)
        if _is_key_value(schema, items):
            for field, own_name in zip(layout["fields"], ("key", "value"), strict=True):
                field["name"] = own_name
            kind = "map-array"
        return {"type": "array", "items": layout}, AvroType(kind=kind, width=1, items=items)


def _is_key_value(schema: dict[str, Any], items: AvroType) -> bool:
    """Whether an array is Iceberg's form of a map with keys that are no strings.

    Some writers leave the logical type out, so two fields called key and value will do as well.
    """
    if items.kind != "record" or items.nullable or len(items.fields) != 2:
        return False
    if schema.get("logicalType") == "map":
        return True
    written = schema["items"]
    members = written.get("fields") if isinstance(written, dict) else None
    return isinstance(members, list) and [member.get("name") for member in members] == ["key", "value"]


def _changed(type_: AvroType, **changes: Any) -> AvroType:
    members = {name: getattr(type_, name) for name in AvroType.__slots__}
    return AvroType(**{**members, **changes})


def _text(schema: dict[str, Any], name: str) -> str | None:
    value = schema.get(name)
    return value if isinstance(value, str) else None


def _integer(schema: dict[str, Any], name: str) -> int:
    value = schema.get(name)
    return value if type(value) is int else 0


def _flag(schema: dict[str, Any], name: str) -> bool | None:
    value = schema.get(name)
    return value if isinstance(value, bool) else None
