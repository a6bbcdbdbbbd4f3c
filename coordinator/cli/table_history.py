"""A table's history as rows for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from firn.coordinator.cli.output import Column
from firn.coordinator.cli.text import time_of
from firn.coordinator.insight.table_history import HistoryItem

HISTORY_COLUMNS: Final = (
    Column("SEQ", right=True), Column("SNAPSHOT", right=True), Column("TIME"), Column("OPERATION"),
    Column("FILES +/-", right=True), Column("RECORDS +/-", right=True), Column("RECORDS", right=True),
    Column("INTENTS"), Column("WRITERS", long=True), Column("REFS"),
)  # fmt: skip


def history_row(item: HistoryItem) -> tuple[object, ...]:
    """A snapshot as a row of `HISTORY_COLUMNS`."""
    summary = item.summary
    writers = list(dict.fromkeys(made.writer for made in item.intents if made.writer is not None))
    if not writers and "firn.writer" in summary:
        writers = [summary["firn.writer"]]
    if len(item.intents) == 1 or (not item.intents and "firn.intent-id" in summary):
        intents = item.intents[0].intent_id if item.intents else summary["firn.intent-id"]
    else:
        intents = str(item.intents_count) if item.intents_count else "-"
    return (
        item.sequence_number,
        item.snapshot_id,
        time_of(item.timestamp_ms),
        item.operation or "?",
        _change(summary, "added-data-files", "deleted-data-files"),
        _change(summary, "added-records", "deleted-records"),
        summary.get("total-records", "?"),
        intents,
        ", ".join(writers[:5]) + (f" and {len(writers) - 5} more" if len(writers) > 5 else "") or "-",
        ", ".join(item.refs),
    )


def _change(summary: Mapping[str, str], added: str, removed: str) -> str:
    return f"+{summary.get(added, '0')}/-{summary.get(removed, '0')}"
