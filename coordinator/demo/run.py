"""The demo from start to proof: servers, daemon, table, actors, summary."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final

import click
import msgspec
import redis
from rich.console import Console
from rich.live import Live

from firn.coordinator.client import Client
from firn.coordinator.demo.actors import GIVE_UP_S, Report
from firn.coordinator.demo.dataset import SCHEMA, SPEC, TABLE
from firn.coordinator.demo.proof import Proof, prove
from firn.coordinator.demo.scoreboard import Scoreboard, conflict_table, summary_table
from firn.coordinator.demo.spark_part import spark_part
from firn.coordinator.embedded import EmbeddedServers
from firn.coordinator.embedded.process import GuardedProcess
from firn.coordinator.embedded.server import free_port
from firn.model.errors import FirnError, Unavailable
from firn.model.outcome import Committed
from firn.storage.intent_streams import EVENT_FIELD, StreamNames

COMPACTORS: Final = 2
DELETERS: Final = 1
START_S: Final = 30.0
"""How long the daemon may take to get ready."""

CONFLICTS_SHOWN: Final = 12
_STOP_S: Final = 30.0


class Stack(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What the demo started: addresses, and the folder with everything in it."""

    folder: Path
    redis_url: str
    zookeeper: str
    http: str
    environment: dict[str, str]


