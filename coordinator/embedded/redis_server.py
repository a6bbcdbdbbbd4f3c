"""An embedded Redis, set up to lose nothing that it has answered for."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from firn.coordinator.embedded import programs
from firn.coordinator.embedded.server import LOOPBACK, EmbeddedServer

ANSWER_SECONDS_MAX = 1.0

Fsync = Literal["always", "everysec", "no"]


class RedisServer(EmbeddedServer):
    """Redis or Valkey with an append-only file.

    `fsync` is when that file is synced to disk: ``always``, before each answer, is what firn promises durability with;
    ``everysec`` may lose a second of intents with the machine's power, and none when only Redis dies.
    """

    name: ClassVar[str] = "redis"
    port_usual: ClassVar[int] = 6379

    def __init__(
        self, data_dir: Path | None = None, *, port: int = 0, fsync: Fsync = "always", usual_port: bool = False
    ) -> None:
        super().__init__(data_dir, port=port, usual_port=usual_port)
        self.fsync = fsync

    @property
    def url(self) -> str:
        """What `FIRN_REDIS_URL` takes: ``redis://127.0.0.1:6379/0``."""
        return f"redis://{self.address}/0"

    def _command(self, *, folder: Path, port: int) -> Sequence[str]:
        settings = {
            "bind": LOOPBACK,
            "port": str(port),
            "dir": str(folder),
            "appendonly": "yes",
            "appendfsync": self.fsync,
            "save": "",  # the append-only file is the one copy on disk
            "maxmemory-policy": "noeviction",  # an intent that is evicted is an intent that is lost
            "daemonize": "no",
        }
        arguments = [word for name, value in settings.items() for word in (f"--{name}", value)]
        return [str(programs.redis_server()), *arguments]

    def _answers(self, *, port: int, pid: int) -> bool:
        with redis.Redis(
            host=LOOPBACK,
            port=port,
            socket_timeout=ANSWER_SECONDS_MAX,
            socket_connect_timeout=ANSWER_SECONDS_MAX,
            retry=Retry(NoBackoff(), 0),  # whoever waits for the server asks again
        ) as client:
            try:
                return bool(client.ping()) and client.info("server")["process_id"] == pid
            except redis.RedisError:  # not listening yet, or still loading its file
                return False
