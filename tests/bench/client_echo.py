"""Rows `client-echo` and `client-echo-64`: what the Python client costs, apart from any daemon.

It submits to a program that only answers, as `tests.bench.lean_writers` does: latency of one intent after the other,
and intents a second with 64 under way.
"""

from __future__ import annotations

import asyncio
import random
import time
from concurrent.futures import ThreadPoolExecutor

import msgspec
import redis

from firn.coordinator.client import AsyncClient, Client
from firn.coordinator.embedded import RedisServer
from firn.model.intent import ContentFile
from firn.model.outcome import Committed
from firn.storage.intent_streams import SharedSettings, StreamNames
from tests.bench.data_files import content_file, make_facts
from tests.bench.echo_ceiling import ECHO_TABLE, answering, echo
from tests.bench.measurement import Measurement, measured, median
from tests.bench.options import Options

ONE_BY_ONE = 2_000
AT_ONCE = 64
EACH = 100
"""Intents of each thread or task, of which there are `AT_ONCE`."""

VARIETY = 64
PREFIX = "echo"
PEER = "lean writers of prepared bytes, in one thread, with the same program that only answers"


def client_echo(options: Options) -> list[Measurement]:
    """The client for threads beside a lean writer; the note says the same of the client for asyncio."""
    with RedisServer(fsync="everysec") as server:
        with redis.Redis.from_url(server.url) as admin:
            admin.set(StreamNames(PREFIX).settings, msgspec.json.encode(SharedSettings()))
        one = echo(server.url, PREFIX, writers=1, seconds=options.seconds / 4)
        many = echo(server.url, PREFIX, writers=AT_ONCE, seconds=options.seconds / 4)
        with answering(server.url, PREFIX):
            threads_ms, threads_rate = _threads(server.url)
            tasks_ms, tasks_rate = asyncio.run(_tasks(server.url))
    return [
        measured(
            "client-echo", value=threads_ms, unit="ms", peer=median(one.latencies_ms), peer_name=PEER, target=None,
            n=ONE_BY_ONE, note=f"median latency of one intent after the other; with asyncio {tasks_ms:.2f} ms",
        ),
        measured(
            "client-echo-64", value=threads_rate, unit="intents/s", peer=many.rate, peer_name=PEER, target=None,
            n=AT_ONCE * EACH, note=f"{AT_ONCE} threads, each with one under way; as many tasks {tasks_rate:.0f}/s",
        ),
    ]  # fmt: skip


def _threads(redis_url: str) -> tuple[float, float]:
    """Median latency in milliseconds, and intents a second."""
    files = _files()

    def commit(client: Client, number: int) -> float:
        started = time.monotonic()
        outcome = client.append(ECHO_TABLE, [files[number % VARIETY]]).result(30)
        took_ms = (time.monotonic() - started) * 1000
        assert isinstance(outcome, Committed), outcome
        return took_ms

    with Client(redis_url, prefix=PREFIX) as client, ThreadPoolExecutor(AT_ONCE) as pool:
        latency_ms = median([commit(client, number) for number in range(ONE_BY_ONE)])
        list(pool.map(lambda n: commit(client, n), range(AT_ONCE)))
        started = time.monotonic()
        list(pool.map(lambda n: [commit(client, n) for _ in range(EACH)], range(AT_ONCE)))
        return latency_ms, AT_ONCE * EACH / (time.monotonic() - started)


async def _tasks(redis_url: str) -> tuple[float, float]:
    files = _files()

    async def commit(client: AsyncClient, number: int) -> float:
        started = time.monotonic()
        outcome = await (await client.append(ECHO_TABLE, [files[number % VARIETY]])).result(30)
        took_ms = (time.monotonic() - started) * 1000
        assert isinstance(outcome, Committed), outcome
        return took_ms

    async def commits(client: AsyncClient, number: int) -> None:
        for _ in range(EACH):
            await commit(client, number)

    async with AsyncClient(redis_url, prefix=PREFIX) as client:
        latency_ms = median([await commit(client, number) for number in range(ONE_BY_ONE)])
        started = time.monotonic()
        await asyncio.gather(*(commits(client, number) for number in range(AT_ONCE)))
        return latency_ms, AT_ONCE * EACH / (time.monotonic() - started)


def _files() -> list[ContentFile]:
    rng = random.Random(ECHO_TABLE)
    return [content_file(make_facts(rng), f"/nowhere/data/{number:08d}.parquet") for number in range(VARIETY)]
