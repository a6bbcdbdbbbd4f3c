"""The threads of the lanes: for what blocks, on a store or on the processor.

A store may hang under some tables and be well under the others. So what hangs takes a thread away, and there are many,
but not the turn of another table: work that is at it for longer than `PATIENCE_S` is taken to wait for its store, and
does not count any more among those that may run at a time. The others stay few: threads that compute take turns on one
interpreter, with the event loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")

THREADS_MAX: Final = 256
"""Threads are made when they are needed: so many tables may hang before others wait for them."""

READING_MAX: Final = 16
COMPUTING_MAX: Final = 6
"""How many may read, and how many compute, as long as they do not hang."""

PATIENCE_S: Final = 1.0


class Run(Protocol):
    """`asyncio.to_thread`, or what does the same."""

    async def __call__(self, work: Callable[..., T], /, *arguments: Any, **named: Any) -> T: ...


class LaneThreads:
    """Runs the blocking work of all lanes of a daemon."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="firn-lanes")
        self._reading = asyncio.Semaphore(READING_MAX)
        self._computing = asyncio.Semaphore(COMPUTING_MAX)

    async def read(self, work: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
        """Run what reads from the store, or puts a file there, and computes little."""
        return await self._run(self._reading, partial(work, *arguments, **named))

    async def compute(self, work: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
        """Run what computes; it may have to read, too."""
        return await self._run(self._computing, partial(work, *arguments, **named))

    async def _run(self, turns: asyncio.Semaphore, work: Callable[[], T]) -> T:
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        task = asyncio.current_task()
        asked_by = "firn" if task is None else task.get_name()
        await turns.acquire()
        turn = _Turn(turns)
        try:
            running = loop.run_in_executor(self._threads, context.run, under_name, asked_by, work)
        except BaseException:
            turn.give_back()
            raise
        patience = loop.call_later(PATIENCE_S, turn.give_back)
        running.add_done_callback(lambda _: turn.give_back())
        running.add_done_callback(lambda _: patience.cancel())
        return await running


def under_name(name: str, work: Callable[[], T]) -> T:
    """Do the work in a thread that is called by whom it is for: whoever asks what hangs sees the table."""
    thread = threading.current_thread()
    before, thread.name = thread.name, name
    try:
        return work()
    finally:
        thread.name = before


class _Turn:
    """One of the turns, given back once."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns: asyncio.Semaphore | None = turns

    def give_back(self) -> None:
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.release()
