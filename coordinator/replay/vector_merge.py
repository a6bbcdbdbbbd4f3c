"""Deletion vectors that meet on one data file: one at most is left, and it has the deletes of all.

Two deletes of rows are merged by union: deleting a row twice is deleting it. Where one of the two statements also
writes the rows anew, a row that both took would live on in a second version: there the positions decide.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from firn.coordinator.replay import rules
from firn.coordinator.replay.files_rules import WRITE_DATA_PATH
from firn.coordinator.replay.live_deletes import DeleteKey, delete_key
from firn.coordinator.replay.window import added_deletes
from firn.coordinator.replay.working import Working
from firn.model.datafile import DataFile
from firn.model.deletion_vector import DeletionVector, from_blob
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.intent import RowDelta
from firn.model.snapshot import Snapshot
from firn.storage.puffin import deletion_vector_blob, encode_puffin

MERGED_VECTORS_MAX: Final = 10_000
"""Deletion vectors that one intent may have merged."""

MERGED_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes of the vectors that one intent has merged, as they are read."""

POSITIONS_TOLD_MAX: Final = 20
"""Positions that the message of a row conflict lists."""


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
    since: Sequence[Snapshot],
    rewrites_rows: bool,
) -> VectorPlan:
    """One vector for each data file.

    Where the intent `rewrites_rows`, or a snapshot of the window did, positions that both delete are refused
    (`row-conflict`, with the positions). Prevents: two vectors on one data file, which no reader accepts.
    """
    named = {(file.file_path, file.content_offset) for file in intent.removed_delete_files}
    updated = _updated_files(working, since)
    of_file: dict[str, list[DataFile]] = {}
    for vector in vectors:
        of_file.setdefault(vector.referenced_data_file or "", []).append(vector)
    index, reader = working.deletes(intent.branch), _Reader(working)
    kept: list[DataFile] = []
    merged: list[tuple[DataFile, DeletionVector]] = []
    removed: set[DeleteKey] = set()
    for path, own in of_file.items():
        live = index.vectors_of(path)
        unseen = [one for one in live if delete_key(one.file) not in named]
        removed |= {delete_key(one.file) for one in live}
        if len(own) == 1 and not unseen:
            kept.append(own[0])
            continue
        ours = DeletionVector.of(()).union(*(reader.own(one) for one in own))
        theirs = DeletionVector.of(()).union(*(reader.live(one.file) for one in unseen))
        if unseen and (rewrites_rows or path in updated):
            _require_disjoint(working, intent, path, ours=ours, theirs=theirs, since=since, reader=reader)
        merged.append((own[0], ours.union(theirs)))
    return VectorPlan(kept=tuple(kept), merged=tuple(merged), removed=frozenset(removed))


def _updated_files(working: Working, since: Sequence[Snapshot]) -> frozenset[str | None]:
    """Data files that got vectors in a window from statements that may have written the rows anew."""
    deletes = (one for one in added_deletes(working, since) if one[0].operation not in {"delete", "replace"})
    return frozenset(entry.data_file.referenced_data_file for _, entry in deletes)


class _Reader:
    """Reads vectors, within the limits of one intent."""

    def __init__(self, working: Working) -> None:
        self._working = working
        self._count = 0
        self._bytes = 0

    def own(self, file: DataFile) -> DeletionVector:
        """A vector that the intent adds: when it cannot be read, that is its writer's mistake."""
        self._count_in(file)
        try:
            return self._working.reader.deletion_vector(file)
        except (CorruptFile, NotFound) as error:
            rules.INVALID_DELETE_FILE.refuse(f"{file.file_path}: {error}", files=(file.file_path,))
        except InvalidInput as error:
            rules.MERGE_TOO_LARGE.refuse(str(error), files=(file.file_path,))

    def live(self, file: DataFile) -> DeletionVector:
        """A vector of the table: when it cannot be read, the table is damaged, and that is raised."""
        self._count_in(file)
        drafted = self._working.drafted_files.get(file.file_path)
        if drafted is not None:  # merged for another intent of this very batch
            start, length = file.content_offset or 0, file.content_size_in_bytes or 0
            return from_blob(drafted[start : start + length], location=file.file_path, cardinality=file.record_count)
        try:
            return self._working.reader.deletion_vector(file)
        except InvalidInput as error:
            rules.MERGE_TOO_LARGE.refuse(str(error), files=(file.file_path,))

    def _count_in(self, file: DataFile) -> None:
        self._count += 1
        self._bytes += file.content_size_in_bytes or 0
        if self._count > MERGED_VECTORS_MAX or self._bytes > MERGED_BYTES_MAX:
            rules.MERGE_TOO_LARGE.refuse(
                f"more than {MERGED_VECTORS_MAX} deletion vectors or {MERGED_BYTES_MAX} bytes of them are to be merged",
                files=(file.file_path,),
            )


