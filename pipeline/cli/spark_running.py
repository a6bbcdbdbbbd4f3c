"""What `firn spark` commands share: options of the session, the session, and bars that show how far it is."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, Final

import click
import msgspec
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.client.servers import Servers
from firn.model.errors import InvalidInput
from firn.pipeline.connection import Connection
from firn.pipeline.spark_session import spark_session

POLL_S: Final = 0.2
"""How often Spark is asked how far it is."""


class SparkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where Spark runs, and its settings."""

    master: str | None
    settings: dict[str, str]


def sparking(command: Callable[..., int | None]) -> Callable[..., None]:
    """As `reaching`, with ``--master`` and ``--conf``; the command's second argument is the `SparkOptions`."""

    @click.option("--master", help="Spark master [default: all cores of this machine].")
    @click.option("--conf", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of Spark's; repeatable.")
    @functools.wraps(command)
    def wrapped(reach: Reach, *, master: str | None, settings: tuple[str, ...], **options: Any) -> int | None:
        return command(reach, spark_options(master, settings), **options)

    return reaching(wrapped)


def spark_options(master: str | None, settings: Iterable[str]) -> SparkOptions:
    """The options that texts ``NAME=VALUE`` say. Raises InvalidInput."""
    return SparkOptions(master=master, settings=dict(_setting(text) for text in settings))


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidInput("is not NAME=VALUE", where=f"--conf {text!r}")
    return name, value


def connection_of(reach: Reach) -> Connection:
    """The connection to what the command reaches."""
    return Connection.of_servers(Servers.of_settings(reach.settings))


@contextmanager
def session(
    reach: Reach, options: SparkOptions, *, app: str, commits: bool = True
) -> Iterator[tuple[SparkSession, Connection]]:
    """A Spark session for one command, which `commits` or only reads.

    Raises Misconfigured for a missing Java, Unavailable for missing servers.
    """
    connection = connection_of(reach)
    reach.pointers()  # servers that do not answer are told before Spark takes seconds to start
    if commits:
        reach.require_redis()
    console = Console(stderr=True)
    with ExitStack() as stack:
        with console.status("starting Spark …") if console.is_terminal else nullcontext():
            opened = spark_session(app=app, master=options.master, settings=options.settings)
            spark = stack.enter_context(opened)
        yield spark, connection


def bars(what: str = "groups") -> Progress:
    """Bars on standard error; none where it is no terminal."""
    console = Console(stderr=True)
    return Progress(
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(what),
        TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal,
    )  # fmt: skip


@contextmanager
def watching(spark: SparkSession, description: str) -> Iterator[None]:
    """A bar with the tasks of Spark's running stages, while the block works."""
    stop = threading.Event()
    with bars("tasks") as progress:
        task = progress.add_task(description, total=None)

        def follow() -> None:
            tracker = spark.sparkContext.statusTracker()
            while not stop.wait(POLL_S):
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                known = [stage for stage in stages if stage is not None]
                if known:
                    total = sum(stage.numTasks for stage in known)
                    progress.update(task, total=total, completed=sum(stage.numCompletedTasks for stage in known))

        follower = threading.Thread(target=follow, daemon=True)
        if not progress.disable:
            follower.start()
        try:
            yield
        finally:
            stop.set()
            if follower.is_alive():
                follower.join()
