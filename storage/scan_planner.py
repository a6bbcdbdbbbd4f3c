"""What the kinds of scans have in common: manifests opened or left out, files kept or skipped, all of it counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import msgspec

from firn.model.datafile import DataFile
from firn.model.delete_index import DeleteIndex, age_of
from firn.model.errors import CorruptFile
from firn.model.expressions.manifest_filter import manifest_may_match
from firn.model.expressions.metrics_inclusive import file_may_match
from firn.model.expressions.predicates import Expression
from firn.model.expressions.projection import partition_matches, project_inclusive
from firn.model.expressions.residuals import Residuals
from firn.model.manifest import ManifestContent, ManifestEntry, ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.partitioning import PartitionSpec
from firn.model.reserved import METADATA_COLUMNS
from firn.model.scan_plan import FileScanTask, ScanMetrics, delete_size
from firn.model.schema import Schema
from firn.model.schema_projection import select
from firn.model.types import StructType
from firn.storage.manifest_reader import ManifestReader


def projection_of(schema: Schema, columns: Collection[str] | None, *, case_sensitive: bool) -> Schema:
    """The columns with these dotted names, None for all; metadata columns come last and only when they are named.

    A column of the table that is called like a metadata column is what its name means. Raises InvalidSchema for a
    name that does not exist.
    """
    if columns is None:
        return schema
    reserved = [name for name in METADATA_COLUMNS if name in columns and schema.find_field(name) is None]
    chosen = select(schema, [name for name in columns if name not in reserved], case_sensitive=case_sensitive)
    fields = (*chosen.fields, *(METADATA_COLUMNS[name] for name in reserved))
    return msgspec.structs.replace(chosen, struct=StructType(fields))


class Planner:
    """Plans one scan: which entries of which manifests a filter, bound to a schema of the table, leaves to read."""

    def __init__(self, metadata: TableMetadata, reader: ManifestReader, filter: Expression) -> None:
        self._metadata = metadata
        self._reader = reader
        self._filter = filter
        self._partition_filters: dict[int, _PartitionFilter] = {}
        self._counts: Counter[str] = Counter()

    def data_entries(
        self,
        manifests: Iterable[ManifestFile],
        *,
        may_hold: Callable[[ManifestFile], bool] = lambda manifest: manifest.may_have_live_files,
        wanted: Callable[[ManifestEntry], bool] = lambda entry: entry.is_live,
    ) -> Iterator[ManifestEntry]:
        """The `wanted` entries that may have matching rows, of manifests that `may_hold` any, in order."""
        for manifest in self._opened(manifests, "data", may_hold):
            partitions = self._of_spec(manifest.partition_spec_id, manifest.manifest_path)
            for entry in self._reader.entries(self._metadata, manifest):
                if not wanted(entry):
                    continue
                file = entry.data_file
                if partitions.may_match(file) and file_may_match(self._filter, file):
                    yield entry
                else:
                    self._counts["skipped_data_files"] += 1

    def deletes_for(
        self,
        data: Sequence[ManifestEntry],
        manifests: Iterable[ManifestFile],
        *,
        may_hold: Callable[[ManifestFile], bool] = lambda manifest: manifest.may_have_live_files,
        wanted: Callable[[ManifestEntry], bool] = lambda entry: entry.is_live,
    ) -> DeleteIndex:
        """The `wanted` deletes that may matter to these data files. Raises CorruptFile as `DeleteIndex` does."""
        oldest = min(map(age_of, data), default=None)
        return DeleteIndex(
            self._delete_entries(manifests, oldest=oldest, may_hold=may_hold, wanted=wanted),
            specs={spec.spec_id: spec for spec in self._metadata.partition_specs},
            schemas=(self._metadata.current_schema, *self._metadata.schemas),
        )

    def task(self, entry: ManifestEntry, deletes: tuple[DataFile, ...] = ()) -> FileScanTask:
        """The task of reading one data file."""
        file = entry.data_file
        partitions = self._of_spec(file.spec_id, file.file_path)
        self._counts["result_data_files"] += 1
        self._counts["result_delete_files"] += len(deletes)
        self._counts["total_file_size_in_bytes"] += file.file_size_in_bytes
        self._counts["total_delete_file_size_in_bytes"] += sum(map(delete_size, deletes))
        return FileScanTask(
            file=file,
            sequence_number=age_of(entry),
            snapshot_id=entry.snapshot_id,
            deletes=deletes,
            residual=partitions.residuals.of(file.partition),
            spec=partitions.spec,
        )

    def metrics(self) -> ScanMetrics:
        """What was counted so far."""
        return ScanMetrics(**self._counts)

    def _opened(
        self, manifests: Iterable[ManifestFile], content: ManifestContent, may_hold: Callable[[ManifestFile], bool]
    ) -> Iterator[ManifestFile]:
        kind = "data" if content == "data" else "delete"
        for manifest in manifests:
            if manifest.content != content:
                continue
            partitions = self._of_spec(manifest.partition_spec_id, manifest.manifest_path)
            opened = may_hold(manifest) and manifest_may_match(partitions.projected, manifest, partitions.spec)
            self._counts[f"total_{kind}_manifests"] += 1
            self._counts[f"{'scanned' if opened else 'skipped'}_{kind}_manifests"] += 1
            if opened:
                yield manifest

    def _delete_entries(
        self,
        manifests: Iterable[ManifestFile],
        *,
        oldest: int | None,
        may_hold: Callable[[ManifestFile], bool],
        wanted: Callable[[ManifestEntry], bool],
    ) -> Iterator[ManifestEntry]:
        """The deletes that may matter to files no older than `oldest`; None when there are no files."""
        # No manifest holds anything younger than itself, and deletes reach nothing younger than themselves.
        for manifest in self._opened(
            manifests,
            "deletes",
            lambda one: oldest is not None and may_hold(one) and one.sequence_number >= oldest,
        ):
            partitions = self._of_spec(manifest.partition_spec_id, manifest.manifest_path)
            for entry in self._reader.entries(self._metadata, manifest):
                if not wanted(entry):
                    continue
                file = entry.data_file
                if not partitions.may_match(file) or not self._may_delete(file):
                    self._counts["skipped_delete_files"] += 1
                    continue
                self._counts["indexed_delete_files"] += 1
                self._counts[_kind_of(file)] += 1
                yield entry

    def _may_delete(self, file: DataFile) -> bool:
        """Whether a row that the filter matches may be deleted by an equality delete file; others may always."""
        if file.content != "equality-deletes":
            return True
        # Columns that are not compared may hold anything, another value than the deleted row has too.
        ids = frozenset(file.equality_ids or ())
        return file_may_match(self._filter, _with_metrics_of(file, ids))

    def _of_spec(self, spec_id: int, location: str) -> _PartitionFilter:
        found = self._partition_filters.get(spec_id)
        if found is None:
            spec = self._metadata.spec_by_id(spec_id)
            if spec is None:
                raise CorruptFile(location, f"partition spec {spec_id} is not in the table's metadata")
            found = self._partition_filters[spec_id] = _PartitionFilter(self._filter, spec)
        return found


class _PartitionFilter:
    """What a filter says of the partitions of one spec."""

    def __init__(self, filter: Expression, spec: PartitionSpec) -> None:
        self.spec = spec
        self.projected = project_inclusive(filter, spec)
        self.residuals = Residuals(filter, spec)

    def may_match(self, file: DataFile) -> bool:
        return partition_matches(self.projected, self.spec, file.partition)


def _kind_of(delete: DataFile) -> str:
    if delete.is_deletion_vector:
        return "dvs"
    return "equality_delete_files" if delete.content == "equality-deletes" else "positional_delete_files"


def _with_metrics_of(file: DataFile, ids: frozenset[int]) -> DataFile:
    """The file as if only these columns had metrics."""
    names = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    kept = {
        name: {i: value for i, value in metrics.items() if i in ids}
        for name in names
        if (metrics := getattr(file, name)) is not None
    }
    return msgspec.structs.replace(file, **kept)
