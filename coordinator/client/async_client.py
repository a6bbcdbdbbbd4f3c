"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self, Unpack

from firn.coordinator.client import intents
from firn.coordinator.client.answers import Answer, committed
from firn.coordinator.client.delivery import Delivery, Waiting
from firn.coordinator.client.options import (
    RESUBMIT_AFTER_S,
    UNRESOLVED_MAX,
    BranchOptions,
    ClientOptions,
    FileOptions,
    IntentOptions,
    TableOptions,
)
from firn.coordinator.client.table_view import TableFinder, TableView
from firn.model.errors import Misconfigured
from firn.model.intent import ContentFile, Intent
from firn.model.outcome import Committed, Outcome
from firn.model.schema import Schema
from firn.storage.file_stores import open_files
from firn.storage.intent_streams import IntentStreams, StreamNames
from firn.storage.redis_streams import RedisStreams

DEFAULT_URL: Final = "redis://127.0.0.1:6379/0"


class AsyncTicket:
    """One submitted intent. It can be waited for as often as one likes, by anybody on the client's event loop."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting

    @property
    def intent_id(self) -> str:
        """Keep it to ask for the outcome later, or to submit the same intent from another process."""
        return self._waiting.intent_id

    @property
    def done(self) -> bool:
        """Whether `result` returns at once."""
        return self._waiting.answer.done()

    @property
    def attempts(self) -> int:
        """How often it has been submitted."""
        return self._waiting.attempts

    def when_done(self, tell: Callable[[Answer], None]) -> None:
        """Call `tell` on the event loop once `result` returns at once."""
        self._waiting.answer.add_done_callback(lambda answer: tell(answer.result()))

    async def result(self, timeout: float | None = None) -> Answer:
        """The outcome, waited for up to `timeout` seconds; `Unknown` after that, and the client goes on trying."""
        answer = self._waiting.answer
        done, _ = await asyncio.wait([answer], timeout=timeout)
        return answer.result() if done else self._waiting.unknown(f"no outcome within {timeout:g} s")

    async def committed(self, timeout: float | None = None) -> Committed:
        """As `result`, for those who expect a commit: raises `RejectedError` or `UnknownOutcome` otherwise."""
        return committed(await self.result(timeout))


class AsyncClient:
    """Submits intents to firn's daemons through Redis; one event loop, any number of tasks.

    Connects when first used. Use it with ``async with``, or `close` it.
    """

    def __init__(self, url: str = DEFAULT_URL, **options: Unpack[ClientOptions]) -> None:
        connect = options.get("connect")
        self._streams = _streams(url, prefix=options.get("prefix", "firn")) if connect is None else connect()
        self._delivery = Delivery(
            self._streams,
            resubmit_after_s=options.get("resubmit_after_s", RESUBMIT_AFTER_S),
            unresolved_max=options.get("unresolved_max", UNRESOLVED_MAX),
        )
        files = options.get("files")
        self._finder = TableFinder(
            self._streams,
            files=open_files({"file": {}}) if files is None else files,
            zookeeper=options.get("zookeeper"),
        )

    @property
    def unresolved(self) -> int:
        """Intents without an outcome."""
        return self._delivery.unresolved

    async def append(self, table: str, files: Iterable[ContentFile], **options: Unpack[FileOptions]) -> AsyncTicket:
        """Add data files (`data_files_from_parquet`). Never conflicts."""
        return await self.submit(intents.append(table, files, options))

    async def delete_files(
        self, table: str, files: Iterable[ContentFile | str], **options: Unpack[FileOptions]
    ) -> AsyncTicket:
        """Remove whole data files; rejected unless each of them is live."""
        return await self.submit(intents.delete_files(table, files, options))

    async def replace(
        self,
        table: str,
        *,
        removed: Iterable[ContentFile | str],
        added: Iterable[ContentFile],
        base_snapshot_id: int,
        **options: Unpack[BranchOptions],
    ) -> AsyncTicket:
        """Rewrite data files without changing rows; `base_snapshot_id` is the snapshot that was read."""
        return await self.submit(
            intents.replace(table, removed=removed, added=added, base_snapshot_id=base_snapshot_id, options=options)
        )

    async def create_table(
        self, table: str, schema: Schema | Mapping[str, Any], **options: Unpack[TableOptions]
    ) -> AsyncTicket:
        """Create a table; `schema` as a value or in its JSON form. Ids are assigned anew."""
        return await self.submit(intents.create_table(table, schema, options))

    async def drop_table(self, table: str, **options: Unpack[IntentOptions]) -> AsyncTicket:
        """Forget a table; its files stay."""
        return await self.submit(intents.drop_table(table, options))

    async def submit(self, intent: Intent) -> AsyncTicket:
        """Submit any intent; waits while too many have no outcome.

        Returns after the first attempt, even if Redis did not take it: the client goes on. Raises InvalidIntent when
        no daemon could answer it, Misconfigured when Redis does not let the client in, Unavailable after `close`.
        """
        return AsyncTicket(await self._delivery.submit(intent))

    async def outcome(self, intent_id: str) -> Outcome | None:
        """The outcome of any intent while Redis has it; None says nothing about whether it was committed."""
        return await self._delivery.outcome(intent_id)

    async def table(self, name: str) -> TableView:
        """The table as it is now, to make data files for. `NotFound` says what to do when Redis does not know it."""
        return await self._finder.find(name)

    async def close(self) -> None:
        """Stop; tickets without an outcome become `Unknown`. What was submitted may still be committed."""
        await self._delivery.close()
        await self._finder.close()
        await self._streams.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _streams(url: str, *, prefix: str) -> IntentStreams:
    try:
        return RedisStreams(url, names=StreamNames(prefix))
    except ValueError as error:
        raise Misconfigured(f"the URL of Redis: {error}") from error
