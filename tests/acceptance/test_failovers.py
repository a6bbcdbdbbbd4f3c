"""Connections do not outlive what they were made for: Redis fails over, secrets and certificates are renewed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from firn.coordinator.client import Client
from firn.coordinator.embedded import RedisServer, ZooKeeperServer
from firn.model.outcome import Committed
from tests.acceptance.checks import check_exactly_once, check_log, check_readers
from tests.acceptance.load import Load
from tests.acceptance.redis_topologies import (
    Address,
    follow,
    master_and_replica,
    promote,
    role_of,
    wait_until,
)
from tests.acceptance.stack import Stack
from tests.acceptance.writers import Told

TABLE: Final = "db.events"
BEFORE: Final = 20
AFTER: Final = 30

WARNINGS: Final = ("store trouble", "intake waits", "outcomes wait", "redis may lose intents")

Deploy = Callable[[str, RedisServer], Stack]


class Deployment(Stack):
    """A stack on a Redis that a test starts itself, and reaches by a URL of its own."""

    def __init__(self, folder: Path, url: str, *, redis_server: RedisServer, zookeeper_server: ZooKeeperServer) -> None:
        super().__init__(folder, redis_server=redis_server, zookeeper_server=zookeeper_server)
        self._url = url

    @property
    def redis_url(self) -> str:
        """Where daemons and writers find Redis."""
        return self._url


@pytest.fixture
def deploy(tmp_path: Path, zookeeper_server: ZooKeeperServer) -> Iterator[Deploy]:
    """Makes a stack on a Redis of that URL."""
    zookeeper_server.start()
    with ExitStack() as stacks:

        def make(url: str, server: RedisServer) -> Stack:
            made = Deployment(tmp_path, url, redis_server=server, zookeeper_server=zookeeper_server)
            return stacks.enter_context(made)

        yield make


def failed_over(stack: Stack, fail_over: Callable[[], None]) -> str:
    """Commit while Redis fails over; everything is told, and the table has it once. The daemon's log."""
    daemon = stack.daemon()
    stack.create_table(TABLE)
    with Load(stack, TABLE, writers=2, appends=2_000, pause_s=0.02, timeout_s=60.0) as load:
        load.wait_for(BEFORE)
        fail_over()
        load.wait_for(len(load.told) + AFTER, timeout_s=30.0)
        load.enough()
        told = load.finish()
    location = check_exactly_once(stack, TABLE, told, count=load.expected)
    check_readers(location, told)
    check_answers(stack, told)
    wait_until(lambda: daemon.get("/readyz") is not None, "the daemon is ready again")
    wait_until(lambda: daemon.metric("firn_store_trouble") == 0, "no trouble is left")
    check_log(daemon, warnings=WARNINGS, errors=("queue emptied", "entry ids handed out again"))
    return daemon.log()


def check_answers(stack: Stack, told: Sequence[Told]) -> None:
    """The first outcomes, asked again of the servers that are there now, are what they were."""
    with Client(stack.redis_url) as client:
        found = [client.outcome(one.intent_id) for one in told]
    for one, outcome in zip(told, found, strict=True):
        if outcome is not None:  # what Redis had not copied yet is gone with the old master
            assert isinstance(outcome, Committed)
            assert (outcome.snapshot_id, outcome.sequence_number) == (one.snapshot_id, one.sequence_number)
    assert sum(outcome is not None for outcome in found) >= AFTER


def test_one_address_leads_to_another_master_and_the_old_one_lives_on(deploy: Deploy) -> None:
    """Connections stay with the old master, which answers reads for ever and takes no write."""
    with master_and_replica() as (old, new), Address(old) as address:

        def fail_over() -> None:
            promote(new)
            follow(old, new)
            address.point_to(new)

        log = failed_over(deploy(address.url, old), fail_over)
        assert role_of(old) == "slave"
        troubles = [line for line in log.splitlines() if '"store trouble"' in line and "read-only" in line]
        assert len(troubles) == 1, "said once, not with every attempt"
