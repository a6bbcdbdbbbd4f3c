"""A whole deployment for tests: real Redis and ZooKeeper, and daemons as processes that can be hurt.

Everything is below one folder: ``servers/`` (if they are the stack's own), ``warehouse/``, and a log for every life of
every daemon.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import redis
from kazoo.client import KazooClient

from firn.coordinator.client import Client
from firn.coordinator.embedded import RedisServer, ZooKeeperServer
from firn.coordinator.embedded.process import GuardedProcess
from firn.coordinator.embedded.server import free_port
from firn.model.outcome import Committed
from firn.storage.intent_streams import DEAD_LETTER_FIELD, EVENT_FIELD, GROUP, StreamNames
from firn.storage.pointers import Pointer, pointer_from_json
from firn.storage.sessions import encode_name

READY_S: Final = 30.0
EXIT_S: Final = 30.0
SESSION_TIMEOUT_S: Final = 2.0
"""Of the daemons in tests: how long a killed one holds its shards and locks."""

SHARDS: Final = 16

SCHEMA: Final[dict[str, Any]] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "ts", "type": "timestamptz", "required": True},
        {"id": 3, "name": "writer", "type": "string", "required": False},
    ],
}
SPEC: Final[dict[str, Any]] = {
    "spec-id": 0,
    "fields": [{"source-id": 2, "field-id": 1000, "name": "ts_day", "transform": "day"}],
}


class DaemonProcess:
    """`firn serve` as a process, or another `program` that does as much, over several lives."""

    def __init__(
        self,
        name: str,
        folder: Path,
        environment: dict[str, str],
        *,
        program: Sequence[str] = ("-m", "firn", "serve"),
    ) -> None:
        self.name = name
        self._program = program
        self.port = free_port()
        self._folder = folder
        self._environment = {**environment, "FIRN_HTTP_PORT": str(self.port)}
        self._process: GuardedProcess | None = None
        self._lives = 0

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def http(self) -> str:
        """Where metrics and health are."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, *, ready: bool = True) -> Self:
        """Begin a life; with `ready`, wait until it says that it can commit."""
        assert not self.running
        self._lives += 1
        with self.log_path(self._lives).open("wb") as log:
            self._process = GuardedProcess(  # ends with the tests, also if they are killed
                [sys.executable, *self._program],
                folder=self._folder,
                log=log,
                environment=self._environment,
            )
        if ready:
            self.wait_ready()
        return self

    def wait_ready(self, timeout_s: float = READY_S) -> None:
        """Wait until ``/readyz`` says yes."""
        ends_at = time.monotonic() + timeout_s
        while time.monotonic() < ends_at:
            assert self._process is not None
            code = self._process.exit_code
            assert code is None, f"{self.name} ended with {code}:\n{self.log()[-3000:]}"
            if self.get("/readyz") is not None:
                return
            time.sleep(0.05)
        raise AssertionError(f"{self.name} did not get ready in {timeout_s} s:\n{self.log()[-3000:]}")

    def get(self, path: str) -> str | None:
        """A page of the daemon's; None when it does not answer with 200."""
        try:
            with urllib.request.urlopen(f"{self.http}{path}", timeout=2) as answer:
                text: str = answer.read().decode()
                return text
        except (urllib.error.URLError, OSError):
            return None

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        page = self.get("/metrics")
        assert page is not None, f"{self.name} has no metrics page"
        lines = [line for line in page.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def kill(self) -> None:
        """End it as a crash does."""
        self._signal(signal.SIGKILL)
        self._wait()

    def terminate(self, timeout_s: float = EXIT_S) -> int:
        """Ask it to drain and end; its exit code."""
        self.ask_to_end()
        return self._wait(timeout_s)

    def ask_to_end(self) -> None:
        """Send it one signal to drain and end."""
        self._signal(signal.SIGTERM)

    def pause(self) -> None:
        """Stop its clock."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on where it was."""
        self._signal(signal.SIGCONT)

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.running

    @property
    def exit_code(self) -> int | None:
        """How it ended, 128 and more for a signal; None while it runs."""
        assert self._process is not None
        return self._process.exit_code if self._process.wait(0) else None

    def end(self) -> None:
        """End it whatever state it is in."""
        if self.running:
            self._signal(signal.SIGCONT)
            self.kill()

    def cpu_s(self) -> float:
        """Processor time that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self) -> int:
        """Memory that it holds now."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def open_files(self) -> int:
        """File descriptors that it holds now."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def log_path(self, life: int) -> Path:
        """The log of one life."""
        return self._folder / f"daemon-{self.name}-{life}.log"

    def log(self) -> str:
        """What it logged in all its lives."""
        paths = (self.log_path(life) for life in range(1, self._lives + 1))
        return "".join(path.read_text(errors="replace") for path in paths)

    @property
    def last_log(self) -> str:
        """What it logged in its last life."""
        return self.log_path(self._lives).read_text(errors="replace")

    def log_records(self, *levels: str) -> list[dict[str, Any]]:
        """Log records of these levels; the greeting on standard output is no record."""
        records = [msgspec.json.decode(line) for line in self.log().splitlines() if line.startswith("{")]
        return [record for record in records if record["level"] in levels]

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.signal(number)

    def _wait(self, timeout_s: float = EXIT_S) -> int:
        assert self._process is not None
        assert self._process.wait(timeout_s), f"{self.name} is still there after {timeout_s:g} s"
        code = self._process.exit_code
        assert code is not None
        return code


class Stack:
    """Servers, daemons and what a test wants to know of them. Ends every daemon at the end."""

    def __init__(self, folder: Path, *, redis_server: RedisServer, zookeeper_server: ZooKeeperServer) -> None:
        self.folder = folder
        self.redis_server = redis_server
        self.zookeeper_server = zookeeper_server
        self.warehouse = folder / "warehouse"
        self.root = f"/acceptance-{uuid.uuid4().hex}"
        self.names = StreamNames()
        self.daemons: dict[str, DaemonProcess] = {}
        self.redis = redis.Redis.from_url(redis_server.url, socket_timeout=10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        for daemon in self.daemons.values():
            daemon.end()
        self.redis.close()

    @property
    def redis_url(self) -> str:
        """Where Redis is."""
        return self.redis_server.url

    def environment(self, **settings: str) -> dict[str, str]:
        """The environment for `firn` commands on this stack; `settings` without the prefix ``FIRN_``."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("FIRN_")},
            "OPENBLAS_NUM_THREADS": "1",
            "FIRN_REDIS_URL": self.redis_url,
            "FIRN_ZOOKEEPER": self.zookeeper_server.hosts,
            "FIRN_ZOOKEEPER_ROOT": self.root,
            "FIRN_ZOOKEEPER_SESSION_TIMEOUT_S": str(SESSION_TIMEOUT_S),
            "FIRN_WAREHOUSE": str(self.warehouse),
            "FIRN_DAEMON_SHARDS": str(SHARDS),
            "FIRN_LOG_FORMAT": "json",
            **{f"FIRN_{name}": value for name, value in settings.items()},
        }

    def firn(self, *arguments: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a `firn` command on this stack."""
        return subprocess.run(
            [sys.executable, "-m", "firn", *arguments],
            env=self.environment(), cwd=self.folder, capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip

    def daemon(self, name: str = "a", *, ready: bool = True, **settings: str) -> DaemonProcess:
        """Start a daemon. Its id is its name, in every life."""
        process = DaemonProcess(name, self.folder, self.environment(DAEMON_ID=name, **settings))
        self.daemons[name] = process
        return process.start(ready=ready)

    def client(self, **options: Any) -> Client:
        """A client; close it."""
        return Client(self.redis_url, **{"resubmit_after_s": 1.0, **options})

    def create_table(self, table: str = "db.events", **options: Any) -> Committed:
        """Create a table, partitioned by day."""
        with self.client() as client:
            return client.create_table(table, SCHEMA, partition_spec=SPEC, **options).committed(READY_S)

    @contextlib.contextmanager
    def zookeeper(self) -> Iterator[KazooClient]:
        """A session of its own on ZooKeeper."""
        client = KazooClient(self.zookeeper_server.hosts + self.root)
        client.start(timeout=10)
        try:
            yield client
        finally:
            client.stop()
            client.close()

    def pointer(self, table: str) -> Pointer:
        """Where the table is."""
        with self.zookeeper() as client:
            client.sync("/")
            return pointer_from_json(client.get(f"/tables/{encode_name(table)}")[0])

    def wait_shards_owned(self, timeout_s: float = 20.0) -> None:
        """Wait until every shard has an owner."""
        with self.zookeeper() as client:
            ends_at = time.monotonic() + timeout_s
            while len(client.get_children("/shards")) < SHARDS:
                assert time.monotonic() < ends_at, f"only {client.get_children('/shards')} have an owner"
                time.sleep(0.02)

    def dead_letters(self) -> list[dict[str, Any]]:
        """All dead letters, oldest first."""
        return self._messages(self.names.dead_letters, DEAD_LETTER_FIELD)

    def events(self) -> list[dict[str, Any]]:
        """All events, oldest first."""
        return self._messages(self.names.events, EVENT_FIELD)

    def unsettled(self) -> dict[int, tuple[int, int]]:
        """Shards with entries that are pending or not delivered: how many of each."""
        found = {}
        for shard in range(SHARDS):
            stream = self.names.intents(shard)
            if not self.redis.exists(stream):
                continue
            groups: Any = self.redis.xinfo_groups(stream)
            group = next(g for g in groups if g["name"] == GROUP.encode())
            if group["pending"] or group["lag"]:
                found[shard] = (group["pending"], group["lag"])
        return found

    def wait_settled(self, timeout_s: float = 10.0) -> None:
        """Wait until every accepted entry has been told and acknowledged."""
        ends_at = time.monotonic() + timeout_s
        while unsettled := self.unsettled():
            assert time.monotonic() < ends_at, f"entries (pending, undelivered) by shard are left: {unsettled}"
            time.sleep(0.05)

    def _messages(self, stream: str, field: str) -> list[dict[str, Any]]:
        entries: Any = self.redis.xrange(stream)
        return [msgspec.json.decode(fields[field.encode()]) for _, fields in entries]
