"""No secret gets out: a canary in each place that one can be in, and a look at everything that firn leaves behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, Final

import pytest
import zstandard
from kazoo.client import KazooClient

from firn import RejectedError
from firn.coordinator.client import Client
from tests.acceptance.stack import SCHEMA, DaemonProcess, Stack
from tests.integration.s3_server import S3Server

TABLE: Final = "db.kept"
USER: Final = "firn-canary"
CANARIES: Final = {
    "redis": "canary-redis-51c0",
    "zookeeper": "canary-zookeeper-51c1",
    "http token": "canary-token-51c2",
    "s3 key id": "canary-id-51c3",
    "s3 key": "canary-key-51c4",
    "prometheus": "canary-prometheus-51c5",
    "tls key": "canary-tls-51c6",
}
COMMANDS: Final = (
    ("config", "show", "--json"),
    ("doctor", "--json"),
    ("dead-letters", "list"),
    ("journal", TABLE, "--json"),
)
PAGES: Final = ("/", "/tables", f"/tables/{TABLE}", "/conflicts", "/events", "/dashboards", "/metrics", "/readyz")

# A daemon with a mistake in it: it fails over every batch, with all settings in a variable of the frame that fails.
MISTAKEN: Final = """
import sys
from firn.coordinator.cli.main import run
from firn.coordinator.config import load_settings
from firn.coordinator.lanes.table_commits import TableCommits

async def settle(self, *batch, **options):
    settings = load_settings()
    raise RuntimeError("a mistake of ours")

