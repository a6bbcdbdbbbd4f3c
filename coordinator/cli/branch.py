"""`firn branch …` and `firn tag …`: references, made and moved through intents.

A command that moves or removes one names the snapshot that it has just read there, unless --expect says another: what
comes to the branch in between does not fall off it unseen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from firn.coordinator.cli.family import Family
from firn.coordinator.cli.making import MAKE
from firn.coordinator.cli.operating import given, metadata_of, operating, ref_of_table, snapshot_named
from firn.coordinator.cli.output import Column
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.table_views import retention_of
from firn.coordinator.cli.text import shown, time_of
from firn.coordinator.cli.times import Span
from firn.model.ancestry import ancestors_of
from firn.model.metadata import TableMetadata
from firn.model.snapshot import MAIN_BRANCH, RefType, SnapshotRef, ref_to_json

if TYPE_CHECKING:
    from firn.model.intent import Intent

COLUMNS: Final = (
    Column("NAME"), Column("SNAPSHOT", right=True), Column("TIME"), Column("SNAPSHOTS", right=True),
    Column("KEPT", long=True),
)  # fmt: skip

_EXPECT: Final = click.option(
    "--expect", "expected", type=int, metavar="SNAPSHOT", help="Where it must be [default: where it is now]."
)
_REF_AGE: Final = click.option(
    "--max-ref-age", "max_ref_age_ms", type=Span(), metavar="30d", help="Goes when its snapshot is older."
)


def _retention(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of what a branch keeps."""
    for option in (
        _REF_AGE,
        click.option("--max-snapshot-age", "max_snapshot_age_ms", type=Span(), metavar="7d", help="Snapshots kept."),
        click.option(
            "--min-snapshots", "min_snapshots_to_keep", type=click.IntRange(1), help="Kept whatever their age."
        ),
    ):
        command = option(command)
    return command


@click.group(cls=Family)
def branch() -> None:
    """Branches: list, create, move, fast-forward, rename, remove, and how long they are kept."""


@click.group(cls=Family)
def tag() -> None:
    """Tags: list, create, move, remove, and how long they are kept."""


def _list(reach: Reach, table: str, kind: RefType) -> None:
    metadata = metadata_of(reach, table)
    found = {name: ref for name, ref in metadata.refs.items() if ref.type == kind}
    if reach.output.as_json:
        reach.output.document({name: ref_to_json(ref) for name, ref in found.items()})
    rows = [_row(metadata, name, ref) for name, ref in found.items()]
    many = "branches" if kind == "branch" else "tags"
    reach.output.grid(COLUMNS, rows, empty=f"{shown(table)} has no {many} yet")


def _row(metadata: TableMetadata, name: str, ref: SnapshotRef) -> tuple[object, ...]:
    snapshot = metadata.snapshot_by_id(ref.snapshot_id)
    depth = sum(1 for _ in ancestors_of(metadata, ref.snapshot_id)) if ref.type == "branch" else 1
    when = "-" if snapshot is None else time_of(snapshot.timestamp_ms)
    return name, ref.snapshot_id, when, depth, retention_of(ref)


@branch.command("list")
@click.argument("table")
@reaching
def list_branches(reach: Reach, *, table: str) -> None:
    """List the branches of a table: where they are, how many snapshots they have, how long they are kept."""
    _list(reach, table, "branch")


@tag.command("list")
@click.argument("table")
@reaching
def list_tags(reach: Reach, *, table: str) -> None:
    """List the tags of a table."""
    _list(reach, table, "tag")


@branch.command("create", epilog="Example: firn branch create db.events audit --at main --max-ref-age 30d")
@click.argument("table")
@click.argument("name")
@click.option("--at", default=MAIN_BRANCH, show_default=True, metavar="SNAPSHOT|REF", help="Where it begins.")
@_retention
@operating
def create_branch(reach: Reach, *, table: str, name: str, at: str, **kept: Any) -> Intent:
    """Make a branch at a snapshot; the name must be free. On a table without snapshots it starts empty."""
    metadata = metadata_of(reach, table)
    is_empty = at == MAIN_BRANCH and metadata.ref(MAIN_BRANCH) is None
    snapshot_id = None if is_empty else snapshot_named(metadata, at)
    return MAKE.create_branch(table, name, snapshot_id=snapshot_id, **given(kept))


