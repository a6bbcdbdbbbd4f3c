"""`firn serve`: the daemon in the foreground, on servers of its own when asked.

Whatever happens, it ends with one clear line: a start that cannot work, a loop of the daemon that dies (exit 1), or a
signal (drain, exit 0), also while it is still starting. A second signal cuts the drain short, a third ends the process
there and then. Threads in which a store hangs are left behind (exit 4). Embedded servers are started first and stopped
last.
"""

from __future__ import annotations

import asyncio
import contextlib
import cProfile
import gc
import os
import platform
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any, Final

import click
import msgspec

from firn.coordinator.calculating.calculator import Calculator
from firn.coordinator.cli.exits import EXIT_LEFT_BEHIND, EXIT_OK
from firn.coordinator.config import Settings, load_settings, redacted_url
from firn.coordinator.connections import Connections, connect
from firn.coordinator.daemon import Daemon
from firn.coordinator.embedded import EmbeddedServers
from firn.coordinator.endpoints import DATA_DEFAULT, Endpoints, forget_endpoints, write_endpoints
from firn.coordinator.intake.read_appends import Rules
from firn.coordinator.logs import configure_logs
from firn.coordinator.store_identity import StoreIdentity
from firn.coordinator.thread_calls import calls_under_way
from firn.coordinator.version import VERSION, build_commit
from firn.coordinator.warehouse_folders import known_folders, warehouse_folders
from firn.model.errors import FirnError, Misconfigured
from firn.storage.compiled import IS_COMPILED
from firn.storage.file_writes import FileWrites, ProcessWrites, ThreadWrites
from firn.storage.locations import FILE_SCHEME, normalize, scheme_of
from firn.storage.log import get_logger
from firn.storage.malloc_settings import give_freed_memory_back
from firn.storage.marked_folders import MarkedFiles, MarkedFolders
from firn.storage.zookeeper_place import place_of

SWITCH_INTERVAL_S: Final = 0.001
"""How long a thread that computes may hold up those that wait for it: Python's own 5 ms are a commit's latency."""

GC_THRESHOLDS: Final = (20_000, 20, 50)
"""A batch makes thousands of objects that live until it is told of; none of them is in a cycle."""

THREADS_MAX: Final = 64
"""For what blocks and is no lane's: pages, looks at tables, long intents. Made when they are needed; some may hang."""

RETURN_S: Final = 1.0
"""How long calls may take to return when everything else has ended."""

SIGNALS: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    *(() if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)),  # ignored under nohup
)

OWN_SERVERS: Final = ("FIRN_REDIS_URL", "FIRN_ZOOKEEPER", "FIRN_ZOOKEEPER_HOSTS")
"""Variables that name other servers than those of ``--embedded``; each also with ``_FILE``."""


class _StopRequested(BaseException):
    """A signal that came while there was no event loop to hear it; not an error, so that nothing catches it."""


@click.command()
@click.option("--embedded", is_flag=True, help="Start Redis and ZooKeeper as children, with their state under --data.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    envvar="FIRN_DATA",
    default=DATA_DEFAULT,
    show_default=True,
    help="For --embedded: the folder of the servers' state and of the warehouse.",
)
@click.option("--config", type=click.Path(path_type=Path), help="Settings file (default: ./firn.toml if it is there).")
@click.option(
    "--profile",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a profile of the event loop's thread to this file at the end (python -m pstats reads it).",
)
def serve(*, embedded: bool, data: Path, config: Path | None, profile: Path | None) -> int:
    """Run the daemon until SIGINT, SIGTERM or SIGHUP, then drain and exit 0.

    A second signal ends it sooner. It exits with 4 when a store hangs, and calls had to be left behind.
    """
    if embedded and (named := [name for name in OWN_SERVERS if name in os.environ or f"{name}_FILE" in os.environ]):
        raise Misconfigured(
            f"--embedded starts servers of its own, and {' and '.join(named)} names others: "
            "unset it, or leave --embedded out"
        )
    settings = load_settings(config)
    configure_logs(settings.log, daemon=settings.daemon_id)
    give_freed_memory_back()
    set_tempo()
    with contextlib.suppress(_StopRequested), _signals_heard(), _profiled(profile):
        if embedded:
            with _servers(data) as servers:
                asyncio.run(_serve(embedded_settings(settings, servers, data), data=data))
                _ignore_signals()  # stopping already: the servers' last writes matter more than a second Ctrl-C
        else:
            asyncio.run(_serve(settings, data=None))
    return EXIT_LEFT_BEHIND if _left_behind() else EXIT_OK


def _left_behind() -> bool:
    """Whether calls do not return although nobody waits for them; says which."""
    ends_at = time.monotonic() + RETURN_S
    while (calls := calls_under_way()) and time.monotonic() < ends_at:
        time.sleep(RETURN_S / 20)
    for call in calls:
        of = "" if call.location is None else f" of {call.location}"
        click.echo(f"firn: left behind: {call.call}{of} does not return ({call.thread})", err=True)
    return bool(calls)


class _Threads(ThreadPoolExecutor):
    """The event loop's threads. Its end does not wait for calls that hang."""

    def __init__(self) -> None:
        super().__init__(THREADS_MAX, thread_name_prefix="firn")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        super().shutdown(wait=False, cancel_futures=True)


