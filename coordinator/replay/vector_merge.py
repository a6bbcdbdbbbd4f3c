"""Deletion vectors that meet on one data file: one at most is left, and it has the deletes of all.

They are merged by union: deleting a row twice is deleting it. Whether the two statements may meet at all has been
decided before (`firn.coordinator.replay.row_conflicts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from firn.coordinator.replay.delete_rules import stands_for
from firn.coordinator.replay.deleted_positions import NOTHING, DeletedPositions
from firn.coordinator.replay.files_rules import WRITE_DATA_PATH
from firn.coordinator.replay.live_deletes import DeleteKey, delete_key, named_key
from firn.coordinator.replay.row_conflicts import position_deletes_at
from firn.coordinator.replay.working import Working
from firn.model.datafile import DataFile
from firn.model.deletion_vector import DeletionVector
from firn.model.intent import RowDelta
from firn.storage.locations import canonical
from firn.storage.puffin import deletion_vector_blob, encode_puffin


class VectorPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of an intent's vectors: those added as they are, those to be merged, those that go."""

    kept: tuple[DataFile, ...]
    merged: tuple[tuple[DataFile, DeletionVector], ...]
    removed: frozenset[DeleteKey]


def plan_vectors(
    working: Working,
    intent: RowDelta,
    vectors: Sequence[DataFile],
    *,
    positions: DeletedPositions,
) -> VectorPlan:
    """One vector for each data file, with all deletes of it that the intent does not remove itself.

    What position delete files (the table was upgraded after them) have of the data file is absorbed, too: readers do
    not look at them any more. Prevents: two vectors on one data file, which no reader accepts, and deleted rows coming
    back.
    """
    named = set(map(named_key, intent.removed_delete_files))
    of_file: dict[str, list[DataFile]] = {}
    for vector in vectors:
        of_file.setdefault(vector.referenced_data_file or "", []).append(vector)
    index = working.deletes(intent.branch)
    kept: list[DataFile] = []
    merged: list[tuple[DataFile, DeletionVector]] = []
    removed: set[DeleteKey] = set()
    for path, own in of_file.items():
        live = index.vectors_of(path)
        removed |= {delete_key(one.file) for one in live}
        unseen = [one.file for one in live if delete_key(one.file) not in named]
        hidden = [file for file in index.hidden_by(own[0]) if delete_key(file) not in named]
        unseen += [file for file in hidden if positions.stored(file, path)]
        if len(own) == 1 and not unseen:
            kept.append(own[0])
            continue
        ours = NOTHING.union(*(positions.own(one, path) for one in own))
        whole = ours.union(*(positions.stored(one, path) for one in unseen))
        if len(own) == 1 and whole.cardinality == ours.cardinality:
            kept.append(own[0])
        else:
            merged.append((own[0], whole))
    return VectorPlan(kept=tuple(kept), merged=tuple(merged), removed=frozenset(removed))


def superseded_deletes(working: Working, intent: RowDelta, added: Sequence[DataFile]) -> frozenset[DeleteKey]:
    """Return deletes that the intent replaces by some of `added`, and that another writer has replaced meanwhile.

    They are not missing: vectors that came in their place are merged with the intent's, position delete files that did
    stay beside the intent's own. A row that both files delete is deleted once.
    """
    index = working.deletes(intent.branch)
    named = set(map(named_key, intent.removed_delete_files))
    base = intent.base_snapshot_id
    if isinstance(base, msgspec.UnsetType) or all(key in index for key in named):
        return frozenset()
    return frozenset(
        key
        for file in position_deletes_at(working, base)
        if (key := delete_key(file)) in named and any(stands_for(one, file) for one in added)
    )


def draft_merged(working: Working, merged: Sequence[tuple[DataFile, DeletionVector]]) -> list[DataFile]:
    """Draft one Puffin file with the merged vectors, and their entries. Nothing may be refused after it."""
    if not merged:
        return []
    assert working.metadata is not None
    folder = working.metadata.properties.get(WRITE_DATA_PATH)
    if not folder or canonical(folder) in working.placement.foreign.get(working.table, {}):
        folder = f"{working.metadata.location}/data"
    location = f"{folder.rstrip('/')}/{working.attempt.token}-{len(working.drafted_files)}-deletes.puffin"
    blobs = [deletion_vector_blob(vector, data_file=file.referenced_data_file or "") for file, vector in merged]
    data, footer = encode_puffin(blobs, properties=_CREATED_BY)
    working.drafted_files[location] = data
    return [
        DataFile(
            content="position-deletes",
            file_path=location,
            file_format="puffin",
            spec_id=file.spec_id,
            partition=file.partition,
            record_count=vector.cardinality,
            file_size_in_bytes=len(data),
            referenced_data_file=file.referenced_data_file,
            content_offset=blob.offset,
            content_size_in_bytes=blob.length,
        )
        for (file, vector), blob in zip(merged, footer.blobs, strict=True)
    ]


_CREATED_BY: Final[Mapping[str, str]] = {"created-by": "firn"}
