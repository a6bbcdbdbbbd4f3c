"""Reading many intents at once in a process of its own, while the daemon does everything else.

To read an append, take its digest and lay out its metrics for a manifest is half of what it costs a daemon, and depends
on nothing that the daemon knows. See docs/decisions/0009-speed.md.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import structlog

from firn.coordinator.intake.read_appends import Page, PageRead, Rules, decode_page, spare
from firn.model.errors import Unavailable
from firn.model.intent_codec import DecodedIntent
from firn.storage.companion import Companion

PROGRAM: Final = "firn.coordinator.intake.intent_reading_program"

ARENA_BYTES: Final = 256 * 1024 * 1024
"""Address space for pages under way; memory is taken for as much of it as is used at once."""

WORTH_BYTES: Final = 256 * 1024
"""Less than this is read here, in a few milliseconds: what writers send who have waited for outcomes is less, and a
batch would wait for the hand-over."""

ANSWER_S: Final = 10.0
"""A process that has not read a page by then is ended: a page takes it some 50 ms."""

REST_S: Final = 60.0
"""How long everything is read here after the process has failed."""


class IntentReader:
    """Reads pages of payloads in a process of its own, which is started when there is enough for it to do.

    While it does not run, and for anything but well-formed appends, it says None, and whoever asks reads them himself.
    Nothing is lost with the process: payloads stay with whoever asked.
    """

    def __init__(self, rules: Rules) -> None:
        self._companion: Companion[PageRead] = Companion(
            PROGRAM, msgspec.json.encode(rules).decode(), reply=PageRead, does="reads intents", arena_bytes=ARENA_BYTES
        )
        self._starting: asyncio.Task[None] | None = None
        self._ready = False
        self._rests_until = 0.0
        self._log: Any = structlog.get_logger()

    @property
    def pid(self) -> int | None:
        """The process, if there has been one."""
        return self._companion.pid

    async def read_ahead(self, payloads: Sequence[bytes]) -> Sequence[DecodedIntent | None]:
        """The intents of these payloads, in order; None for each that is to be read by `decode_intent`."""
        nothing = [None] * len(payloads)
        if not self.takes(payloads):
            return nothing
        sizes = tuple(map(len, payloads))
        asked = self._ask(payloads, sizes)
        if asked is None:
            return nothing
        try:
            async with asyncio.timeout(ANSWER_S):
                return await asked or nothing
        except TimeoutError:
            self._fails(f"no answer within {ANSWER_S:g} s")
            self._companion.kill()
        except Unavailable as error:
            self._fails(str(error))
        except (msgspec.MsgspecError, ValueError) as error:  # started from another version's files, for one
            self._fails(f"its answer cannot be read: {error}")
            self._companion.kill()
        return nothing

    def takes(self, payloads: Sequence[bytes]) -> bool:
        """Whether these are enough to hand them over, to a process that is there."""
        return sum(map(len, payloads)) >= WORTH_BYTES and self._is_ready()

    async def close(self) -> None:
        """End the process."""
        if self._starting is not None:
            await asyncio.wait({self._starting})
        await self._companion.close()

    def _ask(
        self, payloads: Sequence[bytes], sizes: tuple[int, ...]
    ) -> asyncio.Future[list[DecodedIntent | None] | None] | None:
        def taken(reply: PageRead, memory: memoryview) -> list[DecodedIntent | None] | None:
            if reply.size is None:
                return None
            with memory[: reply.size] as answer:
                return decode_page(answer, sizes)

        parts = [*payloads, bytes(spare(sizes))]
        return self._companion.ask(parts, lambda number, start: Page(number, start, sizes), take=taken)

    def _is_ready(self) -> bool:
        """Whether the process takes pages. If there is none, it is started meanwhile."""
        if self._ready or time.monotonic() < self._rests_until:
            return self._ready
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start(), name="start of the process that reads intents")
        return False

    async def _start(self) -> None:
        """Start the process; it is ready once it has answered."""
        try:
            await self._companion.start()
            asked = self._ask((), ())
            if asked is None:
                raise Unavailable("the process that reads intents cannot be asked")
            await asked
        except (OSError, Unavailable, msgspec.MsgspecError, ValueError) as error:
            self._fails(str(error))
            self._companion.kill()
        else:
            self._ready = True

    def _fails(self, reason: str) -> None:
        self._ready = False
        self._rests_until = time.monotonic() + REST_S
        self._log.warning("intents are read by the daemon itself", reason=reason, seconds=REST_S)
