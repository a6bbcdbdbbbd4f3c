"""Whether a rewrite may change which rows there are: the specification's words, file by file, delete by delete.

"An equality delete file must be applied to a data file when the data file's data sequence number is strictly less than
the delete's data sequence number, and the data file's partition (both spec id and partition values) is equal to the
delete file's partition or the delete file's partition spec is unpartitioned." Of rows, what files say is known: their
partition, and bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from firn.model.datafile import DataFile
from firn.model.intent import Replace
from firn.model.manifest import ManifestEntry
from firn.model.metadata import TableMetadata
from firn.model.partitioning import PartitionSpec
from firn.model.types import DOUBLE, PrimitiveType
from firn.model.values import from_bytes
from firn.storage.files import FileStore
from firn.storage.manifest_reader import StoredManifests
from tests.unit.coordinator.row_model.file_maker import newest_first
from tests.unit.coordinator.row_model.rows import key_of


class Values(msgspec.Struct, frozen=True):
    """What a column of a file may hold: nulls, NaN, and others between two bounds (None: unknown)."""

    nulls: bool = True
    nans: bool = True
    others: bool = True
    low: Any = None
    high: Any = None


class RewriteOracle:
    """Asked of one rewrite when its turn comes: `base_sequence_number` is of the snapshot that it was planned on."""

    def __init__(
        self, files: FileStore, intent: Replace, added: tuple[DataFile, ...], base_sequence_number: int
    ) -> None:
        self._reader = StoredManifests(files)
        self._added = added
        self._removed = intent.removed_data_files
        self._number = intent.data_sequence_number
        self._base = base_sequence_number

    def may_change_rows(self, metadata: TableMetadata, head: int) -> bool:
        """Whether some row may be there after the rewrite that was not there before, or the other way round."""
        live = list(self._live(metadata, head))
        removed = [entry for entry in live if entry.data_file.file_path in self._removed]
        deletes = [entry for entry in live if entry.data_file.content == "equality-deletes"]
        return any(
            self._changes(metadata, delete, old, new) for delete in deletes for old in removed for new in self._added
        )

    def _changes(self, metadata: TableMetadata, delete: ManifestEntry, old: ManifestEntry, new: DataFile) -> bool:
        age, was = _age(delete), _age(old)
        before = was < age and _in_scope(metadata, delete.data_file, old.data_file)
        after = self._number is not None and self._number < age and _in_scope(metadata, delete.data_file, new)
        if before == after or (before and age <= self._base):  # the writer has read its files with all that was there
            return False
        return _may_share_rows(metadata, old.data_file, new) and all(
            _may_share(*(_values(metadata, file, column) for file in (delete.data_file, old.data_file, new)))
            for column in delete.data_file.equality_ids or ()
        )

    def _live(self, metadata: TableMetadata, head: int) -> Iterator[ManifestEntry]:
        snapshot = metadata.snapshot_by_id(head)
        assert snapshot is not None
        for manifest in self._reader.manifests(metadata, snapshot):
            yield from (entry for entry in self._reader.entries(metadata, manifest) if entry.is_live)


def _age(entry: ManifestEntry) -> int:
    assert entry.sequence_number is not None
    return entry.sequence_number


def _spec(metadata: TableMetadata, file: DataFile) -> PartitionSpec:
    spec = metadata.spec_by_id(file.spec_id)
    assert spec is not None
    return spec


def _in_scope(metadata: TableMetadata, delete: DataFile, file: DataFile) -> bool:
    same = key_of((delete.spec_id, delete.partition)) == key_of((file.spec_id, file.partition))
    return same or not _spec(metadata, delete).fields


def _may_share_rows(metadata: TableMetadata, one: DataFile, other: DataFile) -> bool:
    """Whether a row may be in both: by partition fields that both have, and by every column."""
    ours, theirs = (
        {
            (f.source_id, f.transform): key_of(v)
            for f, v in zip(_spec(metadata, file).fields, file.partition, strict=True)
        }
        for file in (one, other)
    )
    if any(ours[field] != theirs[field] for field in ours.keys() & theirs.keys()):
        return False
    columns = metadata.current_schema.fields_by_id
    return all(_may_share(_values(metadata, one, i), _values(metadata, other, i)) for i in columns)


def _values(metadata: TableMetadata, file: DataFile, column: int) -> Values:
    for field, value in zip(_spec(metadata, file).fields, file.partition, strict=True):
        if (field.source_id, field.transform) == (column, "identity"):
            nan = isinstance(value, float) and math.isnan(value)
            bound = None if nan else value
            return Values(nulls=value is None, nans=nan, others=bound is not None, low=bound, high=bound)
    known = next(s.fields_by_id[column] for s in newest_first(metadata) if column in s.fields_by_id)
    assert isinstance(known.type, PrimitiveType)
    nulls, nans, values = (
        counts or {} for counts in (file.null_value_counts, file.nan_value_counts, file.value_counts)
    )
    low, high = (
        from_bytes(known.type, bounds[column]) if bounds and column in bounds else None
        for bounds in (file.lower_bounds, file.upper_bounds)
    )
    return Values(
        nulls=not known.required and nulls.get(column) != 0,
        nans=known.type == DOUBLE and nans.get(column) != 0,
        others=column not in values or values[column] != nulls.get(column, 0) + nans.get(column, 0),
        low=low,
        high=high,
    )


def _may_share(*columns: Values) -> bool:
    """Whether all may have a value in common."""
    if all(column.nulls for column in columns) or all(column.nans for column in columns):
        return True
    low = max((column.low for column in columns if column.low is not None), default=None)
    high = min((column.high for column in columns if column.high is not None), default=None)
    return all(column.others for column in columns) and (low is None or high is None or low <= high)
