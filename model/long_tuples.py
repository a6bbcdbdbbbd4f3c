"""Long tuples to which an item is appended at a time: that one continues another is known without comparing them."""

from __future__ import annotations

from typing import Any, Final, TypeVar

LONG: Final = 256
"""Items from which on it is remembered; fewer are compared in no time."""

REMEMBERED_MAX: Final = 32

_continued: Final[list[tuple[tuple[Any, ...], tuple[Any, ...]]]] = []
"""The newest long tuples, each with the one that it continues."""

T = TypeVar("T")


def appended(items: tuple[T, ...], item: T) -> tuple[T, ...]:
    """The items, and one more."""
    longer = (*items, item)
    if len(items) >= LONG:
        _continued.append((longer, items))
        del _continued[:-REMEMBERED_MAX]
    return longer


def continues(items: tuple[Any, ...], start: tuple[Any, ...]) -> bool:
    """Whether the first of `items` are those of `start`. Costs a comparison of them where nobody remembers it."""
    at = items
    for longer, shorter in _continued[::-1]:
        if at is start:
            return True
        if at is longer:
            at = shorter
    return at is start or items[: len(start)] == start