def run_demo(*, seconds: float, writers: int, keep: bool, spark: bool, console: Console) -> int:
    """Run the demo, with `spark` if that can be; 0 if the proof holds."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="firn-demo-")))
        console.print("starting Redis and ZooKeeper …")
        servers = stack.enter_context(EmbeddedServers(folder / "servers"))
        running = stack.enter_context(_daemon(folder, servers))
        console.print(f"daemon ready: watch {running.http}   files in {folder}", highlight=False)
        with Client(running.redis_url) as client:
            _create_table(client)
            board = Scoreboard(seconds=seconds)
            with spark_part(
                folder, redis_url=running.redis_url, seconds=seconds, environment=running.environment, wanted=spark
            ) as part:
                _run_actors(running, board, seconds=seconds, writers=writers, console=console)
                reports, read_back = part.finish(console)
            for report in reports:
                board.add(report)
            console.print(summary_table(board.reports, seconds=seconds))
            console.print(conflict_table(_rejections(running.redis_url), limit=CONFLICTS_SHOWN))
            metadata_location = client.table(TABLE).metadata_location
        console.print(f"reading {metadata_location} with PyIceberg …", soft_wrap=True, highlight=False)
        proof = prove(metadata_location, board.reports, read_back=read_back)
        for problem in proof.problems:
            console.print(f"problem: {problem}", markup=False, style="red")
        if keep:
            _keep_running(running, console)
        _print_verdict(proof)
        return 0 if proof.holds else 1


def _print_verdict(proof: Proof) -> None:
    click.echo(proof.line())


@contextmanager
def _daemon(folder: Path, servers: EmbeddedServers) -> Iterator[Stack]:
    """The daemon as a process of its own, stopped in good order at the end."""
    port = free_port()
    running = Stack(
        folder=folder,
        redis_url=servers.redis_url,
        zookeeper=servers.zookeeper_hosts,
        http=f"http://127.0.0.1:{port}",
        environment={
            **{name: value for name, value in os.environ.items() if not name.startswith("FIRN_")},
            "FIRN_REDIS_URL": servers.redis_url,
            "FIRN_ZOOKEEPER": servers.zookeeper_hosts,
            "FIRN_WAREHOUSE": str(folder / "warehouse"),
            "FIRN_HTTP_PORT": str(port),
            "FIRN_LOG_FORMAT": "json",
        },
    )
    log = folder / "daemon.log"
    with log.open("wb") as log_file:
        process = GuardedProcess(
            [sys.executable, "-m", "firn", "serve"], folder=folder, log=log_file, environment=running.environment
        )
        try:
            _wait_ready(running.http, process, log)
            yield running
        finally:
            process.terminate(grace_seconds=_STOP_S)


def _wait_ready(http: str, process: GuardedProcess, log: Path) -> None:
    ends_at = time.monotonic() + START_S
    while time.monotonic() < ends_at:
        if not process.running:
            break
        if _get(f"{http}/readyz", timeout_s=1) is not None:
            return
        time.sleep(0.1)
    tail = log.read_text(errors="replace")[-2000:]
    raise Unavailable(f"the daemon did not get ready; the end of its log:\n{tail}")


def _create_table(client: Client) -> None:
    outcome = client.create_table(TABLE, SCHEMA, partition_spec=SPEC).result(START_S)
    if not isinstance(outcome, Committed):
        raise FirnError(f"the demo's table was not created: {outcome}")


def _run_actors(running: Stack, board: Scoreboard, *, seconds: float, writers: int, console: Console) -> None:
    """Start the actors, show what they report, wait for the last of them."""
    roles = [("writer", writers), ("compactor", COMPACTORS), ("deleter", DELETERS)]
    names = [(role, number) for role, count in roles for number in range(count)]
    reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
    told = ", ".join(f"{count} {role}{'s' if count != 1 else ''}" for role, count in roles)
    console.print(f"starting {told} …", highlight=False)
    with ExitStack() as stack:
        processes = [stack.enter_context(_actor(running, *name, seconds=seconds)) for name in names]
        listeners = [
            threading.Thread(target=_listen, args=(process.stdout, reports), daemon=True) for process in processes
        ]
        for listener in listeners:
            listener.start()
        _show(running, board, processes, reports, console=console, ends_by=time.monotonic() + seconds + 2 * GIVE_UP_S)
        for listener in listeners:
            listener.join(5)
        while not reports.empty():
            board.add(reports.get())
    failed = [f"{role}-{number}" for (role, number), p in zip(names, processes, strict=True) if p.returncode != 0]
    if failed:
        errors = "\n".join((running.folder / f"{name}.log").read_text(errors="replace")[-1500:] for name in failed)
        raise FirnError(f"these actors failed: {', '.join(failed)}\n{errors}")


@contextmanager
def _actor(running: Stack, role: str, number: int, *, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    with (running.folder / f"{role}-{number}.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "firn.coordinator.demo.actors", role, str(number), running.redis_url),
                *(str(seconds), str(os.getpid())),
            ],
            env=running.environment, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def _listen(lines: IO[bytes] | None, reports: queue.SimpleQueue[Report]) -> None:
    assert lines is not None
    decoder = msgspec.json.Decoder(Report)
    with lines:
        for line in lines:
            reports.put(decoder.decode(line))


def _show(
    running: Stack,
    board: Scoreboard,
    processes: list[subprocess.Popen[bytes]],
    reports: queue.SimpleQueue[Report],
    *,
    console: Console,
    ends_by: float,
) -> None:
    """Show the board until every actor has ended."""
    live = Live(board.live(), console=console, refresh_per_second=4) if console.is_terminal else None
    with live if live is not None else ExitStack():
        shown_at = 0.0
        while any(process.poll() is None for process in processes) and time.monotonic() < ends_by:
            time.sleep(0.25)
            while not reports.empty():
                board.add(reports.get())
            metrics = _get(f"{running.http}/metrics", timeout_s=2)
            if metrics is not None:  # the display goes on without; the proof does not depend on it
                board.read_metrics(metrics)
            if live is not None:
                live.update(board.live())
            elif board.reports and time.monotonic() - shown_at >= 2:
                shown_at = time.monotonic()
                console.print(board.line(), highlight=False, soft_wrap=True)


def _get(url: str, *, timeout_s: float) -> str | None:
    """The body of a page of the daemon's; None when it does not answer, or not with 200."""
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:  # noqa: S310 - our own http:// address
            text: str = answer.read().decode()
            return text
    except (urllib.error.URLError, OSError):
        return None


def _rejections(redis_url: str) -> list[dict[str, object]]:
    """The rejections on the event stream, oldest first."""
    with redis.Redis.from_url(redis_url) as connection:
        entries: Any = connection.xrange(StreamNames().events)
    found = []
    for _, fields in entries:
        event = msgspec.json.decode(fields[EVENT_FIELD.encode()])
        if event["type"] == "firn.intent.rejected":
            found.append(event["data"])
    return found


def _keep_running(running: Stack, console: Console) -> None:
    """Leave everything running until Ctrl-C, and say what to try."""
    settings = " ".join(
        f"{name}={running.environment[name]}" for name in ("FIRN_REDIS_URL", "FIRN_ZOOKEEPER", "FIRN_WAREHOUSE")
    )
    console.print(
        f"""
Everything is still running; Ctrl-C ends it.
  metrics    {running.http}/metrics   {running.http}/healthz   {running.http}/readyz
  export {settings}
  firn table show {TABLE}
  firn table history {TABLE}
  firn conflicts --table {TABLE}
  firn journal {TABLE}
  firn fsck {TABLE}""",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    try:
        signal.pause()
    except KeyboardInterrupt:
        console.print("stopping …")
