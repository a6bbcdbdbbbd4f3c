"""How a command reaches what it is about: its settings, and the connections that they lead to.

Without any setting, a command finds the daemon that `firn serve --embedded` runs on ``./data``. Tests put twins in the
place of the servers (`Connectors`, as the context's object).
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import click
import msgspec

from firn.coordinator.cli.connectors import (
    Connectors,
    followed_tables,
    metadata_reader,
    naming_redis,
    quiet_logs,
    table_reader,
)
from firn.coordinator.cli.output import Output
from firn.coordinator.config import CONFIG_FILE, Settings, load_settings
from firn.coordinator.endpoints import DATA_DEFAULT, read_endpoints
from firn.model.errors import NotFound, Unavailable
from firn.model.identifiers import check_table_name
from firn.model.spelling import did_you_mean, nearest
from firn.storage.files import FileStore
from firn.storage.intent_streams import SHARDS_DEFAULT, IntentStreams, SharedSettings
from firn.storage.journal import JournalFiles
from firn.storage.pointers import Pointer, Pointers
from firn.storage.sessions import Session

if TYPE_CHECKING:  # loaded by the commands that read tables
    from firn.coordinator.tables.metadata_reader import MetadataReader
    from firn.coordinator.tables.table_reader import TableReader

POINTERS_AT_ONCE: Final = 64

REDIS_HINT: Final = "start it, or correct redis.url (FIRN_REDIS_URL); firn doctor checks all servers"
ZOOKEEPER_HINT: Final = "start it, or correct zookeeper.hosts (FIRN_ZOOKEEPER); firn doctor checks all servers"

_SERVER_VARIABLES: Final = ("FIRN_REDIS", "FIRN_ZOOKEEPER", "FIRN_WAREHOUSE", "FIRN_CONFIG")
"""Whoever sets one of these has servers in mind, and means those."""

_Result = TypeVar("_Result")


class Reach:
    """What one command works with. Connections are made when they are first asked for."""

    def __init__(self, settings: Settings, *, output: Output, connectors: Connectors, hint: str = "") -> None:
        self.settings = settings
        self.output = output
        self.advises = True
        """Whether an error of a server says what to do about it, too; a command may do that by itself."""
        self._connectors = connectors
        self._hint = hint

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run to completion what needs an event loop."""
        result: _Result = self._connectors.run(work)
        return result

    @asynccontextmanager
    async def session(self, *, anonymous: bool = False) -> AsyncIterator[Session]:
        """A ZooKeeper session, `anonymous` as somebody who has no password.

        Raises Unavailable, which says where it is and what to do.
        """
        replace, settings = msgspec.structs.replace, self.settings
        if anonymous:
            settings = replace(settings, zookeeper=replace(settings.zookeeper, auth=None, auth_file=None))
        async with AsyncExitStack() as stack:
            try:
                session = await stack.enter_async_context(self._connectors.session(settings))
            except Unavailable as error:
                raise self._advised(error, ZOOKEEPER_HINT) from error
            yield session

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[IntentStreams]:
        """The streams in Redis, which answers. Raises as `session` does."""
        streams = self._connectors.streams(self.settings)
        try:
            try:
                async with naming_redis(self.settings):
                    await streams.settings()
            except Unavailable as error:
                raise self._advised(error, REDIS_HINT) from error
            yield streams
        finally:
            await streams.close()

    @asynccontextmanager
    async def streams_if_any(self) -> AsyncIterator[IntentStreams]:
        """The streams in Redis, for a command that can do without: whether it answers is not asked."""
        streams = self._connectors.streams(self.settings)
        try:
            yield streams
        finally:
            await streams.close()

    def require_redis(self) -> None:
        """Raise Unavailable at once when Redis does not answer: a client of its own would wait for it to come back."""
        self.run(self._asked_of_redis())

    async def _asked_of_redis(self) -> None:
        async with self.streams():
            pass

    @functools.cached_property
    def files(self) -> FileStore:
        """The files of tables."""
        return self._connectors.files(self.settings)

    @functools.cached_property
    def metadata_reader(self) -> MetadataReader:
        """Metadata of tables and views, for a command that reads no manifest."""
        return metadata_reader(self.files, self.settings)

    @functools.cached_property
    def reader(self) -> TableReader:
        """Metadata, manifest lists and manifests."""
        return table_reader(self.files, self.settings)

    @functools.cached_property
    def journal(self) -> JournalFiles:
        """Journal segments."""
        return JournalFiles(self.files, bytes_max=self.settings.limits.journal_bytes_max)

    def pointer(self, table: str, *, dropped: bool = False, kind: Literal["table", "view"] | None = None) -> Pointer:
        """The pointer of a table or view as it is now.

        Raises NotFound; for a dropped one, too, unless `dropped` are wanted, and for one that is not of the `kind`.
        """
        check_table_name(table)
        pointer = self.run(self._pointer(table, kind=kind or "table"))
        if pointer.renamed_to is not None and not dropped:
            raise NotFound(f"{pointer.kind} {table!r} was renamed to {pointer.renamed_to!r}")
        if pointer.dropped and not dropped:
            raise NotFound(f"{pointer.kind} {table!r} was dropped (firn journal {table} still tells its history)")
        if kind not in (None, pointer.kind):
            raise NotFound(f"{table!r} is a {pointer.kind}, not a {kind} (firn {pointer.kind} show {table})")
        return pointer

    def pointers(self) -> list[Pointer]:
        """The pointers of all tables and views, dropped ones too, by name."""
        return self.run(self._pointers())

    async def _pointer(self, table: str, *, kind: str) -> Pointer:
        async with self.session() as session:
            pointer = await self.followed(session, table)
            if pointer is None:
                names = nearest(table, await Pointers(session).list())
                alike = await asyncio.gather(*(self.followed(session, name) for name in names))
                there = [one.table for one in alike if one is not None and not one.dropped and one.kind == kind]
                meant = f": {advice}" if (advice := did_you_mean(table, there)) else ""
                raise NotFound(f"there is no {kind} {table!r}{meant} (firn {kind} list shows those there are)")
            return pointer

    async def _pointers(self) -> list[Pointer]:
        found: list[Pointer] = []
        async with self.session() as session:
            names = await Pointers(session).list()
            for start in range(0, len(names), POINTERS_AT_ONCE):
                reads = (self.followed(session, name) for name in names[start : start + POINTERS_AT_ONCE])
                found += [pointer for pointer in await asyncio.gather(*reads) if pointer is not None]
        return found

    async def followed(self, session: Session, table: str) -> Pointer | None:
        """A table's pointer; that of a file-system table, which is its newest file, as that file would have it."""
        try:
            pointer = (await Pointers(session).read(table)).pointer
            if pointer.catalog == "metastore" or pointer.dropped:
                return pointer
            return await followed_tables(self.files, self.settings, session).pointer(table)
        except NotFound:
            return None

    def _advised(self, error: Unavailable, usual: str) -> Unavailable:
        """The error with what to do: what was said when the settings were found, else the `usual` advice."""
        hint = self._hint or (usual if self.advises else "")
        if self._hint:  # said once, however many servers there are: it is about all of them
            self._hint, self.advises = "", False
        return type(error)(f"{error} ({hint})") if hint else error


