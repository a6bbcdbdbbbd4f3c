"""The wire format, described from the structs that define it: what `docs/wire-format.md` lists."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from firn.model.intent import ContentFile, Intent
from firn.model.operations.common import Operation
from firn.model.operations.tables import SeenTable
from firn.model.operations.transaction import Unchanged

_NAMES = {"str": "string", "int": "integer", "bool": "boolean", "any": "anything", "none": "null", "float": "number"}


def describe() -> str:
    """Markdown: the members of every operation, then those that all have, then those of a content file."""
    common = {field.encode_name for field in msgspec.structs.fields(Operation)}
    parts = []
    for operation in sorted(get_args(Intent), key=lambda kind: str(kind.__struct_config__.tag)):
        title = f"### `{operation.__struct_config__.tag}`"
        rows = _rows(operation, without=common)
        parts.append(
            "\n".join([title, "", _summary(operation), "", *rows] if rows else [title, "", _summary(operation)])
        )
    parts.append("\n".join(["### Every operation", "", *_rows(Operation)]))
    parts.append("\n".join(["### Content files", "", *_rows(ContentFile)]))
    parts.append("\n".join(["### Seen tables", "", _summary(SeenTable), "", *_rows(SeenTable)]))
    parts.append("\n".join(["### Unchanged", "", _summary(Unchanged), "", *_rows(Unchanged)]))
    return "\n\n".join(parts) + "\n"


def _summary(kind: type) -> str:
    return (kind.__doc__ or "").strip().partition("\n")[0]


def _rows(kind: type, *, without: set[str] | frozenset[str] = frozenset()) -> list[str]:
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    rows = [
        f"| `{field.encode_name}` | {_type(field.type)} | {'required' if field.required else 'optional'} |"
        for field in info.fields
        if field.encode_name not in without
    ]
    return ["| member | type | |", "|---|---|---|", *rows] if rows else []


def _is_operation(kind: Any) -> bool:
    return isinstance(kind, msgspec.inspect.StructType) and issubclass(kind.cls, Operation)


def _type(kind: Any) -> str:
    match kind:
        case msgspec.inspect.UnionType(types=types) if all(_is_operation(t) for t in types):
            return "operations: " + ", ".join(f"`{t.tag}`" for t in types if isinstance(t, msgspec.inspect.StructType))
        case msgspec.inspect.UnionType(types=types):
            return " or ".join(_type(t) for t in types if not isinstance(t, msgspec.inspect.NoneType))
        case msgspec.inspect.LiteralType(values=values):
            return " or ".join(f"`{value}`" for value in values)
        case msgspec.inspect.VarTupleType(item_type=item) | msgspec.inspect.ListType(item_type=item):
            return f"list of {_type(item)}"
        case msgspec.inspect.DictType(key_type=key, value_type=value):
            return f"object of {_type(key)} to {_type(value)}"
        case msgspec.inspect.StructType(cls=cls):
            return f"[{cls.__name__}](#{cls.__name__.lower()})" if cls is Unchanged else cls.__name__
        case msgspec.inspect.Metadata(type=inner):
            return _type(inner)
        case _:
            name = type(kind).__name__.removesuffix("Type").lower()
            return _NAMES.get(name, name)
