"""Row `soak`: one table under half of the load that it can take, for minutes; what the daemon and its metadata grow to.

The load comes from as many writers as `writers-64-echo` has, each with an intent every so often. A table that is
swapped as often as it can be leaves gigabytes behind in such a time, so it is swapped `SWAPS_PER_SECOND` times a second
at most. And what a daemon remembers up to a limit, it is given lower limits of: it must have reached them in the first
minute for the comparison to say something.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from statistics import median

import msgspec

from firn.model.table_properties import MAX_SWAPS_PER_SECOND
from tests.bench.deployment import Deployment, deployment
from tests.bench.measurement import Measurement, measured, percentile
from tests.bench.options import Options

TABLE = "bench.soak"
WRITERS = 64
TOP_S = 10.0
SWAPS_PER_SECOND = 20
SETTLED_S = 60.0
"""Memory is compared with what it was so long after the load began."""

LIMITS = {"LIMITS_MANIFEST_CACHE_BYTES_MAX": "8000000", "LIMITS_DEDUPE_INTENTS_MAX": "5000"}
"""Reached within seconds; by default they are 256 MB of manifests and 50 000 intents of a table."""

WINDOW_S = 10.0
"""Samples of so long are put together: their median is the memory at their end."""

GROWTH_MAX = 1.05

METADATA_BYTES_MAX = 1_100_000
"""`firn.snapshots-max` keeps a thousand snapshots, each about a kilobyte with its lines in the logs; a tenth on top
is for everything else, and for counters that get longer."""

MEGABYTE = 1_000_000


class Sample(msgspec.Struct, frozen=True):
    """What was seen `at` seconds after the load began: bytes."""

    at: float
    memory: int
    metadata: int


def soak(options: Options) -> list[Measurement]:
    """Memory at the end against that after the first minute, and the largest metadata file."""
    seconds = options.minutes * 60
    with deployment(LIMITS) as firn:
        view = firn.create_table(TABLE, {MAX_SWAPS_PER_SECOND.name: str(SWAPS_PER_SECOND)})
        tables = [(TABLE, view.location)]
        top = firn.drive_all(tables, writers=WRITERS, seconds=TOP_S)
        assert top.committed, top.first_failure
        watch = _Watch(firn, Path(view.location) / "metadata")
        with watch:
            ours = firn.drive_all(tables, writers=WRITERS, seconds=seconds, every_s=2 * WRITERS / top.rate)
        if not top.failures + ours.failures:
            firn.check_total(TABLE, files=top.all_committed + ours.all_committed)
    settled, end = watch.memory_at(min(SETTLED_S, seconds / 2)), watch.memory_at(seconds)
    note = (
        f"{options.minutes:g} minutes, {ours.rate:.0f} intents a second of {top.rate:.0f} possible, p99 "
        f"{percentile(ours.latencies_ms, 99):.0f} ms; most {max(s.memory for s in watch.samples) / MEGABYTE:.0f} MB"
    )
    return [
        measured(
            "soak", value=end / MEGABYTE, unit="MB", peer=settled / MEGABYTE, peer_name="its memory after a minute",
            target=1 / GROWTH_MAX, n=ours.committed, note=note, failures=ours.failures,
        ),
        measured(
            "soak-metadata", value=max(sample.metadata for sample in watch.samples), unit="bytes",
            peer=METADATA_BYTES_MAX, peer_name=f"the limit of {METADATA_BYTES_MAX} bytes", target=1, n=ours.committed,
            note="the largest metadata file", failures=ours.failures,
        ),
    ]  # fmt: skip


class _Watch:
    """Looks at the daemon's memory and at the newest metadata file every second, from entering to leaving.

    Metadata files that are not the newest any more are removed as they are seen: nobody reads them.
    """

    def __init__(self, firn: Deployment, folder: Path) -> None:
        self._firn = firn
        self._folder = folder
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.samples: list[Sample] = []

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def memory_at(self, seconds: float) -> float:
        """Bytes, over some seconds up to then."""
        return median([s.memory for s in self.samples if seconds - WINDOW_S <= s.at <= seconds])

    def _run(self) -> None:
        started = time.monotonic()
        while not self._ended.wait(1.0):
            *older, newest = sorted(self._folder.glob("*.metadata.json"))
            size = newest.stat().st_size
            for path in older[:-100]:
                path.unlink()
            memory = self._firn.daemon.memory_bytes()
            self.samples.append(Sample(time.monotonic() - started, memory, size))
