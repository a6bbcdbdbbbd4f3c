"""One change of a schema as a value, and its JSON form.

A list of changes is applied as a whole by `firn.model.schema_update`. Names are dotted names of the schema that the
changes are applied to, whatever was renamed before in the list; a column that the list adds has the name it was given.
Defaults are JSON single values, as in a schema's JSON: what they mean depends on the column's type.

In JSON a change is an object with its kind in ``action``, like the updates of the REST specification:
``{"action": "add-column", "name": "country", "type": "string", "doc": "ISO 3166 code"}``.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from firn.model.errors import InvalidSchema
from firn.model.json_members import as_object, describe, extra_of, join, missing, str_of, str_or_none, strs_of
from firn.model.type_json import type_from_json, type_to_json
from firn.model.types import Type

CHANGES_MAX: Final = 1_000
"""Changes accepted in one list."""


class AddColumn(msgspec.Struct, frozen=True, kw_only=True):
    """Add a column at the end of the table, or of the struct `parent` (of a list's elements, of a map's values).

    Without a parent the name must not have a dot, which could be meant as one; the empty parent says the table itself.
    Ids inside `type` are ignored: fresh ones are given. `default` becomes both defaults of the column.
    """

    name: str
    type: Type
    parent: str | None = None
    required: bool = False
    doc: str | None = None
    default: Any = None


class DropColumn(msgspec.Struct, frozen=True, kw_only=True):
    """Remove a column with all that it contains."""

    name: str


class RenameColumn(msgspec.Struct, frozen=True, kw_only=True):
    """Give a column another name in its struct; a dot in `new_name` is part of the name."""

    name: str
    new_name: str


class UpdateType(msgspec.Struct, frozen=True, kw_only=True):
    """Promote a column to a wider type."""

    name: str
    type: Type


class UpdateDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Change a column's comment; None removes it."""

    name: str
    doc: str | None


class SetDefault(msgspec.Struct, frozen=True, kw_only=True):
    """Change what writers put in when they are given no value; None makes it null. Written rows keep theirs."""

    name: str
    default: Any


class MakeOptional(msgspec.Struct, frozen=True, kw_only=True):
    """Allow nulls."""

    name: str


class RequireColumn(msgspec.Struct, frozen=True, kw_only=True):
    """Forbid nulls. Breaks older files, unless the same list adds the column with a default."""

    name: str


class MoveFirst(msgspec.Struct, frozen=True, kw_only=True):
    """Make a column the first of its struct."""

    name: str


class MoveBefore(msgspec.Struct, frozen=True, kw_only=True):
    """Put a column before the column `reference` of the same struct."""

    name: str
    reference: str


class MoveAfter(msgspec.Struct, frozen=True, kw_only=True):
    """Put a column after the column `reference` of the same struct."""

    name: str
    reference: str


class SetIdentifierFields(msgspec.Struct, frozen=True, kw_only=True):
    """Name the columns that identify a row, as they are called after all changes; none is allowed."""

    names: tuple[str, ...]


SchemaChange = (
    AddColumn
    | DropColumn
    | RenameColumn
    | UpdateType
    | UpdateDoc
    | SetDefault
    | MakeOptional
    | RequireColumn
    | MoveFirst
    | MoveBefore
    | MoveAfter
    | SetIdentifierFields
)

_ACTIONS: Final[dict[str, type[SchemaChange]]] = {
    "add-column": AddColumn,
    "drop-column": DropColumn,
    "rename-column": RenameColumn,
    "update-column-type": UpdateType,
    "update-column-doc": UpdateDoc,
    "set-column-default": SetDefault,
    "make-column-optional": MakeOptional,
    "require-column": RequireColumn,
    "move-column-first": MoveFirst,
    "move-column-before": MoveBefore,
    "move-column-after": MoveAfter,
    "set-identifier-fields": SetIdentifierFields,
}
_NAMES: Final = {change: action for action, change in _ACTIONS.items()}


def changes_from_json(obj: Any, *, where: str = "changes") -> tuple[SchemaChange, ...]:
    """The changes of a JSON array, in its order. Raises InvalidInput naming the member at fault."""
    if not isinstance(obj, list):
        raise InvalidSchema(f"must be an array, not {describe(obj)}", where=where)
    if len(obj) > CHANGES_MAX:
        raise InvalidSchema(f"{len(obj)} changes, over {CHANGES_MAX}", where=where)
    return tuple(change_from_json(member, where=f"{where}[{i}]") for i, member in enumerate(obj))


def change_from_json(obj: Any, *, where: str = "change") -> SchemaChange:
    """The change that an object describes; members that its action does not have are refused, not ignored."""
    members = as_object(obj, where=where)
    action = str_of(members, "action", where=where)
    change = _ACTIONS.get(action)
    if change is None:
        raise InvalidSchema(
            f"unknown action {action[:80]!r}", where=join(where, "action"), hint=f"one of {', '.join(_ACTIONS)}"
        )
    fields = {f.encode_name: f for f in msgspec.structs.fields(change)}
    known = {name.replace("_", "-"): name for name in fields}
    if unknown := extra_of(members, frozenset(known) | {"action"}):
        raise InvalidSchema(f"{action} has no member {next(iter(unknown))[:80]!r}", where=where)
    arguments = {}
    for key, name in known.items():
        if key in members:
            arguments[name] = _member(members, key, where=where)
        elif fields[name].required:
            raise missing(key, where=where)
    return change(**arguments)


def _member(members: dict[str, Any], key: str, *, where: str) -> Any:
    match key:
        case "type":
            return type_from_json(members[key], where=join(where, key))
        case "names":
            return strs_of(members, key, where=where)
        case "default":
            return members[key]
        case "required":
            if not isinstance(members[key], bool):
                raise InvalidSchema(f"must be a boolean, not {describe(members[key])}", where=join(where, key))
            return members[key]
        case "parent" | "doc":
            return str_or_none(members, key, where=where)
        case _:
            return str_of(members, key, where=where)


def change_to_json(change: SchemaChange) -> dict[str, Any]:
    """The JSON object of a change; members at their defaults are left out."""
    out: dict[str, Any] = {"action": _NAMES[type(change)]}
    for field in msgspec.structs.fields(change):
        value = getattr(change, field.name)
        if not field.required and value == field.default:
            continue
        if field.name == "type":
            value = type_to_json(value)
        elif field.name == "names":
            value = list(value)
        out[field.name.replace("_", "-")] = value
    return out
