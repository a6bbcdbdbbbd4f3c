"""Rows `ids-ahead`, `ids-ahead-memory` and `ids-ahead-again`: what a writer costs the others whose clock is ahead."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Final

from firn.coordinator.journal.decisions import CHECKPOINT_INTENTS, Decisions
from firn.model.identifiers import uuid7
from firn.model.journal import Batch, Checkpoint, Segment
from firn.model.limits import Limits
from firn.storage.journal import JournalFiles, pack_segment, segment_location
from firn.storage.memory_files import MemoryFiles
from tests.bench.measurement import Measurement, measured
from tests.bench.options import Options

PER_SECOND: Final = 3_000
AHEAD_MS: Final = 20 * 60_000
"""It makes so many intents a second, all with ids of so much later."""

LOOKS: Final = 500
REPETITIONS: Final = 9
LOOK_MS_MAX: Final = 10.0
"""For a thousand intents."""

AGAIN_MS_MAX: Final = 1_000.0
"""A minute of ids that was put away is read again once a minute; the table waits for it."""

START_MS: Final = 30_000_000 * 60_000
TABLE: Final = "memory://wh/bench/ahead"


def ids_ahead(_: Options) -> list[Measurement]:
    """One fold, at its most: so much later as the clock is ahead, just before the first of the ids go."""
    files, limits = MemoryFiles(), Limits()
    fold = Decisions(JournalFiles(files, bytes_max=limits.journal_bytes_max), limits=limits)
    now_ms = START_MS
    while now_ms < START_MS + AHEAD_MS:
        now_ms += 1_000 * CHECKPOINT_INTENTS // PER_SECOND
        segment = _checkpoint_of(fold, now_ms=now_ms)
        files.create(segment.location, pack_segment(segment))
        fold.add(segment)
    decided = fold.sequence * CHECKPOINT_INTENTS
    memory = fold.memory
    again_ms = _thread_ms(lambda: fold.find(_id_at(now_ms + 1)))
    looks = _look_ms(fold, [_id_at(now_ms + at % 200) for at in range(LOOKS)])
    ahead = _look_ms(fold, [_id_at(now_ms + AHEAD_MS - 200 - at % 200) for at in range(LOOKS)])
    return [
        measured(
            "ids-ahead", value=looks, unit="ms", peer=LOOK_MS_MAX, peer_name="the limit of 10 µs an intent", target=1,
            n=decided, note=f"to know a thousand intents for new; {ahead:.1f} ms of another whose clock is ahead",
        ),
        measured(
            "ids-ahead-memory", value=memory / 1e6, unit="MB", peer=8 * decided / 1e6, peer_name="eight bytes each",
            target=1, n=decided, note=f"of which {limits.ids_ahead_bytes_max / 1e6:.1f} MB at most are for ids ahead",
        ),
        measured(
            "ids-ahead-again", value=again_ms, unit="ms", peer=AGAIN_MS_MAX, peer_name="the limit of a second",
            target=1, n=PER_SECOND * 60, note="processor time to read a minute's ids again, once a minute",
        ),
    ]  # fmt: skip


def _checkpoint_of(fold: Decisions, *, now_ms: int) -> Segment:
    """The next checkpoint, with nothing but ids ahead."""
    sequence = fold.sequence + 1
    location = segment_location(TABLE, sequence=sequence, token=_id_at(now_ms))
    intents = tuple(
        (_id_at(now_ms + AHEAD_MS - 1_000 * at // PER_SECOND), os.urandom(16).hex(), 0)
        for at in range(CHECKPOINT_INTENTS)
    )
    return Segment(
        location=location,
        batch=Batch(
            batch="bench", table="bench.ahead", table_uuid="", sequence=sequence, daemon="bench", lock_token=1,
            timestamp_ms=now_ms, previous_segment=fold.head, previous_checkpoint=fold.last_checkpoint,
        ),
        decided=(),
        checkpoint=Checkpoint(
            segments=(location,), intents=intents, writers={}, newest_entry_ms=now_ms, older_id_ms=now_ms + AHEAD_MS
        ),
    )  # fmt: skip


def _id_at(ms: int) -> str:
    return uuid7(now_ms=ms, entropy=os.urandom(10))


def _look_ms(fold: Decisions, ids: Sequence[str]) -> float:
    """For a thousand intents, the best of several times; all of them are new."""
    assert fold.are_new(ids)
    return min(_thread_ms(lambda: fold.are_new(ids)) for _ in range(REPETITIONS)) * 1_000 / len(ids)


def _thread_ms(work: Callable[[], object]) -> float:
    started = time.thread_time()
    work()
    return 1_000 * (time.thread_time() - started)
