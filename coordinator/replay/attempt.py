"""One attempt at a batch: what tells it from others, and where it may put tables."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from firn.storage.file_system_tables import FileSystemTables


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What tells this attempt from others: `token` goes into every new file name.

    `now_ms` is the wall clock; times in metadata are that or later, never falling. `queued_ms` is the queue's clock as
    the batch's youngest intent was added, where there is one.
    """

    batch: str
    token: str
    number: int
    now_ms: int
    queued_ms: int | None = None

    @property
    def expiry_ms(self) -> int:
        """What time it is for what expires by its age: a clock that jumped ahead must not take a history away."""
        return self.now_ms if self.queued_ms is None else min(self.now_ms, self.queued_ms)


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Where tables may be: `warehouse` holds new ones; `taken` are the places of all tables, by name."""

    warehouse: str
    allowed: tuple[str, ...]
    taken: Mapping[str, tuple[str, ...]] = {}
    file_system: FileSystemTables | None = None
    """To look for what is in a folder already."""
