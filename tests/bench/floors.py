"""Row `floors`: how near firn is to what the machine allows.

Beside firn stand commits with the same files and requests and nothing between them (`tests.bench.bare_commits`), and
batches of them for the same writers (`tests.bench.bare_batches`), and a backlog that is only taken and told
(`tests.bench.bare_telling`). A target that they do not reach is one that no change to firn can reach there.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec
import redis

from firn.model.sharding import shard_of
from firn.storage.intent_streams import SHARDS_DEFAULT
from tests.bench import backlog, bare_batches, bare_commits, bare_telling, lean_writers, one_writer
from tests.bench.deployment import Deployment, deployment, run_program
from tests.bench.echo_ceiling import answering_program
from tests.bench.measurement import Measurement, measured, median
from tests.bench.options import Options

WRITERS = 16
LANES = 64
PROGRAMS = 2
"""Lanes are spread over so many programs, or they would wait for one interpreter lock."""

PEER = "the same files and requests, and nothing between them"


def floors(options: Options) -> list[Measurement]:
    """The latency of one writer, and the rates of some writers on one table and of many on a table each."""
    with deployment() as firn:
        young, young_sizes, bare_young = _young_table(firn, seconds=options.seconds)
    with deployment() as firn:
        one, one_sizes, bare_one = _one_table(firn, "bench.floor_one", writers=1, seconds=options.seconds)
    with deployment() as firn:
        some, some_sizes, bare_some = _one_table(firn, "bench.floor_some", writers=WRITERS, seconds=options.seconds)
    with deployment() as firn:
        tables = firn.create_tables([f"bench.floor_{n}" for n in range(LANES)])
        many = firn.drive_all(tables, writers=LANES, seconds=options.seconds)
        small = _sizes(Path(tables[0][1]))
        bare_many = _bare(
            firn, "many", lanes=LANES // PROGRAMS, programs=PROGRAMS, seconds=options.seconds, sizes=small
        )
    return [
        measured(
            "floor-one-writer-empty", value=median(young), unit="ms", peer=median(bare_young.latencies_ms),
            peer_name=PEER, target=None, n=len(young), note=_note(young_sizes, bare_young),
        ),
        measured(
            "floor-one-writer", value=median(one.latencies_ms), unit="ms", peer=median(bare_one.latencies_ms),
            peer_name=PEER, target=None, n=one.committed, note=_note(one_sizes, bare_one), failures=one.failures,
        ),
        measured(
            "floor-writers-16", value=some.rate, unit="commits/s",
            peer=WRITERS * len(bare_some.latencies_ms) / options.seconds,
            peer_name=f"{PEER}, once for {WRITERS} commits", target=None, n=some.committed,
            note=_note(some_sizes, bare_some), failures=some.failures,
        ),
        measured(
            "floor-tables-64", value=many.rate, unit="commits/s",
            peer=sum(len(bare.latencies_ms) for bare in bare_many) / options.seconds, peer_name=PEER, target=None,
            n=many.committed, note=_note(small, *bare_many), failures=many.failures,
        ),
        _closed_loop(options),
        _backlog(options),
        _telling(options),
    ]  # fmt: skip


def _closed_loop(options: Options) -> Measurement:
    """64 writers on one table, and the same with bare batches of all of them."""
    table = "bench.floor_loop"
    with deployment() as firn:
        ours = firn.drive(table, writers=LANES, seconds=options.seconds)
        location, sizes = firn.locations[table], _sizes(Path(firn.locations[table]))
        with _bare_batches(firn, table, batch=LANES, sizes=sizes):
            bare = firn.drive_all([(table, location)], writers=LANES, seconds=options.seconds)
    assert not bare.failures, bare.first_failure
    note = f"p50 {median(ours.latencies_ms):.1f} and {median(bare.latencies_ms):.1f} ms; {_list(sizes)}"
    return measured(
        "floor-writers-64", value=ours.rate, unit="commits/s", peer=bare.rate,
        peer_name=f"{PEER}, once for {LANES} commits", target=None, n=ours.committed, note=note,
        failures=ours.failures,
    )  # fmt: skip


def _backlog(options: Options) -> Measurement:
    """A backlog, and the same intents drained by bare batches of as many as firn's had."""
    with deployment() as firn, redis.Redis.from_url(firn.redis_url, socket_timeout=60) as client:
        ours = backlog.backlog_of(firn, options)
        batch, sizes = round(firn.daemon.intents_per_batch()), _sizes(Path(firn.locations[backlog.TABLE]))
        replies, templates = backlog.templates_of(firn.locations[backlog.TABLE], options, encoded=False)
        firn.daemon.stop()
        waiting = backlog.queue_up(client, backlog.stream_of(), backlog.intents_of(templates, options.intents))
        backlog.until_rewritten(client)
        with _bare_batches(firn, backlog.TABLE, batch=batch, sizes=sizes):
            seconds, failures = backlog.drain(client, replies, waiting)
    assert not failures
    return measured(
        "floor-backlog", value=ours.rate, unit="intents/s", peer=options.intents / seconds,
        peer_name=f"{PEER}, once for {batch} intents", target=None, n=options.intents, note=_list(sizes),
        failures=ours.failures,
    )  # fmt: skip


