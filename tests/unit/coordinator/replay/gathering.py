"""Intents that are certain to be in one batch: they gather behind another that is held up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from firn.coordinator.daemon import Daemon
from firn.model.intent import Intent
from firn.model.limits import Limits
from firn.model.outcome import Outcome
from firn.storage.memory_files import MemoryFiles
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, Workbench, append

HELD_S = 10.0


class GatedFiles(MemoryFiles):
    """Files whose writing can be held up."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def create_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        self.entered.set()
        assert self.gate.wait(HELD_S)
        super().create_all(files)


class Gathering(Workbench):
    """A workbench that can hold a lane up until intents have gathered."""

    def __init__(self, *, limits: Limits | None = None, warehouse: str = WAREHOUSE) -> None:
        self.gated = GatedFiles()
        super().__init__(files=self.gated, limits=limits, warehouse=warehouse)

    async def gathered(self, daemon: Daemon, *intents: Intent, blocker: str = "blocker") -> list[Outcome]:
        """The outcomes of intents that were all queued before the first of them was taken up."""
        self.gated.entered.clear()
        self.gated.gate.clear()
        first = append(blocker)
        await self.send(first)
        assert await asyncio.to_thread(self.gated.entered.wait, HELD_S)
        await self.send(*intents)
        async with asyncio.timeout(HELD_S):
            while daemon.lanes.depths.get(TABLE, 0) < len(intents):  # noqa: ASYNC110 - lanes tell nobody
                await asyncio.sleep(0.005)
        self.gated.gate.set()
        await self.outcome(first)
        return [await self.outcome(intent) for intent in intents]
