"""`firn dead-letters`: what came through the streams and was no intent, or one that is wrong in itself."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import click
import msgspec

from firn.coordinator.cli.output import Column
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.text import time_of
from firn.storage.intent_streams import FIRST_ID, IntentStreams, Message

READ_COUNT: Final = 100

DEAD_LETTER_COLUMNS: Final = (
    Column("TIME"), Column("ENTRY"), Column("RULE"), Column("TABLE"), Column("INTENT"), Column("BYTES", right=True),
    Column("WHY", long=True),
)  # fmt: skip


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


@click.command("dead-letters")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Newest ones to show.")
@reaching
def dead_letters(reach: Reach, *, limit: int) -> None:
    """List the stream entries that were set aside, oldest first. With --json one a line, with the payload."""

    async def read() -> list[tuple[str, DeadLetter]]:
        async with reach.streams() as streams:
            return await newest_dead_letters(streams, limit=limit)

    found = reach.run(read())
    if reach.output.as_json:
        for letter_id, letter in found:
            reach.output.line({"id": letter_id, **msgspec.to_builtins(letter)})
    reach.output.grid(
        DEAD_LETTER_COLUMNS, (_row(letter_id, letter) for letter_id, letter in found), empty="no dead letters"
    )


async def newest_dead_letters(streams: IntentStreams, *, limit: int) -> list[tuple[str, DeadLetter]]:
    """The newest dead letters with their ids, oldest first; the stream itself is bounded."""
    newest: deque[Message] = deque(maxlen=limit)
    after = FIRST_ID
    while messages := await streams.dead_letters(after=after, count=READ_COUNT):
        newest.extend(messages)
        after = messages[-1].entry_id
    return [(message.entry_id, letter) for message in newest if (letter := _letter(message)) is not None]


def letter_ms(letter_id: str) -> int:
    """When it was set aside, by Redis's clock."""
    return int(letter_id.partition("-")[0])


def _letter(message: Message) -> DeadLetter | None:
    try:
        return msgspec.json.decode(message.data, type=DeadLetter)
    except msgspec.DecodeError:
        return None  # somebody else's


def _row(letter_id: str, letter: DeadLetter) -> tuple[object, ...]:
    outcome = letter.outcome
    return (
        time_of(letter_ms(letter_id)),
        f"{letter.shard}/{letter.entry_id}",
        outcome.get("rule", "?"),
        outcome.get("table") or "-",
        outcome.get("intent-id") or "-",
        letter.payload_bytes,
        outcome.get("message", ""),
    )
