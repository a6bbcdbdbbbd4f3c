"""Snapshots that others committed, in brief: who asked for each, as far as its summary tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from firn.model.amounts import plural
from firn.model.history import SUMMARY_BATCH, SUMMARY_INTENT, SUMMARY_INTENTS, SUMMARY_WRITER
from firn.model.snapshot import Snapshot

OUTSIDE: Final = "a writer outside firn"

NAMED_MAX: Final = 5
"""Writers of one snapshot that are named in a line."""

_ENGINE_MARKS: Final = {
    "spark.app.id": "spark",
    "flink.job-id": "flink",
    "trino_query_id": "trino",
    "iceberg-version": "an Iceberg library",
}
"""What engines leave in a summary, those that say more first."""


class Landed(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """One snapshot. `engine` is None for firn's own.

    Of those with several intents the summary names none; `writers` are theirs, where the journal was asked for them.
    """

    snapshot_id: int
    operation: str | None = None
    timestamp_ms: int
    sequence_number: int = 0
    parent_snapshot_id: int | None = None
    engine: str | None = None
    intent_id: str | None = None
    writer: str | None = None
    writers: tuple[str, ...] = ()
    intents_count: int = 0
    batch: str | None = None

    @property
    def by(self) -> str:
        """Who made it, for people."""
        if self.engine is not None:
            return self.engine
        if self.writer is not None:
            return self.writer
        if self.writers:
            more = len(self.writers) - NAMED_MAX
            return ", ".join(self.writers[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
        return plural(self.intents_count, "intent") if self.intents_count > 1 else self.intent_id or "firn"


def landed(snapshot: Snapshot) -> Landed:
    """The snapshot in brief."""
    summary = snapshot.summary or {}
    count = summary.get(SUMMARY_INTENTS, "")
    ours = SUMMARY_BATCH in summary
    return Landed(
        snapshot_id=snapshot.snapshot_id,
        operation=snapshot.operation,
        timestamp_ms=snapshot.timestamp_ms,
        sequence_number=snapshot.sequence_number,
        parent_snapshot_id=snapshot.parent_snapshot_id,
        engine=None if ours else engine_of(summary),
        intent_id=summary.get(SUMMARY_INTENT) if ours else None,
        writer=summary.get(SUMMARY_WRITER) if ours else None,
        intents_count=int(count) if ours and count.isdecimal() and len(count) < 10 else int(ours),
        batch=summary.get(SUMMARY_BATCH),
    )


def engine_of(summary: Mapping[str, str]) -> str:
    """What a snapshot that firn did not make says of whoever did."""
    name = summary.get("engine-name")
    if name:
        return " ".join([name, *filter(None, [summary.get("engine-version")])])
    return next((engine for mark, engine in _ENGINE_MARKS.items() if mark in summary), OUTSIDE)
