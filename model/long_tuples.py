"""Long sequences that a few items are put behind or before at a time, as a table's snapshots and its manifests are.

To copy ten thousand references touches each of the objects, which takes as long as much of a small commit. So what grew
is three tuples, of which the long one is the same as before; the short ones are joined with it when they are long
themselves. By the long one it is seen that a sequence continues another, or ends as it does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final, TypeVar, overload

LONG: Final = 256
"""Items from which on a tuple is not copied to get longer, and up to which others are kept beside it."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class LongTuple(Sequence[T_co]):
    """The items of three tuples, in order. Equal to a tuple of the same items."""

    __slots__ = ("_size", "back", "front", "long")

    def __init__(self, long: tuple[T_co, ...], *, front: tuple[T_co, ...] = (), back: tuple[T_co, ...] = ()) -> None:
        self.front = front
        self.long = long
        self.back = back
        self._size = len(front) + len(long) + len(back)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[T_co]:
        return chain(self.front, self.long, self.back)

    def __reversed__(self) -> Iterator[T_co]:
        return chain(reversed(self.back), reversed(self.long), reversed(self.front))

    @overload
    def __getitem__(self, at: int) -> T_co: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[T_co, ...]: ...

    def __getitem__(self, at: int | slice) -> T_co | tuple[T_co, ...]:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            return self._between(start, stop) if step == 1 else tuple(self)[at]
        start = at + len(self) if at < 0 else at
        if not 0 <= start < len(self):
            raise IndexError(f"no item {at} among {len(self)}")
        for part in (self.front, self.long):
            if start < len(part):
                return part[start]
            start -= len(part)
        return self.back[start]

    def _between(self, start: int, stop: int) -> tuple[T_co, ...]:
        found: tuple[T_co, ...] = ()
        for part in (self.front, self.long, self.back):
            found += part[max(start, 0) : max(stop, 0)]
            start, stop = start - len(part), stop - len(part)
        return found

    def __eq__(self, other: object) -> bool:
        if isinstance(other, LongTuple | tuple):
            return len(self) == len(other) and tuple(self) == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


def appended(items: Sequence[T], item: T) -> Sequence[T]:
    """The items, and one more."""
    if type(items) is tuple and len(items) < LONG:
        return (*items, item)
    parts = _parts(items)
    return _joined(parts.long, front=parts.front, back=(*parts.back, item))


def preceded(items: Sequence[T], front: tuple[T, ...]) -> Sequence[T]:
    """The items, and others before them."""
    if not front:
        return items
    if type(items) is tuple and len(items) < LONG:
        return front + items
    parts = _parts(items)
    return _joined(parts.long, front=front + parts.front, back=parts.back)


def _parts(items: Sequence[T]) -> LongTuple[T]:
    return items if isinstance(items, LongTuple) else LongTuple(tuple(items))


def _joined(long: tuple[T, ...], *, front: tuple[T, ...], back: tuple[T, ...]) -> Sequence[T]:
    if len(long) < LONG or len(front) + len(back) > LONG:
        return (*front, *long, *back)
    return LongTuple(long, front=front, back=back)


def continues(items: Sequence[Any], start: Sequence[Any]) -> bool:
    """Whether the first of `items` are those of `start`. Costs a comparison of them where it is not seen at once."""
    ours, theirs = _parts(items), _parts(start)
    if ours.long is theirs.long:
        return ours.front == theirs.front and ours.back[: len(theirs.back)] == theirs.back
    return items[: len(start)] == start


def is_seen_to_end_with(items: Sequence[Any], end: Sequence[Any]) -> bool:
    """Whether the last of `items` are those of `end`, as far as that is seen at once."""
    if type(items) is tuple and type(end) is tuple:
        return items is end
    ours, theirs = _parts(items), _parts(end)
    more = len(ours.front) - len(theirs.front)
    return ours.long is theirs.long and more >= 0 and ours.front[more:] == theirs.front and ours.back == theirs.back


def ends_with(items: Sequence[Any], end: Sequence[Any]) -> bool:
    """Whether the last of `items` are the very objects of `end`. Costs a look at as many of them."""
    more = len(items) - len(end)
    return more >= 0 and (not end or is_seen_to_end_with(items, end) or are_same(items[more:], end))


def are_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether these are the very same objects: a comparison of tuples looks at that first, and ends at a difference."""
    return some[0] is others[0] and some[-1] is others[-1] and some == others
