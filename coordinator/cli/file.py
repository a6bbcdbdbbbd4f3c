"""`firn file …`: Parquet files that are there already are added, removed and replaced through intents.

Their footers are read for what Iceberg keeps of a file; partitions are proven from the rows.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

import click

from firn.coordinator.cli.family import Family
from firn.coordinator.cli.making import MAKE
from firn.coordinator.cli.operating import given, operating, snapshot_named, view_of
from firn.coordinator.cli.reach import Reach
from firn.coordinator.client import TableView
from firn.model.intent import ContentFile, Intent
from firn.model.snapshot import MAIN_BRANCH

_PATHS: Final = click.argument("paths", nargs=-1, required=True, metavar="PATH…")
_BASE: Final = click.option(
    "--base", metavar="SNAPSHOT|REF", help="What the files were made from [default: where the branch is now]."
)


def _on_branch(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of operations on files."""
    for option in (
        click.option("--wap-id", help="Under which `firn snapshot publish` finds what is staged."),
        click.option("--stage", is_flag=True, help="Make a snapshot that no branch points at yet."),
        click.option("--branch", default=MAIN_BRANCH, show_default=True, help="The branch."),
    ):
        command = option(command)
    return command


def _checked(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of operations that are compared with what came since their base."""
    for option in (
        click.option("--validate", type=click.Choice(["all", "none"]), default="all", show_default=True),
        click.option(
            "--isolation", type=click.Choice(["serializable", "snapshot"]), default="serializable", show_default=True
        ),
        click.option("--conflict-filter", metavar="FILTER", help="The rows that were read [default: the whole table]."),
        _BASE,
    ):
        command = option(command)
    return command


@click.group(cls=Family)
def file() -> None:
    """Data files: append, delete, overwrite, replace; what is staged is not seen until it is published."""


def _described(reach: Reach, table: TableView, paths: tuple[str, ...]) -> list[ContentFile]:
    data_files = importlib.import_module("firn.coordinator.client.data_files")  # Arrow, only where it is needed
    found: list[ContentFile] = data_files.data_files_from_parquet(paths, table, files=reach.files)
    return found


def _base(table: TableView, base: str | None, branch: str) -> int | None:
    if base is not None:
        return snapshot_named(table.metadata, base)
    ref = table.metadata.ref(branch)
    return None if ref is None else ref.snapshot_id


@file.command(epilog="Example: firn file append db.events /lake/db/events/data/*.parquet --stage --wap-id nightly")
@click.argument("table")
@_PATHS
@_on_branch
@operating
def append(reach: Reach, *, table: str, paths: tuple[str, ...], **options: Any) -> Intent:
    """Add Parquet files that are in the table's folder. Never conflicts."""
    return MAKE.append(table, _described(reach, view_of(reach, table), paths), **given(options))


@file.command()
@click.argument("table")
@_PATHS
@_on_branch
@operating
def delete(_reach: Reach, *, table: str, paths: tuple[str, ...], **options: Any) -> Intent:
    """Remove whole data files from the table; refused unless each of them is live. Deletes no file."""
    return MAKE.delete_files(table, paths, **given(options))


@file.command("delete-where", epilog="Example: firn file delete-where db.events \"ts < '2025-01-01'\" --dry-run")
@click.argument("table")
@click.argument("row_filter", metavar="FILTER")
@_on_branch
@operating
def delete_where(_reach: Reach, *, table: str, row_filter: str, **options: Any) -> Intent:
    """Remove every data file whose rows all match; refused when one matches in part. Deletes no file."""
    return MAKE.delete_where(table, row_filter, **given(options))


@file.command(epilog="Example: firn file overwrite db.events new.parquet --where \"day = '2026-11-20'\"")
@click.argument("table")
@click.argument("paths", nargs=-1, metavar="[PATH]…")
@click.option("--where", "row_filter", metavar="FILTER", help="The rows that are replaced.")
@click.option("--remove", "removed", multiple=True, metavar="PATH", help="A data file that is replaced.")
@_checked
@_on_branch
@operating
def overwrite(
    reach: Reach,
    *,
    table: str,
    paths: tuple[str, ...],
    row_filter: str | None,
    removed: tuple[str, ...],
    base: str | None,
    **options: Any,
) -> Intent:
    """Replace what a filter matches, or named files, by other files (copy-on-write)."""
    if not (paths or row_filter or removed):
        raise click.UsageError("nothing to do: give --where or --remove, and the files to add, if any")
    seen = view_of(reach, table)
    return MAKE.overwrite(
        table,
        base_snapshot_id=_base(seen, base, options["branch"]),
        row_filter=row_filter,
        removed=removed,
        added=_described(reach, seen, paths),
        **given(options),
    )


@file.command("replace-partitions")
@click.argument("table")
@_PATHS
@_checked
@_on_branch
@operating
def replace_partitions(reach: Reach, *, table: str, paths: tuple[str, ...], base: str | None, **options: Any) -> Intent:
    """Replace whatever is in the partitions that the files are in (dynamic overwrite)."""
    seen = view_of(reach, table)
    return MAKE.replace_partitions(
        table,
        _described(reach, seen, paths),
        base_snapshot_id=_base(seen, base, options["branch"]),
        **given(options),
    )


@file.command()
@click.argument("table")
@_PATHS
@click.option("--remove", "removed", multiple=True, required=True, metavar="PATH", help="A file that they stand for.")
@_BASE
@_on_branch
@operating
def replace(
    reach: Reach, *, table: str, paths: tuple[str, ...], removed: tuple[str, ...], base: str | None, **options: Any
) -> Intent:
    """Rewrite data files without changing rows (compaction)."""
    seen = view_of(reach, table)
    planned = _base(seen, base, options["branch"])
    if planned is None:
        raise click.UsageError("the branch is empty: there is nothing to replace")
    added = _described(reach, seen, paths)
    return MAKE.replace(table, removed=removed, added=added, base_snapshot_id=planned, **given(options))
