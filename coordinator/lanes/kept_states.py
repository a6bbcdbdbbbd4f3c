"""What lanes know of their tables, bounded in bytes over all of them: past it, some forget what can be read again.

Not the one that was used longest ago: where more tables take turns than there is room for, that would always be the
next one to come. A lot hits a table that is used all the time as rarely as any, and leaves the others a part of their
turns.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol


class Keeper(Protocol):
    """Whoever keeps what it knows of a table."""

    @property
    def memory(self) -> int:
        """Bytes that it takes, about."""
        ...

    def make_small(self) -> None:
        """Forget what can be read again. It is not in use then."""
        ...


class KeptStates:
    """The states of all lanes of a daemon. For the event loop; `choose` draws the one that makes room."""

    def __init__(
        self,
        *,
        bytes_max: int,
        choose: Callable[[Sequence[Keeper]], Keeper] = random.choice,
        on_forgotten: Callable[[], None] = lambda: None,
    ) -> None:
        self._bytes_max = bytes_max
        self._choose = choose
        self._on_forgotten = on_forgotten
        self._sizes: dict[Keeper, int] = {}
        self._idle: dict[Keeper, None] = {}
        """Those that are not in use, and have something to forget."""
        self.memory = 0
        """Bytes of all."""

    @contextmanager
    def using(self, keeper: Keeper) -> Iterator[None]:
        """Within, the keeper forgets nothing. Afterwards it is weighed, and there is room made for it."""
        self._idle.pop(keeper, None)
        try:
            yield
        finally:
            self._weigh(keeper)
            self._make_room(keeper)
            self._idle[keeper] = None

    def remove(self, keeper: Keeper) -> None:
        """The keeper ends, with what it knew."""
        self._idle.pop(keeper, None)
        self.memory -= self._sizes.pop(keeper, 0)

    def _weigh(self, keeper: Keeper) -> None:
        size = keeper.memory
        self.memory += size - self._sizes.get(keeper, 0)
        self._sizes[keeper] = size

    def _make_room(self, newest: Keeper) -> None:
        """`newest` itself forgets when nobody else can: a lone table is kept, however large it is."""
        while self.memory > self._bytes_max and len(self._sizes) > 1:
            chosen = self._choose(list(self._idle)) if self._idle else newest
            self._idle.pop(chosen, None)
            chosen.make_small()
            self._weigh(chosen)
            self._on_forgotten()
            if chosen is newest:
                return
