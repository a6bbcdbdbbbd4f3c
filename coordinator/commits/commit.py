"""One attempt of one batch: from fresh state and intents to files, a journal segment and a pointer change.

Everything here is prepared before the swap and decided by it; `firn.coordinator.lanes.table_commits` performs the
steps. Blocking (reads, encoding): call it in a worker thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from firn.coordinator.commits.batch_record import outcome_of, segment_of
from firn.coordinator.commits.dropped_record import record_dropped
from firn.coordinator.commits.pointer_move import Moved, move, moved_pointer, new_metadata_file
from firn.coordinator.commits.snapshot_files import encode_snapshots
from firn.coordinator.pending import Pending
from firn.coordinator.replay.attempt import Attempt, Placement
from firn.coordinator.replay.decision import Applied, Decision
from firn.coordinator.replay.engine import replay
from firn.coordinator.replay.head import Head
from firn.coordinator.replay.history_limit import is_due, limit_history
from firn.coordinator.replay.holds import Hold
from firn.coordinator.replay.merging import waits_for_merges_from
from firn.coordinator.replay.working import Working
from firn.coordinator.tables.table_reader import TableReader
from firn.coordinator.tables.table_state import TableState
from firn.model.intent import Append
from firn.model.journal import Retried, Segment
from firn.model.limits import Limits
from firn.model.manifest import ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.outcome import Outcome
from firn.model.table_properties import MANIFEST_MERGE_ENABLED
from firn.storage.grown_content import Content
from firn.storage.journal import pack_segment
from firn.storage.metadata_files import is_kept_encoded
from firn.storage.packed_entries import PackedEntries
from firn.storage.pointers import PointerChange, PointerCheck

LIGHT_INTENTS_MAX: Final = 64
LIGHT_FILES_MAX: Final = 128

LIGHT_MANIFESTS_MAX: Final = 500
LIGHT_SNAPSHOTS_MAX: Final = 500
"""What is encoded as fast as a thread is woken; with more of them the last commit's has to be there to go on from."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What one batch is to be committed with; the same over all of its attempts.

    `written` are manifests of earlier attempts that may be used again, by their draft's reuse key.
    """

    daemon: str
    batch: str
    pendings: tuple[Pending, ...]
    placement: Placement
    limits: Limits
    written: dict[str, ManifestFile]
    waiting: tuple[Hold, ...] | None = ()
    """What work that waits behind the batch needs, where the batch takes history; None: not known, so it takes none."""


class Part(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One table's part in a commit: from its state to its next pointer, with the journal segment that says so.

    `files` must be durable before the swap; `put` is the swap itself for a file-system table.
    """

    state: TableState
    working: Working
    segment: Segment
    change: PointerChange
    files: tuple[tuple[str, Content], ...]
    put: tuple[str, bytes] | None
    manifests: tuple[tuple[str, PackedEntries], ...]
    """Locations of the manifests of this attempt with what they hold, for the cache."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A batch ready to be swapped in: all `parts` or none, and only while the pointers of `unmoved` do not move.

    `decided_at` is the monotonic clock (s) when its intents had been decided.

    The first part is the lane's own table's. There is none when there is no table to journal on: then the outcomes are
    final as they are.
    """

    outcomes: tuple[Outcome, ...]
    decided_at: float
    parts: tuple[Part, ...] = ()
    unmoved: tuple[PointerCheck, ...] = ()

    @property
    def files(self) -> tuple[tuple[str, Content], ...]:
        """Everything that must be durable before the swap."""
        return tuple(file for part in self.parts for file in part.files)


def is_light(plan: Plan, state: TableState) -> bool:
    """Whether preparing takes a few milliseconds and reads nothing: then a thread would cost more than it frees.

    So it is with appends of a few files to branches whose state is known, however large the table is.
    """
    metadata = state.metadata
    if len(plan.pendings) > LIGHT_INTENTS_MAX or metadata is None or is_due(metadata):
        return False
    if len(metadata.snapshots) > LIGHT_SNAPSHOTS_MAX and not is_kept_encoded(metadata):
        return False
    intents = [pending.decoded.intent for pending in plan.pendings]
    appends = [i for i in intents if isinstance(i, Append) and not i.stage and not i.manifests]
    if len(appends) < len(intents) or sum(len(intent.data_files) for intent in appends) > LIGHT_FILES_MAX:
        return False
    refs = [metadata.refs.get(branch) for branch in {intent.branch for intent in appends}]
    heads = [state.heads.get(None if ref is None else ref.snapshot_id) for ref in refs]
    return all(head is not None and _is_light(head, metadata) for head in heads)


