"""A calculator for tests: the process is real."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from firn.coordinator.calculating.calculator import Calculator
from firn.coordinator.intake.read_appends import Rules
from firn.model.limits import Limits

REPLIES = "firn:replies:"


@asynccontextmanager
async def calculator(*, limits: Limits | None = None, ready: bool = True) -> AsyncIterator[Any]:
    """One that has been started, unless it need not be `ready`."""
    process = Calculator(Rules(limits or Limits(), REPLIES))
    try:
        if ready:
            await becomes_ready(process)
        yield process
    finally:
        await process.close()


async def becomes_ready(process: Calculator) -> None:
    """Wait for it."""
    await until(process.is_ready)


async def until(is_so: Callable[[], object]) -> None:
    """Wait for another process's doing."""
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - another process's
            await asyncio.sleep(0.01)


def exists(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
