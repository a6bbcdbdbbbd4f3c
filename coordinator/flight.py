"""A commit in flight: a batch that is prepared, whose files are being written and whose swap waits for its turn.

Meanwhile the next batch is prepared on what this one will have made of the table. Swaps are made one after the other:
a batch whose predecessor did not come off is void, and is settled anew. See docs/decisions/0009-speed.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from firn.coordinator.commit import Prepared
from firn.coordinator.pending import Pending
from firn.coordinator.table_state import TableState
from firn.model.journal import Retried

IN_FLIGHT_MAX = 2
"""One that is swapped in, and one whose files are written meanwhile."""


class Flight:
    """One batch on its way."""

    def __init__(self, *, batch: list[Pending], batch_id: str, prepared: Prepared) -> None:
        self.batch = batch
        self.batch_id = batch_id
        self.prepared = prepared
        self.retried: list[Retried] = []
        """Why it did not come off, if the swap was tried."""
        self.written = False
        """Whether its files have been written, or could not be."""
        self._landing: asyncio.Task[bool] | None = None
        self._on_change: Callable[[], None] = _nothing
        self._log = structlog.get_logger()

    def begin(self, work: Coroutine[Any, Any, bool]) -> None:
        """Let it fly: `work` says in the end whether the batch was committed."""
        self._landing = asyncio.create_task(work, name="flight")

    def watch(self, on_change: Callable[[], None]) -> None:
        """Have `on_change` called when the files are written, and when it is down."""
        assert self._landing is not None
        self._on_change = on_change
        self._landing.add_done_callback(lambda _: on_change())

    def files_are_written(self) -> None:
        """What comes behind may be prepared now."""
        self.written = True
        self._on_change()

    @property
    def is_down(self) -> bool:
        """Whether it has ended, one way or the other."""
        assert self._landing is not None
        return self._landing.done()

    async def landed(self) -> bool:
        """Wait for its end: whether the batch was committed. What went wrong is logged here, and tried anew."""
        assert self._landing is not None
        await asyncio.wait([self._landing])
        if self._landing.cancelled():
            return False
        error = self._landing.exception()
        if error is None:
            return self._landing.result()
        self._log.warning("flight void", reason=str(error), kind=type(error).__name__, intents=len(self.batch))
        return False

    def abandon(self) -> None:
        """Nobody waits for it any more; whether its swap takes place is for the journal to say."""
        if self._landing is not None:
            self._landing.cancel()


def can_be_foreseen(state: TableState) -> bool:
    """Whether it is known beforehand what a swap makes of the pointer: a table in the metastore, moved by nobody else.

    A file-system table is moved by putting a file, and others may put it first at any time.
    """
    pointer = state.pointer
    return pointer is not None and pointer.catalog == "metastore" and not pointer.dropped and state.version is not None


def _nothing() -> None:
    return
