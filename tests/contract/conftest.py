"""The worlds that the contract suite runs in."""

from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from tests.contract.coordination_worlds import MemoryWorld, ZooKeeperWorld
from tests.contract.stream_worlds import MemoryStreamWorld, RedisWorld


@pytest_asyncio.fixture(params=["memory", pytest.param("zookeeper", marks=pytest.mark.integration)])
async def world(request):
    if request.param == "memory":
        yield MemoryWorld()
        return
    async with AsyncExitStack() as stack:
        yield ZooKeeperWorld(request.getfixturevalue("zk_hosts"), stack)


@pytest_asyncio.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.integration)])
async def redis_world(request):
    if request.param == "memory":
        yield MemoryStreamWorld()
        return
    async with AsyncExitStack() as stack:
        yield RedisWorld(request.getfixturevalue("redis_url"), stack)
