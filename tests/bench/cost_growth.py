"""Rows `cost-growth` and `cold-start`: one writer on a table of a million files, against an empty one."""

from __future__ import annotations

import random
import time

from firn.coordinator.client import Client
from firn.model.outcome import Committed
from firn.model.table_properties import MANIFEST_MERGE_ENABLED
from tests.bench.big_table import FILES_PER_MANIFEST, write_big_table
from tests.bench.data_files import content_file, make_facts
from tests.bench.deployment import deployment
from tests.bench.measurement import Measurement, measured, median, percentile
from tests.bench.options import Options

BIG, EMPTY = "bench.big", "bench.empty"
TIMES_FILES = 10
"""So many times `Options.files` are in the table: a million by default."""

ROUND = 10
ROUNDS = 6
GROWTH_MAX = 1.3
COLD_S_MAX = 600


def cost_growth(options: Options) -> list[Measurement]:
    """Commits on both tables in turns, the median of all rounds but the first; and the first commit on the large one.

    The empty table has as many snapshots as it was given commits. The large one does not merge manifests: it would soon
    have a hundredth of them.
    """
    files = options.files * TIMES_FILES
    with deployment() as firn, firn.client() as client:
        empty = firn.create_table(EMPTY).location
        big = f"{empty.removesuffix('/empty')}/big"
        metadata = write_big_table(
            firn.folder / "warehouse" / "bench" / "big", files=files, properties={MANIFEST_MERGE_ENABLED.name: "false"}
        )
        registered = client.register_table(BIG, metadata_location=metadata).result(COLD_S_MAX)
        assert isinstance(registered, Committed), registered
        rng = random.Random(BIG)
        cold_ms = _append(client, BIG, f"{big}/data/first.parquet", rng)
        took: dict[str, list[float]] = {BIG: [], EMPTY: []}
        for turn in range(ROUNDS):
            for table, folder in ((BIG, big), (EMPTY, empty)):
                took[table] += [_append(client, table, f"{folder}/data/{turn}-{n}.parquet", rng) for n in range(ROUND)]
        firn.check_total(BIG, files=files + 1 + ROUND * ROUNDS)
    ours, theirs = took[BIG][ROUND:], took[EMPTY][ROUND:]
    manifests = files // FILES_PER_MANIFEST
    return [
        measured(
            "cost-growth", value=median(ours), unit="ms", peer=median(theirs), peer_name="the same on an empty table",
            target=1 / GROWTH_MAX, n=len(ours),
            note=f"{files} files, {manifests} manifests and snapshots; p99 {percentile(ours, 99):.0f} against "
            f"{percentile(theirs, 99):.0f} ms",
        ),
        measured(
            "cost-growth-cold-start", value=cold_ms, unit="ms", peer=median(theirs),
            peer_name="a commit on an empty table", target=None, n=1,
            note="the first commit since the daemon knows of the table: all its manifests are read",
        ),
    ]  # fmt: skip


def _append(client: Client, table: str, path: str, rng: random.Random) -> float:
    file = content_file(make_facts(rng), path)
    started = time.monotonic()
    outcome = client.append(table, [file]).result(COLD_S_MAX)
    took_ms = (time.monotonic() - started) * 1000
    assert isinstance(outcome, Committed), outcome
    return took_ms
