"""`firn table …`: tables are created and dropped through intents, and read from their pointers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import click

from firn.coordinator.cli.changes import Wait, change, schema_of, waiting
from firn.coordinator.cli.family import Family
from firn.coordinator.cli.making import MAKE, view_at
from firn.coordinator.cli.operating import key_value, operating
from firn.coordinator.cli.output import Column
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.short_text import order_of_keys, schema_of_columns, spec_of_partitions
from firn.coordinator.cli.table_history import HISTORY_COLUMNS, history_row
from firn.coordinator.cli.table_views import (
    FILE_COLUMNS,
    file_row,
    history_pairs,
    live_files,
    summary_json,
    summary_sections,
)
from firn.coordinator.cli.text import shown
from firn.coordinator.insight.table_history import history_of
from firn.model.amounts import plural
from firn.model.errors import NotFound
from firn.model.scan_target import no_such_ref
from firn.model.schema import schema_from_json
from firn.storage.metadata_files import version_of

if TYPE_CHECKING:
    from firn.coordinator.client import TableView
    from firn.coordinator.client.options import TableOptions
    from firn.model.intent import Intent
    from firn.model.metadata import TableMetadata

LIST_COLUMNS: Final = (
    Column("TABLE"),
    Column("KIND"),
    Column("CATALOG"),
    Column("VERSION", right=True),
    Column("LOCATION", long=True),
)


@click.group(cls=Family)
def table() -> None:
    """Create, look at and drop tables."""


@table.command(
    epilog='Example: firn table create db.events --column "id long required" --column "ts timestamptz" '
    '--partition "day(ts)" --sort "ts desc"'
)
@click.argument("name")
@click.option("--schema", metavar="FILE|JSON", help="Schema in Iceberg's JSON form; - reads standard input.")
@click.option("--column", "columns", multiple=True, metavar="TEXT", help='A column in short: "id long required".')
@click.option(
    "--partition", "partitions", multiple=True, metavar="TEXT", help='"day(ts)", "bucket(16, id)", "region as r".'
)
@click.option("--sort", "keys", multiple=True, metavar="TEXT", help='"ts desc", "bucket(16, id) asc nulls last".')
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="A table property.")
@click.option("--format-version", type=click.IntRange(1, 3), help="[default: 2; that of the table that is replaced]")
@click.option(
    "--or-replace", is_flag=True, help="Put it in the place of a table that is there, which keeps its history."
)
@click.option("--location", help="Where it is to be [default: below the daemon's warehouse].")
@click.option(
    "--catalog",
    type=click.Choice(["metastore", "file-system"]),
    default="metastore",
    show_default=True,
    help="A file-system table is opened by its path: v<N>.metadata.json.",
)
@waiting
@reaching
def create(  # noqa: PLR0913 - one for each option
    reach: Reach,
    *,
    name: str,
    schema: str | None,
    columns: tuple[str, ...],
    partitions: tuple[str, ...],
    keys: tuple[str, ...],
    properties: tuple[str, ...],
    format_version: int | None,
    or_replace: bool,
    location: str | None,
    catalog: Literal["metastore", "file-system"],
    wait: Wait,
) -> int:
    """Create a table from a schema in JSON or from columns in short text."""
    if (schema is None) == (not columns):
        raise click.UsageError("give --schema, or one --column for each column")
    members = schema_of(schema) if schema is not None else schema_of_columns(columns)
    known = schema_from_json(members, where="schema")
    options: TableOptions = {
        "properties": dict(key_value(text, "--property") for text in properties),
        "catalog": catalog,
    }
    if partitions:
        options["partition_spec"] = spec_of_partitions(partitions, known)
    if keys:
        options["write_order"] = order_of_keys(keys, known)
    if location is not None:
        options["location"] = location
    if format_version is not None:
        options["format_version"] = format_version
    if not or_replace:
        return change(reach, MAKE.create_table(name, members, **options), done="created", wait=wait)
    seen = _seen(reach, name)
    intent = MAKE.create_or_replace_table(name, members, seen=seen, **options)
    return change(reach, intent, done="created" if seen is None else "replaced", wait=wait)


def _seen(reach: Reach, name: str) -> TableView | None:
    """The table as it is now; None when there is none."""
    pointer = next((one for one in reach.pointers() if one.table == name and not one.dropped), None)
    if pointer is None or pointer.kind != "table":
        return None  # a view is in the way, which the answer will say
    return view_at(reach, pointer, name=name)


@table.command()
@click.argument("name")
@click.option("--metadata-location", help="The metadata file of a table that is to be a metastore table here.")
@click.option("--location", help="The folder of a file-system table, which goes on to be one.")
@waiting
@reaching
def register(reach: Reach, *, name: str, metadata_location: str | None, location: str | None, wait: Wait) -> int:
    """Take over a table that exists in storage, as it is."""
    if (metadata_location is None) == (location is None):
        raise click.UsageError("give --metadata-location or --location")
    intent = MAKE.register_table(name, metadata_location=metadata_location, location=location)
    return change(reach, intent, done="registered", wait=wait)


@table.command()
@click.argument("name")
@click.option("--purge", is_flag=True, help="Let maintenance remove its files when 7 days have passed.")
@waiting
@reaching
def drop(reach: Reach, *, name: str, purge: bool, wait: Wait) -> int:
    """Forget a table. Its files stay where they are, and register brings it back, until they are purged."""
    return change(reach, MAKE.drop_table(name, purge=purge), done="dropped", wait=wait)


@table.command("set-location")
@click.argument("name")
@click.argument("location")
@operating
def set_location(_reach: Reach, *, name: str, location: str) -> Intent:
    """Give new files another base location; those that are there stay. Not for file-system tables."""
    return MAKE.set_location(name, location)


@table.command("upgrade-format", epilog="Example: firn table upgrade-format db.events 3 --dry-run")
@click.argument("name")
@click.argument("version", type=click.IntRange(1, 3))
@operating
def upgrade_format(_reach: Reach, *, name: str, version: int) -> Intent:
    """Bring a table to a newer format version; there is no way back."""
    return MAKE.upgrade_format(name, version)


@table.command()
@click.argument("name")
@click.argument("new_name")
@waiting
@reaching
def rename(reach: Reach, *, name: str, new_name: str, wait: Wait) -> int:
    """Give a table another, free name. Its files stay where they are."""
    return change(reach, MAKE.rename_table(name, new_name), done="renamed", wait=wait)


@table.command("list")
@click.option("--dropped", is_flag=True, help="Dropped tables, too, whose names may be used again.")
@reaching
def list_tables(reach: Reach, *, dropped: bool) -> None:
    """List the tables."""
    pointers = [pointer for pointer in reach.pointers() if dropped or not pointer.dropped]
    if reach.output.as_json:
        reach.output.document([
            {
                "table": pointer.table, "kind": pointer.kind, "catalog": pointer.catalog, "uuid": pointer.uuid,
                "location": pointer.location, "metadata-location": pointer.metadata_location,
                "dropped": pointer.dropped,
            }
            for pointer in pointers
        ])  # fmt: skip
        return
    reach.output.grid(
        LIST_COLUMNS,
        (
            (
                pointer.table,
                "dropped" if pointer.dropped else pointer.kind,
                pointer.catalog,
                version_of(pointer.metadata_location),
                pointer.location,
            )
            for pointer in pointers
        ),
        empty="there are no tables",
    )


@table.command()
@click.argument("name")
@reaching
def show(reach: Reach, *, name: str) -> None:
    """Show what a table is now: schema, partitioning, order, properties, snapshot, references, counts."""
    pointer = reach.pointer(name, kind="table")
    metadata = reach.metadata_reader.metadata(pointer.metadata_location)
    if reach.output.as_json:
        reach.output.document(summary_json(pointer, metadata))
        return
    for title, lines in summary_sections(pointer, metadata):
        if title:
            reach.output.say()
            reach.output.say(title)
        if isinstance(lines, list):
            reach.output.pairs(lines)
        else:
            reach.output.grid(lines.columns, lines.rows, empty=lines.empty)


@table.command()
@click.argument("name")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Snapshots to show.")
@reaching
def history(reach: Reach, *, name: str, limit: int) -> None:
    """List a table's snapshots, newest first, with the intents that they answered."""
    pointer = reach.pointer(name, kind="table")
    metadata = reach.metadata_reader.metadata(pointer.metadata_location)
    found = history_of(metadata, journal=reach.journal, journal_head=pointer.journal_head, limit=limit)
    if reach.output.as_json:
        reach.output.document(found)
        return
    reach.output.grid(
        HISTORY_COLUMNS, (history_row(item) for item in found), empty=f"{shown(name)} has no snapshots yet"
    )
    if len(metadata.snapshots) > limit:
        reach.output.say(f"{plural(len(metadata.snapshots) - limit, 'older snapshot')} not shown (--limit)")
    for what, time in history_pairs(metadata):
        reach.output.say(f"{what}: {time}")


