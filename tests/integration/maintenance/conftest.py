"""A daemon that goes on committing beside whatever is done to its tables."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from firn.coordinator.embedded import RedisServer, ZooKeeperServer
from firn.pipeline.connection import Connection
from firn.pipeline.upkeep import Upkeep
from tests.acceptance.stack import Stack
from tests.integration.maintenance.kept_tables import SCHEMA, WAIT_S


@pytest.fixture(scope="module")
def stack(
    tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer, zookeeper_server: ZooKeeperServer
) -> Iterator[Stack]:
    """One daemon for all tests of this module."""
    redis_server.start()
    zookeeper_server.start()
    with Stack(tmp_path_factory.mktemp("upkeep"), redis_server=redis_server, zookeeper_server=zookeeper_server) as made:
        made.redis.flushall()
        made.daemon()
        yield made


@pytest.fixture
def upkeep(stack: Stack) -> Upkeep:
    return Upkeep.of(
        Connection(redis=stack.redis_url, zookeeper=stack.zookeeper_server.hosts + stack.root, timeout_s=WAIT_S)
    )


@pytest.fixture
def table(upkeep: Upkeep) -> str:
    name = f"db.t{uuid.uuid4().hex[:8]}"
    upkeep.client.create_table(name, SCHEMA).committed(WAIT_S)
    return name
