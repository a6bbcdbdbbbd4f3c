"""A daemon on twins whose servers and files fail when they are told to, and that can be held up to gather a batch."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final, Literal, get_args

from firn.coordinator.daemon import Daemon
from firn.model.errors import Unavailable, UnknownOutcome
from firn.model.intent import Intent
from firn.model.journal import Segment
from firn.model.outcome import Outcome
from firn.storage.journal import JournalFiles
from firn.storage.memory_files import MemoryFiles
from firn.storage.pointers import Pointers
from tests.unit.coordinator.workbench import TABLE, Workbench

HELD_S: Final = 20.0

Fault = Literal[
    "none", "write-fails", "write-half", "write-unanswered", "swap-lost", "swap-unanswered", "session-ends",
    "redis-lost", "restart",
]  # fmt: skip
FAULTS: Final[tuple[Fault, ...]] = get_args(Fault)


class FaultyFiles(MemoryFiles):
    """Files that writers write as they like, and whose commits can be held up or made to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.fault: Fault = "none"

    def create_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        self.entered.set()
        assert self.gate.wait(HELD_S)
        fault, self.fault = self.fault, "none"
        if fault == "write-fails":
            raise Unavailable("the disk does not answer (injected)")
        super().create_all(files[: len(files) // 2] if fault == "write-half" else files)
        if fault == "write-half":
            raise Unavailable("the disk went away (injected)")
        if fault == "write-unanswered":
            raise UnknownOutcome("no reply (injected)")


class FaultyBench(Workbench):
    """One daemon after the other."""

    def __init__(self) -> None:
        self.faulty = FaultyFiles()
        super().__init__(files=self.faulty)
        self._stack = AsyncExitStack()
        self._daemon: Daemon | None = None
        self._started = 0
        self._seen: str | None = None

    async def start(self) -> None:
        """A daemon under a name that none had before."""
        self._started += 1
        self._daemon = await self._stack.enter_async_context(self.daemon(f"d{self._started}"))

    async def stop(self) -> None:
        """The daemon ends."""
        self.faulty.gate.set()
        await self._stack.aclose()

    async def decide(self, intents: Sequence[Intent], fault: Fault, *, again: Sequence[Intent] = ()) -> list[Outcome]:
        """Queue intents, the first to go alone and the others in one batch behind it, under a fault.

        Those in `again` were decided before; the outcomes of all are returned in order.
        """
        if fault == "restart":
            await self.stop()
            self._stack = AsyncExitStack()
            await self.start()
        elif fault == "redis-lost":
            self.redis.flush_all()
        assert self._daemon is not None
        self.faulty.entered.clear()
        self.faulty.gate.clear()
        await self.send(intents[0])
        assert await asyncio.to_thread(self.faulty.entered.wait, HELD_S)
        await self.send(*intents[1:], *again)
        async with asyncio.timeout(HELD_S):
            while self._daemon.lanes.depths.get(TABLE, 0) < len(intents) - 1:  # noqa: ASYNC110 - lanes tell nobody
                await asyncio.sleep(0.001)
        session = self.sessions[f"d{self._started}"]
        if fault in {"write-fails", "write-half", "write-unanswered"}:
            self.faulty.fault = fault
        elif fault == "session-ends":
            self.zookeeper.expire(session)
        elif fault in {"swap-lost", "swap-unanswered"}:
            session.drop_next_write("before" if fault == "swap-lost" else "after")
        self.faulty.gate.set()
        return [await self.outcome(intent, timeout_s=HELD_S) for intent in (*intents, *again)]

    async def news(self) -> list[Segment]:
        """The segments of the journal since the last time, oldest first."""
        versioned = await Pointers(self.zookeeper.connect()).read(TABLE)
        files = JournalFiles(self.files, bytes_max=self.limits.journal_bytes_max)
        head = versioned.pointer.journal_head
        found = list(files.walk(head, until=self._seen))[::-1]
        self._seen = head
        return found
