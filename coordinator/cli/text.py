"""Text that is safe to print: names, paths and messages come from outside, and a terminal obeys what it is shown."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from typing import Final

_HARMLESS: Final = frozenset({"\u200c", "\u200d"})
"""Joiners, which many scripts and emoji are written with."""

_UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Control characters, direction marks, half surrogate pairs, and line breaks that are none in ASCII."""


def shown(value: object) -> str:
    r"""The value as text with every character escaped that could move the cursor or reorder what is read (``\x1b``)."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(_escaped(c) if _is_unsafe(c) else c for c in text)


def one_line(text: str) -> str:
    """A message of one or more lines as one that is safe to print."""
    return shown(" / ".join(part for line in text.splitlines() if (part := line.strip())))


def cut(text: str, length: int) -> str:
    """The text, or as much of it as fits into `length` characters with an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"


def time_of(timestamp_ms: int | None) -> str:
    """Milliseconds since 1970-01-01 UTC as people read them; the number itself where no calendar has it."""
    if timestamp_ms is None:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d}Z"


def span_of(ms: float) -> str:
    """A length of time as people say it: ``312 ms``, ``4.1 s``, ``3 min 5 s``, ``2 h 4 min``, ``3 d 2 h``."""
    if ms < 1_000:
        return f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f} s"
    minutes, seconds = divmod(int(ms / 1_000), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def _is_unsafe(character: str) -> bool:
    return unicodedata.category(character) in _UNSAFE and character not in _HARMLESS


def _escaped(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
