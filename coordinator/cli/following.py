"""Following the events of all daemons, through outages of Redis."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

import msgspec

from firn.coordinator.cancellation import cancel_all
from firn.coordinator.cli.output import complain
from firn.coordinator.cli.reach import Reach
from firn.coordinator.cli.text import one_line
from firn.model.errors import Unavailable
from firn.model.event import Event
from firn.storage.intent_streams import FIRST_ID, IntentStreams, Message

BLOCK_MS: Final = 1_000
RETRY_S: Final = 1.0
CANCEL_AGAIN_S: Final = 0.1

_EVENT: Final = msgspec.json.Decoder(Event)


def event_of(message: Message) -> Event | None:
    """The event in a message; None for what somebody else put into the stream."""
    try:
        return _EVENT.decode(message.data)
    except msgspec.DecodeError:
        return None


async def newest_id(streams: IntentStreams) -> str:
    """Where the event stream ends now."""
    newest = await streams.newest_events(count=1)
    return newest[-1].entry_id if newest else FIRST_ID


async def events_after(streams: IntentStreams, after: str) -> AsyncIterator[Event]:
    """Events from an entry id on, for ever. While Redis does not answer it is waited for, which is said once."""
    told = False
    while True:
        try:
            messages = await streams.events(after=after, block_ms=BLOCK_MS)
        except Unavailable as error:
            if not told:
                complain(f"firn: waiting: {one_line(str(error))}")
            told = True
            await asyncio.sleep(RETRY_S)
            continue
        told = False
        for message in messages:
            after = message.entry_id
            event = event_of(message)
            if event is not None:
                yield event


def until_interrupted(reach: Reach, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run something that has no end of its own; Ctrl-C is its good end."""
    try:
        reach.run(_until_interrupted(work()))
    except KeyboardInterrupt:  # where the loop cannot be told of signals
        return


async def _until_interrupted(work: Coroutine[Any, Any, None]) -> None:
    task, interrupted = asyncio.ensure_future(work), asyncio.Event()
    # Neither Windows nor any thread but the main one can be told of signals.
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted.set)
    waiting = asyncio.ensure_future(interrupted.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_all((waiting, task), again_s=CANCEL_AGAIN_S)
    if not task.cancelled():
        task.result()
