"""Real Redis and real ZooKeeper as children of this process, on loopback, gone when it ends.

They serve `firn demo`, `firn serve --embedded` and the tests; a deployment brings servers of its own.
"""

from firn.coordinator.embedded.redis_server import RedisServer
from firn.coordinator.embedded.servers import EmbeddedServers
from firn.coordinator.embedded.zookeeper_server import ZooKeeperServer

__all__ = ["EmbeddedServers", "RedisServer", "ZooKeeperServer"]