def _is_light(head: Head, metadata: TableMetadata) -> bool:
    if not MANIFEST_MERGE_ENABLED.of(metadata.properties):
        return len(head.manifests) <= LIGHT_MANIFESTS_MAX or head.goes_on
    return len(head.manifests) < waits_for_merges_from(metadata) and head.has_only_data


def prepare(
    plan: Plan,
    state: TableState,
    *,
    reader: TableReader,
    attempt: Attempt,
    retried: Sequence[Retried],
    lock_token: int,
    clock: Callable[[], float],
) -> Prepared:
    """Replay the batch on `state` and encode everything that its commit needs.

    `clock` is the monotonic clock, for latencies. Raises what reading the table raises: nothing is decided then.
    """
    working = working_on(state, reader=reader, attempt=attempt, placement=plan.placement, limits=plan.limits)
    working.waiting = plan.waiting or ()
    decisions = decide(working, plan.pendings)
    decided_at = clock()
    if plan.waiting is not None and is_due(state.metadata):
        limit_history(working)
    moved = move(state, working)
    outcomes = tuple(
        outcome_of(pending, decision, working=working, location=moved.new, decided_at=decided_at)
        for pending, decision in zip(plan.pendings, decisions, strict=True)
    )
    if state.pointer is None and working.current is None:
        return Prepared(outcomes=outcomes, decided_at=decided_at)
    segment = segment_of(
        plan.pendings, state, working,
        daemon=plan.daemon, outcomes=outcomes, retried=retried, lock_token=lock_token, moved=moved,
    )  # fmt: skip
    part = part_of(plan, state, working, segment=segment, moved=moved, pendings=plan.pendings)
    return Prepared(outcomes=outcomes, decided_at=decided_at, parts=(part,))


def part_of(
    plan: Plan, state: TableState, working: Working, *, segment: Segment, moved: Moved, pendings: Sequence[Pending]
) -> Part:
    """Encode what was drafted. `pendings` are those of the table's own stream, for its watermarks."""
    encoded, manifests = encode_snapshots(working, plan.written)
    files: list[tuple[str, Content]] = [*encoded, *working.drafted_files.items()]
    files.append((segment.location, pack_segment(segment)))
    dropped = record_dropped(state.metadata, working, segment)
    files += [] if dropped is None else [dropped]
    metadata_file = new_metadata_file(state, working, moved=moved, segment=segment)
    digest = None if metadata_file is None else metadata_file.digest
    put = None
    if metadata_file is not None and working.catalog == "metastore":
        files.append((metadata_file.location, metadata_file.data))
    elif metadata_file is not None:
        put = (metadata_file.location, bytes(metadata_file.data))
    return Part(
        state=state,
        working=working,
        segment=segment,
        change=PointerChange(
            table=state.table,
            pointer=moved_pointer(state, working, pendings, segment=segment, new_location=moved.new, digest=digest),
            expected=state.version,
        ),
        files=tuple(files),
        put=put,
        manifests=manifests,
    )


def working_on(
    state: TableState, *, reader: TableReader, attempt: Attempt, placement: Placement, limits: Limits
) -> Working:
    """What one attempt replays intents on: the table as `state` has it, which stays as it is."""
    pointer = state.pointer
    working = Working(
        table=state.table,
        catalog="metastore" if pointer is None or pointer.dropped else pointer.catalog,
        metadata=state.metadata,
        view=state.view,
        heads=state.heads,
        reader=reader,
        attempt=attempt,
        placement=placement,
        limits=limits,
    )
    working.landmarks = state.decisions.landmarks.branch_off()
    working.also_at = () if pointer is None or pointer.dropped else pointer.also_at
    working.renamed_to = None if pointer is None else pointer.renamed_to
    return working


def decide(working: Working, pendings: Sequence[Pending]) -> list[Decision]:
    """Replay what is to be replayed; what was refused at the door keeps its verdict.

    The decision on a repeated epoch is there already (`Pending.repeats`): nothing is applied for it.
    """
    replayed = iter(replay(working, [p.decoded.intent for p in pendings if p.is_open]))
    return [next(replayed) if p.is_open else p.verdict or Applied() for p in pendings]
