"""A row filter asked of files: may a file have rows that match, must all of them match."""

from __future__ import annotations

import msgspec

from firn.coordinator.replay import rules
from firn.coordinator.replay.draft import ManifestRef
from firn.model.datafile import DataFile
from firn.model.delete_index import PartitionKey, partition_key
from firn.model.errors import InvalidInput
from firn.model.expressions.binding import bind
from firn.model.expressions.expression_json import expression_from_json
from firn.model.expressions.manifest_filter import manifest_may_match
from firn.model.expressions.metrics_inclusive import file_may_match
from firn.model.expressions.metrics_strict import file_must_match
from firn.model.expressions.predicates import FALSE, TRUE, Expression
from firn.model.expressions.projection import project_inclusive
from firn.model.expressions.residuals import Residuals
from firn.model.manifest import ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.operations.files import Filter
from firn.model.partitioning import PartitionSpec

_METRICS = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


class FileFilter:
    """A filter bound to the table's current schema.

    Metrics are asked for what of the filter the partition leaves open (its residual), as a scan would.
    """

    def __init__(self, metadata: TableMetadata, filter: Expression) -> None:
        self.filter = filter
        self._metadata = metadata
        self._of_spec: dict[int, tuple[PartitionSpec, Expression, Residuals]] = {}
        self._of_partition: dict[PartitionKey, Expression] = {}

    @classmethod
    def parse(cls, metadata: TableMetadata, filter: Filter | None, *, case_sensitive: bool, where: str) -> FileFilter:
        """The filter of an intent; None matches every row. Refuses one that means nothing for the table as it is."""
        if filter is None:
            return cls(metadata, TRUE)
        try:
            expr = expression_from_json(filter, where=where)
            return cls(metadata, bind(expr, metadata.current_schema, case_sensitive=case_sensitive, where=where))
        except InvalidInput as error:
            rules.INVALID_FILTER.refuse(str(error))

    def opens(self, manifest: ManifestRef) -> bool:
        """Whether a manifest may have files that `may_match`; drafted ones are not pruned."""
        if not isinstance(manifest, ManifestFile):
            return True
        spec, projected, _ = self._spec(manifest.partition_spec_id)
        return manifest_may_match(projected, manifest, spec)

    def may_match(self, file: DataFile) -> bool:
        """Whether some row of the file may match; of a delete file, whether it may delete such a row."""
        residual = self._residual(file)
        if residual in (TRUE, FALSE):
            return residual == TRUE
        if file.content == "data":
            return file_may_match(residual, file)
        if file.content == "position-deletes":
            return True
        # Columns that an equality delete does not compare may hold anything, another value than the deleted row too.
        return file_may_match(residual, _with_metrics_of(file, frozenset(file.equality_ids or ())))

    def must_match(self, file: DataFile) -> bool:
        """Whether every row of the data file matches, as far as its partition and metrics prove it."""
        residual = self._residual(file)
        if residual in (TRUE, FALSE):
            return residual == TRUE
        return file_must_match(residual, file)

    def covers(self, file: DataFile) -> bool:
        """Whether every row that may be in the file's partition matches, whichever file it is in."""
        return self._residual(file) == TRUE

    def _residual(self, file: DataFile) -> Expression:
        key = partition_key(file.spec_id, file.partition)
        found = self._of_partition.get(key)
        if found is None:
            found = self._of_partition[key] = self._spec(file.spec_id)[2].of(file.partition)
        return found

    def _spec(self, spec_id: int) -> tuple[PartitionSpec, Expression, Residuals]:
        found = self._of_spec.get(spec_id)
        if found is None:
            spec = self._metadata.spec_by_id(spec_id)
            assert spec is not None, "what is read back names known specs only"
            found = (spec, project_inclusive(self.filter, spec), Residuals(self.filter, spec))
            self._of_spec[spec_id] = found
        return found


def _with_metrics_of(file: DataFile, ids: frozenset[int]) -> DataFile:
    """The file as if only these columns had metrics."""
    kept = {
        name: {i: value for i, value in metrics.items() if i in ids}
        for name in _METRICS
        if (metrics := getattr(file, name)) is not None
    }
    return msgspec.structs.replace(file, **kept)
