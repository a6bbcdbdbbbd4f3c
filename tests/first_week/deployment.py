"""What a team deploys in its first week: firn from its wheel, Redis, ZooKeeper, two daemons, Prometheus; here on one
machine.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from firn.coordinator.embedded.process import GuardedProcess
from firn.coordinator.embedded.server import free_port
from tests.deploy.prometheus import shipped_prometheus
from tests.installations import Installation

READY_S: Final = 300.0
DRAIN_S: Final = 40.0
COMMAND_S: Final = 600.0
TOO_LATE: Final = 124
SCRAPE: Final = "5s"
ROOT_NODE: Final = "/firn"

SERVERS: Final = """
import contextlib, pathlib, sys
from firn.coordinator.embedded import RedisServer, ZooKeeperServer
from firn.model.errors import Unavailable

folder = pathlib.Path(sys.argv[1])
with contextlib.ExitStack() as servers:
    redis = servers.enter_context(RedisServer(folder / "redis", fsync="always"))
    for attempt in range(5):  # a Java machine takes its time where others work
        try:
            zookeeper = servers.enter_context(ZooKeeperServer(folder / "zookeeper"))
            break
        except Unavailable as error:
            print(error, file=sys.stderr)
    print(redis.url, zookeeper.hosts, flush=True)
    sys.stdin.read()
"""
"""Redis and ZooKeeper of the installed extra, until standard input ends."""


class Daemon:
    """`firn serve` of one installation after the other, always at one address."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.log_path = folder / f"{name}.log"
        self.port = free_port()
        self._process: GuardedProcess | None = None

    @property
    def url(self) -> str:
        """Where its pages and metrics are."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of this life."""
        assert self._process is not None
        return self._process.pid

    def start(self, firn: Installation, settings: dict[str, str], folder: Path) -> None:
        """Begin a life, and wait until it is ready."""
        own = {"FIRN_HTTP_PORT": str(self.port), "FIRN_DAEMON_ID": self.name, "FIRN_LOG_FORMAT": "json"}
        with self.log_path.open("ab") as log:
            self._process = GuardedProcess(
                [str(firn.bin / "firn"), "serve"], folder=folder, log=log, environment=firn.environment | settings | own
            )
        ends_at = time.monotonic() + READY_S
        while not answers(f"{self.url}/readyz"):
            assert self._process.running, self.log_path.read_text()[-4000:]
            assert time.monotonic() < ends_at, self.log_path.read_text()[-4000:]
            time.sleep(0.1)

    def stop(self) -> None:
        """Ask it to drain, and wait for its end."""
        if self._process is not None:
            self._process.terminate(grace_seconds=DRAIN_S)

    def troubles(self) -> dict[str, int]:
        """Events that it logged as errors, or worse, and how often."""
        found: dict[str, int] = {}
        for line in self.log_path.read_text(errors="replace").splitlines():
            record: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
            if record.get("level") in {"error", "critical"}:
                found[str(record["event"])] = found.get(str(record["event"]), 0) + 1
        return found


class Deployment:
    """Everything below one folder. Daemons are of the installation that they were started with."""

    def __init__(self, folder: Path, *, servers_of: Installation) -> None:
        self.folder = folder
        self.warehouse = folder / "warehouse"
        self.warehouse.mkdir()
        self._installed = servers_of
        self._ends = ExitStack()
        self.daemons = [Daemon(name, folder) for name in ("firn-a", "firn-b")]
        self.prometheus: str | None = None
        self.redis_url = ""
        self.settings: dict[str, str] = {}

    def __enter__(self) -> Self:
        try:
            self._start_servers()
        except BaseException:
            self._ends.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    def _start_servers(self) -> None:
        data = self.folder / "servers"
        data.mkdir()
        with (self.folder / "servers.log").open("wb") as log:
            process = subprocess.Popen(
                [self._installed.bin / "python", "-c", SERVERS, data], env=self._installed.environment,
                cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        self._ends.callback(end_of_input, process)
        assert process.stdout is not None
        addresses = process.stdout.readline().split()
        assert len(addresses) == 2, (self.folder / "servers.log").read_text()[-4000:]
        self.redis_url, hosts = addresses
        self.settings = {
            "FIRN_REDIS_URL": self.redis_url, "FIRN_ZOOKEEPER": hosts, "FIRN_ZOOKEEPER_ROOT": ROOT_NODE,
            "FIRN_WAREHOUSE": str(self.warehouse),
        }  # fmt: skip

    def watch(self) -> None:
        """Start Prometheus with the shipped rules, where there is one."""
        if shutil.which("prometheus") is None:
            return
        url = f"http://127.0.0.1:{free_port()}"
        targets = [daemon.url for daemon in self.daemons]
        self.prometheus = self._ends.enter_context(
            shipped_prometheus(self.folder, url, targets=targets, interval=SCRAPE)
        )

    def start(self, firn: Installation) -> None:
        """Start both daemons."""
        for daemon in self.daemons:
            self._ends.callback(daemon.stop)
            daemon.start(firn, self.settings, self.folder)

    def upgrade(self, daemon: Daemon, firn: Installation) -> None:
        """Restart one daemon as another version."""
        daemon.stop()
        daemon.start(firn, self.settings, self.folder)

    def runs(
        self, firn: Installation, *arguments: str, timeout_s: float = COMMAND_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a `firn` command to its end; one that does not come to it ends with `TOO_LATE`."""
        command = [str(firn.bin / "firn"), *arguments]
        try:
            return subprocess.run(
                command, cwd=self.folder, env=firn.environment | self.settings,
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, TOO_LATE, "", f"not within {timeout_s:g} s")

    def begins(self, firn: Installation, program: Path, plan: bytes, *, name: str) -> subprocess.Popen[bytes]:
        """Start one of the programs beside this module with an installation's Python; its output is to be read."""
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [firn.bin / "python", program, plan.decode()], cwd=self.folder, env=firn.environment | self.settings,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        self._ends.callback(ended, process)
        return process


def answers(url: str) -> bool:
    """Return whether there is a page."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def ended(process: subprocess.Popen[Any]) -> None:
    """End a program that should have ended by itself."""
    if process.poll() is None:
        process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def end_of_input(process: subprocess.Popen[str]) -> None:
    """Let the servers end in good order."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(DRAIN_S)
    finally:
        ended(process)
