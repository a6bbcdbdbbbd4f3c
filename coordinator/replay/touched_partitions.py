"""The partitions that some files are in, asked of files of any partition spec: are they inside, may they reach in.

A table's spec changes, its old files stay as they are. Of a file of another spec, its own partition and its metrics
tell what is known of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from firn.coordinator.replay.draft import ManifestRef
from firn.coordinator.replay.file_filter import FileFilter
from firn.model.datafile import DataFile
from firn.model.delete_index import partition_key
from firn.model.errors import InvalidInput
from firn.model.expressions.binding import bind_term
from firn.model.expressions.predicates import (
    FALSE,
    BoundPredicate,
    BoundTerm,
    Expression,
    and_,
    or_,
    ref_id,
    set_predicate,
    transformed,
)
from firn.model.metadata import TableMetadata
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.transforms import Void

PARTITIONS_TOLD_APART_MAX: Final = 1_000
"""Partitions of several fields that files of other specs are compared with one by one; past it, field by field."""


class TouchedPartitions:
    """The partitions of some files. Those of an unpartitioned spec are in the whole table, whatever its spec was."""

    def __init__(self, metadata: TableMetadata, files: Sequence[DataFile]) -> None:
        self._metadata = metadata
        self._keys = {partition_key(file.spec_id, file.partition) for file in files}
        self._tuples: dict[int, dict[Any, tuple[Any, ...]]] = {}
        for file in files:
            key = partition_key(file.spec_id, file.partition)
            self._tuples.setdefault(file.spec_id, {})[key] = file.partition
        self._everything = any(not self._spec(spec_id).is_partitioned for spec_id in self._tuples)
        self._rows: _Rows | None = None

    def opens(self, manifest: ManifestRef) -> bool:
        """Whether the manifest may have files that reach into these partitions."""
        if self._everything or manifest.partition_spec_id in self._tuples:
            return True
        return self._filter().may.opens(manifest)

    def covers(self, file: DataFile) -> bool:
        """Whether all rows of the data file are in these partitions; of a delete file, whether it is for no others."""
        if self._everything or partition_key(file.spec_id, file.partition) in self._keys:
            return True
        if self._has_only(file.spec_id):
            return False
        exact = self._filter().must
        return exact is not None and (exact.must_match(file) if file.content == "data" else exact.covers(file))

    def may_have(self, file: DataFile) -> bool:
        """Whether some row of the data file may be in one of them, or the delete file may reach into one."""
        if self._everything or partition_key(file.spec_id, file.partition) in self._keys:
            return True
        if self._has_only(file.spec_id):
            return False
        rows = self._filter()
        return rows.may.may_match(file) and (rows.must is None or rows.must.may_match(file))

    def _has_only(self, spec_id: int) -> bool:
        return len(self._tuples) == 1 and spec_id in self._tuples

    def _spec(self, spec_id: int) -> PartitionSpec:
        spec = self._metadata.spec_by_id(spec_id)
        assert spec is not None, "files that are bound name known specs only"
        return spec

    def _filter(self) -> _Rows:
        if self._rows is None:
            self._rows = _Rows(
                self._metadata,
                [(self._spec(spec_id), list(tuples.values())) for spec_id, tuples in self._tuples.items()],
            )
        return self._rows


class _Rows:
    """What rows in some partitions have in common: `may` is true of all of them, `must` of them and no others.

    `must` is None where that cannot be said: a column is gone, no filter tells the partition from another, or there are
    too many.
    """

    def __init__(self, metadata: TableMetadata, parts: Iterable[tuple[PartitionSpec, list[tuple[Any, ...]]]]) -> None:
        may: list[Expression] = []
        must: list[Expression] | None = []
        for spec, tuples in parts:
            terms = [_term(metadata, field) for field in spec.fields]
            known = [(at, term) for at, term in enumerate(terms) if term is not None]
            may.append(and_(*(_any_of(term, {one[at] for one in tuples}) for at, term in known)))
            void = sum(isinstance(field.parsed_transform, Void) for field in spec.fields)
            zero = any(isinstance(value, float) and value == 0 for one in tuples for value in one)
            many = len(known) > 1 and len(tuples) > PARTITIONS_TOLD_APART_MAX
            if len(known) + void < len(spec.fields) or many or zero:  # a filter takes 0.0 and -0.0 for the same
                must = None
            elif must is not None and len(known) == 1:
                must.append(may[-1])
            elif must is not None:
                must += [and_(*(_any_of(term, {one[at]}) for at, term in known)) for one in tuples]
        self.may = FileFilter(metadata, or_(*may))
        self.must = None if must is None else FileFilter(metadata, or_(*must))


def _term(metadata: TableMetadata, field: PartitionField) -> BoundTerm | None:
    """The value that the field partitions by; None for one that no filter can ask about."""
    if len(field.source_ids) != 1:
        return None
    try:
        return bind_term(transformed(field.transform, ref_id(field.source_ids[0])), metadata.current_schema)
    except InvalidInput:
        return None


def _any_of(term: BoundTerm, values: Iterable[Any]) -> Expression:
    """The term has one of the values, null and NaN among them."""
    nulls, nans, others = False, False, []
    for value in values:
        if value is None:
            nulls = True
        elif isinstance(value, float) and math.isnan(value):
            nans = True
        else:
            others.append(value)
    return or_(
        set_predicate("in", term, others) if others else FALSE,
        BoundPredicate("is-null", term) if nulls and term.nullable else FALSE,
        BoundPredicate("is-nan", term) if nans and term.floating else FALSE,
    )
