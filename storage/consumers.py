"""The named consumers of tables: a node per table uuid below ``/consumers``, so that a renamed table keeps its own.

All consumers of a table are in one node: a daemon that decides on an expiry reads it in one round trip, and every
change of one is compared with what was read.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any, Final

import msgspec

from firn.model.consumer import CONSUMERS_MAX, Consumer, TableConsumers
from firn.model.errors import (
    AlreadyExists,
    ConsumerMovedError,
    CorruptFile,
    InvalidInput,
    NotFound,
    Unavailable,
    UnknownOutcome,
)
from firn.storage.log import get_logger
from firn.storage.sessions import Session, decode_name, encode_name

CONSUMERS: Final = "/consumers"
TRIES_MAX: Final = 50

_log: Any = get_logger()


class Consumers:
    """The consumers of all tables, through one session. Raises Unavailable, CorruptFile."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def of(self, table_uuid: str) -> TableConsumers | None:
        """Return a table's consumers, at least as new as this call; None where it has none."""
        try:
            data, _ = await self._session.sync_get(_path(table_uuid))
        except NotFound:
            return None
        return _decoded(data, table_uuid)

    async def all(self) -> list[TableConsumers]:
        """Return the consumers of all tables. Nodes that cannot be read are left out, and logged."""
        try:
            names = await self._session.children(CONSUMERS)
        except NotFound:
            return []
        found = []
        for name in names:
            try:
                table_uuid = decode_name(name)
                found.append(_decoded((await self._session.get(f"{CONSUMERS}/{name}"))[0], table_uuid))
            except NotFound:
                continue  # removed meanwhile
            except (InvalidInput, CorruptFile) as error:
                _log.warning("consumers.unreadable-node", node=name, error=str(error))
        return found

    async def put(self, table: str, table_uuid: str, consumer: Consumer) -> None:
        """Make a consumer, or replace it wherever it is. Raises InvalidInput where a table has too many."""

        def change(found: TableConsumers) -> TableConsumers:
            changed = found.with_consumer(consumer)
            if len(changed.consumers) > CONSUMERS_MAX:
                raise InvalidInput(f"table {table!r} has {CONSUMERS_MAX} consumers, as many as it may: remove one")
            return msgspec.structs.replace(changed, table=table)

        await self.change(table_uuid, change, table=table)

    async def advance(
        self, table_uuid: str, name: str, *, expected: int | None, to: int, snapshot_ms: int | None, now_ms: int
    ) -> Consumer:
        """Move a consumer from one snapshot to another, if it is still at the first. To repeat it is safe.

        Raises ConsumerMovedError where it is somewhere else, NotFound where there is no such consumer.
        """

        def change(found: TableConsumers) -> TableConsumers:
            consumer = found.find(name)
            if consumer is None:
                raise NotFound(f"table {found.table or table_uuid!r} has no consumer {name!r}")
            if consumer.snapshot_id not in {expected, to}:
                raise ConsumerMovedError(
                    f"consumer {name!r} is at snapshot {consumer.snapshot_id}, not at {expected}: another process has "
                    "advanced it, and what this one processed was processed twice unless it is taken back"
                )
            return found.with_consumer(consumer.advanced(to, snapshot_ms=snapshot_ms, now_ms=now_ms))

        changed = await self.change(table_uuid, change)
        advanced = changed.find(name)
        assert advanced is not None
        return advanced

    async def remove(self, table_uuid: str, name: str) -> bool:
        """Remove a consumer; False where there is none such."""
        removed = False

        def change(found: TableConsumers) -> TableConsumers:
            nonlocal removed
            removed = found.find(name) is not None
            return found.without(name)

        await self.change(table_uuid, change)
        return removed

    async def forget(self, table_uuid: str) -> None:
        """Remove all consumers of a table; nothing happens where it has none."""
        with contextlib.suppress(NotFound):
            await self._session.delete(_path(table_uuid))

    async def change(
        self, table_uuid: str, change: Callable[[TableConsumers], TableConsumers], *, table: str = ""
    ) -> TableConsumers:
        """Change a table's consumers, as they were read; what `change` raises changes nothing."""
        path = _path(table_uuid)
        for _ in range(TRIES_MAX):
            version: int | None = None
            found = TableConsumers(table=table, table_uuid=table_uuid)
            with contextlib.suppress(NotFound):
                data, stat = await self._session.sync_get(path)
                found, version = _decoded(data, table_uuid), stat.version
            changed = change(found)
            if changed == found:
                return found
            try:
                if await self._write(path, changed, version):
                    return changed
            except UnknownOutcome:
                if await self.of(table_uuid) == changed:
                    return changed  # its answer got lost
                raise
            await asyncio.sleep(random.uniform(0, 0.02))  # noqa: S311 - to keep out of each other's way
        raise Unavailable(f"the consumers of table {table_uuid} were changed by others {TRIES_MAX} times in a row")

    async def _write(self, path: str, changed: TableConsumers, version: int | None) -> bool:
        """Write a node that is at `version`, None: that is not there; False where it is otherwise."""
        data = msgspec.json.encode(changed)
        try:
            if version is None:
                await self._session.ensure_path(CONSUMERS)
                await self._session.create(path, data)
                return True
            if not changed.consumers:
                return await self._session.delete(path, version=version)
            return await self._session.set(path, data, version=version) is not None
        except (AlreadyExists, NotFound):
            return False


def _path(table_uuid: str) -> str:
    return f"{CONSUMERS}/{encode_name(table_uuid)}"


def _decoded(data: bytes, table_uuid: str) -> TableConsumers:
    where = _path(table_uuid)
    try:
        found = msgspec.json.decode(data, type=TableConsumers)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CorruptFile(where, f"no consumers can be read from it: {error}") from error
    if found.table_uuid != table_uuid:
        raise CorruptFile(where, f"holds the consumers of table {found.table_uuid}")
    return found
