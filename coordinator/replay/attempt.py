"""One attempt at a batch: what tells it from others, and where it may put tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from firn.model.errors import FirnError
from firn.model.metadata import TableMetadata
from firn.model.view import ViewMetadata
from firn.storage.file_system_tables import FileSystemTables

T = TypeVar("T")

Found = TableMetadata | ViewMetadata | FirnError
"""A metadata file as it was read, or why it could not be."""


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
    registered: Mapping[str, Found] = {}
    """Metadata files that the batch registers, by location, read before any other table's commits had to wait."""
    real: Mapping[str, str] = {}
    """Where symbolic links lead: of the locations above and of those that the batch names, in their canonical spelling,
    those that are elsewhere on the disk."""
    unusable: Mapping[str, str] = {}
    """Canonical locations that the batch names and that cannot be what it says, each with the reason: files that are no
    regular files, places that cannot be folders."""
    foreign: Mapping[str, Mapping[str, str]] = {}
    """By table, canonical places that its properties name and that it should not have, each with the reason."""


def as_found(found: Found | None, kind: type[T]) -> T | None:
    """What was read beforehand, if it is of this kind; raises the error where it could not be read."""
    if isinstance(found, FirnError):
        raise found
    return found if isinstance(found, kind) else None
