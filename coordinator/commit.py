"""One attempt of one batch: from fresh state and intents to files, a journal segment and a pointer change.

Everything here is prepared before the swap and decided by it; `firn.coordinator.lane` performs the steps. Blocking
(reads, encoding): call it in a worker thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from firn.coordinator.pending import Pending
from firn.coordinator.replay.decision import Applied, Decision, Refused
from firn.coordinator.replay.draft import DraftManifest, ManifestRef
from firn.coordinator.replay.engine import replay
from firn.coordinator.replay.places import places_beside
from firn.coordinator.replay.working import Attempt, Placement, Working
from firn.coordinator.table_catalogs import JOURNAL_HEAD
from firn.coordinator.table_reader import TableReader
from firn.coordinator.table_state import TableState
from firn.model.intent import OPERATIONS, Intent
from firn.model.journal import Batch, Decided, Retried, Segment
from firn.model.limits import Limits
from firn.model.manifest import ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import set_properties, with_metadata_log, without_intermediate_snapshots
from firn.model.outcome import Committed, Outcome, Rejected
from firn.storage.journal import pack_segment, segment_location
from firn.storage.manifest_lists import assign_first_row_ids, assign_sequence_numbers, encode_manifest_list
from firn.storage.manifests import encode_manifest, manifest_file
from firn.storage.metadata_files import (
    codec_for,
    digest_of_bytes,
    encode_metadata,
    metastore_name,
    numbered_name,
    version_of,
)
from firn.storage.pointers import Pointer, PointerChange


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
    waiting: tuple[Intent, ...] = ()
    """What is queued behind the batch, where the batch has to be considerate of it (an expiry)."""


class _Moved(msgspec.Struct, frozen=True):
    """The metadata file before and after; None where there is no table."""

    base: str | None
    new: str | None


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A batch ready to be swapped in.

    `files` must be durable before the swap; `put` is the swap itself for a file-system table. `change` and `segment`
    are None when there is no table to journal on: then the outcomes are final as they are.
    """

    working: Working
    outcomes: tuple[Outcome, ...]
    files: tuple[tuple[str, bytes], ...]
    put: tuple[str, bytes] | None = None
    segment: Segment | None
    change: PointerChange | None
    manifests: tuple[tuple[ManifestFile, DraftManifest], ...] = ()
    """Manifests of this attempt with what they were made from, for the cache."""


def prepare(
    plan: Plan,
    state: TableState,
    *,
    reader: TableReader,
    attempt: Attempt,
    retried: Sequence[Retried],
    lock_token: int,
    now: float,
) -> Prepared:
    """Replay the batch on `state` and encode everything that its commit needs.

    `now` is the monotonic clock, for latencies. Raises what reading the table raises: nothing is decided then.
    """
    pointer = state.pointer
    working = Working(
        table=state.table,
        catalog="metastore" if pointer is None or pointer.dropped else pointer.catalog,
        metadata=state.metadata,
        heads=state.heads,
        reader=reader,
        attempt=attempt,
        placement=plan.placement,
        limits=plan.limits,
    )
    working.waiting = plan.waiting
    working.also_at = () if pointer is None or pointer.dropped else pointer.also_at
    decisions = decide(working, plan.pendings)
    if pointer is None and working.metadata is None:
        moved = _Moved(None, None)
    else:
        moved = _move(state, working, attempt=attempt)
    outcomes = tuple(
        _outcome(pending, decision, plan=plan, working=working, attempt=attempt, location=moved.new, now=now)
        for pending, decision in zip(plan.pendings, decisions, strict=True)
    )
    if pointer is None and working.metadata is None:
        return Prepared(working=working, outcomes=outcomes, files=(), segment=None, change=None)
    segment = _segment(
        plan, state, working, outcomes=outcomes, retried=retried, lock_token=lock_token, attempt=attempt, moved=moved
    )
    files, manifests = _write_snapshots(working, plan.written)
    files += working.drafted_files.items()
    files.append((segment.location, pack_segment(segment)))
    put = _metadata_file(state, working, moved=moved, segment=segment)
    digest = None if put is None else digest_of_bytes(put[1])
    if put is not None and working.catalog == "metastore":
        files.append(put)
        put = None
    return Prepared(
        working=working,
        outcomes=outcomes,
        files=tuple(files),
        put=put,
        segment=segment,
        change=PointerChange(
            table=state.table,
            pointer=_pointer(state, working, plan.pendings, segment=segment, new_location=moved.new, digest=digest),
            expected=state.version,
        ),
        manifests=manifests,
    )


def _move(state: TableState, working: Working, *, attempt: Attempt) -> _Moved:
    """The metadata file before and after. A file-system table moves with every batch: the file is its only swap."""
    pointer = state.pointer
    base = None if pointer is None or pointer.dropped else pointer.metadata_location
    if working.change == "dropped" or (working.metadata is None and base is None):
        return _Moved(base, None)
    if working.change == "registered":
        return _Moved(base, working.registered_at)
    if working.change == "none" and working.catalog == "metastore":
        return _Moved(base, base)
    assert working.metadata is not None
    previous = None if base is None else version_of(base)
    codec = codec_for(working.metadata)
    if working.catalog == "file-system":
        name = numbered_name(version=1 if previous is None else previous + 1, codec=codec)
    else:
        name = metastore_name(version=0 if previous is None else previous + 1, unique=attempt.token, codec=codec)
    return _Moved(base, f"{working.metadata.location}/metadata/{name}")


