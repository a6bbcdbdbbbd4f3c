"""`firn property …` and `firn statistics …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from firn.coordinator.cli.family import Family
from firn.coordinator.cli.making import MAKE
from firn.coordinator.cli.operating import json_of, key_value, metadata_of, operating, snapshot_named
from firn.coordinator.cli.output import Column
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.text import shown
from firn.model.errors import InvalidInput

if TYPE_CHECKING:
    from firn.model.intent import Intent

COLUMNS: Final = (Column("PROPERTY"), Column("VALUE", long=True))


@click.group("property", cls=Family)
def property_group() -> None:
    """Table properties: list, set, unset."""


@click.group(cls=Family)
def statistics() -> None:
    """Statistics files of snapshots: list, set, remove."""


@property_group.command("list")
@click.argument("table")
@reaching
def list_properties(reach: Reach, *, table: str) -> None:
    """List the properties of a table."""
    properties = metadata_of(reach, table).properties
    if reach.output.as_json:
        reach.output.document(properties)
    reach.output.grid(COLUMNS, sorted(properties.items()), empty=f"{shown(table)} has no properties")


_EXPECT: Final = click.option(
    "--expect", multiple=True, metavar="KEY[=VALUE]", help="Only if it has this value; without =VALUE: is not set."
)


@property_group.command("set", epilog="Example: firn property set db.events history.expire.min-snapshots-to-keep=100")
@click.argument("table")
@click.argument("pairs", nargs=-1, required=True, metavar="KEY=VALUE…")
@_EXPECT
@operating
def set_properties(_reach: Reach, *, table: str, pairs: tuple[str, ...], expect: tuple[str, ...]) -> Intent:
    """Set properties; all others stay as they are."""
    updates = dict(key_value(text) for text in pairs)
    return MAKE.update_properties(table, updates, expect=_expected(expect))


@property_group.command()
@click.argument("table")
@click.argument("keys", nargs=-1, required=True, metavar="KEY…")
@_EXPECT
@operating
def unset(_reach: Reach, *, table: str, keys: tuple[str, ...], expect: tuple[str, ...]) -> Intent:
    """Remove properties; all others stay as they are."""
    return MAKE.update_properties(table, removals=keys, expect=_expected(expect))


def _expected(texts: tuple[str, ...]) -> dict[str, str | None]:
    return {key: value if equals else None for key, equals, value in (text.partition("=") for text in texts)}


_PARTITION: Final = click.option("--partition", is_flag=True, help="A partition statistics file.")


@statistics.command("list")
@click.argument("table")
@reaching
def list_statistics(reach: Reach, *, table: str) -> None:
    """List the statistics files of a table."""
    metadata = metadata_of(reach, table)
    found = {"statistics": metadata.statistics, "partition-statistics": metadata.partition_statistics}
    if reach.output.as_json:
        reach.output.document(found)
    rows = [
        (kind, one.get("snapshot-id"), one.get("file-size-in-bytes"), one.get("statistics-path"))
        for kind, files in found.items()
        for one in files
    ]
    columns = (Column("KIND"), Column("SNAPSHOT", right=True), Column("BYTES", right=True), Column("FILE", long=True))
    reach.output.grid(columns, rows, empty=f"{shown(table)} has no statistics")


@statistics.command("set", epilog="The JSON is the REST specification's StatisticsFile or PartitionStatisticsFile.")
@click.argument("table")
@click.argument("source", metavar="FILE|JSON|-")
@_PARTITION
@operating
def set_statistics(_reach: Reach, *, table: str, source: str, partition: bool) -> Intent:
    """Attach a statistics file to the snapshot that it names, in place of the one it had."""
    members: Any = json_of(source, where="statistics")
    if not isinstance(members, dict):
        raise InvalidInput("is not a JSON object", where="statistics")
    return MAKE.set_partition_statistics(table, members) if partition else MAKE.set_statistics(table, members)


@statistics.command("remove")
@click.argument("table")
@click.argument("target", metavar="SNAPSHOT|REF")
@_PARTITION
@operating
def remove_statistics(reach: Reach, *, table: str, target: str, partition: bool) -> Intent:
    """Detach a snapshot's statistics file."""
    snapshot_id = snapshot_named(metadata_of(reach, table), target)
    if partition:
        return MAKE.remove_partition_statistics(table, snapshot_id)
    return MAKE.remove_statistics(table, snapshot_id)
