"""A process beside the daemon for what only computes: bytes of bytes, which depend on nothing that the daemon knows.

It reads pages of intents (`firn.coordinator.intake.intent_reader`) and lays merged manifests out
(`firn.coordinator.tables.manifest_merger`): one process for both, because each costs some 30 MB. Whatever it does not
do the daemon does itself, so that nothing is lost with it. See docs/decisions/0009-speed.md.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from firn.coordinator.calculating.messages import Answer, Request
from firn.coordinator.intake.read_appends import Page, Rules, decode_page
from firn.model.errors import Unavailable
from firn.storage.companion import Companion
from firn.storage.log import get_logger

PROGRAM: Final = "firn.coordinator.calculating.program"

ARENA_BYTES: Final = 256 * 1024 * 1024
"""Address space for what is under way; memory is taken for as much of it as is used at once."""

REST_S: Final = 60.0
"""How long the daemon does everything itself after the process has failed."""

T = TypeVar("T")


class Calculator:
    """The process, which is started when it is first needed, by whoever needs it. For the event loop."""

    def __init__(self, rules: Rules) -> None:
        self._companion: Companion[Answer] = Companion(
            PROGRAM,
            msgspec.json.encode(rules).decode(),
            reply=Answer,
            does="reads intents and merges manifests",
            arena_bytes=ARENA_BYTES,
            on_end=self._has_ended,
        )
        self._starting: asyncio.Task[None] | None = None
        self._ready = False
        self._closed = False
        self._rests_until = 0.0
        self._log: Any = get_logger()

    @property
    def pid(self) -> int | None:
        """The process, if there has been one."""
        return self._companion.pid

    @property
    def rests(self) -> bool:
        """Whether nothing is asked for now: it has failed, or the daemon ends. For any thread."""
        return self._closed or time.monotonic() < self._rests_until

    def is_ready(self) -> bool:
        """Whether the process takes requests. If there is none, it is started meanwhile."""
        if self._ready or self.rests:
            return self._ready
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start(), name="start of the calculator")
        return False

    async def becomes_ready(self) -> bool:
        """As `is_ready`, but a start is waited for."""
        if not self.is_ready() and self._starting is not None:
            await asyncio.wait({self._starting})
        return self._ready

    async def ask(
        self,
        parts: Sequence[bytes],
        request: Callable[[int, int], Request],
        *,
        take: Callable[[memoryview], T],
        within_s: float,
    ) -> T | None:
        """Ask for something about the bytes `parts`; `request` is as `Companion.ask` has it.

        `take` makes the answer from its bytes, which are there no longer; what it raises as ValueError says that the
        process is none of this version. None when the process is not there, has no room, does not do it, ends before,
        or has not done it `within_s`: then it is ended.
        """
        asked = self._ask(parts, request, take)
        if asked is None:
            return None
        try:
            async with asyncio.timeout(within_s):
                return await asked
        except TimeoutError:
            self.give_up(f"no answer within {within_s:g} s")
        except Unavailable:
            pass  # as `_has_ended` says
        except (msgspec.MsgspecError, ValueError) as error:  # started from another version's files, for one
            self.give_up(f"its answer cannot be read: {error}")
        return None

    def give_up(self, reason: str) -> None:
        """End the process, which cannot be relied upon; another is started later."""
        self._fails(reason)
        self._companion.kill()

    async def close(self) -> None:
        """End the process, after what it is at."""
        self._closed, self._ready = True, False
        if self._starting is not None:
            await asyncio.wait({self._starting})
        self._ready = False
        await self._companion.close()

    def _ask(
        self, parts: Sequence[bytes], request: Callable[[int, int], Request], take: Callable[[memoryview], T]
    ) -> asyncio.Future[T | None] | None:
        def taken(answer: Answer, memory: memoryview) -> T | None:
            if answer.size is None:
                return None
            with memory[: answer.size] as content:
                return take(content)

        return self._companion.ask(parts, request, take=taken)

    async def _start(self) -> None:
        """Start the process; it is ready once it has answered."""
        try:
            await self._companion.start()
            asked = self._ask((), lambda number, start: Page(number, start, ()), lambda read: decode_page(read, ()))
            if asked is None:
                raise Unavailable("it cannot be asked")
            await asked
        except (OSError, Unavailable, msgspec.MsgspecError, ValueError) as error:
            self.give_up(str(error))
        else:
            self._ready = True

    def _has_ended(self) -> None:
        if self._ready:
            self._fails("it has ended")

    def _fails(self, reason: str) -> None:
        self._ready = False
        self._rests_until = time.monotonic() + REST_S
        self._log.warning("intents are read and manifests merged by the daemon itself", reason=reason, seconds=REST_S)