def _metadata_file(state: TableState, working: Working, *, moved: _Moved, segment: Segment) -> tuple[str, bytes] | None:
    """Name and bytes of the new metadata file, None where none is written; `working.metadata` becomes its content."""
    if working.metadata is None or moved.new is None or moved.new == moved.base or working.change == "registered":
        return None
    metadata = working.metadata
    if working.catalog == "file-system":
        properties = {JOURNAL_HEAD: segment.location}
        metadata = set_properties(metadata, properties, now_ms=segment.batch.timestamp_ms)
    if state.metadata is not None and moved.base is not None:
        metadata = with_metadata_log(
            without_intermediate_snapshots(metadata, base=state.metadata),
            moved.base,
            previous_updated_ms=state.metadata.last_updated_ms,
        )
    working.metadata = metadata
    return moved.new, encode_metadata(metadata, codec=codec_for(metadata))


def decide(working: Working, pendings: Sequence[Pending]) -> list[Decision]:
    """Replay what is to be replayed; what was refused at the door keeps its verdict."""
    open_ones = [p for p in pendings if p.verdict is None]
    replayed = iter(replay(working, [p.decoded.intent for p in open_ones]))
    return [next(replayed) if p.verdict is None else p.verdict for p in pendings]


def _write_snapshots(
    working: Working, written: dict[str, ManifestFile]
) -> tuple[list[tuple[str, bytes]], tuple[tuple[ManifestFile, DraftManifest], ...]]:
    """Encode drafted manifests and manifest lists; afterwards no draft is left in `working`'s heads."""
    metadata = working.metadata
    if metadata is None:
        return [], ()
    files: list[tuple[str, bytes]] = []
    done: dict[str, ManifestFile] = {}
    drafts: dict[str, DraftManifest] = {}
    renamed: dict[str, str] = {}
    for draft_snapshot in working.snapshots:
        for reference in draft_snapshot.manifests:
            if isinstance(reference, ManifestFile) or reference.location in done:
                continue
            kept = None if reference.reuse_key is None else written.get(reference.reuse_key)
            if kept is None:
                data, kept = _encode(reference, metadata, format_version=draft_snapshot.format_version)
                files.append((reference.location, data))
                if reference.reuse_key is not None:
                    written[reference.reuse_key] = kept
            else:
                renamed[reference.location] = kept.manifest_path
            done[reference.location] = kept
        manifests = assign_sequence_numbers(
            (_resolved(reference, done) for reference in draft_snapshot.manifests),
            snapshot_id=draft_snapshot.snapshot.snapshot_id,
            sequence_number=draft_snapshot.snapshot.sequence_number,
        )
        if draft_snapshot.first_row_id is not None:
            manifests, _ = assign_first_row_ids(manifests, draft_snapshot.first_row_id)
        for reference, manifest in zip(draft_snapshot.manifests, manifests, strict=True):
            if isinstance(reference, DraftManifest):
                done[reference.location] = manifest
                drafts[reference.location] = reference
        snapshot = draft_snapshot.snapshot
        assert snapshot.manifest_list is not None
        data = encode_manifest_list(
            manifests,
            format_version=draft_snapshot.format_version,
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number,
            first_row_id=snapshot.first_row_id,
        )
        files.append((snapshot.manifest_list, data))
    for head in working.heads.values():
        head.manifests = tuple(_resolved(reference, done) for reference in head.manifests)
        if renamed:
            head.live.rename_manifests(renamed)
    return files, tuple((done[location], draft) for location, draft in drafts.items())


def _resolved(reference: ManifestRef, done: Mapping[str, ManifestFile]) -> ManifestFile:
    return reference if isinstance(reference, ManifestFile) else done[reference.location]


def _encode(draft: DraftManifest, metadata: TableMetadata, *, format_version: int) -> tuple[bytes, ManifestFile]:
    spec, schema = metadata.spec_by_id(draft.partition_spec_id), metadata.schema_by_id(draft.schema_id)
    assert spec is not None
    assert schema is not None
    encoded = encode_manifest(
        draft.entries,
        schema=schema,
        spec=spec,
        content=draft.content,
        format_version=format_version,
        snapshot_id=draft.snapshot_id,
        older_schemas=metadata.schemas,
    )
    return encoded.data, manifest_file(encoded, draft.location)


