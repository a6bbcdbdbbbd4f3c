"""What the pipeline's tests share: one Spark, and one deployment of firn with a daemon."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.coordinator.embedded import RedisServer, ZooKeeperServer
from firn.pipeline.cli import spark_running
from tests.acceptance.stack import Stack
from tests.spark.lake import Lake
from tests.spark_session import FETCH_SECONDS, start_spark


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test fetches the jar and starts Spark; PySpark leaves sockets for the garbage collector."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(FETCH_SECONDS + 600))
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = start_spark(tmp_path_factory.mktemp("spark-warehouse"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def deployment(
    tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer, zookeeper_server: ZooKeeperServer
) -> Iterator[Stack]:
    """Redis, ZooKeeper and one daemon, for all tests of this folder."""
    folder = tmp_path_factory.mktemp("deployment")
    with Stack(folder, redis_server=redis_server, zookeeper_server=zookeeper_server) as running:
        running.redis.flushall()
        # Spark takes the processor for seconds: a daemon must not lose its session for that.
        running.daemon(ZOOKEEPER_SESSION_TIMEOUT_S="30")
        yield running


@pytest.fixture
def lake(spark: SparkSession, deployment: Stack) -> Iterator[Lake]:
    """Tables of a test's own; all of them are checked at the end."""
    found = Lake(spark, deployment)
    yield found
    found.check()


@pytest.fixture
def sessions(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Commands reach the deployment and use the session that there is; which programs asked for one."""
    asked: list[str] = []

    @contextmanager
    def session(_reach: Any, _options: Any, *, app: str) -> Iterator[Any]:
        asked.append(app)
        yield lake.spark, lake.connection

    monkeypatch.setattr(spark_running, "session", session)
    for name, value in lake.stack.environment().items():
        monkeypatch.setenv(name, value)
    return asked
