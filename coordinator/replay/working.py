"""The table while intents are applied to it: metadata as it would be, heads, drafted snapshots.

A `Working` lives for one attempt of one batch. It never changes the base state it was made from: a lost swap just
drops it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Final, Literal, NoReturn

import msgspec

from firn.coordinator.journal.landmarks import Landmarks
from firn.coordinator.replay import rules
from firn.coordinator.replay.attempt import Attempt, FinishedMerge, Placement
from firn.coordinator.replay.capacity import EMPTY, Totals, require_row_ids, totals_of
from firn.coordinator.replay.draft import DraftManifest, DraftSnapshot, ManifestRef, TableChange, location_of
from firn.coordinator.replay.head import Head
from firn.coordinator.replay.holds import Hold
from firn.coordinator.replay.known_deletes import find_deletes
from firn.coordinator.replay.live_deletes import LiveDeletes
from firn.coordinator.replay.live_files import LiveFiles
from firn.coordinator.replay.reader import TableReader
from firn.model.datafile import DataFile
from firn.model.errors import InvalidInput
from firn.model.history import (
    SUMMARY_BATCH,
    SUMMARY_BRANCH,
    SUMMARY_INTENT,
    SUMMARY_INTENTS,
    SUMMARY_STAGED,
    SUMMARY_WRITER,
)
from firn.model.intent import Intent
from firn.model.limits import Limits
from firn.model.long_tuples import preceded
from firn.model.manifest import ManifestEntry, ManifestFile
from firn.model.manifest_inheritance import inherit
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import add_snapshot
from firn.model.new_names import check_new_table_name
from firn.model.partition_path import partition_path
from firn.model.snapshot import MAIN_BRANCH, Operation, Snapshot
from firn.model.snapshot_summary import SummaryBuilder
from firn.model.table_properties import SUMMARY_PARTITION_LIMIT
from firn.model.view import ViewMetadata
from firn.storage.encoded_metrics import with_metrics
from firn.storage.locations import canonical
from firn.storage.manifest_lists import assign_first_row_ids, right_totals

Catalog = Literal["metastore", "file-system"]

SUMMARY_OPERATION: Final = "firn.operation"


class Working:
    """What one name stands for, under replay; rules read it, `commit` and the operations on tables and views change it.

    A table has `metadata`, a view has `view`; a free name has neither, and none has both.

    `also_at` are places beside its location where it has files, `renamed_to` is the name that it has now (`Pointer`).
    `waiting` is what work behind the batch needs, `following` those of the batch behind the one that is replayed. `own`
    are snapshots that earlier members of the same transaction made: no conflict with what comes after them.
    `landmarks` tell who made changes without snapshots.
    """

    def __init__(  # noqa: PLR0913 - all that one attempt of one batch works on
        self,
        *,
        table: str,
        catalog: Catalog,
        metadata: TableMetadata | None,
        view: ViewMetadata | None = None,
        heads: dict[int | None, Head],
        reader: TableReader,
        attempt: Attempt,
        placement: Placement,
        limits: Limits,
    ) -> None:
        self.table = table
        self.base = metadata
        self.metadata = metadata
        self.view = view
        self.reader = reader
        self.attempt = attempt
        self.placement = placement
        self.limits = limits
        self.also_at: tuple[str, ...] = ()
        self.renamed_to: str | None = None
        self.waiting: Sequence[Hold] = ()
        self.following: Sequence[Intent] = ()
        self.landmarks = Landmarks()
        self.own: frozenset[int] = frozenset()
        self.given_id: int | None = None
        """The id that a client has chosen for the snapshot which is made next."""
        self.change: TableChange = "none"
        self.catalog: Catalog = catalog
        self.registered_at: str | None = None
        self.purge = False
        """Whether the table is dropped, and its files are to be removed."""
        self.snapshots: list[DraftSnapshot] = []
        self.accepted: list[int] = []
        """Snapshots that came with their manifest lists: written by a client, and taken as they are."""
        self.finished_merges = attempt.merges.get(table, ())
        self.taken_over: list[FinishedMerge] = []
        """Finished merges that the drafted snapshots list."""
        self.drafted_files: dict[str, bytes] = {}
        self.new_files: list[str] = []
        """Files that intents name, to be looked at before the swap: regular files, and behind no symbolic link."""
        self.heads: dict[str, Head] = {}
        self._base_heads = heads
        self._numbered: dict[str, ManifestFile] = {}
        self._names = 0

    def require(self, *, table_uuid: str | None) -> TableMetadata:
        """The table's metadata; refuses when there is no table, or another one than the writer means."""
        if self.view is not None:
            rules.WRONG_KIND.refuse(f"{self.table!r} is a view, not a table")
        if self.metadata is None:
            self._refuse_unknown("table")
        if table_uuid is not None and table_uuid != self.metadata.table_uuid:
            rules.TABLE_UUID_MISMATCH.refuse(
                f"{self.table!r} is table {self.metadata.table_uuid} now, not {table_uuid}: "
                "it was dropped and made anew"
            )
        return self.metadata

    def require_view(self, *, view_uuid: str | None) -> ViewMetadata:
        """The view's metadata; refuses when there is no view, or another one than the writer means."""
        if self.metadata is not None:
            rules.WRONG_KIND.refuse(f"{self.table!r} is a table, not a view")
        if self.view is None:
            self._refuse_unknown("view")
        if view_uuid is not None and view_uuid != self.view.view_uuid:
            rules.TABLE_UUID_MISMATCH.refuse(
                f"{self.table!r} is view {self.view.view_uuid} now, not {view_uuid}: it was dropped and made anew"
            )
        return self.view

    def _refuse_unknown(self, kind: str) -> NoReturn:
        if self.renamed_to is not None:
            rules.UNKNOWN_TABLE.refuse(f"{self.table!r} was renamed to {self.renamed_to!r}", hint="replan")
        rules.UNKNOWN_TABLE.refuse(f"there is no {kind} {self.table!r}")

    def require_free(self) -> None:
        """Refuse a name that is a table's or a view's, or that nothing new may have."""
        if self.current is not None:
            rules.TABLE_EXISTS.refuse(f"{self.table!r} exists already{', as a view' if self.view else ''}")
        try:
            check_new_table_name(self.table)
        except InvalidInput as error:
            rules.INVALID_TABLE_NAME.refuse(str(error))

    @property
    def current(self) -> TableMetadata | ViewMetadata | None:
        """The metadata of whatever the name stands for now."""
        return self.view if self.metadata is None else self.metadata

    def head(self, branch: str) -> Head:
        """The head of `branch` as it is at this point of the replay; refuses a branch that does not exist."""
        if branch in self.heads:
            return self.heads[branch]
        assert self.metadata is not None
        ref = self.metadata.refs.get(branch)
        if ref is None and branch != MAIN_BRANCH:
            rules.UNKNOWN_BRANCH.refuse(f"there is no branch {branch!r}")
        if ref is not None and ref.type != "branch":
            rules.NOT_A_BRANCH.refuse(f"{branch!r} is a tag: it does not move")
        snapshot_id = None if ref is None else ref.snapshot_id
        drafted = self._drafted_head(snapshot_id)
        if drafted is not None:
            self.heads[branch] = drafted
            return drafted
        return self._stored_head(branch, snapshot_id)

    def start_branch(self, branch: str) -> None:
        """Let the next snapshot that is committed to `branch`, which does not exist yet, be its first one."""
        assert self.metadata is not None
        assert branch not in self.metadata.refs
        self._stored_head(branch, None)

    def _stored_head(self, branch: str, snapshot_id: int | None) -> Head:
        assert self.metadata is not None
        base = self._base_heads.get(snapshot_id)
        if base is None:
            base = self.reader.head(self.metadata, snapshot_id, known=tuple(self._base_heads.values()))
            self._base_heads[snapshot_id] = base
        head = self.heads[branch] = base.branch_off()
        return head

    def deletes(self, branch: str) -> LiveDeletes:
        """The live delete files of a branch.

        Cost: the delete manifests that no other head had, when they are asked for the first time.
        """
        head = self.head(branch)
        if head.deletes is None:
            index = find_deletes(head.manifests, self.entries, known=head.known_deletes)
            base = self._base_heads.get(head.snapshot_id)
            if base is not None and base.deletes is None:
                base.deletes, base.known_deletes = index, None
            head.deletes, head.known_deletes = index.branch_off(), None
        return head.deletes

    def _drafted_head(self, snapshot_id: int | None) -> Head | None:
        """The head that a snapshot of this very attempt is, for a branch that was moved to it."""
        for draft in self.snapshots:
            if draft.snapshot.snapshot_id == snapshot_id:
                live, doubles = LiveFiles(), set[str]()
                for manifest in draft.manifests:
                    if manifest.content == "data":
                        live_here = [e.data_file.file_path for e in self.entries(manifest) if e.is_live]
                        counts = Counter(map(canonical, live_here))
                        doubles.update(name for name, count in counts.items() if count > 1 or name in live)
                        live.put_all(live_here, manifest=location_of(manifest))
                head = Head(snapshot_id=snapshot_id, manifests=draft.manifests, live=live, doubles=frozenset(doubles))
                head.base_snapshot_id = None  # it stands on nothing that is stored
                return head
        return None

    def change_metadata(self, metadata: TableMetadata) -> None:
        """Take over metadata that an operation made from `self.metadata` without a new snapshot.

        Heads of branches that it moved are looked up again.
        """
        self.metadata = metadata
        self.change = "updated" if self.change == "none" else self.change
        for branch, head in list(self.heads.items()):
            ref = metadata.refs.get(branch)
            if (None if ref is None else ref.snapshot_id) != head.snapshot_id:
                del self.heads[branch]

    @property
    def made_here(self) -> dict[int, str]:
        """Snapshots that this attempt adds, which no expiry of the same commit takes, with the reason."""
        drafted = (draft.snapshot.snapshot_id for draft in self.snapshots)
        return dict.fromkeys((*drafted, *self.accepted), "made by the same commit")

    def read_head(self, metadata: TableMetadata, snapshot_id: int) -> Head:
        """The head that a snapshot of `metadata` is, which need not be the table's yet; raises as reading it does."""
        return self.reader.head(metadata, snapshot_id, known=tuple(self._base_heads.values()))

    def take_head(self, branch: str, head: Head) -> None:
        """Let a branch, which is at that snapshot by now, go on from a head that was read before."""
        self.heads[branch] = head.branch_off()

    def entries(self, manifest: ManifestRef) -> Sequence[ManifestEntry]:
        """Entries of a stored or drafted manifest, with what they inherit filled in."""
        assert self.metadata is not None
        if isinstance(manifest, ManifestFile):
            return self.reader.entries(self.metadata, manifest)
        return inherit(map(_with_metrics, manifest.entries), self.as_manifest_file(manifest))

    def manifests_of(self, snapshot: Snapshot) -> Sequence[ManifestRef]:
        """The manifests of a snapshot of the table or of this attempt."""
        for draft in self.snapshots:
            if draft.snapshot.snapshot_id == snapshot.snapshot_id:
                return draft.manifests
        assert self.metadata is not None
        return self.reader.manifests(self.metadata, snapshot)

    def new_manifest_location(self) -> str:
        """A name for a manifest that no other attempt uses."""
        assert self.metadata is not None
        self._names += 1
        return f"{self.metadata.location}/metadata/{self.attempt.token}-m{self._names - 1}.avro"

    def snapshot_id_for(self, intent_id: str) -> int:
        """The id of the snapshot that an intent leads: the same on every attempt and on every daemon."""
        assert self.metadata is not None
        if self.given_id is not None:
            return self.given_id
        for salt in range(1_000):
            seed = f"{self.metadata.table_uuid}/{intent_id}/{salt}".encode()
            candidate = int.from_bytes(hashlib.blake2b(seed, digest_size=8).digest(), "big") >> 1
            if candidate and self.metadata.snapshot_by_id(candidate) is None:
                return candidate
        raise AssertionError("a thousand 63-bit hashes in a row are taken")

    @property
    def next_sequence_number(self) -> int:
        """Sequence number of the next snapshot (0 in v1, which has none)."""
        assert self.metadata is not None
        return self.metadata.next_sequence_number

    def commit(  # noqa: PLR0913 - a snapshot is made of all these, and each has a name
        self,
        *,
        branch: str,
        snapshot_id: int,
        operation: Operation,
        manifests: Sequence[ManifestRef],
        added: Sequence[DataFile],
        removed: Sequence[DataFile],
        intents: Sequence[tuple[str, str | None]],
        intended: str,
        properties: Mapping[str, str],
        staged: bool = False,
    ) -> None:
        """Draft a snapshot and make it the head of `branch`; `staged`, it follows the head but nothing points at it.

        `manifests` in list order, tombstones of older snapshots are dropped here; `intents` are (id, writer) in order,
        `intended` is the operation that they ask for, `operation` the one that Iceberg has for it.
        """
        metadata = self.metadata
        assert metadata is not None
        head = self.head(branch)
        goes_on = head.is_followed_by(manifests, format_version=metadata.format_version)
        if goes_on:
            front, unchanged = tuple(manifests[: len(manifests) - len(head.manifests)]), head.manifests
        else:
            front, unchanged = head.split(manifests, format_version=metadata.format_version)
        says_something = [_has_something_to_say(m, snapshot_id=snapshot_id) for m in front]
        changed = front if all(says_something) else tuple(compress(front, says_something))
        changed, first_row_id, added_rows = self._assign_row_ids(changed)
        kept = manifests if changed is front else preceded(unchanged, changed)
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            parent_snapshot_id=head.snapshot_id,
            sequence_number=self.next_sequence_number,
            timestamp_ms=max(self.attempt.now_ms, metadata.last_updated_ms),
            manifest_list=f"{metadata.location}/metadata/snap-{snapshot_id}-{self.attempt.token}.avro",
            summary=self._summary(
                operation,
                added=added,
                removed=removed,
                parent=self._parent(head),
                properties={
                    **properties,
                    **self._audit(intents, intended),
                    **_made_on(branch, staged=staged),
                },
            ),
            schema_id=metadata.current_schema_id,
            first_row_id=first_row_id,
            added_rows=added_rows,
        )
        self.metadata = add_snapshot(metadata, snapshot, branch=None if staged else branch, now_ms=self.attempt.now_ms)
        self.change = "updated" if self.change == "none" else self.change
        self.snapshots.append(
            DraftSnapshot(
                snapshot=snapshot,
                branch=branch,
                manifests=kept,
                intent_ids=tuple(intent_id for intent_id, _ in intents),
                format_version=metadata.format_version,
                first_row_id=first_row_id,
                goes_on=goes_on,
            )
        )
        if not staged:
            head.manifests = kept
            head.snapshot_id = snapshot_id
            head.settled_for = metadata.format_version if all(map(_has_live_files, changed)) else None

    def totals(self, head: Head) -> Totals:
        """Return how much a branch has at this point of the replay."""
        parent = self._parent(head)
        if parent is None:
            return EMPTY
        return totals_of(parent.summary or {}, lambda: [self.as_manifest_file(one) for one in head.manifests])

    def next_row_id(self, head: Head) -> int | None:
        """Return the id that the first row of an added file gets on this branch at the earliest; None before v3.

        Rows of manifests that have no ids yet may get theirs before it.
        """
        metadata = self.metadata
        assert metadata is not None
        if metadata.format_version < 3:
            return None
        next_row_id = metadata.next_row_id or 0
        last = head.listed
        if head.settled_for == 3 or (head.goes_on and last is not None and last.format_version == 3):
            return next_row_id
        listed = [self.as_manifest_file(manifest) for manifest in head.manifests]
        return next_row_id + sum(
            one.live_rows_count or 0 for one in listed if one.content == "data" and one.first_row_id is None
        )

    def require_room(
        self, head: Head, manifests: Sequence[ManifestRef], *, added: Sequence[DataFile], removed: Sequence[DataFile]
    ) -> int:
        """Refuse a change of a branch that makes `manifests` and passes what can be counted.

        Return the next row id after them (0 before v3). Rows of rewritten manifests take new ids, too.
        """
        self.totals(head).after(added, removed=removed)
        first = self.next_row_id(head)
        if first is None:
            return 0
        listed = [self.as_manifest_file(manifest) for manifest in manifests if manifest.content == "data"]
        rows = sum([one.live_rows_count or 0 for one in listed if one.first_row_id is None])
        require_row_ids(first, rows, files=added)
        return first + rows

    def _parent(self, head: Head) -> Snapshot | None:
        """The snapshot that the next one of a branch follows, with totals that it can go on from.

        Prevents: totals that another writer let drift in a summary of firn's, which is held to be right or damaged.
        """
        assert self.metadata is not None
        parent = None if head.snapshot_id is None else self.metadata.snapshot_by_id(head.snapshot_id)
        if parent is None or parent.summary is None or SUMMARY_BATCH in parent.summary:
            return parent
        listed = [self.as_manifest_file(manifest) for manifest in head.manifests]
        return msgspec.structs.replace(parent, summary=right_totals(parent.summary, listed))

    def _audit(self, intents: Sequence[tuple[str, str | None]], intended: str) -> dict[str, str]:
        """Return who asked for the snapshot and for what, for its summary: any engine and later conflicts read it."""
        audit = {
            SUMMARY_BATCH: self.attempt.batch,
            SUMMARY_INTENTS: str(len(intents)),
            SUMMARY_OPERATION: intended,
        }
        if len(intents) == 1:
            ((intent_id, writer),) = intents
            audit[SUMMARY_INTENT] = intent_id
            if writer is not None:
                audit[SUMMARY_WRITER] = writer
        return audit

    def _summary(
        self,
        operation: Operation,
        *,
        added: Sequence[DataFile],
        removed: Sequence[DataFile],
        parent: Snapshot | None,
        properties: Mapping[str, str],
    ) -> dict[str, str]:
        assert self.metadata is not None
        builder = SummaryBuilder(
            partition_limit=SUMMARY_PARTITION_LIMIT.sane(self.metadata.properties), path_of=self.partition_path
        )
        builder.added_all(added)
        for file in removed:
            builder.removed(file)
        return builder.build(operation, previous=parent, properties=properties)

    def partition_path(self, file: DataFile) -> str:
        """The partition of a file as a folder name in Hive's style; empty for an unpartitioned one."""
        assert self.metadata is not None
        spec = self.metadata.spec_by_id(file.spec_id)
        assert spec is not None
        return partition_path(spec, self.metadata.current_schema, file.partition)

    def _assign_row_ids(
        self, manifests: tuple[ManifestRef, ...]
    ) -> tuple[tuple[ManifestRef, ...], int | None, int | None]:
        """The manifests with row ids, the first of the snapshot and how many it takes (v3 row lineage), else None.

        Stored manifests get theirs with the first v3 snapshot that lists them, and keep them in those that follow.
        """
        metadata = self.metadata
        assert metadata is not None
        if metadata.format_version < 3:
            return manifests, None, None
        next_row_id = metadata.next_row_id or 0
        assigned, end = assign_first_row_ids([self.as_manifest_file(m) for m in manifests], next_row_id)
        references: list[ManifestRef] = []
        for reference, manifest in zip(manifests, assigned, strict=True):
            if isinstance(reference, DraftManifest):
                self._numbered[reference.location] = manifest
            references.append(reference if isinstance(reference, DraftManifest) else manifest)
        return tuple(references), next_row_id, end - next_row_id

    def as_manifest_file(self, manifest: ManifestRef) -> ManifestFile:
        """A drafted manifest's list entry as far as it is known before it is written (no length, no ranges)."""
        if isinstance(manifest, ManifestFile):
            return manifest
        known = self._numbered.get(manifest.location)
        if known is not None:
            return known
        counts, least = manifest.counts, manifest.least_sequence_number
        known = self._numbered[manifest.location] = ManifestFile(
            manifest_path=manifest.location,
            manifest_length=0,
            partition_spec_id=manifest.partition_spec_id,
            content=manifest.content,
            sequence_number=manifest.sequence_number,
            min_sequence_number=manifest.sequence_number if least is None else least,
            added_snapshot_id=manifest.snapshot_id,
            added_files_count=counts.added_files,
            existing_files_count=counts.existing_files,
            deleted_files_count=counts.deleted_files,
            added_rows_count=counts.added_rows,
            existing_rows_count=counts.existing_rows,
            deleted_rows_count=counts.deleted_rows,
        )
        return known


def _made_on(branch: str, *, staged: bool) -> dict[str, str]:
    """What a snapshot's summary says of the branch that it was made on; nothing of those of ``main``, the most."""
    if staged:
        return {SUMMARY_STAGED: "true"}
    return {} if branch == MAIN_BRANCH else {SUMMARY_BRANCH: branch}


def _with_metrics(entry: ManifestEntry) -> ManifestEntry:
    """An added file whose metrics its writer has encoded, as one that rules can look at."""
    if entry.data_file.encoded is None:
        return entry
    return msgspec.structs.replace(entry, data_file=with_metrics(entry.data_file))


def _has_something_to_say(manifest: ManifestRef, *, snapshot_id: int) -> bool:
    """Whether a manifest belongs in the list of a snapshot: it has live files, or tombstones of this very snapshot."""
    return (isinstance(manifest, DraftManifest) and manifest.snapshot_id == snapshot_id) or _has_live_files(manifest)


def _has_live_files(manifest: ManifestRef) -> bool:
    """Whether a manifest has files to say something of in later snapshots."""
    return manifest.has_live_files if isinstance(manifest, DraftManifest) else manifest.may_have_live_files
