"""Scan planning: the files that a filter leaves to read, with their deletes (table specification, "Scan Planning").

Manifests are left out by the partition ranges of the manifest list, files by their partition and their metrics,
deletes by all of these and by age. Whatever is left out cannot matter; what is left in may turn out not to match.
"""

from __future__ import annotations

from collections.abc import Collection

from firn.model.expressions.binding import bind
from firn.model.expressions.predicates import TRUE, Expression
from firn.model.metadata import TableMetadata
from firn.model.scan_plan import ScanPlan
from firn.model.scan_target import scan_target
from firn.storage.manifest_reader import ManifestReader
from firn.storage.scan_planner import Planner, projection_of


def plan_scan(
    metadata: TableMetadata,
    *,
    files: ManifestReader,
    filter: Expression = TRUE,
    snapshot_id: int | None = None,
    ref: str | None = None,
    as_of_ms: int | None = None,
    case_sensitive: bool = True,
    columns: Collection[str] | None = None,
) -> ScanPlan:
    """The files of one snapshot that may have rows which `filter`, over column names, matches.

    `snapshot_id`, `ref` and `as_of_ms` are those of `scan_target`; `columns` are dotted names, metadata columns among
    them, None for all of the table's. Raises InvalidInput for a filter or columns that do not fit the schema, NotFound
    for a snapshot that does not exist, CorruptFile for damaged or contradictory metadata files.
    """
    target = scan_target(metadata, snapshot_id=snapshot_id, ref=ref, as_of_ms=as_of_ms)
    bound = bind(filter, target.schema, case_sensitive=case_sensitive)
    projection = projection_of(target.schema, columns, case_sensitive=case_sensitive)
    planner = Planner(metadata, files, bound)
    manifests = () if target.snapshot is None else files.manifests(metadata, target.snapshot)
    data = list(planner.data_entries(manifests))
    deletes = planner.deletes_for(data, manifests)
    tasks = tuple(planner.task(entry, deletes.of(entry)) for entry in data)
    return ScanPlan(
        snapshot_id=None if target.snapshot is None else target.snapshot.snapshot_id,
        schema=target.schema,
        projection=projection,
        filter=bound,
        tasks=tasks,
        metrics=planner.metrics(),
    )
