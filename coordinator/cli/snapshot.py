"""`firn snapshot …` and `firn expire`: what branches point at, changes of staged snapshots, and forgetting old ones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from firn.coordinator.cli.family import Family
from firn.coordinator.cli.making import MAKE
from firn.coordinator.cli.operating import metadata_of, operating, ref_of_table, snapshot_named
from firn.coordinator.cli.reach import Reach
from firn.coordinator.cli.times import Moment
from firn.model.snapshot import MAIN_BRANCH

if TYPE_CHECKING:
    from firn.model.intent import Intent

_BRANCH = click.option("--branch", default=MAIN_BRANCH, show_default=True, help="The branch.")
_EXPECT = click.option(
    "--expect", type=int, metavar="SNAPSHOT", help="Where the branch must be [default: where it is now]."
)


@click.group(cls=Family)
def snapshot() -> None:
    """Roll back, set the current snapshot, cherry-pick, publish what was staged."""


@snapshot.command(epilog="Example: firn snapshot rollback db.events --before 2h")
@click.argument("table")
@click.option("--to", metavar="SNAPSHOT|REF", help="An ancestor of the branch's head.")
@click.option(
    "--before", "before_ms", type=Moment(), metavar="TIME", help="The newest older than this: 2h, 2026-11-21."
)
@_BRANCH
@_EXPECT
@operating
def rollback(
    reach: Reach, *, table: str, to: str | None, before_ms: int | None, branch: str, expect: int | None
) -> Intent:
    """Move a branch back to one of its ancestors. What falls off it is said."""
    if (to is None) == (before_ms is None):
        raise click.UsageError("give --to or --before")
    metadata = metadata_of(reach, table)
    return MAKE.rollback(
        table,
        snapshot_id=None if to is None else snapshot_named(metadata, to),
        before=None if before_ms is None else _moment(before_ms),
        branch=branch,
        expected_snapshot_id=ref_of_table(metadata, branch).snapshot_id if expect is None else expect,
    )


@snapshot.command("set-current")
@click.argument("table")
@click.argument("target", metavar="SNAPSHOT|REF")
@_BRANCH
@_EXPECT
@operating
def set_current(reach: Reach, *, table: str, target: str, branch: str, expect: int | None) -> Intent:
    """Move a branch to any snapshot of the table, related or not. What falls off it is said."""
    metadata = metadata_of(reach, table)
    return MAKE.set_current_snapshot(
        table,
        snapshot_named(metadata, target),
        branch=branch,
        expected_snapshot_id=ref_of_table(metadata, branch).snapshot_id if expect is None else expect,
    )


@snapshot.command("cherry-pick")
@click.argument("table")
@click.argument("source", metavar="SNAPSHOT|REF")
@_BRANCH
@operating
def cherry_pick(reach: Reach, *, table: str, source: str, branch: str) -> Intent:
    """Apply the changes of a snapshot that is not on the branch to the branch, once."""
    return MAKE.cherry_pick(table, snapshot_named(metadata_of(reach, table), source), branch=branch)


@snapshot.command(epilog="Staged with: firn file append TABLE FILE… --stage --wap-id ID")
@click.argument("table")
@click.argument("wap_id")
@_BRANCH
@operating
def publish(_reach: Reach, *, table: str, wap_id: str, branch: str) -> Intent:
    """Apply what was staged under a write-audit-publish id to the branch, once."""
    return MAKE.publish(table, wap_id, branch=branch)


@click.command(epilog="Example: firn expire db.events --older-than 7d --retain-last 100 --dry-run")
@click.argument("table")
@click.option(
    "--older-than", "older_than_ms", type=Moment(), metavar="TIME",
    help="Those before this: 7d, 2026-11-01 [default: as the table's history.expire.max-snapshot-age-ms says].",
)  # fmt: skip
@click.option("--retain-last", type=click.IntRange(1), help="Keep so many of each branch at least.")
@click.option("--snapshot", "snapshots", type=int, multiple=True, help="This one, whatever its age; may be repeated.")
@operating
def expire(
    _reach: Reach, *, table: str, older_than_ms: int | None, retain_last: int | None, snapshots: tuple[int, ...]
) -> Intent:
    """Forget old snapshots and aged references; what was asked for and is kept, and why, is said. Deletes no file."""
    return MAKE.expire_snapshots(
        table,
        older_than=None if older_than_ms is None else _moment(older_than_ms),
        retain_last=retain_last,
        snapshot_ids=snapshots,
    )


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, tz=UTC)