def _require_disjoint(
    working: Working,
    intent: RowDelta,
    path: str,
    *,
    ours: DeletionVector,
    theirs: DeletionVector,
    since: Sequence[Snapshot],
    reader: _Reader,
) -> None:
    """Refuse when a row that the intent takes was taken by another after its base, and one of them writes it anew.

    Prevents: a row that was deleted or changed meanwhile living on in a second version.
    """
    before = [reader.live(file) for file in _vectors_at_base(working, intent, path)]
    known = DeletionVector.of(()).union(*before)
    clash = list((theirs.bitmap & ours.bitmap) - known.bitmap)
    if not clash:
        return
    winner = _taker_of(working, since, path, clash, reader=reader)
    told = ", ".join(map(str, clash[:POSITIONS_TOLD_MAX])) + (", …" if len(clash) > POSITIONS_TOLD_MAX else "")
    by = "another snapshot" if winner is None else f"snapshot {winner.snapshot_id}"
    rules.ROW_CONFLICT.refuse(
        f"{len(clash)} rows of {path} that the intent takes were deleted or changed by {by} meanwhile, "
        f"at positions {told}",
        files=(path,),
        winner=winner,
        base=_base_of(intent),
    )


def _taker_of(
    working: Working, since: Sequence[Snapshot], path: str, positions: Sequence[int], *, reader: _Reader
) -> Snapshot | None:
    """The first snapshot of a window whose vector for the data file has one of these positions."""
    for snapshot, entry in reversed(list(added_deletes(working, since))):
        file = entry.data_file
        if file.is_deletion_vector and file.referenced_data_file == path:
            vector = reader.live(file)
            if any(position in vector for position in positions):
                return snapshot
    return None


def _base_of(intent: RowDelta) -> int | None:
    return None if isinstance(intent.base_snapshot_id, msgspec.UnsetType) else intent.base_snapshot_id


def _vectors_at_base(working: Working, intent: RowDelta, path: str) -> list[DataFile]:
    """The vector that the data file had when the intent was planned.

    Without the base's own manifests there is none known: then every deleted row counts as deleted meanwhile.
    """
    return [file for file in _all_vectors_at_base(working, intent) if file.referenced_data_file == path]


def _all_vectors_at_base(working: Working, intent: RowDelta) -> Iterator[DataFile]:
    assert working.metadata is not None
    base = _base_of(intent)
    snapshot: Snapshot | None = None if base is None else working.metadata.snapshot_by_id(base)
    for manifest in () if snapshot is None else working.manifests_of(snapshot):
        if manifest.content == "deletes":
            for entry in working.entries(manifest):
                if entry.is_live and entry.data_file.is_deletion_vector:
                    yield entry.data_file


def superseded_vectors(working: Working, intent: RowDelta, data_files: Collection[str | None]) -> frozenset[DeleteKey]:
    """Vectors of these data files that the intent replaces, and that another writer has replaced meanwhile.

    They are not missing: their successors are merged with the intent's.
    """
    index = working.deletes(intent.branch)
    named = {(file.file_path, file.content_offset) for file in intent.removed_delete_files}
    if all(key in index for key in named):
        return frozenset()
    return frozenset(
        key
        for file in _all_vectors_at_base(working, intent)
        if (key := delete_key(file)) in named and file.referenced_data_file in data_files
    )


def draft_merged(working: Working, merged: Sequence[tuple[DataFile, DeletionVector]]) -> list[DataFile]:
    """Draft one Puffin file with the merged vectors, and their entries. Nothing may be refused after it."""
    if not merged:
        return []
    assert working.metadata is not None
    folder = working.metadata.properties.get(WRITE_DATA_PATH) or f"{working.metadata.location}/data"
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
