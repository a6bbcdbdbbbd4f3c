"""What is worked out from immutable values and used with every commit, looked up by which values they are.

A schema of twenty columns costs more to hash than to look up, and a table keeps the very same one until it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class ByIdentity(Generic[T]):
    """At most `kept_max` results of `make`, each known by the very objects that it was made from.

    They are kept with their results, so that no other object can have their identities. Safe to use from threads: at
    worst a result is made twice.
    """

    def __init__(self, make: Callable[..., T], *, kept_max: int) -> None:
        self._make = make
        self._kept_max = kept_max
        self._kept: dict[Hashable, tuple[tuple[object, ...], T]] = {}

    def __call__(self, *objects: object) -> T:
        """The result for these objects, which never change."""
        key = tuple(map(id, objects))
        known = self._kept.get(key)
        if known is not None:
            return known[1]
        made = self._make(*objects)
        if len(self._kept) >= self._kept_max:
            self._kept.clear()
        self._kept[key] = (objects, made)
        return made
