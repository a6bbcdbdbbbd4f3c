"""Names and ids: table identifiers, intent ids and what time an intent id says.

An intent id is a UUIDv7 (RFC 9562): its first 48 bits are the writer's clock in milliseconds when it planned the
intent. firn never trusts that clock for order; it only bounds how far back a duplicate can be looked for.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Sequence
from functools import lru_cache
from sys import byteorder
from typing import Final

from firn.model.errors import InvalidInput

TABLE_NAME_BYTES_MAX: Final = 512
TABLE_PARTS_MAX: Final = 16

INTENT_ID_PATTERN: Final = "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
"""An intent id, as a regular expression that every dialect reads alike."""

_DIGITS: Final = 32
"""Hexadecimal digits of an intent id."""

_UUID7: Final = re.compile(INTENT_ID_PATTERN)


def check_table_name(name: str, *, where: str = "table") -> str:
    """Return `name` if it is a legal identifier: dot-separated, non-empty parts without control characters.

    Raises InvalidInput. Any other character is legal: names are encoded wherever they become a path or a znode.
    """
    return _checked_table_name(name, where)


@lru_cache(maxsize=10_000)
def _checked_table_name(name: str, where: str) -> str:
    if len(name.encode("utf-8", "surrogatepass")) > TABLE_NAME_BYTES_MAX:
        raise InvalidInput(f"is longer than {TABLE_NAME_BYTES_MAX} bytes", where=where)
    parts = name.split(".")
    if len(parts) > TABLE_PARTS_MAX or not all(parts):
        raise InvalidInput(
            f"{name!r} is not a table identifier",
            where=where,
            hint="write namespace and name, separated by dots: db.events",
        )
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in name):
        raise InvalidInput(f"{name!r} holds a control character", where=where)
    return name


def is_intent_id(text: str) -> bool:
    """Whether `text` is a UUIDv7 in its canonical lower-case form."""
    return _UUID7.fullmatch(text) is not None


def intent_id_ms(intent_id: str) -> int:
    """Milliseconds since 1970-01-01 UTC that the writer's clock showed when it made this id."""
    return int(intent_id[0:8] + intent_id[9:13], 16)


def intent_ids_ms(intent_ids: Sequence[str]) -> list[int]:
    """`intent_id_ms` of each, in half the time where they are many."""
    digits = "".join(intent_ids).replace("-", "")
    if len(digits) != _DIGITS * len(intent_ids):  # one that has another form: they are all taken as they are
        return list(map(intent_id_ms, intent_ids))
    halves = array("Q", bytes.fromhex(digits))
    if byteorder == "little":
        halves.byteswap()
    return [half >> 16 for half in halves[::2]]


def uuid7(*, now_ms: int, entropy: bytes) -> str:
    """A UUIDv7 for `now_ms` from 10 random bytes (passed in: this package neither reads clocks nor rolls dice)."""
    assert len(entropy) == 10
    value = (now_ms & 0xFFFF_FFFF_FFFF) << 80 | int.from_bytes(entropy, "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
