"""Reading many intents at once in a process of its own, while the daemon does everything else.

To read an append, take its digest and lay out its metrics for a manifest is half of what it costs a daemon, and depends
on nothing that the daemon knows. See docs/decisions/0009-speed.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from firn.coordinator.calculating.calculator import Calculator
from firn.coordinator.intake.read_appends import Page, decode_page, spare
from firn.model.intent_codec import DecodedIntent
from firn.storage.compiled import IS_COMPILED

WORTH_BYTES: Final = 256 * 1024 if IS_COMPILED else 8 * 1024
"""Less than this the daemon reads: a few intents, which the hand-over would take as long as; or, where the reading is
compiled, a hundred, because a batch that waits for another process waits longer.
"""

ANSWER_S: Final = 3.0
ANSWER_S_PER_BYTE: Final = 1e-6
"""A process that has not read a page by then, and a second later for each megabyte, is ended: a megabyte takes it some
25 ms.
"""


class IntentReader:
    """Has pages of payloads read by the calculator, when they are enough to hand them over.

    While it is not there, and for anything but well-formed appends, it says None, and whoever asks reads them himself.
    Nothing is lost with the process: payloads stay with whoever asked.
    """

    def __init__(self, calculator: Calculator) -> None:
        self._calculator = calculator

    async def read_ahead(self, payloads: Sequence[bytes]) -> Sequence[DecodedIntent | None]:
        """The intents of these payloads, in order; None for each that is to be read by `decode_intent`."""
        nothing = [None] * len(payloads)
        if not self.takes(payloads):
            return nothing
        sizes = tuple(map(len, payloads))
        read = await self._calculator.ask(
            [*payloads, bytes(spare(sizes))],
            lambda number, start: Page(number, start, sizes),
            take=lambda answer: decode_page(answer, sizes),
            within_s=ANSWER_S + ANSWER_S_PER_BYTE * sum(sizes),
        )
        return read or nothing

    def takes(self, payloads: Sequence[bytes]) -> bool:
        """Whether these are enough to hand them over, to a process that is there."""
        return sum(map(len, payloads)) >= WORTH_BYTES and self._calculator.is_ready()
