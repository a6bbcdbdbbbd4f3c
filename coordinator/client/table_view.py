"""What a writer needs to know of a table in order to make data files for it, and how it is found by its name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final, Literal

import msgspec

from firn.coordinator.client.view_found import ViewFound
from firn.model.errors import CorruptFile, FirnError, Misconfigured, NotFound
from firn.model.expressions.by_id import with_column_ids
from firn.model.expressions.expression_json import expression_to_json
from firn.model.expressions.filter_text import filter_from_text
from firn.model.identifiers import check_table_name
from firn.model.limits import Limits
from firn.model.metadata import TableMetadata
from firn.model.operations.files import Filter
from firn.model.partitioning import PartitionSpec
from firn.model.schema import Schema
from firn.storage.consumers import Consumers
from firn.storage.files import FileStore
from firn.storage.intent_streams import IntentStreams, TablePlace
from firn.storage.metadata_files import decode_metadata
from firn.storage.pointers import Pointers
from firn.storage.view_files import decode_view
from firn.storage.zookeeper import ZooKeeperSession
from firn.storage.zookeeper_place import ZooKeeperOptions, place_with_root

Kind = Literal["table", "view"]

CONNECT_TIMEOUT_S: Final = 15.0


class TableView(msgspec.Struct, frozen=True, kw_only=True):
    """A table as it was when it was looked at; it may have moved on since, which the daemon takes into account."""

    name: str
    metadata_location: str
    metadata: TableMetadata

    @classmethod
    def from_metadata(cls, location: str, files: FileStore, *, name: str = "") -> TableView:
        """The table that a metadata file describes. Raises NotFound, CorruptFile, InvalidMetadata, Unavailable."""
        data = files.read(location, bytes_max=Limits().metadata_bytes_max)
        return cls(name=name, metadata_location=location, metadata=decode_metadata(data, location=location))

    @property
    def location(self) -> str:
        """The table's folder: data files belong below it, in ``data/`` by custom."""
        return self.metadata.location

    @property
    def uuid(self) -> str:
        """What distinguishes it from an earlier table of the same name."""
        return self.metadata.table_uuid

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.metadata.current_schema

    @property
    def spec(self) -> PartitionSpec:
        """The spec that new files are partitioned by."""
        return self.metadata.default_spec

    @property
    def snapshot_id(self) -> int | None:
        """The head of ``main``: what to plan on."""
        return self.metadata.current_snapshot_id

    def filter(self, text: str, *, case_sensitive: bool = True) -> Filter:
        """A filter on the columns that are called so now, by their ids: should one be renamed before the intent is
        committed, and its name given to another, the filter still means the first. Raises InvalidInput.
        """
        expr = with_column_ids(filter_from_text(text, where="filter"), self.schema, case_sensitive=case_sensitive)
        json: Filter = expression_to_json(expr)
        return json


def zookeeper_at(place: str | ZooKeeperOptions) -> ZooKeeperOptions:
    """Return how to reach ZooKeeper; without a path behind the hosts, the root is ``/firn``. Raises Misconfigured."""
    options = place if isinstance(place, ZooKeeperOptions) else ZooKeeperOptions(hosts=place)
    return msgspec.structs.replace(options, hosts=place_with_root(options.hosts, where="zookeeper"))


Naming = Callable[[], AbstractAsyncContextManager[None]]
"""Within what it makes, an error of Redis says where Redis is."""