TableCommits.settle = settle
sys.exit(run(["--debug", "serve"]))
"""


class Guarded:
    """A deployment in which everything asks for a secret, and what it has said so far."""

    def __init__(self, stack: Stack, s3: S3Server) -> None:
        self.stack = stack
        self.s3 = s3
        self.said: dict[str, bytes] = {}
        self._secrets = stack.folder / "secrets"
        self._secrets.mkdir()
        self.lock_down()
        self.redis_url = stack.redis_url.replace("redis://", f"redis://{USER}:{CANARIES['redis']}@")
        (self._secrets / "redis-url").write_text(self.redis_url + "\n")
        (self._secrets / "zookeeper-auth").write_text(f"firn:{CANARIES['zookeeper']}\n")
        endpoint = s3.options["endpoint"]
        (stack.folder / "firn.toml").write_text(
            f'[http]\nprometheus-url = "http://reader:{CANARIES["prometheus"]}@127.0.0.1:9"\n'
            f'[warehouse.options.s3]\nregion = "us-east-1"\nendpoint = "{endpoint}"\nallow-http = "true"\n'
            f'access-key-id = "{CANARIES["s3 key id"]}"\nsecret-access-key = "{CANARIES["s3 key"]}"\n'
        )
        self.environment = {
            **stack.environment(WAREHOUSE="s3://bucket/warehouse", HTTP_TOKEN=CANARIES["http token"]),
            "FIRN_REDIS_URL_FILE": str(self._secrets / "redis-url"),
            "FIRN_ZOOKEEPER_AUTH_FILE": str(self._secrets / "zookeeper-auth"),
            "FIRN_ZOOKEEPER_TLS_KEY_PASSWORD": CANARIES["tls key"],
        }
        del self.environment["FIRN_REDIS_URL"]

    def lock_down(self, password: str = CANARIES["redis"]) -> None:
        """Let the daemon's user in with this password only, and end the connections that it has."""
        redis: Any = self.stack.redis
        redis.execute_command("ACL", "SETUSER", USER, "reset", "on", f">{password}", "~*", "&*", "+@all")
        redis.execute_command("CLIENT", "KILL", "USER", USER)

    def daemon(self) -> DaemonProcess:
        """Start the daemon; `said` has its log in the end."""
        daemon = DaemonProcess("guarded", self.stack.folder, self.environment)
        self.stack.daemons["guarded"] = daemon
        return daemon.start()

    def client(self) -> Client:
        """A client that may submit."""
        return Client(self.redis_url, resubmit_after_s=1.0)

    def firn(self, *arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
        """Run a command and keep what it says."""
        done = subprocess.run(
            [sys.executable, "-m", "firn", *arguments],
            env=environment or self.environment, cwd=self.stack.folder, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        self.keep(f"firn {' '.join(arguments)}", done.stdout + done.stderr)
        return done

    def page(self, daemon: DaemonProcess, path: str, token: str | None) -> int:
        """Ask for a page and keep what comes; its status."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        try:
            with urllib.request.urlopen(urllib.request.Request(f"{daemon.http}{path}", headers=headers)) as answer:
                status, text = answer.status, bytes(answer.headers) + answer.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, bytes(error.headers) + error.read()
        self.keep(f"{path} with {'a' if token else 'no'} token", text)
        return status

    def keep(self, name: str, text: bytes) -> None:
        """Remember what was said, to look through it in the end."""
        self.said[f"{len(self.said)}: {name}"] = text

    def left(self) -> Iterator[tuple[str, bytes]]:
        """Everything that was said or written."""
        yield from self.said.items()
        secrets = {self.stack.folder / "firn.toml", *self._secrets.iterdir()}
        for path in self.stack.folder.rglob("*"):
            if path.is_file() and path not in secrets:
                yield str(path), path.read_bytes()
        for key, (data, attributes) in self.s3.objects.items():
            yield f"s3 {key}", key.encode() + repr(attributes).encode() + _unpacked(data)
        yield from self._in_redis()
        yield from self._in_zookeeper()

    def _in_redis(self) -> Iterator[tuple[str, bytes]]:
        redis: Any = self.stack.redis
        for key in redis.scan_iter(count=1000):
            kind = redis.type(key)
            value = (
                redis.xrange(key) if kind == b"stream" else redis.hgetall(key) if kind == b"hash" else redis.get(key)
            )
            yield f"redis {key!r}", repr(value).encode()

    def _in_zookeeper(self) -> Iterator[tuple[str, bytes]]:
        client = KazooClient(self.stack.zookeeper_server.hosts, auth_data=[("digest", f"firn:{CANARIES['zookeeper']}")])
        client.start(timeout=10)
        try:
            waiting = [self.stack.root]
            while waiting:
                path = waiting.pop()
                yield f"zookeeper {path}", path.encode() + (client.get(path)[0] or b"")
                waiting += [f"{path}/{child}" for child in client.get_children(path)]
        finally:
            client.stop()
            client.close()


def _unpacked(data: bytes) -> bytes:
    packed = data.startswith(b"\x28\xb5\x2f\xfd")
    return zstandard.ZstdDecompressor().decompressobj().decompress(data) if packed else data


@pytest.fixture
def guarded(stack: Stack) -> Iterator[Guarded]:
    with S3Server() as s3:
        deployment = Guarded(stack, s3)
        yield deployment
        for daemon in stack.daemons.values():
            daemon.end()
        stack.redis.execute_command("ACL", "DELUSER", USER)


def leaks(deployment: Guarded) -> list[str]:
    left = list(deployment.left())
    kinds = {name.split(" ")[0] for name, _ in left}
    assert {"s3", "redis", "zookeeper"} <= kinds, "there is something to look through"
    return [f"{what} in {name}" for name, text in left for what, canary in CANARIES.items() if canary.encode() in text]


def test_no_secret_is_in_what_firn_says_or_writes_whatever_happens(guarded: Guarded) -> None:
    daemon = guarded.daemon()
    with guarded.client() as client:
        client.create_table(TABLE, SCHEMA).committed(30)
        client.update_properties(TABLE, {"a": "1"}).committed(30)
        with pytest.raises(RejectedError):
            client.delete_files(TABLE, ["s3://bucket/warehouse/db/kept/data/gone.parquet"]).committed(30)
        guarded.stack.redis.xadd(guarded.stack.names.intents(0), {"intent": "no intent"})
        guarded.s3.faults.append("error before")
        client.update_properties(TABLE, {"b": "2"}).committed(30)

        for command in COMMANDS:
            assert guarded.firn(*command).returncode in {0, 1}, guarded.said
        for path in PAGES:
            assert guarded.page(daemon, path, CANARIES["http token"]) == 200
            guarded.page(daemon, path, None)
        assert guarded.page(daemon, "/", CANARIES["http token"] + "x") == 401

        guarded.lock_down("another")  # Redis refuses the daemon
        _wait_for(daemon, "intake waits")
        guarded.firn("--debug", "doctor")
        assert guarded.page(daemon, "/", CANARIES["http token"]) == 200
        guarded.lock_down()
        client.update_properties(TABLE, {"c": "3"}).committed(30)

        guarded.stack.zookeeper_server.kill()
        _wait_for(daemon, "zookeeper session")
        guarded.firn("--debug", "doctor")
        guarded.page(daemon, "/", CANARIES["http token"])
        guarded.stack.zookeeper_server.start()
        client.update_properties(TABLE, {"d": "4"}).committed(60)
    assert daemon.terminate() == 0

    assert leaks(guarded) == []


def test_no_secret_is_in_a_traceback(guarded: Guarded) -> None:
    """Of a mistake of ours, in the form for terminals, which shows the variables of frames unless told otherwise."""
    log = guarded.stack.folder / "mistaken.log"
    environment = {**guarded.environment, "FIRN_LOG_FORMAT": "console", "FIRN_HTTP_PORT": "0", "FORCE_COLOR": "1"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", MISTAKEN], env=environment, cwd=guarded.stack.folder, stdout=output, stderr=output
        )
    try:
        with guarded.client() as client:
            client.create_table(TABLE, SCHEMA)
            _until(lambda: "a mistake of ours" in log.read_text(), what=log)
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    finally:
        process.kill()
        process.wait()
    assert "Traceback" in log.read_text()
    found = [what for what, canary in CANARIES.items() if canary in log.read_text()]
    assert found == []


def _wait_for(daemon: DaemonProcess, event: str) -> None:
    _until(lambda: any(record["event"] == event for record in daemon.log_records("warning")), what=event)


def _until(holds: Any, *, what: object, timeout_s: float = 30.0) -> None:
    ends_at = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < ends_at, f"{what}: not within {timeout_s:g} s"
        time.sleep(0.1)
