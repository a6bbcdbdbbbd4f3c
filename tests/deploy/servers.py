"""The shipped server configurations as processes on loopback: only hosts, ports and folders differ from a fleet's."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import redis

from firn.coordinator.embedded import programs
from firn.coordinator.embedded.server import free_port

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
UP_S: Final = 30.0
LOG4J: Final = """\
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{ISO8601} %-5p %c{1} %m%n
"""


def wait_until(holds: Callable[[], object], *, what: str, timeout_s: float = UP_S) -> None:
    """Poll until something holds; fails naming `what`."""
    ends_at = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < ends_at, f"{what}: not within {timeout_s:g} s"
        time.sleep(0.1)


@contextmanager
def running(command: list[str], *, environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the test."""
    with log.open("ab") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, cwd=log.parent)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def secrets_in(folder: Path) -> Path:
    """A folder of fresh secrets, made by the shipped script."""
    subprocess.run(["sh", str(DEPLOY / "secrets.sh"), str(folder)], check=True, capture_output=True)
    return folder


class ShippedRedis:
    """Redis as ``deploy/redis/start.sh`` starts it, over several lives on the same folder."""

    def __init__(self, folder: Path, secrets: Path) -> None:
        self.port = free_port()
        self._folder = folder
        self._secrets = secrets
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "bin").mkdir()
        (folder / "bin" / "redis-server").symlink_to(programs.redis_server())

    def start(self, *arguments: str) -> None:
        """Begin a life, with further arguments of redis-server; wait until it answers."""
        environment = {
            "PATH": f"{self._folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "FIRN_SECRETS": str(self._secrets),
            "FIRN_REDIS_ETC": str(DEPLOY / "redis"),
            "FIRN_ACL": str(self._folder / "users.acl"),
        }
        command = ["sh", str(DEPLOY / "redis" / "start.sh"), "--port", str(self.port), "--bind", "127.0.0.1"]
        with (self._folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--dir", str(self._folder), *arguments],
                env=environment, cwd=self._folder, stdout=log, stderr=log,
            )  # fmt: skip
        wait_until(self._answers, what="Redis answers")

    def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "redis.log").read_text()
        with user_of(self.port, self._secrets, "reader") as client:
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False


@contextmanager
def shipped_redis(folder: Path, secrets: Path) -> Iterator[int]:
    """A Redis of one life; the port."""
    server = ShippedRedis(folder, secrets)
    try:
        server.start()
        yield server.port
    finally:
        server.kill()


def url_of(port: int, secrets: Path, user: str) -> str:
    """The URL of one of firn's users: daemon, writer or reader."""
    password = (secrets / f"redis-{user}-password").read_text()
    return f"redis://firn-{user}:{password}@127.0.0.1:{port}/0"


@contextmanager
def user_of(port: int, secrets: Path, user: str) -> Iterator[redis.Redis]:
    """A connection as one of firn's users."""
    client = redis.Redis.from_url(url_of(port, secrets, user), socket_timeout=5, protocol=2)
    try:
        yield client
    finally:
        client.close()


class Quorum:
    """The ensemble of ``deploy/zookeeper/zoo.cfg``, every server a process."""

    def __init__(self, folder: Path) -> None:
        shipped = (DEPLOY / "zookeeper" / "zoo.cfg").read_text()
        self.members = sorted(re.findall(r"^server\.(\d+)=", shipped, re.MULTILINE))
        self.ports = {member: free_port() for member in self.members}
        self._peers = {member: (free_port(), free_port()) for member in self.members}
        self._folder = folder
        self._shipped = shipped
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def hosts(self) -> str:
        """What FIRN_ZOOKEEPER takes."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def start(self, member: str) -> None:
        """Start one server."""
        home = self._folder / f"zookeeper-{member}"
        for name in ("data", "datalog"):
            (home / name).mkdir(parents=True, exist_ok=True)
        (home / "data" / "myid").write_text(member)
        (home / "log4j2.properties").write_text(LOG4J)
        (home / "zoo.cfg").write_text(self._configuration(member, home))
        command = [
            *(str(programs.java()), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-Dlog4j2.configurationFile=log4j2.properties", "-Dzookeeper.jmx.log4j.disable=true"),
            *("-Dzookeeper.preAllocSize=1024", "-cp", os.pathsep.join(map(str, programs.zookeeper_jars()))),
            *("org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg"),
        ]
        with (home / "zookeeper.log").open("ab") as log:
            self._processes[member] = subprocess.Popen(command, cwd=home, stdout=log, stderr=log)

    def _configuration(self, member: str, home: Path) -> str:
        """The shipped file with this machine's addresses and folders.

        Its metrics provider is left out: the jar is part of ZooKeeper's distribution, and not of what tests run on.
        """
        text = re.sub(r"^metricsProvider\..*\n", "", self._shipped, flags=re.MULTILINE)
        text = re.sub(r"^dataDir=.*", f"dataDir={home}/data", text, flags=re.MULTILINE)
        text = re.sub(r"^dataLogDir=.*", f"dataLogDir={home}/datalog", text, flags=re.MULTILINE)
        text = re.sub(r"^clientPort=.*", f"clientPort={self.ports[member]}", text, flags=re.MULTILINE)
        for other, (quorum, election) in self._peers.items():
            text = re.sub(
                rf"^server\.{other}=.*", f"server.{other}=127.0.0.1:{quorum}:{election}", text, flags=re.MULTILINE
            )
        return text

    def ask(self, member: str, word: str) -> str:
        """The answer to a four-letter word; empty while the server does not answer."""
        try:
            with socket.create_connection(("127.0.0.1", self.ports[member]), timeout=2) as connection:
                connection.sendall(word.encode())
                return b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            return ""

    def roles(self) -> dict[str, str]:
        """Leader or follower, by server that serves."""
        found = {m: re.search(r"Mode: (\w+)", self.ask(m, "srvr")) for m in self.members}
        return {member: mode.group(1) for member, mode in found.items() if mode is not None}

    def kill(self, member: str) -> None:
        """End one server as a crash does."""
        process = self._processes.pop(member)
        process.kill()
        process.wait()

    def lose_all(self) -> None:
        """Lose all servers and their disks; start them again on empty ones."""
        self.end()
        for member in self.members:
            for name in ("data", "datalog"):
                shutil.rmtree(self._folder / f"zookeeper-{member}" / name)
        for member in self.members:
            self.start(member)
        wait_until(lambda: len(self.roles()) == len(self.members), what="the ZooKeepers serve")

    def end(self) -> None:
        """End all."""
        for member in list(self._processes):
            self.kill(member)
