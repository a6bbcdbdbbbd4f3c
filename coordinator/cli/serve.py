"""`firn serve`: the daemon in the foreground, on servers of its own when asked."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from firn.coordinator.config import Settings, load_settings
from firn.coordinator.connections import connect
from firn.coordinator.daemon import Daemon
from firn.coordinator.embedded import EmbeddedServers
from firn.coordinator.endpoints import Endpoints, forget_endpoints, write_endpoints
from firn.coordinator.logs import configure_logs
from firn.model.errors import FirnError

DATA_DEFAULT = Path("data")


@click.command()
@click.option("--embedded", is_flag=True, help="Start Redis and ZooKeeper as children, with their state under --data.")
@click.option(
    "--data", type=click.Path(path_type=Path), default=DATA_DEFAULT, show_default=True, help="For --embedded."
)
@click.option("--config", type=click.Path(path_type=Path), help="Settings file (default: ./firn.toml if it is there).")
def serve(*, embedded: bool, data: Path, config: Path | None) -> None:
    """Run the daemon until SIGINT or SIGTERM, then drain and exit 0."""
    settings = load_settings(config)
    configure_logs(settings.log, daemon=settings.daemon_id)
    with _servers(data) if embedded else contextlib.nullcontext() as servers:
        if servers is not None:
            settings = embedded_settings(settings, servers, data)
        asyncio.run(_serve(settings, data=data if embedded else None))


@contextlib.contextmanager
def _servers(data: Path) -> Iterator[EmbeddedServers]:
    data.mkdir(parents=True, exist_ok=True)
    with EmbeddedServers(data.absolute() / "servers") as servers:
        yield servers


def embedded_settings(settings: Settings, servers: EmbeddedServers, data: Path) -> Settings:
    """The settings with the embedded servers, and the warehouse beside their state."""
    replace = msgspec.structs.replace
    return replace(
        settings,
        redis=replace(settings.redis, url=servers.redis_url),
        zookeeper=replace(settings.zookeeper, hosts=servers.zookeeper_hosts),
        warehouse=replace(settings.warehouse, location=str(data.absolute().resolve() / "warehouse")),
    )


async def _serve(settings: Settings, *, data: Path | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with connect(settings) as connections:
        daemon = Daemon(settings, session=connections.session, streams=connections.streams, files=connections.files)
        try:
            url = await daemon.start()
            if data is not None:
                write_endpoints(data, Endpoints.of(settings, http=url))
            click.echo(_greeting(settings, http=url))
            failure = await _stopped_or_failed(stop, daemon)
        finally:
            await daemon.stop()
            if data is not None:
                forget_endpoints(data)
    if failure is not None:
        raise FirnError(f"the daemon failed: {type(failure).__name__}: {failure}") from failure


async def _stopped_or_failed(stop: asyncio.Event, daemon: Daemon) -> BaseException | None:
    """Wait for a signal or for a loop of the daemon to die; what it died of, None for a signal."""
    stopped = asyncio.create_task(stop.wait())
    failed = asyncio.create_task(daemon.failed())
    done, _ = await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
    for task in (stopped, failed):
        task.cancel()
    if failed in done:
        return failed.result() or RuntimeError("one of its loops ended")
    return None


def _greeting(settings: Settings, *, http: str | None) -> str:
    redis, prefix = settings.redis.url, settings.redis.prefix
    return f"""\
firn is ready.
  warehouse  {settings.warehouse.location}
  redis      {redis}
  zookeeper  {settings.zookeeper.hosts}{settings.zookeeper.root}
  metrics    {http}/metrics   health {http}/healthz  {http}/readyz

Submit:
  firn table create db.events --column "id long required" --column "name string"
  python:    from firn import Client; Client("{redis}").append("db.events", files).result()
  redis-cli: redis-cli -u {redis} XADD {prefix}:intents:0 '*' intent '{{"operation": "append", …}}'
  any shard will do: an entry in another table's shard is moved to its own. Ctrl-C drains and stops."""
