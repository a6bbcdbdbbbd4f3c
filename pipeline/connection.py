"""How a Spark application reaches firn: Redis for intents, the tables' file stores for files."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from firn.coordinator.client.options import ClientOptions
from firn.coordinator.client.servers import Servers
from firn.coordinator.client.sync_client import Client
from firn.coordinator.client.table_view import TableView
from firn.model.errors import Misconfigured
from firn.storage.file_stores import open_files
from firn.storage.files import FileStore
from firn.storage.zookeeper_place import ZooKeeperOptions

if TYPE_CHECKING:  # what needs no Spark does not load it
    from pyspark.sql import SparkSession

CONF_PREFIX: Final = "spark.firn."
DEFAULT_REDIS: Final = "redis://127.0.0.1:6379/0"
OUTCOME_TIMEOUT_S: Final = 600.0
"""How long a job waits for its outcome before it says that it is unknown."""

_OPTIONS: Final = ("config", "redis", "prefix", "zookeeper", "files", "timeout")


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """Where firn is. It can be pickled, and gives every process a client of its own.

    `redis` is a URL, `prefix` what firn's keys begin with, `zookeeper` where tables are found when Redis does not know
    them: hosts, or more than hosts where a password or certificates are asked for. `files` are options of file stores
    by scheme (`firn.storage.file_stores.open_files`), `timeout_s` how long to wait for an outcome.
    """

    redis: str = DEFAULT_REDIS
    prefix: str = "firn"
    zookeeper: str | ZooKeeperOptions | None = None
    files: dict[str, dict[str, Any]] = msgspec.field(default_factory=lambda: {"file": {}})
    timeout_s: float = OUTCOME_TIMEOUT_S

    def __repr__(self) -> str:
        """Without the URL and what else may carry a password: it may end in a log."""
        hosts = self.zookeeper.hosts if isinstance(self.zookeeper, ZooKeeperOptions) else self.zookeeper
        return f"Connection(prefix={self.prefix!r}, zookeeper={hosts!r})"

    @classmethod
    def of_servers(cls, servers: Servers) -> Connection:
        """The connection to what daemons work on, let in as they are."""
        return cls(redis=servers.redis, prefix=servers.prefix, zookeeper=servers.zookeeper, files=dict(servers.files))

    @classmethod
    def of_options(cls, options: Mapping[str, str]) -> Connection:
        """The connection that texts describe: ``redis``, ``prefix``, ``zookeeper``, ``files`` (JSON), ``timeout`` (s).

        ``config`` names a settings file of firn's, for what the others do not say: with it, ``FIRN_…`` variables count
        as for every command. ``zookeeper`` may be the JSON of `ZooKeeperOptions`. Raises Misconfigured for a value
        that does not fit.
        """
        given: dict[str, Any] = {name: options[name] for name in _OPTIONS if options.get(name)}
        config = given.pop("config", None)
        found = cls() if config is None else cls.of_servers(Servers.of_file(Path(config)))
        try:
            if "files" in given:
                given["files"] = msgspec.json.decode(given["files"], type=dict[str, dict[str, Any]])
            if given.get("zookeeper", "").startswith("{"):
                given["zookeeper"] = msgspec.json.decode(given["zookeeper"], type=ZooKeeperOptions)
            if "timeout" in given:
                given["timeout_s"] = float(given.pop("timeout"))
        except (msgspec.DecodeError, ValueError) as error:
            raise Misconfigured(f"options of firn: {error}") from error
        return msgspec.structs.replace(found, **given)

    @classmethod
    def of_spark(cls, spark: SparkSession) -> Connection:
        """The connection that the session's ``spark.firn.*`` settings describe."""
        return cls.of_options({name: spark.conf.get(CONF_PREFIX + name, "") or "" for name in _OPTIONS})

    def options(self) -> dict[str, str]:
        """As text options: the inverse of `of_options`. Passwords are in them as they are."""
        found = {"redis": self.redis, "prefix": self.prefix, "timeout": str(self.timeout_s)}
        found["files"] = msgspec.json.encode(self.files).decode()
        if isinstance(self.zookeeper, ZooKeeperOptions):
            found["zookeeper"] = msgspec.json.encode(self.zookeeper).decode()
        elif self.zookeeper is not None:
            found["zookeeper"] = self.zookeeper
        return found

    def client(self) -> Client:
        """This process's client; it stays open."""
        with _lock:
            found = _clients.get(self.redis, self.prefix, self.zookeeper)
            if found is None:
                options = ClientOptions(prefix=self.prefix, files=self.store())
                if self.zookeeper is not None:
                    options["zookeeper"] = self.zookeeper
                found = Client(self.redis, **options)
                _clients.put(found, self.redis, self.prefix, self.zookeeper)
            return found

    def store(self) -> FileStore:
        """The file stores."""
        return open_files(self.files)

    def table(self, name: str) -> TableView:
        """The table as it is now. Raises NotFound, Unavailable."""
        return self.client().table(name)


class _Clients:
    """The clients of this process."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[object, ...], Client] = {}

    def get(self, *key: object) -> Client | None:
        return self._by_key.get(key)

    def put(self, client: Client, *key: object) -> None:
        self._by_key[key] = client


_lock: Final = threading.Lock()
_clients: Final = _Clients()
