"""Both embedded servers as one, for commands that need both."""

from pathlib import Path
from typing import Self

from firn.coordinator.embedded.redis_server import Fsync, RedisServer
from firn.coordinator.embedded.zookeeper_server import ZooKeeperServer


class EmbeddedServers:
    """Redis and ZooKeeper, sharing a `data_dir` or each in a temporary folder of its own.

    Used as a context manager it starts and stops both. Either can be killed, paused and restarted through `redis` and
    `zookeeper`.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        redis_port: int = 0,
        zookeeper_port: int = 0,
        fsync: Fsync = "always",
        usual_ports: bool = False,
    ) -> None:
        self.redis = RedisServer(data_dir, port=redis_port, fsync=fsync, usual_port=usual_ports)
        self.zookeeper = ZooKeeperServer(data_dir, port=zookeeper_port, usual_port=usual_ports)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    @property
    def redis_url(self) -> str:
        """What `FIRN_REDIS_URL` takes."""
        return self.redis.url

    @property
    def zookeeper_hosts(self) -> str:
        """What `FIRN_ZOOKEEPER` takes."""
        return self.zookeeper.hosts

    def start(self) -> Self:
        """Start both; raises what either's `start` raises, with neither left running."""
        try:
            self.redis.start()
            self.zookeeper.start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop both in good order."""
        try:
            self.zookeeper.stop()
        finally:
            self.redis.stop()
