"""The shipped configurations together, without containers: Redis with its users, three ZooKeepers, two daemons."""

from __future__ import annotations

from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from firn.coordinator.client import Client
from tests.acceptance.stack import SCHEMA
from tests.deploy.fleet import Fleet
from tests.deploy.servers import Quorum, url_of, wait_until

pytestmark = pytest.mark.acceptance


def test_the_fleet_commits_with_a_zookeeper_and_a_daemon_gone(
    tmp_path: Path, acl_redis: int, secrets: Path, quorum: Quorum
) -> None:
    """One of three ZooKeepers, the leader, and one of two daemons are killed; commits go on, with least rights."""
    fleet = Fleet(tmp_path, redis_port=acl_redis, secrets=secrets, quorum=quorum)
    first, second = fleet.daemons
    try:
        first.start()
        second.start()
        with Client(url_of(acl_redis, secrets, "writer"), resubmit_after_s=2.0) as client:
            client.create_table("db.before", SCHEMA).committed(30)
            leader = next(member for member, role in quorum.roles().items() if role == "leader")
            quorum.kill(leader)
            first.kill()
            client.create_table("db.after", SCHEMA).committed(60)
        listed = fleet.firn("table", "list")
        assert "db.before" in listed
        assert "db.after" in listed
        quorum.start(leader)
        wait_until(lambda: len(quorum.roles()) == len(quorum.members), what="the third ZooKeeper is back")
        assert second.terminate() == 0
    finally:
        for daemon in fleet.daemons:
            daemon.end()


def test_tables_are_nobody_elses(tmp_path: Path, acl_redis: int, secrets: Path, quorum: Quorum) -> None:
    """ZooKeeper's nodes carry a digest ACL: who does not have the secret reads and moves no pointer."""
    fleet = Fleet(tmp_path, redis_port=acl_redis, secrets=secrets, quorum=quorum)
    daemon = fleet.daemons[0]
    stranger = KazooClient(quorum.hosts)
    try:
        daemon.start()
        with Client(url_of(acl_redis, secrets, "writer")) as client:
            client.create_table("db.own", SCHEMA).committed(30)
        stranger.start(timeout=10)
        with pytest.raises(NoAuthError):
            stranger.get_children("/firn/tables")
        with pytest.raises(NoAuthError):
            stranger.set("/firn/tables/db.own", b"{}")
        assert "for who has the password only" in fleet.firn("doctor")
    finally:
        daemon.end()
        stranger.stop()
        stranger.close()


def test_metrics_are_for_who_has_the_token(tmp_path: Path, acl_redis: int, secrets: Path, quorum: Quorum) -> None:
    fleet = Fleet(tmp_path, redis_port=acl_redis, secrets=secrets, quorum=quorum)
    daemon = fleet.daemons[0]
    try:
        daemon.start()  # asks /readyz, without a token
        assert daemon.get("/metrics") is None
        log = daemon.log()
        for secret in secrets.iterdir():
            assert secret.read_text() not in log, f"{secret.name} is in the log"
    finally:
        daemon.end()
