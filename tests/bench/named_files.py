"""Rows `delete-100-of-100k-warm` and `-cold`: a hundred files that came together go, by name, from a large table."""

from __future__ import annotations

import random
import time

from firn.coordinator.client import Client
from firn.model.outcome import Committed
from tests.bench import pyiceberg_files
from tests.bench.data_files import content_file, make_facts
from tests.bench.deployment import Deployment, deployment, run_program
from tests.bench.measurement import Measurement, measured, median
from tests.bench.options import Options

TABLE = "bench.files"
BATCH = 1_000
DELETED = 100
WARM = 5
COLD = 3
VARIETY = 256
PEER = "PyIceberg: an overwrite that deletes the same files"


def delete_100_of_100k_warm(options: Options) -> list[Measurement]:
    """The median latency of deletes, after one that is not counted."""
    with deployment() as firn, firn.client() as client:
        _fill(firn, client, files=options.files)
        ranges = _ranges(WARM + 1, files=options.files)
        ours = [_delete(client, firn, *one) for one in ranges][1:]
        firn.check_total(TABLE, files=options.files - DELETED * len(ranges))
        plan = pyiceberg_files.Plan(folder=str(firn.folder / "peer"), appends=options.files // BATCH, deletes=ranges)
        theirs = _peer(plan).delete_ms[1:]
    return [_line("delete-100-of-100k-warm", ours, theirs, target=100, options=options)]


def delete_100_of_100k_cold(options: Options) -> list[Measurement]:
    """The median latency of the first delete that a process makes, once it is up."""
    ours: list[float] = []
    theirs: list[float] = []
    with deployment() as firn:
        with firn.client() as client:
            _fill(firn, client, files=options.files)
        _peer(pyiceberg_files.Plan(folder=str(firn.folder / "peer"), appends=options.files // BATCH))
        ranges = _ranges(COLD, files=options.files)
        for one in ranges:
            firn.restart()
            with firn.client() as client:
                ours.append(_delete(client, firn, *one))
            theirs += _peer(pyiceberg_files.Plan(folder=str(firn.folder / "peer"), deletes=[one])).delete_ms
        firn.check_total(TABLE, files=options.files - DELETED * len(ranges))
    return [_line("delete-100-of-100k-cold", ours, theirs, target=5, options=options)]


def _line(name: str, ours: list[float], theirs: list[float], *, target: float, options: Options) -> Measurement:
    return measured(
        name, value=median(ours), unit="ms", peer=median(theirs), peer_name=PEER, target=target, n=len(ours),
        note=f"{DELETED} of {options.files} files, which came in appends of {BATCH}; most {max(ours):.0f} ms",
    )  # fmt: skip


def _peer(plan: pyiceberg_files.Plan) -> pyiceberg_files.Result:
    return run_program("tests.bench.pyiceberg_files", plan, answer=pyiceberg_files.Result, timeout_s=1200)


def _ranges(count: int, *, files: int) -> list[tuple[int, int]]:
    """Files for `count` deletes, each from an append of its own."""
    appends = random.Random("deletes").sample(range(files // BATCH), count)
    return [(one * BATCH + 200, one * BATCH + 200 + DELETED) for one in appends]


def _path(firn: Deployment, number: int) -> str:
    return f"{firn.locations[TABLE]}/data/{number:08d}.parquet"


def _fill(firn: Deployment, client: Client, *, files: int) -> None:
    """Appends of a thousand files each, one after the other, as the peer makes them."""
    firn.create_table(TABLE)
    rng = random.Random("files")
    facts = [make_facts(rng) for _ in range(VARIETY)]
    for first in range(0, files, BATCH):
        made = [content_file(facts[n % VARIETY], _path(firn, n)) for n in range(first, first + BATCH)]
        outcome = client.append(TABLE, made).result(120)
        assert isinstance(outcome, Committed), outcome


def _delete(client: Client, firn: Deployment, first: int, last: int) -> float:
    names = [_path(firn, number) for number in range(first, last)]
    started = time.monotonic()
    outcome = client.delete_files(TABLE, names).result(120)
    took_ms = (time.monotonic() - started) * 1000
    assert isinstance(outcome, Committed), outcome
    return took_ms
