"""Dead letters: stream entries that were set aside, as they are stored, and which of them somebody means."""

from __future__ import annotations

import base64
import binascii
from collections import deque
from collections.abc import Collection
from typing import Any, Final

import msgspec

from firn.model.errors import InvalidIntent
from firn.model.intent import Intent
from firn.model.intent_codec import decode_intent
from firn.model.limits import Limits
from firn.model.outcome import Rejected
from firn.storage.intent_streams import FIRST_ID, IntentStreams, Message, id_order

READ_COUNT: Final = 100


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A dead letter as it is stored.

    `payload` is the beginning of what could not be used; `journaled` says that the rejection is on record with a table.
    """

    entry_id: str
    epoch: str = ""
    shard: int = -1
    deliveries: int = 0
    journaled: bool = False
    outcome: dict[str, Any] = {}
    payload_bytes: int = 0
    payload: str | None = None
    payload_base64: str | None = None
    fields: tuple[str, ...] = ()

    @property
    def table(self) -> str:
        """The table that it was for; empty where none could be read."""
        return str(self.outcome.get("table") or "")

    @property
    def rule(self) -> str:
        """Why it was set aside."""
        return str(self.outcome.get("rule") or "?")

    @property
    def intent_id(self) -> str | None:
        """The intent that it carried, if that could be read."""
        return self.outcome.get("intent-id") or None

    @property
    def is_final(self) -> bool:
        """Whether it is an intent that was decided: only under a new id it can become something else."""
        return self.journaled or "digest" in self.outcome

    @property
    def rejection(self) -> Rejected | None:
        """What its writer was told."""
        try:
            return msgspec.convert(self.outcome, Rejected)
        except msgspec.ValidationError:
            return None

    def content(self) -> bytes | None:
        """What was submitted; None when only its beginning was kept."""
        try:
            kept = (
                base64.b64decode(self.payload_base64, validate=True)
                if self.payload_base64 is not None
                else (self.payload or "").encode()
            )
        except (binascii.Error, ValueError):
            return None
        return kept if len(kept) == self.payload_bytes else None

    def intent(self, *, limits: Limits, reply_prefix: str) -> Intent:
        """The intent in it. Raises InvalidIntent, saying why it cannot be submitted as it is."""
        content = self.content()
        if content is None:
            raise InvalidIntent(
                f"only the beginning of its {self.payload_bytes:,} bytes was kept", rule="malformed-entry",
                hint="its writer has to submit it again",
            )  # fmt: skip
        return decode_intent(content, limits=limits, reply_prefix=reply_prefix).intent


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which letters somebody means: all that fit everything that is given. Times are by Redis's clock."""

    ids: Collection[str] = ()
    tables: Collection[str] = ()
    rules: Collection[str] = ()
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def is_everything(self) -> bool:
        """Whether nothing is given."""
        return not (self.ids or self.tables or self.rules) and self.since_ms is None and self.until_ms is None

    def has(self, letter_id: str, letter: DeadLetter) -> bool:
        """Whether a letter is meant."""
        made_ms = letter_ms(letter_id)
        return (
            (not self.ids or letter_id in self.ids)
            and (not self.tables or letter.table in self.tables)
            and (not self.rules or letter.rule in self.rules)
            and (self.since_ms is None or made_ms >= self.since_ms)
            and (self.until_ms is None or made_ms <= self.until_ms)
        )


EVERYTHING: Final = Selection()


async def newest_dead_letters(
    streams: IntentStreams, *, limit: int, selection: Selection = EVERYTHING
) -> list[tuple[str, DeadLetter]]:
    """The newest letters that are meant, with their ids, oldest first; the stream itself is bounded."""
    newest: deque[tuple[str, DeadLetter]] = deque(maxlen=limit)
    after = FIRST_ID
    while messages := await streams.dead_letters(after=after, count=READ_COUNT):
        for message in messages:
            letter = _letter(message)
            if letter is not None and selection.has(message.entry_id, letter):
                newest.append((message.entry_id, letter))
        after = messages[-1].entry_id
    return list(newest)


def letter_ms(letter_id: str) -> int:
    """When it was set aside, by Redis's clock."""
    return id_order(letter_id)[0]


def is_letter_id(text: str) -> bool:
    """Whether a text can be the id of a letter."""
    milliseconds, dash, number = text.partition("-")
    return bool(dash) and all(part.isascii() and part.isdecimal() for part in (milliseconds, number))


def _letter(message: Message) -> DeadLetter | None:
    try:
        return msgspec.json.decode(message.data, type=DeadLetter)
    except msgspec.DecodeError:
        return None  # somebody else's
