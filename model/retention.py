"""Which snapshots and references expire, and why the others stay (table specification, "Snapshot Retention Policy").

Deciding and applying are two steps, so that what would go can be shown first. Files are not looked at here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from firn.model.ancestry import ancestors_of
from firn.model.errors import InvalidInput, NotFound
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import remove_ref, remove_snapshots
from firn.model.snapshot import MAIN_BRANCH, SnapshotRef
from firn.model.table_properties import EXPIRE_REF_AGE_MS, EXPIRE_SNAPSHOT_AGE_MS, EXPIRE_SNAPSHOTS_MIN, GC_ENABLED


class Criteria(msgspec.Struct, frozen=True, kw_only=True):
    """What an expiry asks for; what it leaves out comes from the table's ``history.expire.*`` properties.

    `older_than_ms` is exclusive: a snapshot of exactly that time stays. A branch's own settings win over both.
    `snapshot_ids` expire whatever their age, also among the last that are retained, but not while a reference names
    them: that is an error, or with `keep_referenced` they stay and the decision says so.
    """

    older_than_ms: int | None = None
    retain_last: int | None = None
    snapshot_ids: tuple[int, ...] = ()
    keep_referenced: bool = False


class Expiry(msgspec.Struct, frozen=True, kw_only=True):
    """A decision: every snapshot is in `kept` or in `removed`, every reference that goes in `removed_refs`.

    `kept_refs` would have gone by their age, and are in use. The values are reasons for people.
    """

    kept: dict[int, str]
    removed: dict[int, str]
    removed_refs: dict[str, str]
    kept_refs: dict[str, str] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing expires."""
        return not self.removed and not self.removed_refs


def plan_expiry(
    metadata: TableMetadata,
    criteria: Criteria,
    *,
    now_ms: int,
    in_use: Mapping[int, str] | None = None,
    refs_in_use: Mapping[str, str] | None = None,
) -> Expiry:
    """What expires of a table at `now_ms`.

    `in_use` are snapshots, and `refs_in_use` branches and tags, that must stay for a reason of the caller's, such as an
    intent that was planned on them.
    Raises InvalidInput for criteria that no expiry may have, for a snapshot asked for by id that a reference names, and
    for a table whose files other tables share (``gc.enabled=false``); NotFound for an unknown id.
    """
    _check_criteria(metadata, criteria)
    older_than_ms = criteria.older_than_ms
    if older_than_ms is None:
        older_than_ms = now_ms - EXPIRE_SNAPSHOT_AGE_MS.of(metadata.properties)
    retain_last = criteria.retain_last
    if retain_last is None:
        retain_last = EXPIRE_SNAPSHOTS_MIN.of(metadata.properties)
    aged = _aged_refs(metadata, now_ms)
    kept_refs = {name: why for name, why in (refs_in_use or {}).items() if name in aged}
    removed_refs = {name: why for name, why in aged.items() if name not in kept_refs}
    refs = {name: ref for name, ref in metadata.refs.items() if name not in removed_refs}
    kept = dict(in_use or {})
    for name, ref in refs.items():
        kept.setdefault(ref.snapshot_id, f"{ref.type} {name}")
    removed = _asked_for(criteria, kept=kept, refs=refs)
    referenced: set[int] = {ref.snapshot_id for ref in refs.values()}
    for name, ref in refs.items():
        if ref.type == "branch":
            _keep_branch(
                metadata,
                name,
                ref,
                kept,
                referenced,
                older_than_ms=older_than_ms,
                retain_last=retain_last,
                now_ms=now_ms,
            )
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id not in referenced and snapshot.timestamp_ms >= older_than_ms:
            kept.setdefault(snapshot.snapshot_id, "on no branch, but not old enough")
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id not in kept:
            removed.setdefault(snapshot.snapshot_id, "older than retention allows")
    return Expiry(
        kept={number: why for number, why in kept.items() if number not in removed and _known(metadata, number)},
        removed=removed,
        removed_refs=removed_refs,
        kept_refs=kept_refs,
    )


def _known(metadata: TableMetadata, snapshot_id: int) -> bool:
    return metadata.snapshot_by_id(snapshot_id) is not None


