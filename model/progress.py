"""How far a long piece of work has got. Library code reports it, and knows nothing of who looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

Progress = Callable[[str, int, int | None], None]
"""Takes what is being worked on ("version"), its number from 1, and how many there are (None: unknown)."""


def unseen(what: str, number: int, total: int | None) -> None:
    """Report to nobody."""


def counted(items: Iterable[T], what: str, *, total: int | None, progress: Progress) -> Iterator[T]:
    """Yield the items, and report each as it is handed out."""
    for number, item in enumerate(items, start=1):
        progress(what, number, total)
        yield item
