"""The client for code without an event loop: threads, and processes however they are started."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from firn.coordinator.client.address import addressed
from firn.coordinator.client.answers import Answer, committed
from firn.coordinator.client.async_client import AsyncClient
from firn.coordinator.client.consumers import AsyncConsumers, SyncConsumers
from firn.coordinator.client.delivery import Waiting
from firn.coordinator.client.engine import Engine
from firn.coordinator.client.kept_bases import AsyncKeptBase
from firn.coordinator.client.operations import Operations
from firn.coordinator.client.options import ClientOptions
from firn.coordinator.client.reservations import AsyncReservation, ReservationOptions, SyncReservation
from firn.coordinator.client.table_view import TableView
from firn.coordinator.client.view_found import ViewFound
from firn.coordinator.outcomes.reservations import Board
from firn.model.errors import Unavailable
from firn.model.intent import Intent
from firn.model.outcome import Committed, Outcome
from firn.model.snapshot import MAIN_BRANCH

if TYPE_CHECKING:
    from firn.coordinator.insight.forecast import Forecast


class Ticket:
    """One submitted intent. Any thread of the process that submitted it can wait for it, as often as it likes."""

    def __init__(self, waiting: Waiting) -> None:
        assert isinstance(waiting.answer, Future)
        self._waiting = waiting
        self._answer: Future[Answer] = waiting.answer
        self._process = os.getpid()

    @property
    def intent_id(self) -> str:
        """Keep it to ask for the outcome later, or to submit the same intent from another process."""
        return self._waiting.intent_id

    @property
    def done(self) -> bool:
        """Whether `result` returns at once."""
        return self._answer.done()

    def result(self, timeout: float | None = None) -> Answer:
        """The outcome, waited for up to `timeout` seconds; `Unknown` after that, and the client goes on trying.

        `Unknown` at once in a process forked from the one that submitted: ask `Client.outcome`.
        """
        if not self._answer.done() and os.getpid() != self._process:
            return self._waiting.unknown("another process submitted it")
        try:
            return self._answer.result(timeout)
        except TimeoutError:
            return self._waiting.unknown(f"no outcome within {timeout:g} s")

    def add_done_callback(self, callback: Callable[[Ticket], object]) -> None:
        """Have `callback` called with this ticket when `result` would return at once; now, if it would.

        It runs in a thread of the client's, which tells all others of their outcomes only after it: do little, and wait
        for nothing. What it raises goes to the log of ``concurrent.futures``. Never called in a forked child.
        """
        self._answer.add_done_callback(lambda _: callback(self))

    def committed(self, timeout: float | None = None) -> Committed:
        """As `result`, for those who expect a commit: raises `RejectedError` or `UnknownOutcome` otherwise."""
        return committed(self.result(timeout))


class Client(Operations[Ticket]):
    """Submits intents to firn's daemons through Redis, for code without an event loop.

    Each operation is a method (`firn.coordinator.client.operations`) that returns its ticket.

    Any number of threads may share one; they share one background thread. A forked child gets its own connection when
    it first uses the client, and a pickled client connects anew where it is unpickled, to the same address. `url` None:
    where `firn.coordinator.client.address` says. Connects when first used. Use it with ``with``, or `close` it.
    """

    def __init__(self, url: str | None = None, **options: Unpack[ClientOptions]) -> None:
        self._url, self._options = addressed(url, options)
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._closed = False
        _clients.add(self)

    def submit(self, intent: Intent) -> Ticket:
        """Submit any intent; waits while too many have no outcome.

        Returns after the first attempt, even if Redis did not take it: the client goes on. Raises InvalidIntent when
        no daemon could answer it, Misconfigured when Redis does not let the client in, Unavailable after `close`.
        """
        return Ticket(self._running().submit(intent))

    def dry_run(self, *intents: Intent) -> list[Forecast]:
        """What would become of intents now, and why; nothing is submitted. As `AsyncClient.dry_run`."""
        return self._running().call(lambda client: client.dry_run(*intents))

    def outcome(self, intent_id: str) -> Outcome | None:
        """The outcome of any intent while Redis has it; None says nothing about whether it was committed."""
        return self._running().call(lambda client: client.outcome(intent_id))

    def table(self, name: str) -> TableView:
        """The table as it is now, to make data files for. `NotFound` says what to do when Redis does not know it."""
        return self._running().call(lambda client: client.table(name))

    def view(self, name: str) -> ViewFound:
        """The view as it is now, to change it; raises as `table` does."""
        return self._running().call(lambda client: client.view(name))

    def begin(self, table: str, **options: Unpack[ReservationOptions]) -> SyncReservation:
        """Early notice of work on a table, which refuses nobody's commit: ``with client.begin(…) as mine``."""
        made: list[AsyncReservation] = []

        async def work(client: AsyncClient, do: Callable[[AsyncReservation], Coroutine[Any, Any, Any]]) -> Any:
            if not made:
                made.append(client.begin(table, **options))
            return await do(made[0])

        return SyncReservation(lambda do: self._running().call(lambda client: work(client, do)))

    @contextmanager
    def keeping(
        self, table: str, base_snapshot_id: int | None, *, branch: str = MAIN_BRANCH, purpose: str = ""
    ) -> Iterator[None]:
        """Keep a snapshot and its files from expiry: ``with client.keeping(…)``. Fails for no reason of firn's.

        None, the head of an empty branch, is nothing to keep.
        """

        async def enter(client: AsyncClient) -> AsyncKeptBase:
            return await client.keeping(table, base_snapshot_id, branch=branch, purpose=purpose).__aenter__()

        kept = self._running().call(enter)
        try:
            yield
        finally:
            self._running().call(lambda _: kept.__aexit__(None, None, None))

    @contextmanager
    def planning(self, table: str, *, branch: str = MAIN_BRANCH, purpose: str = "") -> Iterator[TableView]:
        """The table as it is now, to plan work on the head of a branch, which is kept until the work is done."""
        view = self.table(table)
        head = view.metadata.head(branch)
        with self.keeping(table, None if head is None else head.snapshot_id, branch=branch, purpose=purpose):
            yield view

    def reserved(self, table: str) -> Board:
        """Who is at work on a table, and what has disturbed them."""
        return self._running().call(lambda client: client.reserved(table))

    @property
    def consumers(self) -> SyncConsumers:
        """The named consumers of tables' changes, which are kept in ZooKeeper."""

        async def work(client: AsyncClient, do: Callable[[AsyncConsumers], Coroutine[Any, Any, Any]]) -> Any:
            return await do(client.consumers)

        return SyncConsumers(lambda do: self._running().call(lambda client: work(client, do)))

    def close(self) -> None:
        """Stop; tickets without an outcome become `Unknown`. What was submitted may still be committed."""
        with self._lock:
            self._closed = True
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _connected, (self._url, self._options)

    def _running(self) -> Engine:
        with self._lock:
            if self._closed:
                raise Unavailable("the client is closed")
            if self._engine is None:
                self._engine = Engine(self._url, self._options)
            return self._engine

    def forget_parent(self) -> None:
        """In a forked child: the thread, its loop and its connections are the parent's.

        They are kept, because to clean them up would reach into the parent's connections; they are never used.
        """
        self._lock = threading.Lock()
        if self._engine is not None:
            _parents.append(self._engine)
            self._engine = None


def _connected(url: str, options: ClientOptions) -> Client:
    return Client(url, **options)


_clients: Final[weakref.WeakSet[Client]] = weakref.WeakSet()
_parents: Final[list[Engine]] = []


def _after_fork() -> None:
    for client in list(_clients):
        client.forget_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