def _outcome(
    pending: Pending,
    decision: Decision,
    *,
    plan: Plan,
    working: Working,
    attempt: Attempt,
    location: str | None,
    now: float,
) -> Outcome:
    intent = pending.decoded.intent
    latency_ms = round((now - pending.taken_at) * 1000, 3)
    match decision:
        case Applied():
            return Committed(
                intent_id=intent.intent_id,
                table=intent.table,
                snapshot_id=decision.snapshot_id,
                sequence_number=decision.sequence_number,
                metadata_location=location,
                batch=plan.batch,
                replays=attempt.number,
                latency_ms=latency_ms,
                details=decision.details,
            )
        case Refused():
            head = None if working.metadata is None else working.metadata.current_snapshot_id
            return Rejected(
                intent_id=intent.intent_id,
                table=intent.table,
                rule=decision.rule,
                message=decision.message,
                hint=decision.hint,
                conflicting_snapshot_id=decision.conflicting_snapshot_id,
                conflicting_intent_id=decision.conflicting_intent_id,
                conflicting_writer=decision.conflicting_writer,
                files=decision.files[: plan.limits.rejection_files_max],
                files_count=len(decision.files),
                base_snapshot_id=decision.base_snapshot_id,
                head_snapshot_id=head,
                batch=plan.batch,
                latency_ms=latency_ms,
            )


def _segment(
    plan: Plan,
    state: TableState,
    working: Working,
    *,
    outcomes: Sequence[Outcome],
    retried: Sequence[Retried],
    lock_token: int,
    attempt: Attempt,
    moved: _Moved,
) -> Segment:
    decisions = state.decisions
    metadata = working.metadata
    uuid = metadata.table_uuid if metadata is not None else state.pointer.uuid if state.pointer is not None else ""
    home = metadata.location if metadata is not None else state.pointer.location if state.pointer is not None else ""
    sequence = decisions.sequence + 1
    location = segment_location(home, sequence=sequence, token=attempt.token)
    decided = tuple(
        Decided(
            intent_id=p.decoded.intent.intent_id,
            digest=p.decoded.digest,
            operation=OPERATIONS[type(p.decoded.intent)],
            outcome=outcome,
            entry=p.entry_name,
            entry_ms=p.entry_ms,
            branch=getattr(p.decoded.intent, "branch", None),
            writer=p.decoded.intent.writer,
            writer_sequence=p.decoded.intent.writer_sequence,
        )
        for p, outcome in zip(plan.pendings, outcomes, strict=True)
    )
    return Segment(
        location=location,
        batch=Batch(
            batch=plan.batch,
            table=state.table,
            table_uuid=uuid,
            sequence=sequence,
            daemon=plan.daemon,
            lock_token=lock_token,
            timestamp_ms=attempt.now_ms,
            base_metadata=moved.base,
            new_metadata=moved.new,
            previous_segment=decisions.head,
            previous_checkpoint=decisions.last_checkpoint,
            since_checkpoint=decisions.since_checkpoint + len(decided),
        ),
        decided=decided,
        retried=tuple(retried),
        checkpoint=(
            decisions.checkpoint_with(decided, location=location) if decisions.checkpoint_due(len(decided)) else None
        ),
    )


def _pointer(
    state: TableState,
    working: Working,
    pendings: Sequence[Pending],
    *,
    segment: Segment,
    new_location: str | None,
    digest: str | None,
) -> Pointer:
    watermarks = dict(state.pointer.watermarks) if state.pointer is not None else {}
    for pending in pendings:
        stream = f"{pending.epoch}/{pending.entry.shard}"
        watermarks.pop(stream, None)  # re-inserted at the end: the newest streams are kept
        watermarks[stream] = pending.entry.entry_id
    watermarks = dict(list(watermarks.items())[-WATERMARKS_KEPT:])
    if state.pointer is not None and (working.metadata is None or new_location is None):
        return msgspec.structs.replace(
            state.pointer,
            dropped=state.pointer.dropped or working.change == "dropped",
            journal_head=segment.location,
            watermarks=watermarks,
        )
    metadata = working.metadata
    assert metadata is not None
    assert new_location is not None
    if state.pointer is None or state.pointer.dropped:
        return Pointer(
            table=state.table,
            kind="table",
            catalog=working.catalog,
            uuid=metadata.table_uuid,
            location=metadata.location,
            also_at=places_beside(metadata),
            metadata_location=new_location,
            metadata_digest=digest,
            journal_head=segment.location,
            watermarks=watermarks,
        )
    return msgspec.structs.replace(
        state.pointer,
        metadata_location=new_location,
        metadata_digest=digest if new_location != state.pointer.metadata_location else state.pointer.metadata_digest,
        location=metadata.location,
        also_at=_also_at(state.pointer, metadata),
        journal_head=segment.location,
        watermarks=watermarks,
    )


def _also_at(pointer: Pointer, metadata: TableMetadata) -> tuple[str, ...]:
    """Where the table has files beside its location; a place that it had once stays its own, for the files there."""
    places = (*pointer.also_at, pointer.location, *places_beside(metadata))
    return tuple(dict.fromkeys(place for place in places if place != metadata.location))


WATERMARKS_KEPT = 8
"""Streams (epoch and shard) whose watermark a pointer keeps; pointers stay small."""