@tag.command("create", epilog="Example: firn tag create db.events eoy-2026 --at main")
@click.argument("table")
@click.argument("name")
@click.option("--at", default=MAIN_BRANCH, show_default=True, metavar="SNAPSHOT|REF", help="What it names.")
@_REF_AGE
@operating
def create_tag(reach: Reach, *, table: str, name: str, at: str, max_ref_age_ms: int | None) -> Intent:
    """Make a tag at a snapshot; the name must be free."""
    snapshot_id = snapshot_named(metadata_of(reach, table), at)
    return MAKE.create_tag(table, name, snapshot_id=snapshot_id, max_ref_age_ms=max_ref_age_ms)


def _moving(group: click.Group, kind: str) -> None:
    """The commands that branches and tags have both."""

    @group.command("set", help=f"Move a {kind} to another snapshot. What falls off a branch by it is said.")
    @click.argument("table")
    @click.argument("name")
    @click.option("--at", required=True, metavar="SNAPSHOT|REF", help="Where it is to be.")
    @_EXPECT
    @operating
    def set_ref(reach: Reach, *, table: str, name: str, at: str, expected: int | None) -> Intent:
        metadata = metadata_of(reach, table)
        return MAKE.set_ref(
            table,
            name,
            snapshot_id=snapshot_named(metadata, at),
            expected_snapshot_id=_seen(metadata, name, expected),
        )

    @group.command("remove", help=f"Remove a {kind}; its snapshots stay until they expire.")
    @click.argument("table")
    @click.argument("name")
    @_EXPECT
    @operating
    def remove(reach: Reach, *, table: str, name: str, expected: int | None) -> Intent:
        seen = _seen(metadata_of(reach, table), name, expected)
        return MAKE.remove_ref(table, name, expected_snapshot_id=seen)


def _seen(metadata: TableMetadata, name: str, expected: int | None) -> int:
    return ref_of_table(metadata, name).snapshot_id if expected is None else expected


_moving(branch, "branch")
_moving(tag, "tag")


@branch.command("rename")
@click.argument("table")
@click.argument("name")
@click.argument("new_name")
@operating
def rename(_reach: Reach, *, table: str, name: str, new_name: str) -> Intent:
    """Give a branch another, free name."""
    return MAKE.rename_branch(table, name, new_name)


@branch.command("fast-forward", epilog="Example: firn branch fast-forward db.events main --to audit")
@click.argument("table")
@click.argument("name", default=MAIN_BRANCH)
@click.option("--to", required=True, metavar="REF", help="A branch or tag that is ahead.")
@operating
def fast_forward(_reach: Reach, *, table: str, name: str, to: str) -> Intent:
    """Move a branch [default: main] ahead to where another is; refused when commits would be lost by it."""
    return MAKE.fast_forward(table, name, to=to)


@branch.command("retention")
@click.argument("table")
@click.argument("name")
@_retention
@operating
def keep_branch(_reach: Reach, *, table: str, name: str, **kept: Any) -> Intent:
    """Change how long a branch and its snapshots are kept; what is left out stays as it is."""
    if not given(kept):
        raise click.UsageError("give --min-snapshots, --max-snapshot-age or --max-ref-age")
    return MAKE.set_retention(table, name, **given(kept))


@tag.command("retention")
@click.argument("table")
@click.argument("name")
@_REF_AGE
@operating
def keep_tag(_reach: Reach, *, table: str, name: str, max_ref_age_ms: int | None) -> Intent:
    """Change how long a tag is kept."""
    if max_ref_age_ms is None:
        raise click.UsageError("give --max-ref-age")
    return MAKE.set_retention(table, name, max_ref_age_ms=max_ref_age_ms)
