"""`firn fsck`: does everything hold that must, as far as what is stored tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click
import msgspec

from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK
from firn.coordinator.cli.output import Column
from firn.coordinator.cli.progress import ProgressLine, showing_progress
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.text import shown
from firn.coordinator.fsck.finding import INVARIANTS
from firn.coordinator.fsck.run import Verdict, check_moving_table, check_table
from firn.model.amounts import plural
from firn.storage.pointers import Pointer

SHOWN_MAX: Final = 20
"""Breaches of one invariant that are shown to people; JSON has them all."""

FSCK_COLUMNS: Final = (Column("TABLE"), Column("RESULT"), Column("INVARIANT"), Column("WHAT MUST HOLD", long=True))


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--all", "all_tables", is_flag=True, help="All tables and views that are not dropped.")
@click.option("--deep", is_flag=True, help="Open data files, too: rows in Parquet footers, deletion vectors.")
@reaching
def fsck(reach: Reach, *, tables: tuple[str, ...], all_tables: bool, deep: bool) -> int:
    """Check what must hold of a table or view, from its pointer, journal, metadata, manifests and files.

    Exits with 1 when something does not hold. Nothing is changed.
    """
    if bool(tables) == all_tables:
        raise click.UsageError("name tables, or give --all")
    if all_tables:
        tables = tuple(p.table for p in reach.pointers() if not p.dropped)

    def check(pointer: Pointer, progress: ProgressLine) -> Verdict:
        return check_table(
            pointer,
            files=reach.files,
            limits=reach.settings.limits,
            deep=deep,
            pointer_of=lambda table: reach.pointer(table, dropped=True),
            progress=progress,
        )

    verdicts = []
    with showing_progress(reach.output) as progress:
        for number, table in enumerate(tables, start=1):
            progress.within("table", number, len(tables), table)
            verdicts.append(check_moving_table(_reader_of(reach, table), lambda pointer: check(pointer, progress)))
    if reach.output.as_json:
        reach.output.document({
            "ok": all(verdict.ok for verdict in verdicts), "tables": [_json(verdict) for verdict in verdicts],
        })  # fmt: skip
    else:
        _show(reach, verdicts)
    return EXIT_OK if all(verdict.ok for verdict in verdicts) else EXIT_NO


def _reader_of(reach: Reach, table: str) -> Callable[[], Pointer]:
    return lambda: reach.pointer(table, dropped=True)


def _show(reach: Reach, verdicts: list[Verdict]) -> None:
    rows = [
        (verdict.table, "breach" if verdict.of(name) else "ok", name, sentence)
        for verdict in verdicts
        for name, sentence in INVARIANTS.items()
    ]
    reach.output.grid(FSCK_COLUMNS, rows, empty="there are no tables")
    for verdict in verdicts:
        reach.output.say()
        checked = verdict.checked
        counts = (
            (checked.segments, "journal segment"), (checked.intents, "intent"), (checked.versions, "version"),
            (checked.snapshots, "snapshot"), (checked.manifests, "manifest"), (checked.files, "file"),
        )  # fmt: skip
        reach.output.say(f"{shown(verdict.table)}: checked {', '.join(plural(*count) for count in counts)}")
        for name in INVARIANTS:
            _show_breaches(reach, verdict, name)
    breaches = sum(len(verdict.findings) for verdict in verdicts)
    reach.output.say()
    reach.output.say(f"fsck: {'ok' if not breaches else plural(breaches, 'breach', 'breaches')}")


def _show_breaches(reach: Reach, verdict: Verdict, name: Any) -> None:
    found = verdict.of(name)
    for finding in found[:SHOWN_MAX]:
        reach.output.say(f"  {name}: {shown(finding.where)}: {shown(finding.message)}")
    if len(found) > SHOWN_MAX:
        reach.output.say(f"  {name}: and {len(found) - SHOWN_MAX:,} more (--json lists all)")


def _json(verdict: Verdict) -> dict[str, Any]:
    return {
        "table": verdict.table,
        "ok": verdict.ok,
        "checked": msgspec.to_builtins(verdict.checked),
        "invariants": [
            {
                "name": name,
                "sentence": sentence,
                "holds": not verdict.of(name),
                "breaches": [{"where": f.where, "message": f.message} for f in verdict.of(name)],
            }
            for name, sentence in INVARIANTS.items()
        ],
    }
