"""Whether a row that an intent takes was taken by another after its base: the positions decide.

Two deletes of one row are one delete. Where one of the two statements also writes the row anew, it would live on in a
second version.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final

from pyroaring import BitMap64

from firn.coordinator.replay import rules
from firn.coordinator.replay.ancestry import known_snapshot
from firn.coordinator.replay.conflicts import WindowDeletes, refuse_new_deletes
from firn.coordinator.replay.delete_rules import may_apply
from firn.coordinator.replay.deleted_positions import DeletedPositions
from firn.coordinator.replay.window import entries_of, manifests_of
from firn.coordinator.replay.working import Working
from firn.model.amounts import agreeing, plural
from firn.model.datafile import DataFile
from firn.model.delete_index import referenced_data_file
from firn.model.manifest import ManifestEntry
from firn.model.snapshot import Snapshot

POSITIONS_TOLD_MAX: Final = 20
"""Positions that the message of a row conflict lists."""

ONLY_TAKES: Final = frozenset({"delete", "replace"})
"""Operations of snapshots that write no row anew in another version."""


NO_ROWS: Final = BitMap64()


def require_rows_untouched(
    working: Working,
    positions: DeletedPositions,
    came: WindowDeletes,
    data_file: DataFile,
    *,
    own: Iterable[DataFile],
    rewrites_rows: bool,
    base: int | None,
) -> None:
    """Refuse when a row that the intent takes was taken after its base, and one of the two writes it anew.

    `own` are the intent's deletes, `rewrites_rows` whether it may write what it takes anew. Prevents: a row that was
    deleted or changed meanwhile living on in a second version.
    """
    newer = sorted(
        ((came.snapshot_of(delete), delete) for delete in came.positions(data_file)),
        key=lambda one: one[0].sequence_number,
    )
    if not rewrites_rows and all(snapshot.operation in ONLY_TAKES for snapshot, _ in newer):
        return
    path = data_file.file_path
    ours = NO_ROWS.union(*(positions.own(file, path).bitmap for file in own))
    if not any(ours & positions.stored(delete, path).bitmap for _, delete in newer):
        return
    known = NO_ROWS.union(
        *(
            positions.stored(file, path).bitmap
            for file in position_deletes_at(working, base)
            if may_apply(file, data_file)
        )
    )
    clash, winner = BitMap64(), None
    for snapshot, delete in newer:
        taken = positions.stored(delete, path).bitmap - known
        if rewrites_rows or snapshot.operation not in ONLY_TAKES:
            clash |= taken & ours
            winner = snapshot if winner is None and clash else winner
        known |= taken  # a newer vector has the rows of the one before it
    if clash:
        _refuse(path, clash, winner, base=base)


def require_no_rows_deleted(
    working: Working,
    positions: DeletedPositions,
    came: WindowDeletes,
    rewritten: Iterable[ManifestEntry],
    *,
    base: int | None,
) -> None:
    """Refuse when rows of files that the intent writes anew were deleted by position after its base.

    Deletes that may have none of these files' rows, or only such as were deleted at the base, are read: those of
    several files, and vectors that a rewrite has put together. Prevents: deleted rows coming back.
    """
    newer = [(entry.data_file, deletes) for entry in rewritten if (deletes := came.positions(entry.data_file))]
    known = list(position_deletes_at(working, base)) if newer else []
    for file, deletes in newer:
        path = file.file_path
        for delete in deletes:
            snapshot = came.snapshot_of(delete)
            if snapshot.operation == "replace" or referenced_data_file(delete) is None:
                before = (positions.stored(one, path).bitmap for one in known if may_apply(one, file))
                if positions.stored(delete, path).bitmap <= NO_ROWS.union(*before):
                    continue
            refuse_new_deletes(snapshot, delete, f"rows of {path}", files=(path,), base=base)


def _refuse(path: str, clash: BitMap64, winner: Snapshot | None, *, base: int | None) -> None:
    first = ", ".join(map(str, itertools.islice(clash, POSITIONS_TOLD_MAX)))
    by = "another snapshot" if winner is None else f"snapshot {winner.snapshot_id}"
    rules.ROW_CONFLICT.refuse(
        f"{plural(len(clash), 'row')} of {path} that the intent takes {agreeing(len(clash), 'was', 'were')} deleted or "
        f"changed by {by} meanwhile, at "
        f"{agreeing(len(clash), 'position', 'positions')} {first}{', …' if len(clash) > POSITIONS_TOLD_MAX else ''}",
        files=(path,),
        winner=winner,
        base=base,
    )


def position_deletes_at(working: Working, base: int | None) -> Iterator[DataFile]:
    """The position deletes and deletion vectors of a snapshot; none where it is not known any more."""
    snapshot = known_snapshot(working, base)
    for manifest in () if snapshot is None else manifests_of(working, snapshot):
        if snapshot is not None and manifest.content == "deletes":
            for entry in entries_of(working, snapshot, manifest):
                if entry.is_live and entry.data_file.content == "position-deletes":
                    yield entry.data_file