async def shards_of(streams: IntentStreams) -> int:
    """How many intent streams there are, as the daemons say; the usual number when none has said."""
    told = await streams.settings()
    try:
        return SHARDS_DEFAULT if told is None else msgspec.json.decode(told, type=SharedSettings).shards
    except msgspec.DecodeError as error:
        raise Unavailable(f"what Redis says of the number of shards cannot be read: {error}") from error


def reaching(command: Callable[..., int | None]) -> Callable[..., None]:
    """Give a command ``--config``, ``--data`` and ``--json``, and as first argument the `Reach` that they lead to.

    What the command returns is its exit code.
    """

    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @click.option(
        "--data",
        type=click.Path(path_type=Path),
        envvar="FIRN_DATA",
        help="Folder of a running `firn serve --embedded` [default: ./data, if none of its servers are set otherwise].",
    )
    @click.option(
        "--config", type=click.Path(path_type=Path), help="Settings file (default: ./firn.toml if it is there)."
    )
    @click.pass_context
    @functools.wraps(command)
    def wrapped(
        ctx: click.Context, /, *, config: Path | None, data: Path | None, as_json: bool, **options: Any
    ) -> None:
        connectors = ctx.find_object(Connectors) or Connectors()
        settings, hint = settings_for(config, data)
        quiet_logs()
        reach = Reach(settings, output=Output(as_json=as_json), connectors=connectors, hint=hint)
        code = command(reach, **options)
        if code:
            ctx.exit(code)

    return wrapped


def settings_for(
    config: Path | None, data: Path | None, environment: Mapping[str, str] | None = None
) -> tuple[Settings, str]:
    """The settings of a command, and what to suggest when their servers do not answer.

    Those of the daemon that runs on `data`; without `data`, what the file and the environment say; when they name no
    servers, those of the daemon that runs on ``./data``, if one does.
    """
    environment = os.environ if environment is None else environment
    settings = load_settings(config, environment)
    if data is not None:
        endpoints = read_endpoints(data)
        if endpoints is None:
            raise Unavailable(f"no daemon runs on {data}: start one with firn serve --embedded --data {data}")
        return endpoints.applied_to(settings), ""
    if config is not None or Path(CONFIG_FILE).exists() or any(v.startswith(_SERVER_VARIABLES) for v in environment):
        return settings, ""
    endpoints = read_endpoints(DATA_DEFAULT)
    if endpoints is not None:
        return endpoints.applied_to(settings), ""
    return settings, (
        f"no daemon runs on ./{DATA_DEFAULT} either: start one with firn serve --embedded, or say where yours is with "
        "--data, --config, or FIRN_REDIS_URL and FIRN_ZOOKEEPER"
    )
