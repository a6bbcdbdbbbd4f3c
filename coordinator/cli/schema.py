"""`firn schema …`: one change of columns a command, or several at once as JSON.

Each is planned on the schema that the command has just read (or --base): a change of the same column that comes in
between is not undone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import msgspec

from firn.coordinator.cli.family import Family
from firn.coordinator.cli.making import MAKE
from firn.coordinator.cli.operating import json_of, metadata_of, operating
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.short_text import schema_of_columns
from firn.coordinator.cli.table_views import schema_grid
from firn.model import schema_change as changes
from firn.model.errors import InvalidInput
from firn.model.schema import schema_to_json
from firn.model.schema_change import SchemaChange, changes_from_json
from firn.model.type_json import type_from_json

if TYPE_CHECKING:
    from firn.model.intent import Intent


@click.group(cls=Family)
def schema() -> None:
    """Columns: show, add, drop, rename, widen, document, reorder."""


def changing(command: Callable[..., list[SchemaChange]]) -> Callable[..., None]:
    """Make a command of a function that says which changes are asked for."""

    @click.argument("table")
    @click.option("--base", type=int, metavar="ID", help="The schema they were planned on [default: the current one].")
    @click.option("--allow-incompatible", is_flag=True, help="Also what breaks rows that are there.")
    @functools.wraps(command)
    def wrapped(reach: Reach, *, table: str, base: int | None, allow_incompatible: bool, **options: Any) -> Intent:
        base = metadata_of(reach, table).current_schema_id if base is None else base
        update = MAKE.update_schema(table, base=base, allow_incompatible=allow_incompatible)
        for change in command(**options):
            update.change(change)
        return update.submit()

    return operating(wrapped)


@schema.command()
@click.argument("table")
@reaching
def show(reach: Reach, *, table: str) -> None:
    """Show a table's current columns."""
    metadata = metadata_of(reach, table)
    if reach.output.as_json:
        reach.output.document(schema_to_json(metadata.current_schema))
    grid = schema_grid(metadata)
    reach.output.grid(grid.columns, grid.rows, empty=grid.empty)


@schema.command("add-column", epilog='Example: firn schema add-column db.events "country string" --doc "ISO 3166"')
@changing
@click.argument("column", metavar="TEXT")
@click.option("--parent", help="The struct that it goes into, by its dotted name.")
@click.option("--doc", help="A comment.")
@click.option("--default", metavar="JSON", help="What rows without it have: 0, '\"none\"'.")
def add_column(*, column: str, parent: str | None, doc: str | None, default: str | None) -> list[SchemaChange]:
    """Add a column, given in short text: "country string", "price decimal(10, 2)", "tags list<string>"."""
    (field,) = schema_of_columns([column])["fields"]
    return [
        changes.AddColumn(
            name=field["name"],
            type=type_from_json(field["type"]),
            required=field["required"],
            parent=parent,
            doc=doc,
            default=None if default is None else _json(default),
        )
    ]


@schema.command("drop-column")
@changing
@click.argument("name")
def drop_column(*, name: str) -> list[SchemaChange]:
    """Remove a column with all that it contains."""
    return [changes.DropColumn(name=name)]


@schema.command("rename-column")
@changing
@click.argument("name")
@click.argument("new_name")
def rename_column(*, name: str, new_name: str) -> list[SchemaChange]:
    """Give a column another name in its struct."""
    return [changes.RenameColumn(name=name, new_name=new_name)]


@schema.command("update-type", epilog="Example: firn schema update-type db.events id long")
@changing
@click.argument("name")
@click.argument("type_text", metavar="TYPE")
def update_type(*, name: str, type_text: str) -> list[SchemaChange]:
    """Promote a column to a wider type."""
    return [changes.UpdateType(name=name, type=type_from_json(type_text, where="TYPE"))]


@schema.command("set-doc")
@changing
@click.argument("name")
@click.argument("doc", required=False)
def set_doc(*, name: str, doc: str | None) -> list[SchemaChange]:
    """Change a column's comment; without a text it is removed."""
    return [changes.UpdateDoc(name=name, doc=doc)]


@schema.command("set-default")
@changing
@click.argument("name")
@click.argument("default", metavar="JSON")
def set_default(*, name: str, default: str) -> list[SchemaChange]:
    """Change what writers put in when they are given no value; null for none. Written rows keep theirs."""
    return [changes.SetDefault(name=name, default=_json(default))]


@schema.command("make-optional")
@changing
@click.argument("name")
def make_optional(*, name: str) -> list[SchemaChange]:
    """Allow nulls in a column."""
    return [changes.MakeOptional(name=name)]


@schema.command("require-column")
@changing
@click.argument("name")
def require_column(*, name: str) -> list[SchemaChange]:
    """Forbid nulls in a column; needs --allow-incompatible, because older files may have some."""
    return [changes.RequireColumn(name=name)]


@schema.command("move-column", epilog="Example: firn schema move-column db.events country --after city")
@changing
@click.argument("name")
@click.option("--first", is_flag=True, help="To the beginning of its struct.")
@click.option("--before", metavar="NAME", help="Before this column of the same struct.")
@click.option("--after", metavar="NAME", help="After this column of the same struct.")
def move_column(*, name: str, first: bool, before: str | None, after: str | None) -> list[SchemaChange]:
    """Put a column elsewhere in its struct."""
    if first + (before is not None) + (after is not None) != 1:
        raise click.UsageError("give --first, --before or --after")
    if before is not None:
        return [changes.MoveBefore(name=name, reference=before)]
    return [changes.MoveFirst(name=name) if after is None else changes.MoveAfter(name=name, reference=after)]


@schema.command("set-identifier")
@changing
@click.argument("names", nargs=-1, metavar="[NAME]…")
def set_identifier(*, names: tuple[str, ...]) -> list[SchemaChange]:
    """Name the columns that identify a row; without one there are none."""
    return [changes.SetIdentifierFields(names=names)]


@schema.command(epilog='Example: firn schema update db.events \'[{"action": "drop-column", "name": "x"}, …]\'')
@changing
@click.argument("source", metavar="FILE|JSON|-")
def update(*, source: str) -> list[SchemaChange]:
    """Several changes at once, as in an update-schema intent: all of them or none."""
    return list(changes_from_json(json_of(source, where="changes"), where="changes"))


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"is no JSON value ({error}); text is written '\"so\"'", where=repr(text)) from error
