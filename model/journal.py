"""Journal records: the events of one table, in order; all that firn knows about the table is a fold over them.

A *segment* is the immutable list of records written by one swap. Its first record is a `Batch`, which names the
segment before it; the table's pointer names the newest. `docs/decisions/0003-journal.md` says why it looks like this.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from firn.model.errors import CorruptFile, TooLarge
from firn.model.landmark import Landmark
from firn.model.outcome import Committed, Outcome, Rejected
from firn.model.strict_json import check_values


class _Record(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True, tag_field="record"):
    """Base of all records; members that a newer firn adds are ignored by an older one."""


class OtherPart(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Where a transaction's part in another table stands."""

    table: str
    segment: str


class Batch(_Record, frozen=True, kw_only=True, tag="batch"):
    """What one swap was: who did it, under which lock, from which metadata to which.

    `base_metadata` None: the table did not exist; `new_metadata` None: it does not any more; equal: only rejections.
    `sequence` counts the table's segments from 1; `lock_token` is the fencing token under which it was swapped.
    """

    batch: str
    table: str
    table_uuid: str
    kind: Literal["table", "view"] = "table"
    sequence: int
    daemon: str
    lock_token: int
    timestamp_ms: int
    base_metadata: str | None = None
    new_metadata: str | None = None
    previous_segment: str | None = None
    previous_checkpoint: str | None = None
    since_checkpoint: int = 0
    """Intents decided since the last checkpoint, this segment included."""
    transaction: str | None = None
    """The intent that was this swap, if it was a transaction and was applied."""
    others: tuple[OtherPart, ...] = ()
    """The segments of the other tables that the same swap moved."""
    renamed_to: str | None = None
    """The name that the table has from here on, where its journal goes on."""
    renamed_from: str | None = None
    """The name that the table had, in whose journal it has its history."""
    catalog: Literal["metastore", "file-system"] = "metastore"
    """Who owned the truth: like `also_at`, for whoever has to rebuild the pointer from the journal."""
    purge: bool = False
    """Whether the batch dropped the table, and maintenance is to remove its files."""
    also_at: tuple[str, ...] = ()
    """Places in which the table had files, beside the folder of its metadata."""


class Decided(_Record, frozen=True, kw_only=True, tag="decided", gc=False):  # nothing in it leads back to it
    """The decision on one intent.

    `entry` is where it came from (``epoch/shard/entry-id``; where, never who: identity is intent id and digest).
    """

    intent_id: str
    digest: str
    operation: str
    outcome: Outcome
    entry: str
    entry_ms: int = 0
    """The queue's clock when the entry was added."""
    branch: str | None = None
    """The branch or tag that the intent was about."""
    writer: str | None = None
    writer_sequence: int | None = None
    epoch_content: str | None = None
    """What a streaming writer's epoch contains (`firn.model.epoch`)."""
    epoch_label: str | None = None
    """What its writer calls that content, if it does."""
    base_snapshot_id: int | None = None
    """The snapshot that the intent was planned on, if it said so."""
    priority: str = "ingest"
    deliveries: int = 1
    """How often its stream entry was handed to a daemon until it was decided."""
    trace_id: str | None = None
    """The intent's traceparent, or what its writer put into the summary as ``trace-id`` or ``traceparent``."""


class Retried(_Record, frozen=True, kw_only=True, tag="retried"):
    """A swap of this batch that did not come off before the one that did."""

    attempt: int
    reason: str
    found_metadata: str | None = None


class Checkpoint(_Record, frozen=True, kw_only=True, tag="checkpoint"):
    """The folded state up to and including this segment, so that a takeover reads a bounded tail.

    `intents` holds only what was decided after the previous checkpoint (named in the `Batch`): intent id, digest and
    the index of its segment in `segments`. Following checkpoints backwards gives every decision ever made.
    """

    segments: tuple[str, ...]
    intents: tuple[tuple[str, str, int], ...]
    writers: dict[str, tuple[int, str, str]]
    """Writer → last sequence, its intent id, its segment."""
    newest_entry_ms: int
    """The queue's clock when the last of all intents decided so far was added."""
    older_id_ms: int | None = None
    """No id decided before those that are listed says a later time of its own; -1 where there is none, None where
    that is not known."""
    landmarks: dict[str, Landmark] = {}
    """Who made which change (`firn.model.landmark`) after the previous checkpoint and before this segment."""


Record = Batch | Decided | Retried | Checkpoint

SEGMENT_RECORDS_MAX: Final = 200_000
"""Records of a segment that is read; a batch has some thousands."""

SEGMENT_VALUES_MAX: Final = 6_000_000
"""JSON values of a segment that is read, of which each line is decoded by itself."""

_DECODER: Final = msgspec.json.Decoder(Record)
_ENCODER: Final = msgspec.json.Encoder()


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """One segment as read back: where it is and what it says."""

    location: str
    batch: Batch
    decided: tuple[Decided, ...]
    retried: tuple[Retried, ...] = ()
    checkpoint: Checkpoint | None = None


def encode_segment(segment: Segment) -> bytes:
    """JSON lines, the batch first, closed by an end mark with the number of records.

    The mark makes a segment that was cut between two lines detectable.
    """
    records: list[Record] = [segment.batch, *segment.retried, *segment.decided]
    if segment.checkpoint is not None:
        records.append(segment.checkpoint)
    return _ENCODER.encode_lines([*records, {"end": len(records)}])


def decode_segment(data: bytes, *, location: str) -> Segment:
    """The inverse of `encode_segment`; raises CorruptFile naming what is wrong."""
    if data.count(b"\n") > SEGMENT_RECORDS_MAX:
        raise CorruptFile(location, f"journal segment has more than {SEGMENT_RECORDS_MAX} records")
    try:
        check_values(data, where=location, values_max=SEGMENT_VALUES_MAX)
    except TooLarge as error:
        raise CorruptFile(location, f"journal segment has {error.message}") from error
    lines = data.splitlines()
    try:
        end = msgspec.json.decode(lines[-1]) if lines else None
        if not isinstance(end, dict) or end.get("end") != len(lines) - 1:
            raise CorruptFile(location, "journal segment is cut: no end mark, or not after as many records as it says")
        records = [_DECODER.decode(line) for line in lines[:-1]]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptFile(location, f"journal segment does not parse: {error}") from error
    batch = records[0] if records else None
    if not isinstance(batch, Batch):
        raise CorruptFile(location, "journal segment does not begin with its batch")
    return Segment(
        location=location,
        batch=batch,
        decided=tuple(r for r in records if isinstance(r, Decided)),
        retried=tuple(r for r in records if isinstance(r, Retried)),
        checkpoint=next((r for r in records if isinstance(r, Checkpoint)), None),
    )


def committed(segment: Segment) -> tuple[Committed, ...]:
    """Outcomes of the intents that the segment's swap applied."""
    return tuple(d.outcome for d in segment.decided if isinstance(d.outcome, Committed) and d.outcome.repeats is None)


def is_repeat(decided: Decided) -> bool:
    """Whether a decision repeats that on a streaming writer's epoch: it has changed nothing itself."""
    return isinstance(decided.outcome, Committed) and decided.outcome.repeats is not None


def rejected(segment: Segment) -> tuple[Rejected, ...]:
    """Outcomes of the intents that it refused."""
    return tuple(d.outcome for d in segment.decided if isinstance(d.outcome, Rejected))
