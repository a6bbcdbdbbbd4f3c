"""Laying merged manifests out in a process of its own: the bytes of many entries are tens of milliseconds of Python.

The daemon reads the parts and writes what comes back. See docs/decisions/0009-speed.md.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Sequence
from typing import Final

from firn.coordinator.calculating.calculator import Calculator
from firn.model.errors import CorruptFile
from firn.storage.avro import SEAL, SEAL_KEY, open_avro
from firn.storage.merge_messages import MergeAsked, room_for, spelled
from firn.storage.merged_manifests import Ingredients

HANDED_BYTES_MAX: Final = 64 * 1024 * 1024
"""A merge of more is made in the daemon. The event loop copies what is handed over."""

ANSWER_S: Final = 30.0
"""A process that has not laid a manifest out by then is ended. One of 64 MB takes it about a second, and some ten when
pages of intents come all the time."""


class ManifestMerger:
    """Asks the calculator for merged manifests, from worker threads; `on_made` is called there for each that it made.

    Made where the event loop runs.
    """

    def __init__(self, calculator: Calculator, *, on_made: Callable[[], object] = lambda: None) -> None:
        self._calculator = calculator
        self._on_made = on_made
        self._loop = asyncio.get_running_loop()

    def laid_out(self, made_of: Ingredients) -> bytes | None:
        """The bytes of the merged manifest, sealed and with as many entries as are listed; None: make them yourself.

        For any thread but the event loop's, for which it waits.
        """
        if self._calculator.rests:
            return None
        parts = spelled(made_of)
        room = room_for(parts)
        if room > HANDED_BYTES_MAX:
            return None
        asking = self._ask([*parts, bytes(room - sum(map(len, parts)))], len(parts[0]), room)
        try:
            asked = asyncio.run_coroutine_threadsafe(asking, self._loop)
        except RuntimeError:  # the loop has been closed
            asking.close()
            return None
        try:
            data = asked.result(2 * ANSWER_S)
        except (TimeoutError, concurrent.futures.CancelledError):  # the loop ends
            return None
        if data is None:
            return None
        wrong = _wrong_with(data, files=made_of.files)
        if wrong is not None:
            self._loop.call_soon_threadsafe(self._calculator.give_up, wrong)
            return None
        self._on_made()
        return data

    async def _ask(self, parts: Sequence[bytes], description: int, room: int) -> bytes | None:
        if not await self._calculator.becomes_ready():
            return None
        return await self._calculator.ask(
            parts,
            lambda number, start: MergeAsked(number, start, description, room),
            take=bytes,
            within_s=ANSWER_S,
        )  # fmt: skip


def _wrong_with(data: bytes, *, files: int) -> str | None:
    """What shows that this is no manifest of so many files as firn writes them, None when nothing does."""
    try:
        file = open_avro(data, location="a merged manifest")
    except CorruptFile as error:
        return str(error)
    if file.metadata.get(SEAL_KEY) != SEAL:
        return "a merged manifest without a seal"
    return None if file.record_count == files else f"a merged manifest of {file.record_count} files instead of {files}"
