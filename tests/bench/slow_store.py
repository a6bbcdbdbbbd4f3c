"""Row `slow-store`: one writer, closed loop, on a store that takes 30 ms for every request."""

from __future__ import annotations

import random
import time

from firn.coordinator.client import Client
from firn.model.outcome import Committed
from tests.bench.data_files import content_file, make_facts
from tests.bench.deployment import deployment
from tests.bench.measurement import Measurement, measured, median, percentile
from tests.bench.options import Options

TABLE = "bench.slow"
REQUEST_MS = 30.0
COMMITS = 60
WARM_UP = 5


def slow_store(options: Options) -> list[Measurement]:
    """The median latency; 1.6 requests at most."""
    with deployment(program=("tests.bench.slow_daemon", f"{REQUEST_MS}")) as firn, firn.client() as client:
        folder = firn.create_table(TABLE).location
        rng = random.Random(TABLE)
        took = [_append(client, f"{folder}/data/{n}.parquet", rng) for n in range(WARM_UP + COMMITS)]
        firn.check_total(TABLE, files=len(took))
    took = took[WARM_UP:]
    note = f"{median(took) / REQUEST_MS:.2f} requests; p99 {percentile(took, 99):.0f} ms"
    return [
        measured(
            "slow-store", value=median(took), unit="ms", peer=REQUEST_MS, peer_name=f"one request, {REQUEST_MS:g} ms",
            target=0.625, n=len(took), note=note,
        )
    ]  # fmt: skip


def _append(client: Client, path: str, rng: random.Random) -> float:
    file = content_file(make_facts(rng), path)
    started = time.monotonic()
    outcome = client.append(TABLE, [file]).result(30)
    took_ms = (time.monotonic() - started) * 1000
    assert isinstance(outcome, Committed), outcome
    return took_ms
