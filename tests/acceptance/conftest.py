"""A stack for each test, on servers that the tests of this folder share."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from firn.coordinator.embedded import RedisServer, ZooKeeperServer
from tests.acceptance.stack import Stack

SEED_VARIABLE = "FIRN_TEST_SEED"


@pytest.fixture(scope="session")
def durable_redis() -> Iterator[RedisServer]:
    """A Redis as a deployment should have it: on disk before it answers."""
    with RedisServer(fsync="always") as server:
        yield server


@pytest.fixture
def stack(tmp_path: Path, durable_redis: RedisServer, zookeeper_server: ZooKeeperServer) -> Iterator[Stack]:
    """An empty deployment without a daemon, whatever the test before did to the servers."""
    for server in (durable_redis, zookeeper_server):
        server.resume()
        server.start()
    with redis.Redis.from_url(durable_redis.url) as client:
        client.flushall()
    with Stack(tmp_path, redis_server=durable_redis, zookeeper_server=zookeeper_server) as running:
        yield running


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """The dice of this test: always the same in CI, new ones elsewhere. Failures show the seed, to try it again."""
    given = os.environ.get(SEED_VARIABLE)
    seed = int(given) if given else 20260101 if "CI" in os.environ else random.SystemRandom().randrange(2**32)
    print(f"{request.node.name}: {SEED_VARIABLE}={seed}")
    return random.Random(seed)
