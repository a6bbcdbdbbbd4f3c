"""One attempt at a batch: what tells it from others, and where it may put tables."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from firn.storage.file_system_tables import FileSystemTables


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What tells this attempt from others: `token` goes into every new file name.

    `now_ms` is the wall clock; times in metadata are that or later, never falling.
    """

    batch: str
    token: str
    number: int
    now_ms: int


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Where tables may be: `warehouse` holds new ones; `taken` are the places of all tables, by name."""

    warehouse: str
    allowed: tuple[str, ...]
    taken: Mapping[str, tuple[str, ...]] = {}
    file_system: FileSystemTables | None = None
    """To look for what is in a folder already."""
