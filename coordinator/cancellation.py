"""Cancelling tasks for good: a cancellation can get lost.

Before Python 3.12 `asyncio.wait_for`, in which redis-py sends if it has a time limit of its own, loses one that comes
as what it waits for is done. Whoever then waits for a loop to end waits for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, Final

AGAIN_S: Final = 1.0
"""What a task cleans up with may take so long before it is cancelled again."""


async def cancel_all(tasks: Collection[asyncio.Future[Any]], *, again_s: float = AGAIN_S) -> None:
    """Cancel tasks until all have ended, whatever ended them."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=again_s)
    await asyncio.gather(*tasks, return_exceptions=True)
