"""Schemas, partition specs and sort orders in short text, as one writes them on a command line.

Columns: ``id long required``, ``price decimal(10, 2)``, ``tags list<string>``, ``at struct<lat double, lon double>``;
partitions: ``day(ts)``, ``bucket(16, customer_id)``, ``region``, ``truncate(4, name) as prefix``;
sort keys: ``ts desc``, ``bucket(16, id) asc nulls last``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from typing import Any, Final

from firn.model.errors import InvalidInput
from firn.model.schema import Schema
from firn.model.spelling import did_you_mean
from firn.model.transforms import UnknownTransform, default_name, parse_transform
from firn.model.types import TYPE_DEPTH_MAX, type_from_text

COLUMN_CHARS_MAX: Final = 10_000
PARTITION_FIELD_ID_START: Final = 1000

_NAME: Final = re.compile(r'"([^"]+)"|`([^`]+)`|([^\s,<>():"`]+)')
_PRIMITIVE: Final = re.compile(r"[a-z][a-z0-9_]*\s*(?:\([^()]*\)|\[[^\[\]]*\])?")
_NESTED: Final = re.compile(r"(list|map|struct)\s*<")
_NULLABILITY: Final = re.compile(r"(required|not\s+null|optional|null)\b", re.IGNORECASE)
_CALL: Final = re.compile(r"([a-z_]+)\s*\(\s*(?:([0-9]+)\s*,\s*)?(.+?)\s*\)", re.IGNORECASE | re.DOTALL)
_ALIAS: Final = re.compile(r"(.+?)\s+as\s+(\S+)", re.IGNORECASE | re.DOTALL)
_ORDERED: Final = re.compile(
    r"(?P<key>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls[\s-]+(?P<nulls>first|last))?", re.IGNORECASE | re.DOTALL
)
COLUMNS_LISTED_MAX: Final = 20

_PLURALS: Final = {"years": "year", "months": "month", "days": "day", "hours": "hour"}


def schema_of_columns(columns: Sequence[str]) -> dict[str, Any]:
    """The JSON form of a schema with these columns. Raises InvalidInput naming the column."""
    ids = count(1)
    return {
        "type": "struct",
        "fields": [_Parser(text, ids=ids, where=f"--column {text!r}").column() for text in columns],
    }


class _Parser:
    """A recursive descent through one column's text."""

    def __init__(self, text: str, *, ids: count[int], where: str) -> None:
        if len(text) > COLUMN_CHARS_MAX:
            raise InvalidInput(f"longer than {COLUMN_CHARS_MAX} characters", where=where[:80])
        self._text = text
        self._at = 0
        self._ids = ids
        self._where = where

    def column(self) -> dict[str, Any]:
        """The one field that the whole text describes."""
        field = self._field(depth=0)
        self._blanks()
        if self._at != len(self._text):
            raise self._wrong(f"does not understand {self._text[self._at :]!r}")
        return field

    def _field(self, *, depth: int) -> dict[str, Any]:
        self._blanks()
        name = self._match(_NAME)
        if name is None:
            raise self._wrong("a column's name is missing")
        self._blanks()
        self._take(":")
        return {
            "id": next(self._ids),
            "name": next(part for part in name.groups() if part is not None),
            "type": self._type(depth=depth),
            "required": self._required(),
        }

    def _type(self, *, depth: int) -> str | dict[str, Any]:
        self._blanks()
        if depth > TYPE_DEPTH_MAX:
            raise self._wrong(f"more than {TYPE_DEPTH_MAX} levels of nested types")
        nested = self._match(_NESTED)
        if nested is not None:
            return self._nested(nested[1], depth=depth + 1)
        primitive = self._match(_PRIMITIVE)
        if primitive is None:
            raise self._wrong("a type is missing", hint="write name and type: id long required")
        return str(type_from_text(primitive[0].strip(), where=self._where))

    def _nested(self, kind: str, *, depth: int) -> dict[str, Any]:
        members: dict[str, Any]
        match kind:
            case "struct":
                fields = [self._field(depth=depth)]
                while self._take(","):
                    fields.append(self._field(depth=depth))
                members = {"type": "struct", "fields": fields}
            case "list":
                members = {"type": "list", "element-id": next(self._ids), "element": self._type(depth=depth)}
                members["element-required"] = self._required()
            case _:
                members = {"type": "map", "key-id": next(self._ids), "key": self._type(depth=depth)}
                if not self._take(","):
                    raise self._wrong("a map has a key and a value: map<string, long>")
                members |= {"value-id": next(self._ids), "value": self._type(depth=depth)}
                members["value-required"] = self._required()
        if not self._take(">"):
            raise self._wrong(f"{kind}<…> is not closed")
        return members

    def _required(self) -> bool:
        self._blanks()
        found = self._match(_NULLABILITY)
        return found is not None and found[1].lower() not in {"optional", "null"}

    def _blanks(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _take(self, character: str) -> bool:
        self._blanks()
        if self._text[self._at : self._at + 1] != character:
            return False
        self._at += 1
        return True

    def _wrong(self, message: str, *, hint: str | None = None) -> InvalidInput:
        return InvalidInput(message, where=self._where, hint=hint)


def spec_of_partitions(partitions: Sequence[str], schema: Schema) -> dict[str, Any]:
    """The JSON form of a partition spec with these fields, in order. Raises InvalidInput naming the field."""
    fields = []
    for position, text in enumerate(partitions):
        where = f"--partition {text!r}"
        alias = _ALIAS.fullmatch(text.strip())
        transform, source_id, column = _key(text if alias is None else alias[1], schema, where=where)
        parsed = parse_transform(transform)
        if isinstance(parsed, UnknownTransform):
            raise InvalidInput(
                f"there is no transform {transform!r}", where=where,
                hint="identity, bucket(N, …), truncate(W, …), year, month, day, hour",
            )  # fmt: skip
        fields.append({
            "source-id": source_id,
            "field-id": PARTITION_FIELD_ID_START + position,
            "name": default_name(parsed, column) if alias is None else alias[2],
            "transform": transform,
        })  # fmt: skip
    return {"spec-id": 0, "fields": fields}


def order_of_keys(keys: Sequence[str], schema: Schema) -> dict[str, Any]:
    """The JSON form of a sort order with these keys. Nulls come first when ascending, last when descending."""
    fields = []
    for text in keys:
        where = f"--sort {text!r}"
        found = _ORDERED.fullmatch(text.strip())
        if found is None:
            raise InvalidInput("is empty", where=where)
        transform, source_id, _ = _key(found["key"], schema, where=where)
        direction = (found["direction"] or "asc").lower()
        nulls = (found["nulls"] or ("first" if direction == "asc" else "last")).lower()
        fields.append({
            "transform": transform, "source-id": source_id, "direction": direction, "null-order": f"nulls-{nulls}",
        })  # fmt: skip
    return {"order-id": 1, "fields": fields}


def _key(text: str, schema: Schema, *, where: str) -> tuple[str, int, str]:
    """Transform, source id and column name of ``bucket(16, id)`` or ``id``."""
    text = text.strip()
    plain = schema.find_field(_unquoted(text))
    if plain is not None:
        return "identity", plain.field_id, _unquoted(text)
    call = _CALL.fullmatch(text)
    if call is None:
        raise _no_column(text, schema, where=where)
    name = _PLURALS.get(call[1].lower(), call[1].lower())
    column_name = _unquoted(call[3])
    column = schema.find_field(column_name)
    if column is None:
        raise _no_column(column_name, schema, where=where)
    if (name in {"bucket", "truncate"}) != (call[2] is not None):
        raise InvalidInput(
            f"{name} {'needs a width' if call[2] is None else 'takes the column only'}", where=where,
            hint="bucket(16, id), truncate(4, name), day(ts)",
        )  # fmt: skip
    return (name if call[2] is None else f"{name}[{call[2]}]"), column.field_id, column_name


def _no_column(name: str, schema: Schema, *, where: str) -> InvalidInput:
    names = [field.name for field in schema.fields]
    listed = ", ".join(names[:COLUMNS_LISTED_MAX]) + (", …" if names[COLUMNS_LISTED_MAX:] else "")
    hint = did_you_mean(name, names) or f"there are {listed or 'none'}; written as: id, day(ts), bucket(16, id)"
    return InvalidInput(f"there is no column {name!r}", where=where, hint=hint)


def _unquoted(name: str) -> str:
    """A name as `schema_of_columns` takes it: in quotes or backticks when it has blanks or commas."""
    return name[1:-1] if len(name) > 2 and name[0] == name[-1] and name[0] in '"`' else name
