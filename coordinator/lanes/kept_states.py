"""What lanes know of their tables, bounded in bytes over all of them: past it, some forget what can be read again.

Not the one that was used longest ago: where more tables take turns than there is room for, that would always be the
next one to come. A lot hits a table that is used all the time as rarely as any, and leaves the others a part of their
turns.

The states of tables whose lanes have ended, because nothing came for them, are put away as long as there is room: a
table that gets an intent every few minutes goes on where it was, instead of being read anew.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

from firn.coordinator.tables.table_state import TableState

T = TypeVar("T")


class Keeper(Protocol):
    """Whoever keeps what it knows of a table."""

    @property
    def memory(self) -> int:
        """Bytes that it takes, about."""
        ...

    def make_small(self) -> None:
        """Forget what can be read again. It is not in use then."""
        ...


class Choose(Protocol):
    """Draws one of several."""

    def __call__(self, some: Sequence[T], /) -> T: ...


class KeptStates:
    """The states of all lanes of a daemon, and those put away. For the event loop; `choose` draws what makes room."""

    def __init__(
        self,
        *,
        bytes_max: int,
        choose: Choose = random.choice,
        on_forgotten: Callable[[], None] = lambda: None,
    ) -> None:
        self._bytes_max = bytes_max
        self._choose = choose
        self._on_forgotten = on_forgotten
        self._sizes: dict[Keeper, int] = {}
        self._idle: dict[Keeper, None] = {}
        """Those that are not in use, and have something to forget."""
        self._away: dict[str, tuple[TableState, int]] = {}
        """By table, states put away, and what each takes."""
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

    def put_away(self, state: TableState) -> None:
        """Keep what the lane of a table knew that has ended, unless that alone takes more than there is room for."""
        self.take(state.table)
        size = state.whole_memory
        if self.memory - sum(some for _, some in self._away.values()) + size > self._bytes_max:
            return
        while self.memory + size > self._bytes_max:
            self._drop_one()
        self._away[state.table] = state, size
        self.memory += size

    def take(self, table: str) -> TableState | None:
        """What was put away of a table; it may be behind what its pointer says now."""
        state, size = self._away.pop(table, (None, 0))
        self.memory -= size
        return state

    def _drop_one(self) -> None:
        self.take(self._choose(list(self._away)))
        self._on_forgotten()

    def _weigh(self, keeper: Keeper) -> None:
        size = keeper.memory
        self.memory += size - self._sizes.get(keeper, 0)
        self._sizes[keeper] = size

    def _make_room(self, newest: Keeper) -> None:
        """What was put away goes first. `newest` itself forgets when nobody else can: a lone table is kept, however
        large it is.
        """
        while self.memory > self._bytes_max and self._away:
            self._drop_one()
        while self.memory > self._bytes_max and len(self._sizes) > 1:
            chosen = self._choose(list(self._idle)) if self._idle else newest
            self._idle.pop(chosen, None)
            chosen.make_small()
            self._weigh(chosen)
            self._on_forgotten()
            if chosen is newest:
                return
