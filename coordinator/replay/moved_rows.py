"""Where the rows of rewritten files may have gone, as far as partitions and metrics tell.

Files are known when a rewrite is judged, rows are not. A rewrite changes no values: a row that went from one file to
another is in the partitions of both, and has a value of every column that both may have.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from firn.coordinator.replay.touched_partitions import TouchedPartitions
from firn.model.datafile import DataFile
from firn.model.delete_index import PartitionKey, partition_key
from firn.model.equality_keys import EqualityKeys, MetricColumns, shared
from firn.model.expressions.column_facts import ColumnFacts
from firn.model.expressions.metrics_inclusive import facts_of_column
from firn.model.expressions.predicates import BoundReference
from firn.model.manifest import ManifestEntry
from firn.model.metadata import TableMetadata
from firn.model.partition_values import as_keys
from firn.model.partitioning import PartitionSpec
from firn.model.transforms import UnknownTransform
from firn.model.types import UUID

COMPARISONS_MAX: Final = 100_000
"""Files with partitions, and columns of two files, that are compared for one rewrite.

Past it, rows may have gone between any files whose partitions agree: more is refused then, never less.
"""


class MovedRows:
    """The rows of `rewritten` files, which are in the `added` ones now."""

    def __init__(
        self,
        metadata: TableMetadata,
        rewritten: Sequence[ManifestEntry],
        added: Sequence[DataFile],
        *,
        columns: MetricColumns,
    ) -> None:
        self._metadata = metadata
        self._columns = columns
        self._rewritten = [entry for entry in rewritten if entry.data_file.record_count]
        self._added = [file for file in added if file.record_count]
        self._near = _ByPartition(metadata, self._rewritten)
        self._partitions: dict[PartitionKey, TouchedPartitions] = {}
        self._facts: dict[str, dict[int, ColumnFacts]] = {}
        self._sources: dict[str, dict[str, ManifestEntry]] = {}
        self._targets: dict[str, list[DataFile]] | None = None
        self._compared = 0

    def targets(self, source: DataFile) -> list[DataFile]:
        """The added files that may have rows of a rewritten one: none where all of its rows had been deleted."""
        if self._targets is None:
            self._targets = {}
            for target in self._added:
                for path in self._sources_of(target):
                    self._targets.setdefault(path, []).append(target)
        return self._targets.get(source.file_path, [])

    def sources(self, target: DataFile) -> list[ManifestEntry]:
        """The rewritten files that rows of an added one may be from."""
        return list(self._sources_of(target).values())

    def facts(self, file: DataFile) -> dict[int, ColumnFacts]:
        """What the metrics of a file say, by column, as far as it was asked for."""
        return self._facts.setdefault(file.file_path, {})

    def may_have(self, keys: EqualityKeys, source: DataFile, target: DataFile) -> bool:
        """Whether rows with keys of equality deletes may have gone from one file to the other."""
        return keys.may_be_among(lambda column: self._shared(column, source, target))

    def _sources_of(self, target: DataFile) -> dict[str, ManifestEntry]:
        found = self._sources.get(target.file_path)
        if found is None:
            near = [entry for entry in self._near.of(target) if self._may_share(entry.data_file, target)]
            # Its rows are from somewhere: if it can have them from no file, what the files say of themselves is wrong.
            found = {entry.data_file.file_path: entry for entry in near or self._rewritten}
            self._sources[target.file_path] = found
        return found

    def _may_share(self, source: DataFile, target: DataFile) -> bool:
        """Whether some row may be in both files, whose partitions agree in the fields that both have."""
        if self._compared >= COMPARISONS_MAX:
            return True
        if source.spec_id != target.spec_id and not (
            self._may_be_in_partition(source, target) and self._may_be_in_partition(target, source)
        ):
            return False
        for field_id in _measured(source) & _measured(target):
            column = self._columns.by_id(field_id)
            self._compared += 1
            if column is not None and self._shared(column, source, target) is None:
                return False
        return True

    def _may_be_in_partition(self, file: DataFile, other: DataFile) -> bool:
        """Whether rows of one file may be in the partition of the other."""
        key = partition_key(other.spec_id, other.partition)
        if key not in self._partitions:
            self._partitions[key] = TouchedPartitions(self._metadata, [other])
        self._compared += 1
        return self._partitions[key].may_have(file)

    def _shared(self, column: BoundReference, source: DataFile, target: DataFile) -> ColumnFacts | None:
        return shared(self._of_column(column, source), self._of_column(column, target), column.type != UUID)

    def _of_column(self, column: BoundReference, file: DataFile) -> ColumnFacts:
        known = self.facts(file)
        if column.field_id not in known:
            known[column.field_id] = facts_of_column(column, file)
        return known[column.field_id]


def _measured(file: DataFile) -> set[int]:
    """The columns that a file has metrics of."""
    maps = (file.lower_bounds, file.upper_bounds, file.null_value_counts, file.nan_value_counts)
    return {field_id for values in maps for field_id in values or ()}


class _ByPartition:
    """Data files by the values of their partition fields, asked for those whose partitions agree with another file's.

    Fields of two specs are the same where they transform the same column in the same way, whatever their names are.
    """

    def __init__(self, metadata: TableMetadata, entries: Sequence[ManifestEntry]) -> None:
        self._fields = {spec.spec_id: _fields(spec) for spec in metadata.partition_specs}
        self._of_spec: dict[int, list[ManifestEntry]] = {}
        for entry in entries:
            self._of_spec.setdefault(entry.data_file.spec_id, []).append(entry)
        self._found: dict[tuple[int, tuple[_Field, ...]], dict[tuple[Hashable, ...], list[ManifestEntry]]] = {}

    def of(self, file: DataFile) -> Iterator[ManifestEntry]:
        """The files that may have rows in common with a file, as far as the fields say that both have."""
        theirs = self._fields[file.spec_id]
        for spec_id, entries in self._of_spec.items():
            same = tuple(field for field in self._fields[spec_id] if field in theirs)
            groups = self._found.get((spec_id, same))
            if groups is None:
                groups = self._found[spec_id, same] = {}
                for entry in entries:
                    groups.setdefault(self._values(entry.data_file, same), []).append(entry)
            yield from groups.get(self._values(file, same), ())

    def _values(self, file: DataFile, fields: Sequence[_Field]) -> tuple[Hashable, ...]:
        at = self._fields[file.spec_id]
        return as_keys(file.partition[at[field]] for field in fields)


_Field = tuple[int, str]
"""What a partition field does: the column, and the transform."""


def _fields(spec: PartitionSpec) -> dict[_Field, int]:
    """The fields of which equal rows have equal values, with their places in the tuple."""
    return {
        (field.source_ids[0], str(field.parsed_transform)): at
        for at, field in enumerate(spec.fields)
        if not isinstance(field.parsed_transform, UnknownTransform)
    }
