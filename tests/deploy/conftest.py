"""The shipped Redis and ZooKeeper, once for all tests of the deployment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.servers import Quorum, secrets_in, shipped_redis, wait_until


@pytest.fixture(scope="session")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of secrets, as an operator makes it."""
    return secrets_in(tmp_path_factory.mktemp("secrets"))


@pytest.fixture(scope="session")
def acl_redis(tmp_path_factory: pytest.TempPathFactory, secrets: Path) -> Iterator[int]:
    """The port of a Redis with the shipped configuration and users."""
    with shipped_redis(tmp_path_factory.mktemp("redis"), secrets) as port:
        yield port


@pytest.fixture(scope="session")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    """Three ZooKeeper servers that have elected a leader."""
    ensemble = Quorum(tmp_path_factory.mktemp("zookeeper"))
    try:
        for member in ensemble.members:
            ensemble.start(member)
        wait_until(lambda: sorted(ensemble.roles().values()) == ["follower", "follower", "leader"], what="a leader")
        yield ensemble
    finally:
        ensemble.end()
