"""Append: always applies. Consecutive appends to one branch share a snapshot."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firn.coordinator.replay.bound_together import bind_together
from firn.coordinator.replay.capacity import require_row_ids
from firn.coordinator.replay.decision import Applied, Decision, Refusal
from firn.coordinator.replay.draft import MANIFEST_ENTRIES_MAX, DraftManifest
from firn.coordinator.replay.file_change import FileChange, apply_change, follow_names
from firn.coordinator.replay.files_rules import bind_added, require_named_once, require_not_live
from firn.coordinator.replay.merging import take_over
from firn.coordinator.replay.origins import require_origin
from firn.coordinator.replay.refusals import placed
from firn.coordinator.replay.working import Working
from firn.coordinator.replay.written_manifests import ReadManifest, read_written, require_all_added
from firn.model.datafile import DataFile
from firn.model.intent import Append
from firn.model.long_tuples import preceded
from firn.model.manifest import ManifestEntry, Status
from firn.model.table_properties import APPEND_MODE


class Additions(msgspec.Struct, frozen=True, eq=False):
    """What an append adds: files, and manifests of more files."""

    files: list[DataFile]
    manifests: list[ReadManifest]

    @property
    def every_file(self) -> list[DataFile]:
        """All files, those in manifests too."""
        if not self.manifests:
            return self.files
        return [*self.files, *(file for manifest in self.manifests for file in manifest.files)]


class AppendGroup:
    """Appends to one branch that will become one snapshot."""

    def __init__(self, working: Working, *, branch: str, leader: str) -> None:
        metadata = working.metadata
        assert metadata is not None
        self.branch = branch
        self.snapshot_id = working.snapshot_id_for(leader)
        self.sequence_number = working.next_sequence_number
        self.intents: list[tuple[str, str | None]] = []
        self.summary: dict[str, str] = {}
        self.files: dict[int, list[DataFile]] = {}
        self.manifests: list[ReadManifest] = []
        self._locations: dict[int, list[str]] = {}
        """By partition spec, those of the manifests that will hold its files."""
        self._shares = APPEND_MODE.sane(metadata.properties) == "merge"
        self._applied = Applied(snapshot_id=self.snapshot_id, sequence_number=self.sequence_number)
        head = working.head(branch)
        self._live = head.live
        self._totals = working.totals(head)
        self._next_row_id = working.next_row_id(head)
        self._working = working

    def accepts(self, intent: Append) -> bool:
        """Whether the intent may share the snapshot: same branch, no summary entry that contradicts another's."""
        if not self._shares or intent.branch != self.branch:
            return False
        return not intent.summary or all(self.summary.get(key, value) == value for key, value in intent.summary.items())

    def add(self, intent: Append, added: Additions) -> Applied:
        """Take the intent's files in; they are live for the intents that follow. Refuses more than can be counted."""
        every_file = added.every_file
        totals = self._totals.after(every_file)
        if self._next_row_id is not None:
            rows = totals.rows - self._totals.rows
            require_row_ids(self._next_row_id, rows, files=every_file)
            self._next_row_id += rows
        self._totals = totals
        live = self._live
        self.intents.append((intent.intent_id, intent.writer))
        self.summary.update(intent.summary)
        self.manifests += added.manifests
        for manifest in added.manifests:
            live.put_all((file.file_path for file in manifest.files), manifest=manifest.written.manifest_path)
        for file in added.files:
            of_spec = self.files.setdefault(file.spec_id, [])
            locations = self._locations.setdefault(file.spec_id, [])
            if len(of_spec) % MANIFEST_ENTRIES_MAX == 0:
                locations.append(self._working.new_manifest_location())
            live.put(file.file_path, manifest=locations[-1])
            of_spec.append(file)
        return self._applied

    def close(self) -> None:
        """Draft the group's manifests (a new one per spec, before the old ones) and its snapshot."""
        working = self._working
        assert working.metadata is not None
        drafts = [
            DraftManifest(
                location=location,
                partition_spec_id=spec_id,
                content="data",
                entries=tuple(
                    [
                        ManifestEntry(status=Status.ADDED, snapshot_id=self.snapshot_id, data_file=file)
                        for file in files[part * MANIFEST_ENTRIES_MAX : (part + 1) * MANIFEST_ENTRIES_MAX]
                    ]
                ),
                snapshot_id=self.snapshot_id,
                sequence_number=self.sequence_number,
                schema_id=working.metadata.current_schema_id,
                reuse_key=f"{self.snapshot_id}/{spec_id}/{part}/"
                + ",".join(intent_id for intent_id, _ in self.intents),
            )
            for spec_id, files in self.files.items()
            for part, location in enumerate(self._locations[spec_id])
        ]
        given = [
            one.listed(working, snapshot_id=self.snapshot_id, sequence_number=self.sequence_number)
            for one in self.manifests
        ]
        head = working.head(self.branch)
        kept, names = take_over(
            working, head.manifests, snapshot_id=self.snapshot_id, row_ids_from=self._next_row_id or 0
        )
        working.commit(
            branch=self.branch,
            snapshot_id=self.snapshot_id,
            operation="append",
            manifests=preceded(kept, (*drafts, *given)),
            added=[file for files in (*self.files.values(), *(one.files for one in self.manifests)) for file in files],
            removed=(),
            intents=self.intents,
            intended="append",
            properties=self.summary,
        )
        follow_names(head, names)


def append_all(working: Working, intents: Sequence[Append]) -> list[Decision]:
    """Replay appends that come behind each other and are not staged; a decision for each."""
    together = bind_together(working, intents)
    decisions: list[Decision] = []
    group: AppendGroup | None = None
    for position, intent in enumerate(intents):
        try:
            added = bind_append(working, intent) if together is None else Additions(together[position], [])
            if group is None or not group.accepts(intent):
                _close(group)
                group = AppendGroup(working, branch=intent.branch, leader=intent.intent_id)
            decisions.append(group.add(intent, added))
        except Refusal as refusal:
            if group is not None and not group.intents:
                group = None  # its snapshot would be named after an intent that is not in it
            decisions.append(placed(working, intent, refusal.refused))
    _close(group)
    return decisions


def _close(group: AppendGroup | None) -> None:
    if group is not None and group.intents:
        group.close()


def bind_append(working: Working, intent: Append) -> Additions:
    """The files of an append, checked against the table as it is now.

    Prevents: the same rows twice, through one file being live twice (`duplicate-file`).
    """
    metadata = working.require(table_uuid=intent.table_uuid)
    require_origin(working, intent)
    head = working.head(intent.branch)
    files = bind_added(working, intent.data_files, where="data-files", only_to_list=True)
    manifests = read_written(working, intent.manifests, where="manifests") if intent.manifests else []
    require_all_added(working, manifests)
    if metadata.format_version < 2:  # their entries name a snapshot, and it must be the one that adds them
        added = Additions([*files, *(file for one in manifests for file in one.files)], [])
    else:
        added = Additions(files, manifests)
    every_file = added.every_file
    if manifests:
        require_named_once([file.file_path for file in every_file], where="data-files and manifests")
    require_not_live(head, every_file)
    return added


def staged_append(working: Working, intent: Append) -> Applied:
    """A snapshot of its own, which no branch points at yet."""
    added = bind_append(working, intent)
    return apply_change(working, intent, FileChange(added_data=added.files, added_manifests=added.manifests))
