"""Reservations: early notice of work on a table, so that others hear of it before they begin.

A reservation is advice. It refuses nobody's commit; it tells who else is at work, and is told when its work has become
vain. See docs/decisions/0008-fairness.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import msgspec

from firn.model.amounts import plural
from firn.model.errors import InvalidInput
from firn.model.expressions.disjoint import certainly_disjoint
from firn.model.expressions.expression_json import expression_from_json
from firn.model.operations.common import Count, FieldId, Name, Path, SnapshotId
from firn.model.operations.files import Filter
from firn.model.snapshot import MAIN_BRANCH

RESERVATION_BYTES_MAX: Final = 256 * 1024
"""Size of one reservation's JSON: about two thousand files."""

RESERVATIONS_MAX: Final = 200
"""Reservations of one table at a time."""

DISTURBANCES_MAX: Final = 20
"""Disturbances that are kept of one reservation, the first ones."""

FILES_LISTED_MAX: Final = 10


class ReservedPartition(msgspec.Struct, frozen=True, rename="kebab"):
    """A partition by its spec and values, in the form that content files have them in."""

    spec_id: FieldId
    partition: tuple[Any, ...] = ()


class Scope(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """What work is on: data files, or partitions, or rows that match a filter; with none of them the whole branch.

    A filter that matches no row claims nothing: such a reservation only keeps its base.
    """

    branch: Name = MAIN_BRANCH
    files: Annotated[tuple[Path, ...], msgspec.Meta(max_length=10_000)] = ()
    partitions: Annotated[tuple[ReservedPartition, ...], msgspec.Meta(max_length=10_000)] = ()
    row_filter: Filter | None = None

    def __post_init__(self) -> None:
        if sum((bool(self.files), bool(self.partitions), self.row_filter is not None)) > 1:
            raise ValueError("a reservation is of files, or of partitions, or of a row filter, not of several of them")

    @classmethod
    def of_nothing(cls, *, branch: str = MAIN_BRANCH) -> Scope:
        """Return the scope that overlaps no other."""
        return cls(branch=branch, row_filter=False)

    @property
    def is_nothing(self) -> bool:
        """Whether it claims nothing."""
        return self.row_filter is False

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole branch."""
        return not self.files and not self.partitions and self.row_filter is None

    def __str__(self) -> str:
        where = f"of branch {self.branch}"
        if self.is_nothing:
            return f"nothing {where}, its base is kept"
        if self.files:
            return f"{plural(len(self.files), 'file')} {where}"
        if self.partitions:
            return f"{plural(len(self.partitions), 'partition')} {where}"
        return f"all {where}" if self.row_filter is None else f"rows {where} by a filter"


class Reservation(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """A lease on nothing but attention. Times are milliseconds since 1970-01-01 UTC by Redis's clock.

    `base_snapshot_id` is what the work was planned on: it is kept from expiry until `until_ms`.
    """

    reservation_id: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    table: str
    holder: Name
    purpose: Annotated[str, msgspec.Meta(max_length=500)] = ""
    scope: Scope = Scope()
    base_snapshot_id: SnapshotId | None = None
    begun_ms: Count
    until_ms: Count


class Disturbance(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """A commit that touched what was reserved; `files` are the first of those concerned."""

    snapshot_id: int
    batch: str
    intents: tuple[str, ...] = ()
    writer: str | None = None
    timestamp_ms: int
    what: str
    files: tuple[str, ...] = ()


class Overlap(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """Another's reservation that something would share work with. `certain` False: it may, nobody can tell."""

    reservation: Reservation
    certain: bool
    files: tuple[str, ...] = ()

    def __str__(self) -> str:
        held = self.reservation
        return f"{held.holder} {'has' if self.certain else 'may have'} reserved {held.scope} ({held.reservation_id})"


def overlaps_of(scope: Scope, others: Sequence[Reservation], *, canonical: Callable[[str], str]) -> tuple[Overlap, ...]:
    """Return which of the reservations of one table a scope overlaps, the certain ones first.

    Files are the same whose `canonical` names are.
    """
    found = [overlap for other in others if (overlap := _overlap(scope, other, canonical)) is not None]
    return tuple(sorted(found, key=lambda overlap: not overlap.certain))


def _overlap(scope: Scope, held: Reservation, canonical: Callable[[str], str]) -> Overlap | None:
    other = held.scope
    if scope.branch != other.branch or scope.is_nothing or other.is_nothing:
        return None
    if scope.is_whole or other.is_whole:
        return Overlap(reservation=held, certain=True)
    if scope.files and other.files:
        names = set(map(canonical, other.files))
        common = sorted(file for file in set(scope.files) if canonical(file) in names)
        return Overlap(reservation=held, certain=True, files=tuple(common[:FILES_LISTED_MAX])) if common else None
    if scope.partitions and other.partitions:
        return _overlap_of_partitions(scope, held)
    if scope.row_filter is not None and other.row_filter is not None:
        if scope.row_filter == other.row_filter:
            return Overlap(reservation=held, certain=True)
        if _disjoint(scope.row_filter, other.row_filter):
            return None
    return Overlap(reservation=held, certain=False)


def _overlap_of_partitions(scope: Scope, held: Reservation) -> Overlap | None:
    mine = {(one.spec_id, repr(one.partition)) for one in scope.partitions}
    theirs = {(one.spec_id, repr(one.partition)) for one in held.scope.partitions}
    if mine & theirs:
        return Overlap(reservation=held, certain=True)
    comparable = {spec_id for spec_id, _ in mine | theirs}
    return None if len(comparable) == 1 else Overlap(reservation=held, certain=False)


def _disjoint(one: Filter, other: Filter) -> bool:
    try:
        return certainly_disjoint(expression_from_json(one), expression_from_json(other))
    except InvalidInput:
        return False