@table.command()
@click.argument("name")
@click.option("--ref", help="A branch or tag [default: main].")
@click.option("--snapshot", "snapshot_id", type=int, help="A snapshot, by its id.")
@reaching
def files(reach: Reach, *, name: str, ref: str | None, snapshot_id: int | None) -> None:
    """List the live files of a table, with partition, records and bytes."""
    if ref is not None and snapshot_id is not None:
        raise click.UsageError("give --ref or --snapshot, not both")
    pointer = reach.pointer(name, kind="table")
    metadata = reach.metadata_reader.metadata(pointer.metadata_location)
    found = live_files(reach.reader, metadata, _snapshot_of(name, metadata, ref=ref, snapshot_id=snapshot_id))
    if reach.output.as_json:
        reach.output.document(found)
        return
    reach.output.grid(FILE_COLUMNS, (file_row(file) for file in found), empty=f"{shown(name)} has no live files")


def _snapshot_of(name: str, metadata: TableMetadata, *, ref: str | None, snapshot_id: int | None) -> int | None:
    if snapshot_id is not None:
        if metadata.snapshot_by_id(snapshot_id) is None:
            raise NotFound(
                f"there is no snapshot {snapshot_id}: it expired or never was (firn table history {name} lists those "
                "there are)"
            )
        return snapshot_id
    if ref is None:
        return metadata.current_snapshot_id
    found = metadata.ref(ref)
    if found is None:
        raise no_such_ref(metadata, ref)
    return found.snapshot_id