def _telling(options: Options) -> Measurement:
    """A backlog with encoded metrics, and the same taken and told with nothing else done: what Redis allows."""
    with deployment() as firn, redis.Redis.from_url(firn.redis_url, socket_timeout=60) as client:
        ours = backlog.backlog_of(firn, options, encoded=True)
        batch = round(firn.daemon.intents_per_batch())
        replies, templates = backlog.templates_of(firn.locations[backlog.TABLE], options, encoded=True)
        firn.daemon.stop()
        client.xtrim(backlog.stream_of(), maxlen=0, approximate=False)
        waiting = backlog.queue_up(client, backlog.stream_of(), backlog.intents_of(templates, options.intents))
        backlog.until_rewritten(client)
        plan = bare_telling.Plan(
            redis_url=firn.redis_url, shard=shard_of(backlog.TABLE, shards=SHARDS_DEFAULT), batch=batch
        )
        with answering_program("tests.bench.bare_telling", msgspec.json.encode(plan).decode()):
            client.rpush(bare_telling.START, "now")
            seconds, failures = backlog.drain(client, replies, waiting)
    assert not failures
    bare, raw = options.intents / seconds, median(ours.raw)
    return measured(
        "floor-telling", value=ours.rate, unit="intents/s", peer=bare,
        peer_name="the same entries taken and told in batches as large, and nothing else", target=None,
        n=options.intents, note=f"raw reads {raw:,.0f} a second, of which this is {bare / raw:.2f}",
        failures=ours.failures,
    )  # fmt: skip


@contextmanager
def _bare_batches(firn: Deployment, table: str, *, batch: int, sizes: tuple[int, ...]) -> Iterator[None]:
    """Instead of the daemon, bare batches answer what is submitted for a table."""
    firn.daemon.stop()
    plan = bare_batches.Plan(
        redis_url=firn.redis_url, hosts=firn.zookeeper_hosts, folder=str(firn.folder / "bare"),
        shard=shard_of(table, shards=SHARDS_DEFAULT), batch=batch, sizes=sizes,
    )  # fmt: skip
    with answering_program("tests.bench.bare_batches", msgspec.json.encode(plan).decode()):
        yield


def _young_table(firn: Deployment, *, seconds: float) -> tuple[list[float], tuple[int, ...], bare_commits.Result]:
    """As `_one_table`, of the first commits on a table, by firn's client; those on another have warmed up all."""
    rng = random.Random("young")
    with firn.client() as client:
        for table, commits in (
            ("bench.floor_warm", one_writer.OUR_WARM_UP),
            ("bench.floor_young", one_writer.MEASURED),
        ):
            view = firn.create_table(table)
            taken = [
                one_writer.append(client, table, f"{view.location}/data/{n:04d}.parquet", rng) for n in range(commits)
            ]
    sizes = _sizes(Path(view.location))
    (bare,) = _bare(firn, "young", lanes=1, programs=1, seconds=seconds, sizes=sizes)
    return taken, sizes, bare


def _one_table(
    firn: Deployment, table: str, *, writers: int, seconds: float
) -> tuple[lean_writers.Result, tuple[int, ...], bare_commits.Result]:
    """What writers of one table had, the sizes of the files of its last commit, and bare commits of such files."""
    ours = firn.drive(table, writers=writers, seconds=seconds)
    sizes = _sizes(Path(firn.locations[table]))
    (bare,) = _bare(firn, "one", lanes=1, programs=1, seconds=seconds, sizes=sizes)
    return ours, sizes, bare


def _note(sizes: tuple[int, ...], *bare: bare_commits.Result) -> str:
    """What a bare commit wrote, and how long it was at what."""
    stages = ", ".join(
        f"{stage} {sum(one.stages_ms[stage] for one in bare) / len(bare):.2f}" for stage in bare_commits.STAGES
    )
    return f"{_list(sizes)}; bare: {stages} ms"


def _list(sizes: tuple[int, ...]) -> str:
    return f"files of {', '.join(f'{size:,}' for size in sizes)} bytes a commit, each synced"


def _sizes(location: Path) -> tuple[int, ...]:
    """Of the files that the last commit made: their names have its batch."""
    newest = max(location.glob("metadata/*.metadata.json"))
    batch = newest.name.partition("-")[2].removesuffix(".metadata.json")
    made = sorted(path for path in location.rglob(f"*{batch}*") if not path.name.endswith("-m1.avro"))
    assert len(made) == 4, f"a manifest, a list, metadata and a journal segment were expected: {made}"
    return tuple(path.stat().st_size for path in made)


def _bare(
    firn: Deployment, name: str, *, lanes: int, programs: int, seconds: float, sizes: tuple[int, ...]
) -> list[bare_commits.Result]:
    firn.daemon.stop()
    plans = [
        bare_commits.Plan(
            name=f"{name}-{number}", redis_url=firn.redis_url, hosts=firn.zookeeper_hosts,
            folder=str(firn.folder / "bare"), lanes=lanes, seconds=seconds, sizes=sizes,
        )
        for number in range(programs)
    ]  # fmt: skip

    def run(plan: bare_commits.Plan) -> bare_commits.Result:
        return run_program("tests.bench.bare_commits", plan, answer=bare_commits.Result, timeout_s=seconds + 60)

    with ThreadPoolExecutor(programs) as threads:
        return list(threads.map(run, plans))
