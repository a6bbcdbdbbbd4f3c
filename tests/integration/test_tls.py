"""Encrypted from end to end: a daemon that commits over TLS to Redis and ZooKeeper, and who is not let in."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE

from firn.coordinator.client import Client
from firn.coordinator.config import Settings, ZooKeeperSettings
from firn.coordinator.zookeeper_connection import connect_session
from firn.model.errors import Misconfigured, Unavailable
from firn.storage.metadata_files import decode_metadata
from firn.storage.sessions import encode_name
from tests.acceptance.stack import SCHEMA, DaemonProcess
from tests.integration.tls_servers import PASSWORD, Sealed, sealed_servers

TABLE = "db.sealed"

# kazoo leaves a socket whose handshake failed to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sealed]:
    with sealed_servers(tmp_path_factory.mktemp("tls")) as running:
        yield running


@pytest.fixture(scope="module")
def committed(sealed: Sealed) -> Iterator[DaemonProcess]:
    """A daemon that has committed a table."""
    daemon = DaemonProcess("sealed", sealed.folder, sealed.environment()).start()
    try:
        with Client(sealed.redis_url()) as client:
            client.create_table(TABLE, SCHEMA).committed(30)
        yield daemon
    finally:
        daemon.end()


def test_a_daemon_commits_over_tls(sealed: Sealed, committed: DaemonProcess) -> None:
    with Client(sealed.redis_url()) as client:
        outcome = client.update_properties(TABLE, {"a": "1"}).committed(30)
    assert outcome.metadata_location is not None
    metadata = decode_metadata(Path(outcome.metadata_location).read_bytes(), location=outcome.metadata_location)
    assert metadata.properties["a"] == "1"


def test_a_pointer_is_moved_by_its_owner_alone(sealed: Sealed, committed: DaemonProcess) -> None:
    """Whoever gets through to ZooKeeper without the daemons' password can neither read a pointer nor move it."""
    path = f"/firn/tables/{encode_name(TABLE)}"
    stranger = sealed.kazoo(user="firn:guessed")
    stranger.start(timeout=10)
    try:
        for attempt in (
            lambda: stranger.get(path),
            lambda: stranger.set(path, b"{}"),
            lambda: stranger.delete(path),
            lambda: stranger.create("/firn/tables/another", b"{}"),
            lambda: stranger.set_acls(path, OPEN_ACL_UNSAFE),
        ):
            with pytest.raises(NoAuthError):
                attempt()
    finally:
        stranger.stop()
        stranger.close()


def test_a_redis_that_another_authority_has_signed_is_refused(sealed: Sealed) -> None:
    """With one line that names the server, and the certificate as the reason."""
    environment = sealed.environment(REDIS_URL=sealed.redis_url(authority=sealed.stranger), HTTP_PORT="0")
    done = subprocess.run(
        [sys.executable, "-m", "firn", "serve"], env=environment, cwd=sealed.folder, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("firn:")]
    assert "Redis" in line
    assert "certificate" in line.lower()


async def test_a_zookeeper_that_another_authority_has_signed_is_refused(sealed: Sealed) -> None:
    zookeeper = ZooKeeperSettings(
        hosts=sealed.zookeeper, tls=True, tls_ca=str(sealed.stranger), tls_certificate=str(sealed.certificate),
        tls_key=str(sealed.key),
    )  # fmt: skip
    with pytest.raises(Unavailable, match=r"no ZooKeeper answers.*certificate is not accepted"):
        async with connect_session(Settings(zookeeper=zookeeper), timeout_s=2):
            pass
    gc.collect()  # kazoo's sockets go here, not in another test


@pytest.mark.parametrize(
    "changes",
    [
        {"tls": False, "tls_ca": None, "tls_certificate": None, "tls_key": None},
        {"tls_certificate": None, "tls_key": None, "tls_key_password": None},
    ],
    ids=["in the clear", "without a certificate"],
)
async def test_zookeeper_lets_nobody_in_who_shows_nothing(sealed: Sealed, changes: dict[str, object]) -> None:
    settings = {
        "hosts": sealed.zookeeper, "tls": True, "tls_ca": str(sealed.authority),
        "tls_certificate": str(sealed.certificate), "tls_key": str(sealed.locked_key), "tls_key_password": PASSWORD,
        **changes,
    }  # fmt: skip
    with pytest.raises(Unavailable):
        async with connect_session(Settings(zookeeper=ZooKeeperSettings(**settings)), timeout_s=2):  # type: ignore[arg-type]
            pass


async def test_a_key_is_not_opened_with_another_password(sealed: Sealed) -> None:
    zookeeper = ZooKeeperSettings(
        hosts=sealed.zookeeper, tls=True, tls_ca=str(sealed.authority), tls_certificate=str(sealed.certificate),
        tls_key=str(sealed.locked_key), tls_key_password="guessed",
    )  # fmt: skip
    with pytest.raises(Misconfigured, match="password") as failed:
        async with connect_session(Settings(zookeeper=zookeeper), timeout_s=2):
            pass
    assert "guessed" not in str(failed.value)
