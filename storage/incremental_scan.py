"""Scans of what changed between two snapshots: rows appended, or files added and deleted.

As in the Java library the table's current schema is used, and both follow the parents of the last snapshot.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from firn.model.ancestry import is_ancestor
from firn.model.errors import ChangesUnavailableError, InvalidInput, NotFound, Unsupported
from firn.model.expressions.binding import bind
from firn.model.expressions.predicates import TRUE, Expression
from firn.model.manifest import ManifestFile, Status
from firn.model.metadata import TableMetadata
from firn.model.scan_plan import ChangePlan, ChangeTask, ScanPlan
from firn.model.scan_target import snapshots_in_range
from firn.model.snapshot import MAIN_BRANCH, Snapshot
from firn.storage.manifest_reader import ManifestReader
from firn.storage.scan_planner import Planner, projection_of
from firn.storage.snapshot_changes import check_counts, metadata_there


class SnapshotRange(msgspec.Struct, frozen=True, kw_only=True):
    """Which snapshots: those after `from_snapshot_id`, or with `from_inclusive` from it on, up to `to_snapshot_id`.

    Without the first, from the oldest that is known; without the last, to the head of `branch` (None is ``main``). With
    both a last and a branch, the last must be on it. `table_uuid` is that of the table in which `from_snapshot_id` was
    seen: a table that was made anew under the name is then refused as such. `from_beginning`: no snapshot before the
    first that is known may have expired.
    """

    from_snapshot_id: int | None = None
    from_inclusive: bool = False
    to_snapshot_id: int | None = None
    branch: str | None = None
    table_uuid: str | None = None
    from_beginning: bool = False

    def resolve(self, metadata: TableMetadata) -> tuple[Snapshot, ...]:
        """Return the snapshots, oldest first; none for an empty table.

        Raises ChangesUnavailableError where they are not all known, NotFound for a branch that is not there.
        """
        if self.table_uuid is not None and self.table_uuid != metadata.table_uuid:
            raise ChangesUnavailableError(
                f"the window begins in table {self.table_uuid}, and this is {metadata.table_uuid}: it was made anew",
                reason="table-replaced",
                where="table-uuid",
                hint="start again from a full read",
            )
        head = metadata.head(self.branch or MAIN_BRANCH)
        if head is None and self.branch not in {None, MAIN_BRANCH}:
            raise NotFound(f"there is no branch {self.branch!r}")
        to_id = self.to_snapshot_id
        if to_id is None:
            if head is None and self.from_snapshot_id is None:
                return ()
            if head is None:
                raise ChangesUnavailableError(
                    f"there is no snapshot {self.from_snapshot_id}: the table is empty",
                    reason="history-rewritten",
                    where="from-snapshot-id",
                    hint="start again from a full read",
                )
            to_id = head.snapshot_id
        elif self.branch is not None and not (
            head is not None and is_ancestor(metadata, ancestor_id=to_id, descendant_id=head.snapshot_id)
        ):
            raise InvalidInput(f"snapshot {to_id} is not on branch {self.branch!r}", where="to-snapshot-id")
        found = snapshots_in_range(
            metadata, from_snapshot_id=self.from_snapshot_id, from_inclusive=self.from_inclusive, to_snapshot_id=to_id
        )
        if self.from_beginning and found[0].parent_snapshot_id is not None:
            raise ChangesUnavailableError(
                f"what came before snapshot {found[0].snapshot_id} expired",
                reason="base-expired",
                where="from-beginning",
                hint="start again from a full read",
            )
        return found


EVERYTHING = SnapshotRange()
"""All of the history of ``main`` that is known."""


def plan_appends(
    metadata: TableMetadata,
    *,
    files: ManifestReader,
    snapshots: SnapshotRange = EVERYTHING,
    filter: Expression = TRUE,
    case_sensitive: bool = True,
    columns: Collection[str] | None = None,
) -> ScanPlan:
    """The data files that the range's *append* snapshots added and that may have rows which `filter` matches.

    What other snapshots did is not seen: neither their files nor their deletes. Other arguments and errors as in
    `firn.storage.table_scan.plan_scan`.
    """
    found = snapshots.resolve(metadata)
    schema = metadata.current_schema
    bound = bind(filter, schema, case_sensitive=case_sensitive)
    projection = projection_of(schema, columns, case_sensitive=case_sensitive)
    planner = Planner(metadata, files, bound)
    appends = [snapshot for snapshot in found if snapshot.operation == "append"]
    ids = frozenset(snapshot.snapshot_id for snapshot in appends)
    entries = planner.data_entries(
        _manifests_added_by(appends, metadata, files, counted=("added-data-files",)),
        may_hold=lambda manifest: manifest.added_files_count != 0,
        wanted=lambda entry: entry.status is Status.ADDED and entry.snapshot_id in ids,
    )
    with metadata_there():
        tasks = tuple([planner.task(entry) for entry in entries])
    return ScanPlan(
        snapshot_id=found[-1].snapshot_id if found else snapshots.to_snapshot_id,
        schema=schema,
        projection=projection,
        filter=bound,
        tasks=tasks,
        metrics=planner.metrics(),
    )


def plan_changes(
    metadata: TableMetadata,
    *,
    files: ManifestReader,
    snapshots: SnapshotRange = EVERYTHING,
    filter: Expression = TRUE,
    case_sensitive: bool = True,
    columns: Collection[str] | None = None,
) -> ChangePlan:
    """The data files that each snapshot of the range added or deleted and that may have rows which `filter` matches.

    Snapshots that only replaced files by others with the same rows are left out. Raises Unsupported when one of the
    others has delete files, as the Java library does: which rows those deleted is not a matter of files.
    """
    found = snapshots.resolve(metadata)
    schema = metadata.current_schema
    bound = bind(filter, schema, case_sensitive=case_sensitive)
    projection = projection_of(schema, columns, case_sensitive=case_sensitive)
    planner = Planner(metadata, files, bound)
    changing = [snapshot for snapshot in found if snapshot.operation != "replace"]
    ordinals = {snapshot.snapshot_id: at for at, snapshot in enumerate(changing)}
    counted = ("added-data-files", "deleted-data-files")
    manifests = _manifests_added_by(changing, metadata, files, counted=counted, refuse_deletes=True)
    entries = planner.data_entries(
        manifests,
        may_hold=lambda manifest: manifest.added_files_count != 0 or manifest.deleted_files_count != 0,
        wanted=lambda entry: entry.status is not Status.EXISTING and entry.snapshot_id in ordinals,
    )
    with metadata_there():
        tasks = [
            ChangeTask(
                change="insert" if entry.status is Status.ADDED else "delete",
                ordinal=ordinals[entry.snapshot_id],
                snapshot_id=entry.snapshot_id,
                task=planner.task(entry),
            )
            for entry in entries
            if entry.snapshot_id is not None
        ]
    return ChangePlan(
        to_snapshot_id=found[-1].snapshot_id if found else snapshots.to_snapshot_id,
        schema=schema,
        projection=projection,
        filter=bound,
        tasks=tuple(sorted(tasks, key=lambda task: task.ordinal)),
        metrics=planner.metrics(),
    )


def _manifests_added_by(
    snapshots: list[Snapshot],
    metadata: TableMetadata,
    files: ManifestReader,
    *,
    counted: Collection[str],
    refuse_deletes: bool = False,
) -> list[ManifestFile]:
    """Return the manifests that these snapshots wrote, each once: later lists repeat those of earlier ones.

    Raises ChangesUnavailableError where they record fewer files than the summaries count under the names `counted`.
    """
    ids = frozenset(snapshot.snapshot_id for snapshot in snapshots)
    found: dict[str, ManifestFile] = {}
    for snapshot in snapshots:
        with metadata_there():
            listed = files.manifests(metadata, snapshot)
        check_counts(snapshot, listed, counted)
        for manifest in listed:
            if refuse_deletes and manifest.content == "deletes":
                raise Unsupported(
                    f"snapshot {snapshot.snapshot_id} has delete files, which a scan of changes does not resolve"
                )
            if manifest.content == "data" and manifest.added_snapshot_id in ids:
                found.setdefault(manifest.manifest_path, manifest)
    return list(found.values())
