"""Conflicts counted over the table of commits: by table, by rule, by loser and winner, and by hour.

The same as SQL is in `firn.pipeline.conflict_queries`. Needs no Spark.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from firn.coordinator.client.table_view import TableView
from firn.model.expressions.predicates import Expression, and_, eq, gt_eq, lt
from firn.model.iso_time import timestamp_to_text
from firn.pipeline.task_rows import TaskReader
from firn.storage.files import FileStore
from firn.storage.manifest_reader import StoredManifests
from firn.storage.table_scan import plan_scan

HOUR_MS: Final = 3_600_000
UNNAMED: Final = "(unnamed)"
"""A writer that did not say who it is."""

NOBODY: Final = "(nobody)"
"""The winner where nobody came first: the intent could not have been committed at any time."""

_COLUMNS: Final = ("table_name", "status", "rule", "hint", "writer")
_GROUPED: Final = (*_COLUMNS, "winner", "hour")
_WINNER: Final = ("conflicting_writer", "conflicting_intent_id", "conflicting_snapshot_id")
"""What a rejection says of who came first; nothing, where nobody did."""


class Window(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What is counted: one table or all, from `since_ms` to before `until_ms` (Unix milliseconds)."""

    table: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


class TableLine(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """One table's decisions."""

    table: str
    committed: int
    rejected: int


class RuleLine(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Rejections by one rule, and what their writers could do."""

    rule: str
    hint: str
    rejected: int


class PairLine(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Rejections of one writer's intents for what one other had committed before."""

    loser: str
    winner: str
    rejected: int


class HourLine(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The decisions of one hour, which begins at `hour_ms`."""

    hour_ms: int
    committed: int
    rejected: int


class _Key(NamedTuple):
    """What rows are counted by: `_GROUPED`; `hour` counts from 1970."""

    table: str
    status: str
    rule: str | None
    hint: str | None
    writer: str | None
    winner: str
    hour: int


class ConflictReport(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The counts, most rejections first; hours in order, those without a decision left out."""

    window: Window
    committed: int
    rejected: int
    tables: tuple[TableLine, ...]
    rules: tuple[RuleLine, ...]
    pairs: tuple[PairLine, ...]
    hours: tuple[HourLine, ...]


def conflict_report(view: TableView, window: Window, *, files: FileStore) -> ConflictReport:
    """Count over the table of commits as `view` shows it.

    Raises InvalidInput for a table without the columns, and what reading files raises.
    """
    counts: Counter[_Key] = Counter()
    for batch in _batches(view, window, files=files):
        grouped = pa.table(batch).group_by(list(_GROUPED), use_threads=False).aggregate([([], "count_all")])
        for row in grouped.to_pylist():
            counts[_Key(*(row[name] for name in _GROUPED))] += row["count_all"]
    return _report(counts, window)


def _batches(view: TableView, window: Window, *, files: FileStore) -> Iterator[pa.RecordBatch]:
    """The rows of the window, in the columns of `_GROUPED`."""
    columns = [*_COLUMNS, *_WINNER, "decided_at"]
    plan = plan_scan(view.metadata, files=StoredManifests(files), filter=_filter(window), columns=columns)
    reader = TaskReader(view.metadata, plan.projection, files)
    for task in plan.tasks:
        for batch in reader.batches(task):
            micros = batch.column("decided_at").cast(pa.int64())
            wanted = _wanted(window, table=batch.column("table_name"), micros=micros)
            hours = pc.divide(micros, HOUR_MS * 1000)
            arrays = [*map(batch.column, _COLUMNS), _winners(batch), hours]
            yield pa.RecordBatch.from_arrays(arrays, list(_GROUPED)).filter(wanted)


def _filter(window: Window) -> Expression:
    """What files are left out by; which of their rows are wanted is asked of each."""
    parts: list[Expression] = []
    if window.table is not None:
        parts.append(eq("table_name", window.table))
    if window.since_ms is not None:
        parts.append(gt_eq("decided_at", _text_of(window.since_ms)))
    if window.until_ms is not None:
        parts.append(lt("decided_at", _text_of(window.until_ms)))
    return and_(*parts)


def _text_of(ms: int) -> str:
    return timestamp_to_text(ms, digits=3, zoned=True)


def _winners(batch: pa.RecordBatch) -> pa.Array:
    """Who came first, by name."""
    writer, intent, snapshot = map(batch.column, _WINNER)
    known = pc.or_(pc.is_valid(intent), pc.is_valid(snapshot))
    return pc.coalesce(writer, pc.if_else(known, UNNAMED, NOBODY))


def _wanted(window: Window, *, table: pa.Array, micros: pa.Array) -> pa.Array:
    wanted = pa.repeat(True, len(table))  # noqa: FBT003 - every row
    if window.table is not None:
        wanted = pc.equal(table, window.table)
    if window.since_ms is not None:
        wanted = pc.and_(wanted, pc.greater_equal(micros, window.since_ms * 1000))
    if window.until_ms is not None:
        wanted = pc.and_(wanted, pc.less(micros, window.until_ms * 1000))
    return wanted


def _report(counts: Counter[_Key], window: Window) -> ConflictReport:
    tables: defaultdict[str, Counter[str]] = defaultdict(Counter)
    hours: defaultdict[int, Counter[str]] = defaultdict(Counter)
    rules: Counter[tuple[str, str]] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    total: Counter[str] = Counter()
    for key, count in counts.items():
        for counter in (total, tables[key.table], hours[key.hour]):
            counter[key.status] += count
        if key.rule is not None:
            rules[key.rule, key.hint or ""] += count
            pairs[key.writer or UNNAMED, key.winner] += count
    return ConflictReport(
        window=window,
        committed=total["committed"],
        rejected=total["rejected"],
        tables=tuple(
            TableLine(table=name, committed=found["committed"], rejected=found["rejected"])
            for name, found in sorted(tables.items(), key=lambda one: (-one[1]["rejected"], one[0]))
        ),
        rules=tuple(RuleLine(rule=rule, hint=hint, rejected=count) for (rule, hint), count in _most_first(rules)),
        pairs=tuple(PairLine(loser=lost, winner=won, rejected=count) for (lost, won), count in _most_first(pairs)),
        hours=tuple(
            HourLine(hour_ms=hour * HOUR_MS, committed=found["committed"], rejected=found["rejected"])
            for hour, found in sorted(hours.items())
        ),
    )


def _most_first(counts: Counter[tuple[str, str]]) -> list[tuple[tuple[str, str], int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))
