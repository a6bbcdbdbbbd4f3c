"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from firn.coordinator.client.address import addressed
from firn.coordinator.client.answers import Answer, committed
from firn.coordinator.client.consumers import AsyncConsumers
from firn.coordinator.client.delivery import Delivery, Waiting
from firn.coordinator.client.kept_bases import AsyncKeptBase
from firn.coordinator.client.operations import Operations
from firn.coordinator.client.options import RESUBMIT_AFTER_S, UNRESOLVED_MAX, ClientOptions
from firn.coordinator.client.reservations import AsyncReservation, ReservationOptions, reservation_of
from firn.coordinator.client.table_view import Naming, TableFinder, TableView
from firn.coordinator.client.view_found import ViewFound
from firn.coordinator.outcomes.reservations import Board, Reservations
from firn.coordinator.redis_address import naming_redis
from firn.model.errors import Misconfigured
from firn.model.extras import import_with_extra
from firn.model.intent import Intent
from firn.model.outcome import Committed, Outcome
from firn.model.snapshot import MAIN_BRANCH
from firn.storage.file_stores import open_files
from firn.storage.intent_streams import IntentStreams, StreamNames
from firn.storage.redis_streams import RedisStreams

if TYPE_CHECKING:
    from firn.coordinator.insight.forecast import Forecast


class AsyncTicket:
    """One submitted intent. It can be waited for as often as one likes, by anybody on the client's event loop."""

    def __init__(self, waiting: Waiting) -> None:
        assert isinstance(waiting.answer, asyncio.Future)
        self._waiting = waiting
        self._answer: asyncio.Future[Answer] = waiting.answer

    @property
    def intent_id(self) -> str:
        """Keep it to ask for the outcome later, or to submit the same intent from another process."""
        return self._waiting.intent_id

    @property
    def done(self) -> bool:
        """Whether `result` returns at once."""
        return self._answer.done()

    @property
    def attempts(self) -> int:
        """How often it has been submitted."""
        return self._waiting.attempts

    async def result(self, timeout: float | None = None) -> Answer:
        """The outcome, waited for up to `timeout` seconds; `Unknown` after that, and the client goes on trying."""
        if not self._answer.done():
            await asyncio.wait([self._answer], timeout=timeout)
        return (
            self._answer.result() if self._answer.done() else self._waiting.unknown(f"no outcome within {timeout:g} s")
        )

    def add_done_callback(self, callback: Callable[[AsyncTicket], object]) -> None:
        """Have `callback` called with this ticket, by the event loop, when `result` would return at once.

        What it raises goes to the loop's exception handler.
        """
        self._answer.add_done_callback(lambda _: callback(self))

    async def committed(self, timeout: float | None = None) -> Committed:
        """As `result`, for those who expect a commit: raises `RejectedError` or `UnknownOutcome` otherwise."""
        return committed(await self.result(timeout))


class AsyncClient(Operations[Coroutine[Any, Any, AsyncTicket]]):
    """Submits intents to firn's daemons through Redis; one event loop (Misconfigured on another), any number of tasks.

    Each operation is a method (`firn.coordinator.client.operations`) that is awaited for its ticket. `url` None: where
    `firn.coordinator.client.address` says. Connects when first used. Use it with ``async with``, or `close` it.
    """

    def __init__(self, url: str | None = None, **options: Unpack[ClientOptions]) -> None:
        url, options = addressed(url, options)
        connect = options.get("connect")
        naming: Naming = partial(naming_redis, url) if connect is None else nullcontext
        self._streams = _streams(url, prefix=options.get("prefix", "firn")) if connect is None else connect()
        self._delivery = Delivery(
            self._streams,
            resubmit_after_s=options.get("resubmit_after_s", RESUBMIT_AFTER_S),
            unresolved_max=options.get("unresolved_max", UNRESOLVED_MAX),
        )
        self._reservations = Reservations(self._streams)
        files = options.get("files")
        self._files = open_files({"file": {}}) if files is None else files
        self._finder = TableFinder(
            self._streams,
            files=self._files,
            zookeeper=options.get("zookeeper"),
            naming=naming,
        )
        self._naming = naming

    @property
    def delivery(self) -> Delivery:
        """What submits, for a client that is built upon this one."""
        return self._delivery

    @property
    def unresolved(self) -> int:
        """Intents without an outcome."""
        return self._delivery.unresolved

    async def submit(self, intent: Intent) -> AsyncTicket:
        """Submit any intent; waits while too many have no outcome.

        Returns after the first attempt, even if Redis did not take it: the client goes on. Raises InvalidIntent when
        no daemon could answer it, Misconfigured when Redis does not let the client in, Unavailable after `close`.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        return AsyncTicket(await self._delivery.submit(self._delivery.prepare(intent, answer)))

    async def dry_run(self, *intents: Intent) -> list[Forecast]:
        """What would become of intents now, and why; nothing is submitted. `Intents` makes them without submitting.

        Those of one table are judged as if committed in this order. Intents that others submit before yours may change
        the answer: `Forecast.waiting` counts those in the queue. Reads the table's metadata and manifests. NotFound
        says what to do when Redis does not know a table.
        """
        self._delivery.home.check()
        # By its name and not before: replay is nothing that every writer loads.
        dry_runs = import_with_extra("firn.coordinator.insight.dry_runs", what="a dry run", extra="server")
        runs = dry_runs.DryRuns(streams=self._streams, files=self._files, pointers=await self._finder.pointers())
        forecasts: list[Forecast] = await runs.of(intents)
        return forecasts

    async def outcome(self, intent_id: str) -> Outcome | None:
        """The outcome of any intent while Redis has it; None says nothing about whether it was committed."""
        self._delivery.home.check()
        return await self._delivery.outcome(intent_id)

    async def table(self, name: str) -> TableView:
        """The table as it is now, to make data files for. `NotFound` says what to do when Redis does not know it."""
        self._delivery.home.check()
        return await self._finder.find(name)

    async def view(self, name: str) -> ViewFound:
        """The view as it is now, to change it; raises as `table` does."""
        self._delivery.home.check()
        return await self._finder.find_view(name)

    def begin(self, table: str, **options: Unpack[ReservationOptions]) -> AsyncReservation:
        """Early notice of work on a table, which refuses nobody's commit: ``async with client.begin(…) as mine``."""
        return reservation_of(self._reservations, table, options)

    def keeping(
        self, table: str, base_snapshot_id: int | None, *, branch: str = MAIN_BRANCH, purpose: str = ""
    ) -> AsyncKeptBase:
        """Keep a snapshot and its files from expiry: ``async with client.keeping(…)``. Fails for no reason of firn's.

        None, the head of an empty branch, is nothing to keep.
        """
        return AsyncKeptBase(self._reservations, table, base_snapshot_id, branch=branch, purpose=purpose)

    @asynccontextmanager
    async def planning(self, table: str, *, branch: str = MAIN_BRANCH, purpose: str = "") -> AsyncIterator[TableView]:
        """The table as it is now, to plan work on the head of a branch, which is kept until the work is done."""
        view = await self.table(table)
        head = view.metadata.head(branch)
        async with self.keeping(table, None if head is None else head.snapshot_id, branch=branch, purpose=purpose):
            yield view

    async def reserved(self, table: str) -> Board:
        """Who is at work on a table, and what has disturbed them."""
        self._delivery.home.check()
        async with self._naming():
            return await self._reservations.of(table)

    @property
    def consumers(self) -> AsyncConsumers:
        """The named consumers of tables' changes, which are kept in ZooKeeper."""
        self._delivery.home.check()
        return AsyncConsumers(self._finder.consumers, self._finder.latest)

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
