"""Redis behind one address, watched by Sentinels, and as a cluster: real servers that fail over."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Self

import redis

from firn.coordinator.embedded import RedisServer, programs
from firn.coordinator.embedded.server import free_port
from tests.integration.tcp_proxy import TcpProxy
from tests.integration.tls_servers import Authority

SERVICE: Final = "firn-redis"
NODE_TIMEOUT_MS: Final = 1_000
WAIT_S: Final = 20.0


class Address:
    """A proxy that new connections are led through, in a thread of its own; `url` stays the same."""

    def __init__(self, server: RedisServer) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._proxy = TcpProxy("127.0.0.1", server.port)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._proxy.__aenter__(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._proxy.__aexit__(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._proxy.port}/0"

    def point_to(self, server: RedisServer) -> None:
        """Lead new connections to another server; those that there are stay."""
        self._loop.call_soon_threadsafe(self._proxy.point_to, "127.0.0.1", server.port)


class TlsAddress:
    """TLS in front of a server, for clients with certificates of an authority; `renew` replaces all of them."""

    def __init__(self, server: RedisServer, authority: Authority) -> None:
        self._server = server
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._listening: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._authority = authority
        self.port = free_port()

    def __enter__(self) -> Self:
        self._thread.start()
        self.renew(self._authority)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def renew(self, authority: Authority) -> None:
        """End all connections, and take those that this authority has signed."""
        certificate, key = authority.sign("redis")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
        context.load_cert_chain(certificate, key)
        context.verify_mode = ssl.CERT_REQUIRED
        asyncio.run_coroutine_threadsafe(self._listen(context), self._loop).result(10)

    async def _listen(self, context: ssl.SSLContext) -> None:
        await self._end()
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=context)

    async def _end(self) -> None:
        if self._listening is not None:
            self._listening.close()
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()
        await asyncio.sleep(0.1)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, to_behind = await asyncio.open_connection("127.0.0.1", self._server.port)
        self._writers += (writer, to_behind)
        await asyncio.gather(_pump(reader, to_behind), _pump(behind, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


class SentinelServer(RedisServer):
    """A Sentinel that knows one master."""

    name = "sentinel"

    def __init__(self, master: RedisServer, *, quorum: int) -> None:
        super().__init__(fsync="no")
        self._master = master
        self._quorum = quorum

    def _command(self, *, folder: Path, port: int) -> Sequence[str]:
        settings = folder / "sentinel.conf"
        settings.write_text(
            f"port {port}\nbind 127.0.0.1\ndir {folder}\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {self._master.port} {self._quorum}\n"
            f"sentinel down-after-milliseconds {SERVICE} 1000\nsentinel failover-timeout {SERVICE} 5000\n"
        )
        return [str(programs.redis_server()), str(settings), "--sentinel"]

    def sees(self, *, replicas: int, sentinels: int) -> bool:
        """Whether it knows so many replicas and other Sentinels."""
        with redis.Redis.from_url(self.url) as client:
            state: Any = client.sentinel_master(SERVICE)
            return bool(state["num-slaves"] == replicas and state["num-other-sentinels"] == sentinels)


class ClusterServer(RedisServer):
    """A node of a cluster."""

    name = "redis-cluster"

    def _command(self, *, folder: Path, port: int) -> Sequence[str]:
        self.bus_port = free_port()
        return [
            *super()._command(folder=folder, port=port), "--cluster-enabled", "yes",
            "--cluster-port", str(self.bus_port), "--cluster-node-timeout", str(NODE_TIMEOUT_MS),
        ]  # fmt: skip


@contextmanager
def master_and_replica() -> Iterator[tuple[RedisServer, RedisServer]]:
    """Two servers, the second a copy of the first."""
    with RedisServer(fsync="no") as master, RedisServer(fsync="no") as replica:
        follow(replica, master)
        yield master, replica


def follow(replica: RedisServer, master: RedisServer) -> None:
    """Make a server the replica of another, and wait until it has its content."""
    with redis.Redis.from_url(replica.url) as client:
        client.replicaof("127.0.0.1", master.port)
        wait_until(lambda: client.info("replication")["master_link_status"] == "up", "the replica has its copy")


def promote(server: RedisServer) -> None:
    """Make a replica a master."""
    with redis.Redis.from_url(server.url) as client:
        client.replicaof("NO", "ONE")


@contextmanager
def cluster() -> Iterator[list[ClusterServer]]:
    """Three masters, and a replica of the first as the last."""
    with ExitStack() as stack:
        nodes = [stack.enter_context(ClusterServer(fsync="no")) for _ in range(4)]
        clients = [stack.enter_context(redis.Redis.from_url(node.url)) for node in nodes]
        for number, client in enumerate(clients[:3]):
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", *slots(number))
        for node in nodes[1:]:
            clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", node.port, node.bus_port)
        first = clients[0].execute_command("CLUSTER", "MYID")
        wait_until(lambda: len(_known(clients[3])) == 4, "the nodes know each other")
        wait_until(lambda: _follows(clients[3], first), "the replica has its copy")
        wait_until(lambda: all(map(_is_well, clients)), "the cluster serves every slot")
        yield nodes


def slots(number: int) -> tuple[int, int]:
    """The first and the last slot of a master."""
    return number * 5461, (5460, 10921, 16383)[number]


def _known(client: Any) -> Any:
    return client.execute_command("CLUSTER NODES")


def _follows(client: Any, master: bytes) -> bool:
    with contextlib.suppress(redis.ResponseError):  # which it does not know yet
        client.execute_command("CLUSTER", "REPLICATE", master)
    info: Any = client.info("replication")
    return info["role"] == "slave" and info["master_link_status"] == "up"


def _is_well(client: Any) -> bool:
    return client.execute_command("CLUSTER INFO")["cluster_state"] == "ok"


def move_slot(first: RedisServer, second: RedisServer, *, key: str) -> None:
    """Move the slot of a key to the second of two masters, or back to the first, while clients use it."""
    with redis.Redis.from_url(first.url) as one, redis.Redis.from_url(second.url) as other:
        slot = int(one.execute_command("CLUSTER", "KEYSLOT", key))
        owners = [number for number in range(3) if slots(number)[0] <= slot <= slots(number)[1]]
        giver, taker, port = (other, one, first.port) if owners == [2] else (one, other, second.port)
        giver_id = giver.execute_command("CLUSTER", "MYID")
        taker_id = taker.execute_command("CLUSTER", "MYID")
        taker.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", giver_id)
        giver.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", taker_id)
        while keys := giver.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100):
            giver.execute_command("MIGRATE", "127.0.0.1", port, "", 0, 5000, "KEYS", *keys)
        for client in (taker, giver):
            client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", taker_id)


def role_of(server: RedisServer) -> str:
    """``master`` or ``slave``."""
    with redis.Redis.from_url(server.url) as client:
        info: Any = client.info("replication")
        return str(info["role"])


def wait_until(holds: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
    """Wait for something; `what` is it in words."""
    ends_at = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < ends_at, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.05)
