"""One attempt at a batch: what tells it from others, the merges it may take over, and where it may put tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from firn.model.errors import FirnError
from firn.model.manifest import ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.view import ViewMetadata

T = TypeVar("T")

Found = TableMetadata | ViewMetadata | FirnError
"""A metadata file as it was read, or why it could not be."""


class FinishedMerge(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A stored manifest, `row`, that may be listed in place of its `parts`, which are as they were listed when merged.

    `row` has no snapshot and sequence number yet: the commit that lists it gives it these.
    """

    parts: tuple[ManifestFile, ...]
    format_version: int
    row: ManifestFile

    @property
    def locations(self) -> tuple[str, ...]:
        """Return the locations of the parts."""
        return tuple(part.manifest_path for part in self.parts)

    def is_of(self, listed: Mapping[str, ManifestFile]) -> bool:
        """Whether all parts are in this list, by location, and pass on there what they did when they were merged.

        Prevents: rows that get other row ids or another age, because the list is another branch's, or the first that
        gives a table's rows their ids.
        """
        found = ((part, listed.get(part.manifest_path)) for part in self.parts)
        return all(there is not None and there.passes_on == part.passes_on for part, there in found)


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What tells this attempt from others: `token` goes into every new file name.

    `now_ms` is the wall clock; times in metadata are that or later, never falling. `queued_ms` is the queue's clock as
    the batch's youngest intent was added, where there is one. `merges` are the finished merges of its tables, by name.
    """

    batch: str
    token: str
    number: int
    now_ms: int
    queued_ms: int | None = None
    merges: Mapping[str, tuple[FinishedMerge, ...]] = {}

    @property
    def expiry_ms(self) -> int:
        """What time it is for what expires by its age: a clock that jumped ahead must not take a history away."""
        return self.now_ms if self.queued_ms is None else min(self.now_ms, self.queued_ms)


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Where tables may be: `warehouse` holds new ones; `taken` are the places of all tables, by name."""

    warehouse: str
    allowed: tuple[str, ...]
    taken: Mapping[str, tuple[str, ...]] = {}
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
