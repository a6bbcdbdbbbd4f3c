"""Connections do not outlive what they were made for: Redis fails over, secrets and certificates are renewed."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
import redis

from firn.coordinator.client import Client
from firn.coordinator.embedded import RedisServer, ZooKeeperServer
from firn.model.outcome import Committed
from firn.model.sharding import shard_of
from tests.acceptance.checks import check_exactly_once, check_log, check_readers
from tests.acceptance.load import Load
from tests.acceptance.redis_topologies import (
    SERVICE,
    Address,
    SentinelServer,
    TlsAddress,
    cluster,
    follow,
    master_and_replica,
    move_slot,
    promote,
    role_of,
    wait_until,
)
from tests.acceptance.stack import SCHEMA, SHARDS, DaemonProcess, Stack
from tests.acceptance.writers import Told
from tests.integration.tls_servers import Authority, needed, zookeeper_over_tls

TABLE: Final = "db.events"
BEFORE: Final = 20
AFTER: Final = 30

WARNINGS: Final = (
    "store trouble",
    "intake waits",
    "batch waits",
    "outcomes wait",
    "reservations not looked at",
    "redis may lose intents",
)

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


def test_sentinel_promotes_the_replica_of_a_master_that_is_killed(deploy: Deploy) -> None:
    with master_and_replica() as (old, new), ExitStack() as watching:
        sentinels = [watching.enter_context(SentinelServer(old, quorum=2)) for _ in range(3)]
        wait_until(lambda: all(sentinel.sees(replicas=1, sentinels=2) for sentinel in sentinels), "all are known")
        hosts = ",".join(sentinel.address for sentinel in sentinels)
        stack = deploy(f"redis+sentinel://{hosts}/{SERVICE}/0", new)

        def fail_over() -> None:
            old.kill()
            wait_until(lambda: role_of(new) == "master", "Sentinel has promoted the replica")
            sentinels[0].kill()  # the first that is asked: the others know, too

        log = failed_over(stack, fail_over)
        assert "unreachable" in log


def test_a_cluster_replaces_a_master_that_is_killed_and_moves_a_slot(deploy: Deploy) -> None:
    with cluster() as nodes:
        stack = deploy(f"redis+cluster://{nodes[2].address},{nodes[1].address}", nodes[1])

        def fail_over() -> None:
            move_slot(nodes[1], nodes[2], key=stack.names.intents(shard_of(TABLE, shards=SHARDS)))
            nodes[0].kill()
            wait_until(lambda: role_of(nodes[3]) == "master", "the cluster has promoted the replica")

        failed_over(stack, fail_over)


def reasons(daemon: DaemonProcess) -> str:
    """Why the daemon is not ready, in its words; empty when it is."""
    try:
        with urllib.request.urlopen(f"{daemon.http}/readyz", timeout=2):
            return ""
    except urllib.error.HTTPError as error:
        return str(json.loads(error.read())["reasons"])


def check_named(stack: Stack, daemon: DaemonProcess, store: str, cause: str) -> None:
    """The cause is named wherever an operator looks."""
    wait_until(lambda: f"({cause})" in reasons(daemon), f"readiness names {cause}")
    assert f'firn_store_trouble{{cause="{cause}",store="{store}"}} 1.0' in (daemon.get("/metrics") or "")
    assert [r["cause"] for r in daemon.log_records("warning") if r["event"] == "store trouble"].count(cause) == 1
    doctor = json.loads(stack.firn("doctor", "--json").stdout)
    (found,) = [one for one in doctor if one["state"] == "bad" and one["check"].lower() == store]
    assert found["do"]


def test_a_password_is_renewed_while_everybody_works(deploy: Deploy, tmp_path: Path) -> None:
    """The server has the new one first; whoever reads it from its file goes on as soon as it is there."""
    secret = tmp_path / "redis-password"
    secret.write_text("first\n")
    with RedisServer(fsync="always") as server, redis.Redis.from_url(server.url) as admin:

        def let_in(password: str) -> None:
            admin.acl_setuser(
                "firn", enabled=True, reset=True, passwords=f"+{password}", keys=["*"], commands=["+@all"]
            )
            admin.execute_command("CLIENT", "KILL", "USER", "firn")

        let_in("first")
        stack = deploy(f"redis://firn@{server.address}/0?password_file={secret}", server)

        def renew() -> None:
            let_in("second")
            check_named(stack, stack.daemons["a"], "redis", "credentials")
            status = stack.firn("status")
            assert "refuses this client" in status.stderr
            secret.write_text("second\n")

        log = failed_over(stack, renew)
        assert "first" not in log.replace("firn", "")


def test_certificates_and_their_authority_are_renewed(deploy: Deploy, tmp_path: Path) -> None:
    """Redis takes nobody with the old ones any more, until their files are replaced."""
    needed()
    with RedisServer(fsync="always") as server, TlsAddress(server, Authority(tmp_path, "first")) as address:
        files = ClientFiles(tmp_path, Authority(tmp_path, "of-clients-first"))
        old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
        files.take(old)
        address.renew(old)
        stack = deploy(f"rediss://127.0.0.1:{address.port}/0?{files.options}", server)

        def renew() -> None:
            address.renew(new)
            check_named(stack, stack.daemons["a"], "redis", "certificate")
            files.take(new)

        failed_over(stack, renew)


class ClientFiles:
    """The TLS files of daemons and clients, always at the same paths."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self.authority, self.certificate, self.key = (folder / f"client-{kind}.pem" for kind in ("ca", "cert", "key"))
        self.take(authority)

    def take(self, authority: Authority) -> None:
        """Have what an authority has signed."""
        certificate, key = authority.sign(f"client-of-{authority.certificate.stem}")
        for source, path in ((authority.certificate, self.authority), (certificate, self.certificate), (key, self.key)):
            path.write_bytes(source.read_bytes())

    @property
    def options(self) -> str:
        """For the URL of Redis."""
        return f"ssl_ca_certs={self.authority}&ssl_certfile={self.certificate}&ssl_keyfile={self.key}"


def test_a_daemon_comes_back_to_a_zookeeper_with_other_certificates(durable_redis: RedisServer, tmp_path: Path) -> None:
    needed()
    with redis.Redis.from_url(durable_redis.start().url) as client:
        client.flushall()
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    files = ClientFiles(tmp_path, old)
    with zookeeper_over_tls(tmp_path, old) as port:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("FIRN_")},
            "FIRN_REDIS_URL": durable_redis.url,
            "FIRN_ZOOKEEPER": f"127.0.0.1:{port}",
            "FIRN_ZOOKEEPER_SESSION_TIMEOUT_S": "3",
            "FIRN_ZOOKEEPER_TLS": "true",
            "FIRN_ZOOKEEPER_TLS_CA": str(files.authority),
            "FIRN_ZOOKEEPER_TLS_CERTIFICATE": str(files.certificate),
            "FIRN_ZOOKEEPER_TLS_KEY": str(files.key),
            "FIRN_WAREHOUSE": str(tmp_path / "warehouse"),
        }
        daemon = DaemonProcess("a", tmp_path, environment).start()
    try:
        with zookeeper_over_tls(tmp_path, new, port=port), Client(durable_redis.url) as client:
            wait_until(lambda: "(certificate)" in reasons(daemon), "readiness names the certificate")
            files.take(new)
            daemon.wait_ready()
            client.create_table(TABLE, SCHEMA).committed(30)
            assert daemon.metric("firn_store_trouble") == 0
    finally:
        daemon.end()