class TableFinder:
    """Finds tables by name: in Redis where the daemons announced them, in ZooKeeper if the client may."""

    def __init__(
        self,
        streams: IntentStreams,
        *,
        files: FileStore,
        zookeeper: str | ZooKeeperOptions | None,
        naming: Naming = nullcontext,
    ) -> None:
        self._streams = streams
        self._naming = naming
        self._files = files
        self._zookeeper = None if zookeeper is None else zookeeper_at(zookeeper)
        self._session: ZooKeeperSession | None = None
        self._connecting = asyncio.Lock()

    async def find(self, name: str) -> TableView:
        """The table as it is now. `NotFound` says what to do when Redis does not know it."""
        found = await self._find(name, kind="table")
        assert isinstance(found, TableView)
        return found

    async def find_view(self, name: str) -> ViewFound:
        """The view as it is now; raises as `find` does."""
        found = await self._find(name, kind="view")
        assert isinstance(found, ViewFound)
        return found

    async def _find(self, name: str, *, kind: Kind) -> TableView | ViewFound:
        check_table_name(name)
        refused: FirnError | None = None
        async with self._naming():
            announced = await self._streams.table(name)
        place = _place(announced, name)
        if place is not None:
            _require_kind(name, place.kind, wanted=kind)
            try:
                return await self._read(name, place.metadata_location, kind=kind)
            except NotFound as error:  # an old announcement: the file has been removed since
                refused = error
        if self._zookeeper is None:
            raise NotFound(
                f"Redis does not say where {kind} {name!r} is: there is no such {kind}, or nothing was committed to it "
                "since Redis was emptied. Give the client zookeeper=…"
                + (", or use TableView.from_metadata" if kind == "table" else "")
            ) from refused
        try:
            pointer = (await (await self._pointers()).read(name)).pointer
        except NotFound as error:
            raise NotFound(f"there is no {kind} {name!r}") from error
        if pointer.dropped:
            raise NotFound(f"{pointer.kind} {name!r} was dropped")
        _require_kind(name, pointer.kind, wanted=kind)
        return await self._read(name, pointer.metadata_location, kind=kind)

    async def pointers(self) -> Pointers | None:
        """Where all tables are, for a client that was given a ZooKeeper; None for one that was not."""
        return None if self._zookeeper is None else await self._pointers()

    async def consumers(self) -> Consumers:
        """The consumers of tables' changes. Raises Misconfigured for a client that was given no ZooKeeper."""
        if self._zookeeper is None:
            raise Misconfigured("consumers are kept in ZooKeeper: give the client zookeeper=…")
        await self._pointers()
        assert self._session is not None
        return Consumers(self._session)

    async def latest(self, name: str) -> TableView:
        """A table as ZooKeeper has it, at least as new as this call. Raises NotFound, and as `consumers`."""
        await self.consumers()
        check_table_name(name)
        try:
            pointer = (await (await self._pointers()).read(name)).pointer
        except NotFound as error:
            raise NotFound(f"there is no table {name!r}") from error
        if pointer.dropped:
            raise NotFound(f"{pointer.kind} {name!r} was dropped")
        _require_kind(name, pointer.kind, wanted="table")
        found = await self._read(name, pointer.metadata_location, kind="table")
        assert isinstance(found, TableView)
        return found

    async def close(self) -> None:
        """Give the session up."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _read(self, name: str, location: str, *, kind: Kind) -> TableView | ViewFound:
        if kind == "table":
            return await asyncio.to_thread(TableView.from_metadata, location, self._files, name=name)
        data = await asyncio.to_thread(self._files.read, location, bytes_max=Limits().metadata_bytes_max)
        return ViewFound(name=name, metadata_location=location, metadata=decode_view(data, location=location))

    async def _pointers(self) -> Pointers:
        assert self._zookeeper is not None
        async with self._connecting:
            if self._session is None:
                session = ZooKeeperSession(self._zookeeper)
                try:
                    await session.start(timeout_s=CONNECT_TIMEOUT_S)
                except BaseException:
                    await session.close()
                    raise
                self._session = session
            return Pointers(self._session)


def _require_kind(name: str, found: Kind, *, wanted: Kind) -> None:
    if found != wanted:
        raise NotFound(f"{name!r} is a {found}, not a {wanted}")


def _place(data: bytes | None, name: str) -> TablePlace | None:
    try:
        return None if data is None else msgspec.json.decode(data, type=TablePlace)
    except msgspec.DecodeError as error:
        raise CorruptFile(f"Redis, table {name}", f"is no table's place: {error}") from error
