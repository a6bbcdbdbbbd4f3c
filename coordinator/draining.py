"""Waiting for work to end that may never: for so long, or until somebody is in a hurry; and saying what holds it up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from firn.coordinator.cancellation import cancel_all
from firn.coordinator.lanes.lanes import Lanes, lane_name
from firn.coordinator.outcomes.publish import Publisher
from firn.coordinator.thread_calls import calls_under_way
from firn.storage.log import get_logger

SAY_AFTER_S: Final = 3.0
"""Who waits longer says what for."""

_log: Any = get_logger()


async def ends_in_time(
    work: Coroutine[Any, Any, None], *, within_s: float, hurried: asyncio.Event, say: Callable[[], None]
) -> bool:
    """Whether the work ends within that time and before somebody is in a hurry; if not, it is cancelled.

    `say` is called once when it takes a while. Raises what the work raises.
    """
    working, hurry = asyncio.create_task(work), asyncio.create_task(hurried.wait())
    saying = asyncio.get_running_loop().call_later(SAY_AFTER_S, say)
    try:
        await asyncio.wait({working, hurry}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            return False
        working.result()
        return True
    finally:
        saying.cancel()
        await cancel_all([working, hurry])


def say_what_is_under_way(message: str, *, lanes: Lanes, publisher: Publisher, **more: str) -> None:
    """One line of the log for each batch without an outcome, and for each call of a store that has not returned."""
    calls = calls_under_way()
    for batch in lanes.at_work():
        of_batch = next((call for call in calls if call.thread == lane_name(batch.table)), None)
        said: dict[str, Any] = {"stage": batch.stage, "seconds": round(batch.seconds, 1)}
        if of_batch is not None:
            calls.remove(of_batch)
            said |= {"call": of_batch.call, "location": of_batch.location}
        if batch.reason is not None:
            said["reason"] = batch.reason
        _log.warning(message, table=batch.table, **said, **more)
    for call in calls:
        _log.warning(message, thread=call.thread, call=call.call, location=call.location, **more)
    if publisher.depth:
        _log.warning(message, outcomes=publisher.depth, **more)
