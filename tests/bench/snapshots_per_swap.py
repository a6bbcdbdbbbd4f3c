"""Row `snapshots-per-swap`: a snapshot for each intent, many in one swap, against one swap for each intent."""

from __future__ import annotations

from tests.bench.deployment import deployment
from tests.bench.measurement import Measurement, measured, median
from tests.bench.options import Options

WRITERS = 64
PER_INTENT = {"firn.append-mode": "per-intent"}
PEER = "the same with batches of one intent: a swap each"


def snapshots_per_swap(options: Options) -> list[Measurement]:
    """Snapshots a second."""
    with deployment() as firn:
        ours = firn.drive("bench.snapshots", writers=WRITERS, seconds=options.seconds, properties=PER_INTENT)
        batch = firn.daemon.intents_per_batch()
        firn.check_snapshots("bench.snapshots", snapshots=ours.all_committed)
    with deployment({"LIMITS_BATCH_INTENTS_MAX": "1"}) as single:
        theirs = single.drive("bench.snapshots", writers=WRITERS, seconds=options.seconds, properties=PER_INTENT)
    assert ours.committed, ours.first_failure
    assert theirs.committed, theirs.first_failure
    note = f"{batch:.1f} snapshots a swap; p50 {median(ours.latencies_ms):.1f} ms, {median(theirs.latencies_ms):.1f} ms"
    return [
        measured(
            "snapshots-per-swap", value=ours.rate, unit="snapshots/s", peer=theirs.rate, peer_name=PEER, target=5,
            n=ours.committed, note=note, failures=ours.failures + theirs.failures,
        )
    ]  # fmt: skip
