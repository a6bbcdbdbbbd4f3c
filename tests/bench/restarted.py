"""Row `writers-64-restarted`: what a daemon has not seen decided must not slow down what it decides."""

from __future__ import annotations

from tests.bench.deployment import deployment
from tests.bench.measurement import Measurement, measured, median
from tests.bench.options import Options

TABLE = "bench.restarted"
WRITERS = 64
REMEMBERED = 5_000
"""Decided ids that a daemon keeps of a table here: soon most of them are known to the journal only."""

PEER = "the same before the daemon was restarted"


def writers_64_restarted(options: Options) -> list[Measurement]:
    """Commits a second of a daemon that finds a table with many intents decided a moment ago."""
    with deployment({"LIMITS_DEDUPE_INTENTS_MAX": str(REMEMBERED)}) as firn:
        view = firn.create_table(TABLE)
        tables = [(TABLE, view.location)]
        before = firn.drive_all(tables, writers=WRITERS, seconds=options.seconds)
        firn.restart()
        after = firn.drive_all(tables, writers=WRITERS, seconds=options.seconds)
        firn.check_total(TABLE, files=before.all_committed + after.all_committed)
    assert before.committed, before.first_failure
    assert after.committed, after.first_failure
    assert before.all_committed > REMEMBERED, "too few intents to go by: give more --seconds"
    note = f"p50 {median(after.latencies_ms):.1f} ms, {median(before.latencies_ms):.1f} ms"
    return [
        measured(
            "writers-64-restarted", value=after.rate, unit="commits/s", peer=before.rate, peer_name=PEER, target=0.75,
            n=after.committed, note=note, failures=before.failures + after.failures,
        )
    ]  # fmt: skip