def _check_criteria(metadata: TableMetadata, criteria: Criteria) -> None:
    if not GC_ENABLED.of(metadata.properties):
        raise InvalidInput(
            "cannot expire snapshots: deleting files may corrupt other tables", where=f"properties.{GC_ENABLED.name}"
        )
    if criteria.retain_last is not None and criteria.retain_last < 1:
        raise InvalidInput(
            f"number of snapshots to retain must be at least 1, cannot be: {criteria.retain_last}", where="retain-last"
        )
    for snapshot_id in criteria.snapshot_ids:
        if not _known(metadata, snapshot_id):
            raise NotFound(f"snapshot {snapshot_id} does not exist")


def _asked_for(criteria: Criteria, *, kept: Mapping[int, str], refs: Mapping[str, SnapshotRef]) -> dict[int, str]:
    removed: dict[int, str] = {}
    for snapshot_id in criteria.snapshot_ids:
        names = [name for name, ref in refs.items() if ref.snapshot_id == snapshot_id]
        if names and not criteria.keep_referenced:
            raise InvalidInput(
                f"cannot expire {snapshot_id}, still referenced by refs: {', '.join(names)}", where="snapshot-ids"
            )
        if snapshot_id not in kept:
            removed[snapshot_id] = "asked for by id"
    return removed


def _aged_refs(metadata: TableMetadata, now_ms: int) -> dict[str, str]:
    """References past their age, which is that of the snapshot they name; ``main`` never is."""
    default_ms = EXPIRE_REF_AGE_MS.of(metadata.properties)
    aged = {}
    for name, ref in metadata.refs.items():
        snapshot = metadata.snapshot_by_id(ref.snapshot_id)
        age_max_ms = default_ms if ref.max_ref_age_ms is None else ref.max_ref_age_ms
        if name != MAIN_BRANCH and snapshot is not None and now_ms - snapshot.timestamp_ms > age_max_ms:
            aged[name] = f"older than {age_max_ms} ms"
    return aged


def _keep_branch(
    metadata: TableMetadata,
    name: str,
    ref: SnapshotRef,
    kept: dict[int, str],
    referenced: set[int],
    *,
    older_than_ms: int,
    retain_last: int,
    now_ms: int,
) -> None:
    """Keep a branch's newest snapshots until one is both beyond the count and too old; none behind that one stays."""
    if ref.max_snapshot_age_ms is not None:
        older_than_ms = now_ms - ref.max_snapshot_age_ms
    count_min = retain_last if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep
    keeping = True
    for position, snapshot in enumerate(ancestors_of(metadata, ref.snapshot_id)):
        referenced.add(snapshot.snapshot_id)
        if position < count_min:
            why = f"one of the last {count_min} of {name}"
        elif snapshot.timestamp_ms >= older_than_ms:
            why = f"not old enough on {name}"
        else:
            keeping = False
        if keeping:
            kept.setdefault(snapshot.snapshot_id, why)


def apply_expiry(metadata: TableMetadata, expiry: Expiry, *, now_ms: int) -> TableMetadata:
    """The metadata after an expiry that was planned on it."""
    for name in expiry.removed_refs:
        metadata = remove_ref(metadata, name, now_ms=now_ms)
    return remove_snapshots(metadata, expiry.removed.keys(), now_ms=now_ms)


def unused_schema_ids(metadata: TableMetadata) -> tuple[int, ...]:
    """Schemas that neither new data nor a snapshot needs, for cleaning up after an expiry."""
    used = {snapshot.schema_id for snapshot in metadata.snapshots} | {metadata.current_schema_id}
    return tuple(schema.schema_id for schema in metadata.schemas if schema.schema_id not in used)


def unused_spec_ids(metadata: TableMetadata, *, manifest_spec_ids: Collection[int]) -> tuple[int, ...]:
    """Specs that neither new data nor a manifest needs, given the specs of all manifests of all snapshots."""
    used = {*manifest_spec_ids, metadata.default_spec_id}
    return tuple(spec.spec_id for spec in metadata.partition_specs if spec.spec_id not in used)
