"""`firn partition …` and `firn sort-order …`: how new files are cut and ordered; those that are there stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from firn.coordinator.cli.family import Family
from firn.coordinator.cli.making import MAKE
from firn.coordinator.cli.operating import metadata_of, operating
from firn.coordinator.cli.reach import Reach
from firn.coordinator.cli.short_text import order_of_keys, spec_of_partitions

if TYPE_CHECKING:
    from firn.model.intent import Intent


@click.group(cls=Family)
def partition() -> None:
    """Partition fields: add, remove, rename."""


@click.group("sort-order", cls=Family)
def sort_order() -> None:
    """The order that writers are asked for: set, clear."""


@partition.command(epilog='Example: firn partition add db.events region "bucket(16, customer_id) as customer"')
@click.argument("table")
@click.argument("fields", nargs=-1, required=True, metavar="TEXT…")
@operating
def add(reach: Reach, *, table: str, fields: tuple[str, ...]) -> Intent:
    """Partition by more: "day(ts)", "bucket(16, id)", "region as r"."""
    metadata = metadata_of(reach, table)
    update = MAKE.update_spec(table, base=metadata.current_schema_id, base_spec_id=metadata.default_spec_id)
    known = metadata.current_schema
    for text in fields:
        (field,) = spec_of_partitions([text], known)["fields"]
        source = known.column_name(field["source-id"])
        assert source is not None
        update.add_field(source, field["transform"], name=field["name"])
    return update.submit()


@partition.command()
@click.argument("table")
@click.argument("names", nargs=-1, required=True, metavar="FIELD…")
@operating
def remove(reach: Reach, *, table: str, names: tuple[str, ...]) -> Intent:
    """Stop partitioning by fields, by their names."""
    metadata = metadata_of(reach, table)
    update = MAKE.update_spec(table, base=metadata.current_schema_id, base_spec_id=metadata.default_spec_id)
    for name in names:
        update.remove_field(name)
    return update.submit()


@partition.command()
@click.argument("table")
@click.argument("name")
@click.argument("new_name")
@operating
def rename(reach: Reach, *, table: str, name: str, new_name: str) -> Intent:
    """Give a partition field another name."""
    metadata = metadata_of(reach, table)
    update = MAKE.update_spec(table, base=metadata.current_schema_id, base_spec_id=metadata.default_spec_id)
    return update.rename_field(name, new_name).submit()


@sort_order.command("set", epilog='Example: firn sort-order set db.events "ts desc" "bucket(16, id) asc nulls last"')
@click.argument("table")
@click.argument("keys", nargs=-1, required=True, metavar="TEXT…")
@operating
def set_order(reach: Reach, *, table: str, keys: tuple[str, ...]) -> Intent:
    """Replace the sort order."""
    metadata = metadata_of(reach, table)
    known = metadata.current_schema
    update = MAKE.update_sort_order(
        table, base=metadata.current_schema_id, base_sort_order_id=metadata.default_sort_order_id
    )
    for field in order_of_keys(keys, known)["fields"]:
        source = known.column_name(field["source-id"])
        assert source is not None
        by = update.asc if field["direction"] == "asc" else update.desc
        by(source, field["transform"], null_order=field["null-order"])
    return update.submit()


@sort_order.command()
@click.argument("table")
@operating
def clear(reach: Reach, *, table: str) -> Intent:
    """Ask writers for no order."""
    metadata = metadata_of(reach, table)
    return MAKE.update_sort_order(
        table, base=metadata.current_schema_id, base_sort_order_id=metadata.default_sort_order_id
    ).submit()
