"""Servers for the tests that need them, and the order in which tests run."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
import structlog
from hypothesis import settings
from kazoo.client import KazooClient
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from firn.coordinator.embedded import RedisServer, ZooKeeperServer

ROOT = Path(__file__).parent
# Cheapest first, so that a mistake shows in seconds. The folders from "integration" on are markers, too.
FOLDERS = ("unit", "conformance", "contract", "deploy", "integration", "interop", "acceptance", "spark")
MARKED_FOLDERS = frozenset(FOLDERS[FOLDERS.index("integration") :])
ENGINES = frozenset({"interop", "spark"})
# Files in which `firn serve --embedded` runs: one daemon at a time has the usual ports.
USUAL_PORTS = frozenset({"test_cli.py", "test_documents.py", "test_embedded.py", "test_installed.py"})
SERVER_FIXTURES = frozenset({"redis_server", "zookeeper_server"})

# No deadlines: how long one example takes says more about the machine than about the code. CI tries the same examples
# every time, so that a change is judged by what it changed; everyone else, and `make test-long`, looks for new ones.
settings.register_profile("default", deadline=None, max_examples=20, derandomize="CI" in os.environ)
settings.register_profile("long", deadline=None, max_examples=2_000)
settings.load_profile("default")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by folder and by the servers they ask for, order them, and leave out long ones nobody asked for."""
    for item in items:
        folder = _folder(item)
        needs_servers = bool(SERVER_FIXTURES & set(getattr(item, "fixturenames", ())))
        if folder == "unit" and needs_servers:
            msg = f"{item.nodeid}: unit tests start no servers; move it to tests/integration"
            raise pytest.UsageError(msg)
        if folder in MARKED_FOLDERS:
            item.add_marker(folder)
        elif needs_servers:
            item.add_marker("integration")
    items.sort(key=lambda item: _rank(_folder(item)))
    if "long" not in config.getoption("markexpr"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("long")])
        items[:] = [item for item in items if not item.get_closest_marker("long")]


class TogetherInOneProcess(LoadScopeScheduling):  # type: ignore[misc]
    """Tests of one file, and of files that would be in each other's way; those of engines go to whoever is free."""

    def _split_scope(self, nodeid: str) -> str:
        _, folder, *_, name = nodeid.partition("::")[0].split("/")
        return nodeid if folder in ENGINES else "usual ports" if name in USUAL_PORTS else f"{folder}/{name}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """What `--dist loadscope` means here. (loadgroup takes no notice of marks with this pytest.)"""
    return TogetherInOneProcess(config, log) if config.getvalue("dist") == "loadscope" else None


def _folder(item: pytest.Item) -> str:
    """The folder of tests/ that a test is in."""
    return item.path.relative_to(ROOT).parts[0] if item.path.is_relative_to(ROOT) else ""


def _rank(folder: str) -> int:
    """Where a folder's tests come in the order."""
    return FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS)


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """Commands that run in the tests' own process set up logs for all of it."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One Redis for the whole session. It need not survive a power cut, so it does not wait for the disk."""
    with RedisServer(fsync="no") as server:
        yield server


@pytest.fixture(scope="session")
def zookeeper_server() -> Iterator[ZooKeeperServer]:
    """One ZooKeeper for the whole session."""
    with ZooKeeperServer() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The URL of an empty Redis that runs, whatever the test before did to it."""
    redis_server.resume()
    redis_server.start()
    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
    return redis_server.url


@pytest.fixture(scope="session")
def zookeeper_client(zookeeper_server: ZooKeeperServer) -> Iterator[KazooClient]:
    """A session on ZooKeeper that sees all of it; tests use it to look at what firn left."""
    client = KazooClient(zookeeper_server.hosts, timeout=30, connection_retry={"max_tries": -1, "max_delay": 0.5})
    client.start(timeout=10)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def zk_chroot(zookeeper_server: ZooKeeperServer, zookeeper_client: KazooClient) -> Iterator[str]:
    """The path of an empty node of this test's own; ZooKeeper runs, whatever the test before did to it."""
    zookeeper_server.resume()
    zookeeper_server.start()
    path = f"/test-{uuid.uuid4().hex}"
    zookeeper_client.retry(zookeeper_client.create, path)
    yield path
    zookeeper_server.resume()
    zookeeper_server.start()
    zookeeper_client.retry(zookeeper_client.delete, path, recursive=True)


@pytest.fixture
def zk_hosts(zookeeper_server: ZooKeeperServer, zk_chroot: str) -> str:
    """What a client connects to in order to see this test's node as its root: ``127.0.0.1:2181/test-…``."""
    return zookeeper_server.hosts + zk_chroot
