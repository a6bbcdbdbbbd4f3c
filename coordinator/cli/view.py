"""`firn view …`: views are made, changed and dropped through intents, and read from their pointers.

Every change names the version that the command has read just before: a definition that comes in between is not undone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from firn.coordinator.cli.changes import Wait, change, schema_of, waiting
from firn.coordinator.cli.family import Family
from firn.coordinator.cli.making import MAKE
from firn.coordinator.cli.operating import key_value
from firn.coordinator.cli.output import Column
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.short_text import schema_of_columns
from firn.coordinator.cli.text import shown
from firn.coordinator.cli.view_shown import VERSION_COLUMNS, history_json, version_rows, view_json, view_sections
from firn.coordinator.client.view_found import ViewFound
from firn.model.amounts import plural
from firn.model.errors import InvalidInput
from firn.storage.metadata_files import version_of
from firn.storage.pointers import Pointer

if TYPE_CHECKING:
    from firn.coordinator.client.options import ViewOptions

LIST_COLUMNS: Final = (Column("VIEW"), Column("VERSION", right=True), Column("LOCATION", long=True))


@click.group(cls=Family)
def view() -> None:
    """Create, look at, change and drop views."""


def _definition(command: Any) -> Any:
    """The options by which a definition is given."""
    for option in reversed(
        (
            click.option("--sql", help="The query, in the dialect --dialect."),
            click.option("--dialect", default="spark", show_default=True, help="The dialect of --sql."),
            click.option(
                "--query", "queries", multiple=True, metavar="DIALECT=SQL", help="The query in one more dialect."
            ),
            click.option(
                "--schema", metavar="FILE|JSON", help="Columns in Iceberg's JSON form; - reads standard input."
            ),
            click.option(
                "--column", "columns", multiple=True, metavar="TEXT", help='A column in short: "events long".'
            ),
            click.option("--default-catalog", help="Completes names in the query [default: where the view is]."),
            click.option("--default-namespace", metavar="A.B", help="As --default-catalog [default: the view's own]."),
            click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="A property to set."),
            waiting,
        )
    ):
        command = option(command)
    return command


@view.command(
    epilog='Example: firn view create db.daily --column "day date" --sql "SELECT DATE(ts) AS day FROM events"'
)
@click.argument("name")
@_definition
@click.option("--location", help="Where it is to be [default: below the daemon's warehouse].")
@reaching
def create(reach: Reach, *, name: str, location: str | None, wait: Wait, **given: Any) -> int:
    """Create a view from its columns and its query."""
    schema = _columns_of(given)
    if schema is None:
        raise click.UsageError("give --schema, or one --column for each column")
    options = _options_of(given)
    if location is not None:
        options["location"] = location
    intent = MAKE.create_view(name, schema, _queries_of(given), **options)
    return change(reach, intent, done="created", wait=wait)


@view.command()
@click.argument("name")
@click.option("--metadata-location", required=True, help="The view's metadata file.")
@waiting
@reaching
def register(reach: Reach, *, name: str, metadata_location: str, wait: Wait) -> int:
    """Take over a view that exists in storage, as it is."""
    return change(reach, MAKE.register_view(name, metadata_location), done="registered", wait=wait)


@view.command()
@click.argument("name")
@_definition
@reaching
def replace(reach: Reach, *, name: str, wait: Wait, **given: Any) -> int:
    """Give a view another definition; its columns stay unless others are given."""
    seen = _found(reach, name)
    intent = MAKE.replace_view(seen, _queries_of(given), schema=_columns_of(given), **_options_of(given))
    return change(reach, intent, done="replaced", wait=wait)


@view.command()
@click.argument("name")
@click.option("--set", "updates", multiple=True, metavar="KEY=VALUE", help="A property to set.")
@click.option("--remove", "removals", multiple=True, metavar="KEY", help="A property to remove.")
@waiting
@reaching
def properties(reach: Reach, *, name: str, updates: tuple[str, ...], removals: tuple[str, ...], wait: Wait) -> int:
    """Set and remove properties of a view."""
    changes = dict(key_value(text, "--property") for text in updates)
    intent = MAKE.update_view_properties(_found(reach, name), changes, removals=removals)
    return change(reach, intent, done="changed", wait=wait)


@view.command()
@click.argument("name")
@click.argument("version_id", type=int)
@waiting
@reaching
def rollback(reach: Reach, *, name: str, version_id: int, wait: Wait) -> int:
    """Set a view to another version that it still has (firn view history lists them)."""
    intent = MAKE.set_current_view_version(_found(reach, name), version_id)
    return change(reach, intent, done="set back", wait=wait)


@view.command()
@click.argument("name")
@click.option("--purge", is_flag=True, help="Let maintenance remove its files when 7 days have passed.")
@waiting
@reaching
def drop(reach: Reach, *, name: str, purge: bool, wait: Wait) -> int:
    """Forget a view. Its files stay where they are until they are purged."""
    return change(reach, MAKE.drop_view(_found(reach, name), purge=purge), done="dropped", wait=wait)


@view.command()
@click.argument("name")
@click.argument("new_name")
@waiting
@reaching
def rename(reach: Reach, *, name: str, new_name: str, wait: Wait) -> int:
    """Give a view another, free name. Its files stay where they are."""
    return change(reach, MAKE.rename_view(_found(reach, name), new_name), done="renamed", wait=wait)


@view.command("list")
@reaching
def list_views(reach: Reach) -> None:
    """List the views."""
    pointers = [pointer for pointer in reach.pointers() if pointer.kind == "view" and not pointer.dropped]
    if reach.output.as_json:
        reach.output.document([_listed(pointer) for pointer in pointers])
        return
    reach.output.grid(
        LIST_COLUMNS,
        ((pointer.table, version_of(pointer.metadata_location), pointer.location) for pointer in pointers),
        empty="there are no views",
    )


def _listed(pointer: Pointer) -> dict[str, Any]:
    return {
        "view": pointer.table,
        "uuid": pointer.uuid,
        "location": pointer.location,
        "metadata-location": pointer.metadata_location,
    }


@view.command()
@click.argument("name")
@reaching
def show(reach: Reach, *, name: str) -> None:
    """Show what a view is now: its query in each dialect, columns, properties."""
    seen = _found(reach, name)
    if reach.output.as_json:
        reach.output.document(view_json(seen))
        return
    for title, lines in view_sections(seen):
        if title:
            reach.output.say()
            reach.output.say(title)
        if isinstance(lines, list):
            reach.output.pairs(lines)
        else:
            reach.output.grid(lines.columns, lines.rows, empty=lines.empty)


@view.command()
@click.argument("name")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Entries to show.")
@reaching
def history(reach: Reach, *, name: str, limit: int) -> None:
    """List which version of a view was current when, newest first, and who asked for it."""
    metadata = _found(reach, name).metadata
    if reach.output.as_json:
        reach.output.document(history_json(metadata, limit=limit))
        return
    reach.output.grid(VERSION_COLUMNS, version_rows(metadata, limit=limit), empty=f"{shown(name)} has no history")
    if len(metadata.version_log) > limit:
        reach.output.say(
            f"{plural(len(metadata.version_log) - limit, 'older entry', 'older entries')} not shown (--limit)"
        )


def _found(reach: Reach, name: str) -> ViewFound:
    pointer = reach.pointer(name, kind="view")
    metadata = reach.metadata_reader.view(pointer.metadata_location, digest=pointer.digest)
    return ViewFound(name=name, metadata_location=pointer.metadata_location, metadata=metadata)


def _columns_of(given: Mapping[str, Any]) -> dict[str, Any] | None:
    schema, columns = given["schema"], given["columns"]
    if schema is not None and columns:
        raise click.UsageError("give --schema or --column, not both")
    if schema is not None:
        return schema_of(schema)
    return schema_of_columns(columns) if columns else None


def _queries_of(given: Mapping[str, Any]) -> dict[str, str]:
    queries = {} if given["sql"] is None else {given["dialect"]: given["sql"]}
    for text in given["queries"]:
        dialect, equals, sql = text.partition("=")
        if not equals or not dialect:
            raise InvalidInput("is not DIALECT=SQL", where=f"--query {text!r}")
        if dialect in queries:
            raise InvalidInput(f"gives a second query for dialect {dialect}", where=f"--query {text!r}")
        queries[dialect] = sql
    if not queries:
        raise click.UsageError("give the query: --sql, or --query for each dialect")
    return queries


def _options_of(given: Mapping[str, Any]) -> ViewOptions:
    options: ViewOptions = {"properties": dict(key_value(text, "--property") for text in given["properties"])}
    if given["default_catalog"] is not None:
        options["default_catalog"] = given["default_catalog"]
    if given["default_namespace"] is not None:
        options["default_namespace"] = given["default_namespace"].split(".")
    return options
