"""What the maintenance of tables works with: where tables are for certain, their files, the queue, and a client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeVar

import msgspec

from firn.coordinator.client.sync_client import Client
from firn.coordinator.client.table_view import TableView, zookeeper_at
from firn.model.errors import CorruptFile, Misconfigured, NotFound
from firn.model.limits import Limits
from firn.model.metadata import TableMetadata
from firn.pipeline.connection import OUTCOME_TIMEOUT_S, Connection
from firn.storage.content_digests import is_digest_of
from firn.storage.file_system_tables import FileSystemTables
from firn.storage.files import FileStore
from firn.storage.intent_streams import IntentStreams, StreamNames
from firn.storage.locations import normalize
from firn.storage.metadata_files import decode_metadata, version_of
from firn.storage.pointers import Pointer, Pointers, with_digest
from firn.storage.redis_streams import RedisStreams
from firn.storage.sessions import Session
from firn.storage.zookeeper import ZooKeeperSession

CONNECT_TIMEOUT_S: Final = 15.0
POINTERS_AT_ONCE: Final = 64

_Result = TypeVar("_Result")


class TableNow(msgspec.Struct, frozen=True, kw_only=True):
    """A table as it certainly was when it was asked for: read behind whatever was committed before."""

    pointer: Pointer
    metadata: TableMetadata

    @property
    def name(self) -> str:
        """Its name."""
        return self.pointer.table

    @property
    def view(self) -> TableView:
        """The same for whoever plans on it."""
        return TableView(name=self.name, metadata_location=self.pointer.metadata_location, metadata=self.metadata)

    @property
    def all_places(self) -> tuple[str, ...]:
        """The folders in which the table says that it has files, normalised; they may be another's, too."""
        return tuple(
            sorted({normalize(one) for one in (self.metadata.location, self.pointer.location, *self.pointer.also_at)})
        )


class Upkeep:
    """The maintenance of tables: certain reads through ZooKeeper, changes through the client.

    `session` and `streams` open connections for as long as one question takes. Everything is synchronous and raises
    Unavailable when a server does not answer.
    """

    def __init__(
        self,
        *,
        client: Client,
        files: FileStore,
        session: Callable[[], AbstractAsyncContextManager[Session]],
        streams: Callable[[], AbstractAsyncContextManager[IntentStreams]],
        timeout_s: float = OUTCOME_TIMEOUT_S,
        limits: Limits | None = None,
    ) -> None:
        self.client = client
        self.files = files
        self.timeout_s = timeout_s
        self.limits = limits or Limits()
        self._session = session
        self._streams = streams

    @classmethod
    def of(cls, connection: Connection) -> Upkeep:
        """On the servers that a connection names. Raises Misconfigured when it names no ZooKeeper."""
        if connection.zookeeper is None:
            raise Misconfigured("maintenance needs zookeeper=…: only there is it certain where a table is")
        zookeeper = zookeeper_at(connection.zookeeper)

        @asynccontextmanager
        async def session() -> AsyncIterator[Session]:
            opened = ZooKeeperSession(zookeeper)
            try:
                await opened.start(timeout_s=CONNECT_TIMEOUT_S)
                yield opened
            finally:
                await opened.close()

        @asynccontextmanager
        async def streams() -> AsyncIterator[IntentStreams]:
            opened = RedisStreams(connection.redis, names=StreamNames(connection.prefix))
            try:
                yield opened
            finally:
                await opened.close()

        return cls(
            client=connection.client(),
            files=connection.store(),
            session=session,
            streams=streams,
            timeout_s=connection.timeout_s,
        )

    def table(self, name: str) -> TableNow:
        """The table as it is now.

        Raises NotFound, also for a dropped or renamed one and for a view; CorruptFile, Unavailable.
        """
        pointer = _required(self._with_pointers(lambda pointers: self._followed(pointers, name)), name)
        location = pointer.metadata_location
        data = self.files.read(location, bytes_max=self.limits.metadata_bytes_max)
        if pointer.digest is not None and not is_digest_of(data, pointer.digest):
            raise CorruptFile(location, "is not the file that the table's pointer names: its digest is another")
        limits = self.limits
        metadata = decode_metadata(
            data, location=location, bytes_max=limits.metadata_bytes_max, values_max=limits.json_values_max
        )
        if metadata.table_uuid != pointer.uuid:
            raise NotFound(f"{location} is of table {metadata.table_uuid}, the pointer of {name!r} says {pointer.uuid}")
        return TableNow(pointer=pointer, metadata=metadata)

    def tables(self) -> tuple[Pointer, ...]:
        """The pointers of all tables and views that exist, by name."""
        return tuple(one for one in self.pointers() if not one.dropped)

    def pointers(self) -> tuple[Pointer, ...]:
        """The pointers of all names, by name; those of dropped and renamed tables and views, too."""

        async def read(pointers: Pointers) -> tuple[Pointer, ...]:
            names, found = await pointers.list(), []
            for start in range(0, len(names), POINTERS_AT_ONCE):
                reads = (self._found(pointers, name) for name in names[start : start + POINTERS_AT_ONCE])
                found += [one for one in await asyncio.gather(*reads) if one is not None]
            return tuple(found)

        return self._with_pointers(read)

    def with_streams(self, work: Callable[[IntentStreams], Awaitable[_Result]]) -> _Result:
        """Do something with the streams; what it raises is raised here."""

        async def run() -> _Result:
            async with self._streams() as streams:
                return await work(streams)

        return asyncio.run(run())

    def with_session(self, work: Callable[[Session], Awaitable[_Result]]) -> _Result:
        """Do something with a ZooKeeper session; what it raises is raised here."""

        async def run() -> _Result:
            async with self._session() as session:
                return await work(session)

        return asyncio.run(run())

    def _with_pointers(self, work: Callable[[Pointers], Awaitable[_Result]]) -> _Result:
        return self.with_session(lambda session: work(Pointers(session)))

    async def _found(self, pointers: Pointers, name: str) -> Pointer | None:
        try:
            return (await pointers.read(name)).pointer
        except NotFound:
            return None

    async def _followed(self, pointers: Pointers, name: str) -> Pointer | None:
        """The pointer; that of a file-system table with the newest file, which is the table."""
        pointer = await self._found(pointers, name)
        if pointer is None or pointer.catalog == "metastore" or pointer.dropped or pointer.kind == "view":
            return pointer
        newest = await asyncio.to_thread(
            FileSystemTables(self.files).newest, pointer.location, at_least=version_of(pointer.metadata_location)
        )
        if newest is None or newest == pointer.metadata_location:
            return pointer
        return with_digest(msgspec.structs.replace(pointer, metadata_location=newest), None)


def _required(pointer: Pointer | None, name: str) -> Pointer:
    if pointer is None:
        raise NotFound(f"there is no table {name!r}")
    if pointer.renamed_to is not None:
        raise NotFound(f"{pointer.kind} {name!r} was renamed to {pointer.renamed_to!r}")
    if pointer.dropped:
        raise NotFound(f"{pointer.kind} {name!r} was dropped")
    if pointer.kind != "table":
        raise NotFound(f"{name!r} is a {pointer.kind}, not a table")
    return pointer
