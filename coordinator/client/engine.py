"""The thread behind a client for threads: an event loop with an `AsyncClient` on it.

To submit takes two steps from thread to thread, there and back. What is hard work about it (checking and encoding the
intent) is done on the submitting thread, and many that submit at once wake the loop once.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, Final, TypeVar

from firn.coordinator.client.async_client import AsyncClient
from firn.coordinator.client.delivery import Waiting
from firn.coordinator.client.options import ClientOptions
from firn.model.errors import Unavailable
from firn.model.intent import Intent

CLOSE_TIMEOUT_S: Final = 5.0

_Result = TypeVar("_Result")


class Engine:
    """Starts its thread at once; `close` it."""

    def __init__(self, url: str, options: ClientOptions) -> None:
        # A selector without a kernel object: a forked child could otherwise take the parent's sockets off it.
        self._loop = asyncio.SelectorEventLoop(selectors.PollSelector())
        self._lock = threading.Lock()
        self._ended = False
        self._posted: list[_Posted] = []
        self._under_way: set[_Posted] = set()
        self._thread = threading.Thread(target=self._run, name="firn-client", daemon=True)
        self._thread.start()
        try:
            self._client = self._wait(_opened(url, options))
        except BaseException:
            self._end()
            raise

    def submit(self, intent: Intent) -> Waiting:
        """Submit an intent; what waits for its answer, a future of threads."""
        posted = _Posted(self._client.delivery.prepare(intent, Future()))
        with self._lock:
            self._check_running()
            self._posted.append(posted)
            if len(self._posted) == 1:
                self._loop.call_soon_threadsafe(self._take)
        try:
            return posted.result()
        except KeyboardInterrupt:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and with it all that was under way
                self._loop.call_soon_threadsafe(posted.give_up)
            raise

    def call(self, work: Callable[[AsyncClient], Coroutine[Any, Any, _Result]]) -> _Result:
        """Do something with the client; what it raises is raised here."""
        return self._wait(work(self._client))

    def close(self) -> None:
        """Close the client, and end the thread."""
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._client.close(), self._loop).result(CLOSE_TIMEOUT_S)
        self._end()

    # -- on any thread ---------------------------------------------------------------------------------------------

    def _check_running(self) -> None:
        if self._ended:
            raise Unavailable("the client is closed")

    def _wait(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        assert threading.current_thread() is not self._thread
        with self._lock:
            try:
                self._check_running()
            except Unavailable:
                work.close()
                raise
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise Unavailable("the client was closed meanwhile") from None
        except BaseException:
            future.cancel()  # KeyboardInterrupt: nobody waits for it any more
            raise

    def _end(self) -> None:
        with self._lock:
            if self._ended:
                return
            self._ended = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_TIMEOUT_S)

    # -- on the loop's thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            for posted in self._under_way:
                posted.fail(Unavailable("the client was closed meanwhile"))
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def _take(self) -> None:
        with self._lock:
            taken, self._posted = self._posted, []
        for posted in taken:
            self._under_way.add(posted)
            posted.task = self._loop.create_task(self._submit(posted))

    async def _submit(self, posted: _Posted) -> None:
        try:
            posted.succeed(await self._client.delivery.submit(posted.waiting))
        except Exception as error:  # noqa: BLE001 - raised where it was submitted
            posted.fail(error)
        # What is cancelled stays: `_run` tells those who wait.
        self._under_way.discard(posted)


class _Posted:
    """An intent on its way to the loop's thread, until its first attempt was made."""

    def __init__(self, waiting: Waiting) -> None:
        self.waiting = waiting
        self.task: asyncio.Task[None] | None = None
        self._error: Exception | None = None
        self._told = threading.Lock()  # as an event, at a fifth of its price
        self._told.acquire()

    def result(self) -> Waiting:
        """What stands for the intent, once it was sent."""
        self._told.acquire()
        if self._error is not None:
            raise self._error
        return self.waiting

    def succeed(self, found: Waiting) -> None:
        self.waiting = found
        self._told.release()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._told.release()

    def give_up(self) -> None:
        """Nobody waits for it any more."""
        if self.task is not None:
            self.task.cancel()


async def _opened(url: str, options: ClientOptions) -> AsyncClient:
    return AsyncClient(url, **options)
