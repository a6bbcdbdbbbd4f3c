"""Amounts as people read them: counts with their noun, bytes with their unit."""

from __future__ import annotations


def plural(count: int, noun: str, many: str | None = None) -> str:
    """``1 file``, ``2 files``, ``1,000 files``; `many` for nouns that want more than an s."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def agreeing(count: int, one: str = "is", many: str = "are") -> str:
    """The word that goes with so many of something: 1 file ``is``, 2 files ``are``, 0 files ``are``."""
    return one if count == 1 else many


def size_text(count_bytes: int) -> str:
    """``0 B``, ``1.5 KiB``, ``200 MiB``."""
    amount = float(count_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
