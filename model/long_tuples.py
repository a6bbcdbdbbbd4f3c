"""Long tuples to which a few items are appended, or put before them, at a time: that one continues another, or ends as
another does, is known without comparing them.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

LONG: Final = 256
"""Items from which on it is remembered; fewer are compared in no time."""

REMEMBERED_MAX: Final = 32

_Links = list[tuple[tuple[Any, ...], tuple[Any, ...]]]

_continued: Final[_Links] = []
"""The newest long tuples, each with the one that it continues."""

_preceded: Final[_Links] = []
"""The same of those that have something before another."""

T = TypeVar("T")


def appended(items: tuple[T, ...], item: T) -> tuple[T, ...]:
    """The items, and one more."""
    longer = (*items, item)
    _remember(_continued, longer, items)
    return longer


def preceded(items: tuple[T, ...], front: tuple[T, ...]) -> tuple[T, ...]:
    """The items, and others before them."""
    if not front:
        return items
    longer = (*front, *items)
    _remember(_preceded, longer, items)
    return longer


def continues(items: tuple[Any, ...], start: tuple[Any, ...]) -> bool:
    """Whether the first of `items` are those of `start`. Costs a comparison of them where nobody remembers it."""
    return _leads_to(_continued, items, start) or items[: len(start)] == start


def known_to_end_with(items: tuple[Any, ...], end: tuple[Any, ...]) -> bool:
    """Whether the last of `items` are those of `end`, as far as that is remembered."""
    return _leads_to(_preceded, items, end)


def _remember(links: _Links, longer: tuple[Any, ...], shorter: tuple[Any, ...]) -> None:
    if len(shorter) >= LONG:
        links.append((longer, shorter))
        del links[:-REMEMBERED_MAX]


def _leads_to(links: _Links, at: tuple[Any, ...], to: tuple[Any, ...]) -> bool:
    for longer, shorter in links[::-1]:
        if at is to:
            return True
        if at is longer:
            at = shorter
    return at is to
