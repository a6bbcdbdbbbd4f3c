"""`firn spark expire` and `firn spark orphans`: what tables do not need any more, and its files."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, cast

import click

from firn.coordinator.cli.answers import complain_of, exit_code_of_answers
from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK
from firn.coordinator.cli.output import complain
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.text import one_line, shown
from firn.coordinator.cli.times import Moment, Span
from firn.coordinator.client import Unknown
from firn.model.amounts import plural, size_text
from firn.model.outcome import Committed, Rejected
from firn.pipeline.cli.spark_running import bars, connection_of
from firn.pipeline.forgotten_files import Removal
from firn.pipeline.orphan_files import OLDER_THAN_MS, Mismatch, Orphans, remove_orphans
from firn.pipeline.snapshot_expiry import Expired, expire_snapshots
from firn.pipeline.upkeep import Upkeep

LOCATIONS_SHOWN: Final = 20

_MORE_DETAILS: Final = {
    "removed-refs": "branches and tags that expired",
    "kept": "kept snapshots",
    "kept-refs": "kept branches and tags",
    "already-gone": "were gone already",
    "removed-specs": "partition specs taken away",
    "removed-schemas": "schemas taken away",
    "specs-and-schemas-kept": "specs and schemas are kept",
}
"""What else an expiry tells, in words."""


def upkeep_of(reach: Reach) -> Upkeep:
    """Maintenance of what the command reaches, by its settings. Raises Unavailable when Redis does not answer."""
    reach.require_redis()
    client = connection_of(reach).client()
    return Upkeep(client=client, files=reach.files, session=reach.session, streams=reach.streams)


@click.command(
    epilog="Times: 7d (ago), 2026-11-21, 2026-11-21T15:30, in UTC unless a zone is given. Without options, what the "
    "table's history.expire.* properties say. firn expire --dry-run tells what would expire."
)
@click.argument("table")
@click.option("--older-than", "older_than_ms", type=Moment(), metavar="TIME", help="Expire snapshots older than this.")
@click.option("--retain-last", type=click.IntRange(min=1), help="Keep at least so many of each branch.")
@click.option("--clean-metadata", is_flag=True, help="Take specs and schemas that nothing uses away, too.")
@click.option("--keep-files", is_flag=True, help="Remove no files.")
@reaching
def expire(
    reach: Reach, *, table: str, older_than_ms: int | None, retain_last: int | None, clean_metadata: bool,
    keep_files: bool,
) -> int:  # fmt: skip
    """Expire snapshots, and remove the files that nothing reaches any more. Needs no Spark session."""
    reach.pointer(table, kind="table")
    with bars("files") as progress:
        bar = progress.add_task(f"expiring {shown(table)}", total=None)

        def told(what: str, count: int) -> None:
            progress.update(bar, description=f"removing {what}", advance=count)

        done = expire_snapshots(
            upkeep_of(reach),
            table,
            older_than=None if older_than_ms is None else datetime.fromtimestamp(older_than_ms / 1000, UTC),
            retain_last=retain_last,
            clean_expired_metadata=clean_metadata,
            keep_files=keep_files,
            progress=told,
        )
    if reach.output.as_json:
        reach.output.document(done)
    else:
        _say_expired(reach, done)
    failed = done.removal is not None and done.removal.failed
    return EXIT_NO if failed else exit_code_of_answers([done.answer])


def _say_expired(reach: Reach, done: Expired) -> None:
    match done.answer:
        case Rejected() | Unknown():
            complain_of(done.answer)
        case Committed():
            details = done.answer.details
            reach.output.say(f"expired: {plural(details.get('removed-count', 0), 'snapshot')}")
            for name, what in _MORE_DETAILS.items():
                if details.get(name):
                    reach.output.say(f"{what}: {shown(_listed(details[name]))}")
    if done.removal is not None:
        _say_removal(reach, done.removal)


def _listed(found: Any) -> str:
    if isinstance(found, str | int):
        return str(found)
    return ", ".join(_one(entry) for entry in (found.items() if isinstance(found, dict) else found))


def _one(entry: Any) -> str:
    """A snapshot or a ref, with the reason where there is one."""
    return f"{entry[0]} ({entry[1]})" if isinstance(entry, list | tuple) else str(entry)


def _say_removal(reach: Reach, removal: Removal) -> None:
    counts = ", ".join(f"{count} {what}" for what, count in removal.removed.items() if count)
    reach.output.say(f"removed: {counts or 'no files'}")
    kept = [(removal.under_way, "work under way names them"), (removal.elsewhere, "outside of the table's folders")]
    for count, why in kept:
        if count:
            reach.output.say(f"kept: {plural(count, 'file')}, {why}")
    for location in removal.unreadable:
        complain(f"firn: cannot be read, and stays with all that it names: {shown(location)}")
    _complain_of(removal.failed)


@click.command(epilog="Example: firn spark orphans db.events --older-than 7d --remove")
@click.argument("table")
@click.option(
    "--older-than", "older_than_ms", type=Span(), default=OLDER_THAN_MS, metavar="SPAN",
    help="Files that are younger are nobody's orphans yet [default: 72h].",
)  # fmt: skip
@click.option("--remove", is_flag=True, help="Remove them; without it they are only listed.")
@click.option("--force", is_flag=True, help="Take an age under a day: when no job is writing that long.")
@click.option(
    "--mismatch", type=click.Choice(["error", "keep", "remove"]), default="error", show_default=True,
    help="Files that the table names under another scheme or bucket.",
)  # fmt: skip
@reaching
def orphans(reach: Reach, *, table: str, older_than_ms: int, remove: bool, force: bool, mismatch: str) -> int:
    """List, and with --remove remove, files in a table's folders that nothing names. Needs no Spark session."""
    reach.pointer(table, kind="table")
    with bars("files") as progress:
        bar = progress.add_task(f"searching {shown(table)}", total=None)
        found = remove_orphans(
            upkeep_of(reach),
            table,
            older_than_ms=older_than_ms,
            force=force,
            dry_run=not remove,
            mismatch=cast("Mismatch", mismatch),
            progress=lambda listed, _: progress.update(bar, completed=listed),
        )
    if reach.output.as_json:
        reach.output.document(found)
    else:
        _say_orphans(reach, found)
    return EXIT_NO if found.failed else EXIT_OK


def _say_orphans(reach: Reach, found: Orphans) -> None:
    for location in found.locations[:LOCATIONS_SHOWN]:
        reach.output.say(shown(location))
    if found.count > LOCATIONS_SHOWN:
        reach.output.say(f"… {found.count - LOCATIONS_SHOWN:,} more")
    what = "would be removed (--remove does it)" if found.dry_run else "removed"
    reach.output.say(
        f"{plural(found.count, 'orphan')} of {size_text(found.bytes_count)} {what}; "
        f"{plural(found.listed, 'file')} looked at"
    )
    if found.young or found.under_way:
        reach.output.say(f"kept: {found.young} that are too young, {found.under_way} that work under way names")
    for location in found.mismatched:
        complain(f"firn: named under another scheme or bucket: {shown(location)}")
    _complain_of(found.failed)


def _complain_of(failed: tuple[tuple[str, str], ...]) -> None:
    for location, why in failed:
        complain(f"firn: cannot remove {shown(location)}: {one_line(why)}")
