"""What a manifest list says of a manifest, computed from its entries: counts, least sequence number, partition ranges
(table specification, "Manifest Lists").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import copysign, isnan
from typing import Any

import msgspec

from firn.model import values
from firn.model.errors import InvalidInput
from firn.model.foreign_value import ForeignValue, is_single
from firn.model.manifest import FieldSummary, ManifestEntry, ManifestFile, Status
from firn.model.types import FLOAT, PrimitiveType, StructType, Type


class ManifestCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Files and rows of a manifest by the status of their entries."""

    added_files: int = 0
    existing_files: int = 0
    deleted_files: int = 0
    added_rows: int = 0
    existing_rows: int = 0
    deleted_rows: int = 0

    @property
    def live_files(self) -> int:
        """Files that are part of the table."""
        return self.added_files + self.existing_files

    @property
    def live_rows(self) -> int:
        """Rows of the files that are part of the table."""
        return self.added_rows + self.existing_rows


def count_entries(entries: Iterable[ManifestEntry]) -> ManifestCounts:
    """Files and rows by status."""
    files = [0, 0, 0]
    rows = [0, 0, 0]
    for entry in entries:
        files[entry.status] += 1
        rows[entry.status] += entry.data_file.record_count
    return ManifestCounts(
        added_files=files[Status.ADDED],
        existing_files=files[Status.EXISTING],
        deleted_files=files[Status.DELETED],
        added_rows=rows[Status.ADDED],
        existing_rows=rows[Status.EXISTING],
        deleted_rows=rows[Status.DELETED],
    )


def count_mismatches(manifest: ManifestFile, counts: ManifestCounts) -> tuple[str, ...]:
    """Where a manifest's entries differ from what its manifest list says; what the list leaves out is not compared."""
    pairs = (
        ("added files", manifest.added_files_count, counts.added_files),
        ("existing files", manifest.existing_files_count, counts.existing_files),
        ("deleted files", manifest.deleted_files_count, counts.deleted_files),
        ("added rows", manifest.added_rows_count, counts.added_rows),
        ("existing rows", manifest.existing_rows_count, counts.existing_rows),
        ("deleted rows", manifest.deleted_rows_count, counts.deleted_rows),
    )
    return tuple(
        f"{found} {name} where the manifest list says {listed}"
        for name, listed, found in pairs
        if listed is not None and listed != found
    )


def least_sequence_number(entries: Iterable[ManifestEntry]) -> int | None:
    """Least data sequence number that live entries state themselves; None when all inherit the commit's.

    An entry that inherits is never older than one that does not, so it can be left out where there are others.
    """
    stated = {entry.sequence_number for entry in entries if entry.status is not Status.DELETED}
    return min((number for number in stated if number is not None), default=None)


def summarize_partitions(
    partition_type: StructType, partitions: Iterable[Sequence[Any]]
) -> tuple[FieldSummary, ...] | None:
    """A summary for each field of `partition_type` over tuples of internal values.

    None where some value is not of its field's type, so that it has no bound: readers take bounds that are missing for
    fields without values, and summaries that are missing for any value.
    """
    try:
        return _summaries(partition_type, list(partitions))
    except InvalidInput:
        return None


def _summaries(partition_type: StructType, tuples: Iterable[Sequence[Any]]) -> tuple[FieldSummary, ...]:
    if not any(_is_floating(field.type) for field in partition_type.fields):  # a set keeps only one of -0.0 and +0.0
        tuples = set(tuples)
        if len(tuples) == 1:
            (only,) = tuples
            return tuple(
                _summary_of_one(field.type, value) for field, value in zip(partition_type.fields, only, strict=True)
            )
    return tuple(
        _summarize(field.type, [partition[position] for partition in tuples])
        for position, field in enumerate(partition_type.fields)
    )


@lru_cache(maxsize=4096, typed=True)
def _summary_of_one(type: Type, value: Any) -> FieldSummary:
    """The summary of a partition field with one value, as manifests of small commits have it."""
    return _summarize(type, [value])


def _summarize(type: Type, column: list[Any]) -> FieldSummary:
    floating = _is_floating(type)
    known = [value for value in column if value is not None]
    if any(isinstance(value, ForeignValue) or (type == FLOAT and not is_single(value)) for value in known):
        raise InvalidInput("a value of another type has no place in a range")
    ranged = [value for value in known if not isnan(value)] if floating else known
    order: Callable[[Any], Any] | None = _float_order if floating else None
    return FieldSummary(
        contains_null=len(known) < len(column),
        contains_nan=len(ranged) < len(known),
        lower_bound=values.to_bytes(type, min(ranged, key=order)) if ranged else None,
        upper_bound=values.to_bytes(type, max(ranged, key=order)) if ranged else None,
    )


def combine_summaries(
    partition_type: StructType, summaries: Sequence[Sequence[FieldSummary]]
) -> tuple[FieldSummary, ...]:
    """One summary for each field over several manifests, each with its own in the same order.

    Raises InvalidInput for bounds that are not of their field's type.
    """
    return tuple(
        _combine(field.type, [one[position] for one in summaries])
        for position, field in enumerate(partition_type.fields)
    )


def _combine(type: Type, summaries: Sequence[FieldSummary]) -> FieldSummary:
    nans = {summary.contains_nan for summary in summaries}
    order: Callable[[Any], Any] | None = _float_order if _is_floating(type) else None
    lowers = {s.lower_bound for s in summaries if s.lower_bound is not None}
    uppers = {s.upper_bound for s in summaries if s.upper_bound is not None}
    lower = min((values.from_bytes(type, bound) for bound in lowers), key=order, default=None)
    upper = max((values.from_bytes(type, bound) for bound in uppers), key=order, default=None)
    return FieldSummary(
        contains_null=any(summary.contains_null for summary in summaries),
        contains_nan=True if True in nans else None if None in nans else False,
        lower_bound=None if lower is None else values.to_bytes(type, lower),
        upper_bound=None if upper is None else values.to_bytes(type, upper),
    )


def _is_floating(type: Type) -> bool:
    return isinstance(type, PrimitiveType) and type.name in {"float", "double"}


def _float_order(value: float) -> tuple[float, float]:
    """-0.0 before +0.0, which Python calls equal."""
    return value, copysign(1.0, value)