class _Signals:
    """What signals ask for: the first one to end, the second to hurry; the third is the system's to answer."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.hurried = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        for number in SIGNALS:
            self._loop.add_signal_handler(number, self._hear)

    def _hear(self) -> None:
        if not self.stop.is_set():
            self.stop.set()
            return
        self.hurried.set()
        for number in SIGNALS:
            self._loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)


def set_tempo() -> None:
    """Settings of the interpreter for a process with one busy thread and several that wait for disk and network."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()  # what is imported stays
    gc.set_threshold(*GC_THRESHOLDS)


@contextlib.contextmanager
def _profiled(target: Path | None) -> Iterator[None]:
    """Within, with a `target`: every function of this thread is timed, which takes about as long again."""
    if target is None:
        yield
        return
    profile = cProfile.Profile()
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        profile.dump_stats(target)
        click.echo(f"profile written: python -m pstats {target}")


@contextlib.contextmanager
def _signals_heard() -> Iterator[None]:
    """Within: a signal ends what is going on in good order, instead of the process at once."""

    def hear(_number: int, _frame: FrameType | None) -> None:
        raise _StopRequested

    before = {number: signal.signal(number, hear) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def _servers(data: Path) -> Iterator[EmbeddedServers]:
    folder = data.absolute() / "servers"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Misconfigured(f"--data {data}: {error.strerror or error}: {error.filename or folder}") from error
    with EmbeddedServers(folder, usual_ports=True) as servers:
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
    """Serve until a signal comes. Raises FirnError when the daemon cannot start, or when one of its loops died."""
    asyncio.get_running_loop().set_default_executor(_Threads())
    signals = _Signals()
    async with contextlib.AsyncExitStack() as stack:
        starting = asyncio.create_task(_start(settings, stack, hurried=signals.hurried))
        if not await _done_before(signals.stop, starting):
            return  # there is nothing to drain yet
        daemon, url = starting.result()
        if data is not None:
            stack.callback(forget_endpoints, data)
            write_endpoints(data, Endpoints.of(settings, http=url))
        if (wrong := daemon.holds_because) is not None:
            click.echo(f"firn is not ready, and holds what it is asked for: {wrong}", err=True)
        else:
            click.echo(_greeting(settings, http=url))
        failed = asyncio.create_task(daemon.failed())
        if not await _done_before(signals.stop, failed):
            return
        failure = failed.result() or RuntimeError("one of its loops ended")
    raise FirnError(f"the daemon failed: {type(failure).__name__}: {failure}") from failure


async def _start(
    settings: Settings, stack: contextlib.AsyncExitStack, *, hurried: asyncio.Event
) -> tuple[Daemon, str | None]:
    """The daemon at work, and its URL; `stack` gets what ends it, the sooner when `hurried`, and its connections."""
    connections = await stack.enter_async_context(connect(settings))
    python = platform.python_version()
    get_logger().info("daemon begins", version=VERSION, commit=build_commit(), python=python, compiled=IS_COMPILED)
    stores = StoreIdentity(settings, session=connections.session, streams=connections.streams, files=connections.files)
    folders = await _folders(settings, connections, stores)
    files = MarkedFiles(connections.files, folders)
    writes: FileWrites = ThreadWrites(files)
    if scheme_of(settings.warehouse.location) == FILE_SCHEME and sys.platform == "linux":
        writes = in_process = ProcessWrites(files, folders)
        stack.push_async_callback(in_process.close)
    calculator = None
    if sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1:
        calculator = Calculator(Rules(settings.limits, connections.streams.names.replies))
        stack.push_async_callback(calculator.close)
    daemon = Daemon(
        settings, session=connections.session, streams=connections.streams, files=files, writes=writes,
        calculator=calculator, stores=stores,
    )  # fmt: skip
    stack.push_async_callback(daemon.stop, hurried=hurried)
    return daemon, await daemon.start()


async def _folders(settings: Settings, connections: Connections, stores: StoreIdentity) -> MarkedFolders:
    """The local folders with their marks. Raises Misconfigured where a setting leads to another deployment's store.

    With a ZooKeeper that has lost its data the daemon starts, and holds what it is asked for.
    """
    verdict = await stores.at_start()
    if verdict.is_foreign:
        raise Misconfigured(verdict.reason)
    if not verdict.is_fine:
        return known_folders(settings, mark=stores.warehouse_mark)
    folders = await warehouse_folders(
        settings, session=connections.session, files=connections.files, deployment=verdict.deployment
    )
    stores.warehouse_is(folders.marks.get(normalize(settings.warehouse.location)))
    return folders


async def _done_before(stop: asyncio.Event, task: asyncio.Task[Any]) -> bool:
    """Whether the task ends before a signal comes; if not, it is cancelled."""
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({stopped, task}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if task.done():
        return True
    task.cancel()
    await asyncio.wait({task})
    return False


def _greeting(settings: Settings, *, http: str | None) -> str:
    prefix = settings.redis.prefix
    watch = "off (http.port is -1)" if http is None else f"{http}   (also /metrics, /healthz, /readyz)"
    url = redacted_url(settings.redis.url)
    return f"""\
firn is ready.
  warehouse  {settings.warehouse.location}
  redis      {url}
  zookeeper  {place_of(settings.zookeeper.hosts, settings.zookeeper.root)}
  watch      {watch}

Submit:
  firn table create db.events --column "id long required" --column "name string"
  python:    from firn import Client; Client("{url}").append("db.events", files).result()
  redis-cli: redis-cli -u {url} XADD {prefix}:intents:0 '*' intent '{{"operation": "append", …}}'
  any shard will do: an entry in another table's shard is moved to its own. Ctrl-C drains and stops."""
