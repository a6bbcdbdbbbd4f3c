"""An embedded ZooKeeper: one server, from the jars that pyspark carries."""

import contextlib
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from firn.coordinator.embedded import programs
from firn.coordinator.embedded.server import LOOPBACK, EmbeddedServer

ANSWER_SECONDS_MAX = 1.0
ANSWER_BYTES_MAX = 65_536
HEAP_MB_MAX = 128
# A session may be as short as two ticks, and is found expired within one: sessions of 2 to 6 s, which firn uses, are
# then kept to their word.
TICK_MS = 500
SESSION_TIMEOUT_MS_MIN = 1_000
SESSION_TIMEOUT_MS_MAX = 60_000

LOGGING = """\
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{ISO8601} %-5p %c{1} %m%n
"""


class ZooKeeperServer(EmbeddedServer):
    """ZooKeeper as a single server: it writes and syncs every change before it answers, like an ensemble's members."""

    name: ClassVar[str] = "zookeeper"
    port_usual: ClassVar[int] = 2181

    @property
    def hosts(self) -> str:
        """What `FIRN_ZOOKEEPER` takes: ``127.0.0.1:2181``."""
        return self.address

    def _command(self, *, folder: Path, port: int) -> Sequence[str]:
        program, jars = programs.java(), programs.zookeeper_jars()
        (folder / "log4j2.properties").write_text(LOGGING)
        (folder / "zoo.cfg").write_text(_configuration(data=folder / "data", port=port))
        return [
            str(program),
            f"-Xmx{HEAP_MB_MAX}m",
            *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),  # up sooner, and small
            "-XX:+ExitOnOutOfMemoryError",
            "-Djava.net.preferIPv4Stack=true",
            "-Dlog4j2.configurationFile=log4j2.properties",
            "-Dzookeeper.preAllocSize=1024",  # kilobytes; a transaction log would begin at 64 MB
            "-Dzookeeper.jmx.log4j.disable=true",
            *("-cp", os.pathsep.join(map(str, jars))),
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            "./zoo.cfg",
        ]

    def _environment(self) -> Mapping[str, str] | None:
        return os.environ | {"LC_ALL": "C.UTF-8"}  # or Java cannot spell a path with letters beyond ASCII

    def _answers(self, *, port: int, pid: int) -> bool:
        """Ask for its configuration: it is told only once sessions are served, and names a folder that only we use."""
        assert self._dir is not None
        answer = bytearray()
        try:
            with socket.create_connection((LOOPBACK, port), timeout=ANSWER_SECONDS_MAX) as connection:
                connection.sendall(b"conf")
                while (chunk := connection.recv(4096)) and len(answer) < ANSWER_BYTES_MAX:
                    answer += chunk
        except OSError:
            return False
        with contextlib.suppress(UnicodeDecodeError):
            lines = answer.decode().splitlines()
            return f"dataDir={self._dir / self.name / 'data' / 'version-2'}" in lines
        return False


def _configuration(*, data: Path, port: int) -> str:
    """What goes into ``zoo.cfg``."""
    settings = {
        "dataDir": _escaped(str(data)),
        "clientPort": port,
        "clientPortAddress": LOOPBACK,
        "tickTime": TICK_MS,
        "minSessionTimeout": SESSION_TIMEOUT_MS_MIN,
        "maxSessionTimeout": SESSION_TIMEOUT_MS_MAX,
        "maxClientCnxns": 0,  # all clients are on this one host
        "nio.numWorkerThreads": 0,  # who hears of a request reads it: a swap waits for one thread less
        "admin.enableServer": "false",
        "autopurge.purgeInterval": 1,
        "autopurge.snapRetainCount": 3,
        "4lw.commands.whitelist": "conf,mntr,ruok,srvr",
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _escaped(text: str) -> str:
    """`text` as a value of a Java properties file, whose encoding is Latin-1."""
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if 0x20 < code < 0x7F and code != 0x5C else f"\\u{code:04x}" for code in codes)
