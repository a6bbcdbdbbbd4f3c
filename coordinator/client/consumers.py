"""Named consumers of a table's changes, for programs that read them: where each is, and how it moves on."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from firn.model.consumer import HOLD_DAYS_DEFAULT, Consumer, ConsumerStatus, TableConsumers, status_of
from firn.model.errors import ChangesUnavailableError, InvalidInput, NotFound
from firn.model.snapshot import MAIN_BRANCH
from firn.storage.consumers import Consumers

if TYPE_CHECKING:  # a program that names none does without ZooKeeper's client
    from firn.coordinator.client.table_view import TableView

Look = Callable[[str], Awaitable["TableView"]]
"""A table as it is now, by its name. Raises NotFound, Unavailable."""

_Result = TypeVar("_Result")


class AsyncConsumers:
    """The consumers of tables. Every method raises NotFound for a table that is not there, and Unavailable.

    `connected` gives the store of consumers; `look` a table.
    """

    def __init__(self, connected: Callable[[], Awaitable[Consumers]], look: Look) -> None:
        self._connected = connected
        self._look = look

    async def of(self, table: str) -> list[ConsumerStatus]:
        """All consumers of a table, by name."""
        consumers, view = await self._connected(), await self._look(table)
        metadata = view.metadata
        found = await consumers.of(metadata.table_uuid)
        return [status_of(one, metadata, now_ms=_now_ms()) for one in (() if found is None else found.consumers)]

    async def get(self, table: str, name: str) -> ConsumerStatus:
        """One consumer. Raises NotFound, and ChangesUnavailableError where it is of an earlier table of that name."""
        return (await self.look_at(table, name))[0]

    async def look_at(self, table: str, name: str) -> tuple[ConsumerStatus, TableView]:
        """One consumer as `get` returns it, and the table that it was compared with."""
        consumers, view = await self._connected(), await self._look(table)
        consumer = await _required(consumers, view.uuid, table, name)
        return status_of(consumer, view.metadata, now_ms=_now_ms()), view

    async def set(
        self,
        table: str,
        name: str,
        *,
        snapshot_id: int | None = None,
        branch: str = MAIN_BRANCH,
        hold_days: float = HOLD_DAYS_DEFAULT,
    ) -> Consumer:
        """Make a consumer that has seen everything up to a snapshot, or put it there wherever it is.

        Without `snapshot_id`: up to the head of `branch`. Expiry waits for it until `hold_days` (at most 30) after it
        last moved. Raises ChangesUnavailableError for a snapshot that is not in the branch's history.
        """
        consumers, view = await self._connected(), await self._look(table)
        metadata = view.metadata
        if metadata.head(branch) is None and (branch != MAIN_BRANCH or snapshot_id is not None):
            raise NotFound(f"table {table!r} has no branch {branch!r} with a snapshot")
        head = metadata.head(branch)
        seen_id = snapshot_id if snapshot_id is not None or head is None else head.snapshot_id
        seen = None if seen_id is None else metadata.snapshot_by_id(seen_id)
        members: dict[str, Any] = {
            "name": name, "branch": branch, "snapshot-id": seen_id, "hold-days": float(hold_days),
            "snapshot-ms": None if seen is None else seen.timestamp_ms, "updated-ms": _now_ms(),
        }  # fmt: skip
        try:
            consumer = msgspec.convert(members, Consumer)
        except msgspec.ValidationError as error:
            raise InvalidInput(str(error), where=f"consumer {name!r}") from error
        if status_of(consumer, metadata, now_ms=consumer.updated_ms).state == "lost":
            raise ChangesUnavailableError(
                f"snapshot {snapshot_id} is not in the known history of branch {branch!r}",
                reason="base-expired",
                where="snapshot-id",
                hint="set the consumer anew, and read the whole table as of its snapshot",
            )
        await consumers.put(table, metadata.table_uuid, consumer)
        return consumer

    async def advance(self, table: str, name: str, *, expected: int | None, to: int) -> Consumer:
        """Move a consumer on, after what it has read up to the snapshot `to` was processed for good.

        `expected` is where it was when it read (None: at the beginning). Safe to repeat. Raises ConsumerMovedError
        when it is somewhere else: another process has read the same. Raises NotFound when there is no such consumer,
        ChangesUnavailableError where it is of an earlier table of that name, or `to` is not on its branch.
        """
        consumers, view = await self._connected(), await self._look(table)
        metadata = view.metadata
        consumer = await _required(consumers, metadata.table_uuid, table, name)
        snapshot = metadata.snapshot_by_id(to)
        snapshot_ms = None if snapshot is None else snapshot.timestamp_ms
        moved = consumer.advanced(to, snapshot_ms=snapshot_ms, now_ms=_now_ms())
        if status_of(moved, metadata, now_ms=moved.updated_ms).state == "lost":
            raise ChangesUnavailableError(
                f"snapshot {to} is not in the known history of branch {consumer.branch!r} of {table!r}",
                reason="history-rewritten",
                where="to",
                hint="set the consumer anew, and read the whole table as of its snapshot",
            )
        return await consumers.advance(
            metadata.table_uuid, name, expected=expected, to=to, snapshot_ms=snapshot_ms, now_ms=moved.updated_ms
        )

    async def remove(self, table: str, name: str) -> bool:
        """Remove a consumer, also one of an earlier table of that name; False where there is none such."""
        consumers = await self._connected()
        removed = False
        for one in await consumers.all():
            if one.find(name) is not None and await self._is_of(one, table):
                removed |= await consumers.remove(one.table_uuid, name)
        return removed

    async def _is_of(self, found: TableConsumers, table: str) -> bool:
        if found.table == table:
            return True
        try:
            return (await self._look(table)).uuid == found.table_uuid  # it was renamed
        except NotFound:
            return False


class SyncConsumers:
    """As `AsyncConsumers`, for code without an event loop. `on_loop` runs work with the client's own."""

    def __init__(self, on_loop: Callable[[Callable[[AsyncConsumers], Coroutine[Any, Any, Any]]], Any]) -> None:
        self._on_loop = on_loop

    def of(self, table: str) -> list[ConsumerStatus]:
        """All consumers of a table, by name."""
        return self._call(lambda found: found.of(table))

    def get(self, table: str, name: str) -> ConsumerStatus:
        """One consumer; raises as `AsyncConsumers.get`."""
        return self._call(lambda found: found.get(table, name))

    def look_at(self, table: str, name: str) -> tuple[ConsumerStatus, TableView]:
        """One consumer, and the table that it was compared with; raises as `AsyncConsumers.get`."""
        return self._call(lambda found: found.look_at(table, name))

    def set(
        self,
        table: str,
        name: str,
        *,
        snapshot_id: int | None = None,
        branch: str = MAIN_BRANCH,
        hold_days: float = HOLD_DAYS_DEFAULT,
    ) -> Consumer:
        """Make a consumer, or put it somewhere; as `AsyncConsumers.set`."""
        options: dict[str, Any] = {"snapshot_id": snapshot_id, "branch": branch, "hold_days": hold_days}
        return self._call(lambda found: found.set(table, name, **options))

    def advance(self, table: str, name: str, *, expected: int | None, to: int) -> Consumer:
        """Move a consumer on; as `AsyncConsumers.advance`."""
        return self._call(lambda found: found.advance(table, name, expected=expected, to=to))

    def remove(self, table: str, name: str) -> bool:
        """Remove a consumer; False where there is none such."""
        return self._call(lambda found: found.remove(table, name))

    def _call(self, work: Callable[[AsyncConsumers], Coroutine[Any, Any, _Result]]) -> _Result:
        result: _Result = self._on_loop(work)
        return result


async def _required(consumers: Consumers, table_uuid: str, table: str, name: str) -> Consumer:
    found = await consumers.of(table_uuid)
    consumer = None if found is None else found.find(name)
    if consumer is not None:
        return consumer
    for other in await consumers.all():
        if other.table == table and other.table_uuid != table_uuid and other.find(name) is not None:
            raise ChangesUnavailableError(
                f"consumer {name!r} has read the table {other.table_uuid}, and {table!r} is now {table_uuid}: it was "
                "made anew",
                reason="table-replaced",
                hint="set the consumer anew, and read the whole table as of its snapshot",
            )
    raise NotFound(f"table {table!r} has no consumer {name!r} (firn consumer set makes one)")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
