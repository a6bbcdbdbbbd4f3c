"""The proof: another engine counts the table, and the actors' ledger says what it must find."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pyiceberg.table import StaticTable

from firn.coordinator.demo.actors import Report
from firn.coordinator.demo.dataset import FileStats
from firn.model.amounts import plural


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What should be in the table and what is. `problems` is empty when they agree."""

    rows: int
    files: int
    committed: int
    rejected: int
    unknown: int
    problems: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing was lost and nothing was doubled."""
        return not self.problems

    def line(self) -> str:
        """The last line of the demo."""
        verdict = "ok" if self.holds else "FAILED"
        return f"proof: {verdict} rows={self.rows} committed={self.committed} rejected={self.rejected}"


def expected_files(reports: Sequence[Report]) -> tuple[dict[str, FileStats], list[str]]:
    """The files that must be live by what the actors were told, and what cannot be right about that itself."""
    problems: list[str] = []
    added: dict[str, FileStats] = {}
    gone: set[str] = set()
    for report in reports:
        if report.status != "committed":
            continue
        for location, stats in report.added.items():
            if location in added:
                problems.append(f"{location} was committed twice")
            added[location] = stats
        for location in report.removed:
            if location in gone:
                problems.append(f"{location} was removed twice, the second time by {report.intent_id}")
            gone.add(location)
    problems.extend(f"{location} was removed, but never added" for location in gone - set(added))
    return {location: stats for location, stats in added.items() if location not in gone}, problems


def prove(metadata_location: str, reports: Sequence[Report], *, read_back: FileStats | None = None) -> Proof:
    """Read the table with PyIceberg and compare rows, ids and files with the ledger.

    `read_back` is what Spark has read, if it has: that must agree, too.
    """
    expected, problems = expected_files(reports)
    table = StaticTable.from_metadata(metadata_location)
    ids = table.scan(selected_fields=("id",)).to_arrow().column("id")
    live = [task.file.file_path for task in table.scan().plan_files()]
    rows = sum(stats.rows for stats in expected.values())
    if len(ids) != rows:
        problems.append(f"the table has {plural(len(ids), 'row')}, the writers were told of {rows:,}")
    id_sum = sum(stats.id_sum for stats in expected.values())
    if sum(ids.to_pylist()) != id_sum:
        problems.append("the ids in the table do not add up to those that the writers were told of")
    if read_back not in (None, FileStats(rows, id_sum)):
        problems.append(
            f"Spark reads {read_back}, the writers were told of {plural(rows, 'row')} with ids that add to {id_sum}"
        )
    if sorted(live) != sorted(expected):
        problems.append(
            f"{plural(len(set(live) - set(expected)), 'live file')} that nobody was told of, "
            f"{len(set(expected) - set(live))} missing, "
            f"{len(live) - len(set(live))} doubled"
        )
    count = [report.status for report in reports].count
    if count("unknown"):
        problems.append(f"{plural(count('unknown'), 'intent')} without an outcome")
    return Proof(
        rows=len(ids),
        files=len(live),
        committed=count("committed"),
        rejected=count("rejected"),
        unknown=count("unknown"),
        problems=tuple(problems),
    )
