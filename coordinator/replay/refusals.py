"""What every refusal says, whichever rule made it: what was planned on, where the branch stood by then, who was first.

Where a rule knows the winner it says so itself. What no snapshot tells (a branch that was removed, a snapshot that was
expired, a property that was set) is looked up among the landmarks.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from firn.coordinator.replay.ancestry import known_snapshot
from firn.coordinator.replay.decision import Refusal, Refused
from firn.coordinator.replay.live_entries import entries_of
from firn.coordinator.replay.window import removed_data
from firn.coordinator.replay.working import Working
from firn.model.content_file import bind_content_file
from firn.model.datafile import DataFile
from firn.model.errors import InvalidInput
from firn.model.intent import Append, Intent, added_files
from firn.model.landmark import FORMAT, TABLE, Landmark, expired_key, property_key, ref_key
from firn.model.operations.refs import RenameBranch
from firn.model.operations.upkeep import UpdateProperties
from firn.model.operations.views import UpdateViewProperties
from firn.model.planned_on import base_of, ref_of
from firn.model.snapshot import MAIN_BRANCH
from firn.storage.locations import canonical

_REF_GONE: Final = frozenset({"unknown-ref", "unknown-branch"})
_REF_TAKEN: Final = frozenset({"ref-exists", "not-a-branch"})
_SNAPSHOT_GONE: Final = frozenset({"unknown-snapshot", "unknown-base"})
_TABLE_CHANGED: Final = frozenset({"table-exists", "unknown-table", "table-uuid-mismatch"})
_REMOVERS: Final = frozenset({"remove-ref", "rename-branch", "expire-snapshots"})


def placed(working: Working, intent: Intent, refused: Refused) -> Refused:
    """The refusal with base, branch, head, partitions and winner, where known and not said already."""
    name = refused.branch or ref_of(intent)
    base = base_of(intent) if refused.base_snapshot_id is None else refused.base_snapshot_id
    head = _head(working, name) if refused.head_snapshot_id is None else refused.head_snapshot_id
    refused = msgspec.structs.replace(
        refused,
        branch=name,
        base_snapshot_id=base,
        head_snapshot_id=head,
        partitions=refused.partitions or _partitions(working, intent, name, refused),
    )
    if refused.conflicting_operation is not None and refused.rule not in _REF_TAKEN | {"ref-moved"}:
        return refused
    look = working.landmarks.known if isinstance(intent, Append) else working.landmarks.find
    landmark = next((mark for key in _keys(intent, refused) if (mark := look(key))), None)
    return refused if landmark is None or not _explains(landmark, refused) else _blaming(landmark, refused)


def _head(working: Working, name: str | None) -> int | None:
    """What a branch or tag points at; of main for an intent that is about the table."""
    ref = None if working.metadata is None else working.metadata.ref(name or MAIN_BRANCH)
    return None if ref is None else ref.snapshot_id


def _partitions(working: Working, intent: Intent, branch: str | None, refused: Refused) -> tuple[str, ...]:
    """The partitions of those of the files that the intent adds, else of those that are live, or the winner removed.

    Nothing is read for an append: small ones are replayed where nothing may be waited for.
    """
    ref = None if working.metadata is None or branch is None else working.metadata.ref(branch)
    if ref is None or ref.type != "branch":
        return ()
    listed = set(islice(refused.files, working.limits.rejection_files_max))
    own = _own_files(working, intent, listed)
    if not own and listed and not isinstance(intent, Append):
        live = working.head(branch or MAIN_BRANCH).live
        named = {path for path in listed if path in live}
        own = [entry.data_file for entry in entries_of(working, branch or MAIN_BRANCH, named)] if named else []
        own = own or _removed_files(working, refused.conflicting_snapshot_id, listed)
    return tuple(dict.fromkeys(path for file in own if (path := working.partition_path(file))))


def _removed_files(working: Working, snapshot_id: int | None, listed: set[str]) -> list[DataFile]:
    """Those of the files that a snapshot removed."""
    winner = known_snapshot(working, snapshot_id)
    if winner is None:
        return []
    names = set(map(canonical, listed))
    try:
        gone = [entry.data_file for _, entry in removed_data(working, [winner])]
    except Refusal:
        return []  # it was dropped, and its files went
    return [file for file in gone if canonical(file.file_path) in names]


def _own_files(working: Working, intent: Intent, listed: set[str]) -> list[DataFile]:
    """Those of the files that the intent itself adds, as far as they can be bound to the table."""
    assert working.metadata is not None
    bound: list[DataFile] = []
    for file in added_files(intent) if listed else ():
        if file.file_path in listed and len(bound) < len(listed):
            try:
                bound.append(bind_content_file(file, working.metadata, where="data-files"))
            except InvalidInput:
                continue  # which is what it is refused for
    return bound


def _keys(intent: Intent, refused: Refused) -> Iterator[str]:
    """Landmarks that may tell who was first, the likeliest first."""
    if refused.rule in _REF_GONE | _REF_TAKEN or refused.rule == "ref-moved":
        name = intent.new_name if isinstance(intent, RenameBranch) and refused.rule == "ref-exists" else refused.branch
        yield from () if name is None else (ref_key(name),)
        target = getattr(intent, "to", None)
        yield from () if target is None else (ref_key(target),)
    elif refused.rule in _SNAPSHOT_GONE:
        wanted = (getattr(intent, "snapshot_id", None), refused.base_snapshot_id)
        yield from (expired_key(snapshot_id) for snapshot_id in wanted if snapshot_id is not None)
    elif refused.rule == "expectation-failed" and isinstance(intent, UpdateProperties | UpdateViewProperties):
        yield from (property_key(name) for name in intent.expect if f"property {name} " in refused.message)
    elif refused.rule in _TABLE_CHANGED:
        yield TABLE
    elif refused.rule == "format-downgrade":
        yield FORMAT


def _explains(landmark: Landmark, refused: Refused) -> bool:
    """Whether the landmark is the reason: a branch may have been removed and made anew, or moved on by commits."""
    if refused.rule in _REF_GONE:
        return landmark.operation in _REMOVERS
    if refused.rule == "unknown-table":
        return landmark.operation in {"drop-table", "drop-view", "rename-table", "rename-view"}
    if refused.rule == "ref-moved":
        return landmark.snapshot_id == refused.head_snapshot_id
    return True


def _blaming(landmark: Landmark, refused: Refused) -> Refused:
    snapshot_id = refused.conflicting_snapshot_id
    return msgspec.structs.replace(
        refused,
        hint="replan" if refused.rule in _REF_GONE else refused.hint,  # not misspelt: it was there
        conflicting_snapshot_id=landmark.snapshot_id if snapshot_id is None else snapshot_id,
        conflicting_intent_id=landmark.intent_id,
        conflicting_writer=landmark.writer,
        conflicting_operation=landmark.operation,
        conflicting_metadata_location=landmark.metadata_location,
    )
