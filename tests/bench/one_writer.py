"""Row `one-writer`: one writer, one file an intent, closed loop; on an empty table and at 300 snapshots."""

from __future__ import annotations

import itertools
import random
import time

from pyiceberg.table import Table

from firn.coordinator.client import Client
from firn.model.outcome import Committed
from tests.bench import pyiceberg_peer
from tests.bench.data_files import content_file, make_facts
from tests.bench.deployment import deployment
from tests.bench.measurement import Measurement, measured, median, percentile
from tests.bench.options import Options

TABLE = "bench.one_writer"
SNAPSHOTS = 300
ROUND = 20
"""Commits in a row before it is the other's turn: both see the same noise."""

MEASURED = 40
"""Commits whose median is taken, at either end."""

WARM_UP = 5
"""Commits of the peer's on another table first: imports and connections are no commit's cost."""

OUR_WARM_UP = 1_000
"""And of firn's: a young ZooKeeper swaps three times as slowly, until its JVM has compiled what it does often."""

TURN_WARM_UP = 40
"""Commits on another table before each of firn's turns: a closed loop has no pauses, and the peer's turns take seconds,
in which the processors forget what firn, Redis and ZooKeeper do.
"""

PEER = "PyIceberg, SQL catalog on SQLite, fast append"


def one_writer(options: Options) -> list[Measurement]:
    """Firn's client and PyIceberg take turns, on tables that grow alike."""
    with deployment() as firn, firn.client() as client:
        view = firn.create_table(TABLE)
        warm = firn.create_table("bench.warm")
        rng = random.Random(TABLE)
        peer = pyiceberg_peer.create_table(firn.folder / "peer")
        peer_warm = pyiceberg_peer.create_table(firn.folder / "peer-warm")
        warm_paths = (f"{warm.location}/data/{number}.parquet" for number in itertools.count())

        def warm_up(commits: int) -> None:
            for path in itertools.islice(warm_paths, commits):
                append(client, "bench.warm", path, rng)

        warm_up(OUR_WARM_UP)
        for number in range(WARM_UP):
            _append_peer(peer_warm, number, rng)
        ours: list[float] = []
        theirs: list[float] = []
        while len(ours) < SNAPSHOTS + MEASURED:
            warm_up(TURN_WARM_UP)
            turn = range(len(ours), len(ours) + ROUND)
            ours += [append(client, TABLE, f"{view.location}/data/{number:06d}.parquet", rng) for number in turn]
            theirs += [_append_peer(peer, number, rng) for number in turn]
        firn.check_total(TABLE, files=len(ours))
    return [
        _line("one-writer", ours[:MEASURED], theirs[:MEASURED], target=6, where="on an empty table"),
        _line("one-writer-300-snapshots", ours[-MEASURED:], theirs[-MEASURED:], target=60, where="at 300 snapshots"),
    ]


def append(client: Client, table: str, path: str, rng: random.Random) -> float:
    """Commit one file; the milliseconds until its outcome."""
    file = content_file(make_facts(rng), path)
    started = time.monotonic()
    outcome = client.append(table, [file]).result(30)
    took_ms = (time.monotonic() - started) * 1000
    assert isinstance(outcome, Committed), outcome
    return took_ms


def _append_peer(table: Table, number: int, rng: random.Random) -> float:
    file = pyiceberg_peer.data_file(make_facts(rng), f"{table.location()}/data/{number:06d}.parquet")
    started = time.monotonic()
    pyiceberg_peer.append(table, file)
    return (time.monotonic() - started) * 1000


def _line(name: str, ours: list[float], theirs: list[float], *, target: float, where: str) -> Measurement:
    note = f"median latency {where}; p99 {percentile(ours, 99):.1f} against {percentile(theirs, 99):.1f} ms"
    return measured(
        name, value=median(ours), unit="ms", peer=median(theirs), peer_name=PEER, target=target, n=len(ours), note=note
    )
