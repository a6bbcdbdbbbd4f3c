"""Row `stages`: where the time of a commit goes, as the daemon's own metrics say it."""

from __future__ import annotations

from tests.bench.deployment import deployment
from tests.bench.measurement import Measurement, measured
from tests.bench.options import Options

TABLE = "bench.stages"
WRITERS = 16
STAGES = ("wait", "lock", "load", "replay", "write", "swap", "publish")
PEER = "all stages together"


def stages(options: Options) -> list[Measurement]:
    """Milliseconds that a batch of a busy table is in each stage; of `wait`, an intent in the queue."""
    with deployment() as firn:
        firn.drive(TABLE, writers=WRITERS, seconds=1.0)
        before = firn.daemon.metrics()
        table = [(TABLE, firn.locations[TABLE])]
        ours = firn.drive_all(table, writers=WRITERS, seconds=options.seconds)
        after = firn.daemon.metrics()
    grown = {name: value - before.get(name, 0.0) for name, value in after.items()}
    batches = grown["firn_batch_intents_count"]
    took_ms = {stage: _mean_ms(grown, stage) for stage in STAGES}
    note = f"{WRITERS} writers on one table, {grown['firn_batch_intents_sum'] / batches:.1f} intents a batch"
    return [
        measured(
            f"stages-{stage}", value=ms, unit="ms", peer=sum(took_ms.values()), peer_name=PEER, target=None,
            n=int(batches), note=note, failures=ours.failures,
        )
        for stage, ms in took_ms.items() if ms
    ]  # fmt: skip


def _mean_ms(grown: dict[str, float], stage: str) -> float:
    count = grown.get(f'firn_stage_seconds_count{{stage="{stage}"}}', 0.0)
    return grown[f'firn_stage_seconds_sum{{stage="{stage}"}}'] / count * 1000 if count else 0.0
