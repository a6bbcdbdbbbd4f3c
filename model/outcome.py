"""Outcomes: the one final answer to an intent, and its JSON form."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

Hint = Literal["retry", "replan", "narrow-filter", "fix"]
"""What the writer can do: ask for the same again (a rejection is final: under a new intent id), read the table and plan
again, ask for less, or correct the intent."""

OUR_MISTAKES: Final = frozenset({"poison", "internal-error"})
"""Rules that refuse an intent because of a fault in firn. Its payload is kept as a dead letter for the report."""


class Committed(  # gc=False: nothing in it leads back to it, and a batch makes thousands
    msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True, tag="committed", tag_field="status",
    gc=False,
):  # fmt: skip
    """The intent is in the table, exactly once.

    `snapshot_id` is None where the operation makes no snapshot. `replays` counts how often the batch had to be
    replayed because another commit came first. `details` is what else the operation has to say, such as ids that were
    assigned or what was kept. `traceparent` is that of the intent, `digest` that of its content. `repeats` is the id of
    the intent that committed a streaming writer's epoch, where this one repeats it: the rest is that intent's outcome.

    Times: `queued_ms` from the entry's being queued to a daemon's taking it (by the queue's clock), `decision_ms` from
    there to the decision, `commit_ms` from there until the commit was in place (files written, pointer swapped),
    `latency_ms` all of it until the outcome was sent. The journal is written before the commit, so it has the first
    two; there `latency_ms` is 0, and so it is in an outcome that was read from it.
    """

    intent_id: str
    table: str
    snapshot_id: int | None = None
    sequence_number: int | None = None
    metadata_location: str | None = None
    batch: str
    replays: int = 0
    latency_ms: float
    queued_ms: float | None = None
    decision_ms: float | None = None
    commit_ms: float | None = None
    details: dict[str, Any] = {}
    traceparent: str | None = None
    digest: str | None = None
    repeats: str | None = None

    @property
    def is_repeat(self) -> bool:
        """Whether this intent has changed nothing, because the intent `repeats` had committed its epoch."""
        return self.repeats is not None


class Rejected(
    msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True, tag="rejected", tag_field="status"
):
    """The intent has had no effect and never will.

    `rule` names the check that refused it. The `conflicting_*` members name the commit that came first, if one did and
    it is known: its snapshot, or for a change that makes none the operation and the metadata file that it made.
    `files`, `columns` and `partitions` are those concerned (at most `Limits.rejection_files_max` of each; there were
    `files_count` files). `base_snapshot_id` is what the intent was planned on, `head_snapshot_id` what its `branch` (or
    tag) pointed at when it was refused. `details` name the member of a transaction that was refused. `traceparent` is
    the intent's, and so is `digest`, of its content. Where an entry is no intent, `payload_digest` is that of its bytes
    instead: the rejection is of these bytes, and not of another entry under the same id. `batch` is None where no
    journal keeps the rejection. Times are those of `Committed`.
    """

    intent_id: str
    table: str
    rule: str
    message: str
    hint: Hint
    conflicting_snapshot_id: int | None = None
    conflicting_intent_id: str | None = None
    conflicting_writer: str | None = None
    conflicting_operation: str | None = None
    conflicting_metadata_location: str | None = None
    files: tuple[str, ...] = ()
    files_count: int = 0
    columns: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    branch: str | None = None
    base_snapshot_id: int | None = None
    head_snapshot_id: int | None = None
    details: dict[str, Any] = {}
    batch: str | None = None
    latency_ms: float = 0.0
    queued_ms: float | None = None
    decision_ms: float | None = None
    commit_ms: float | None = None
    traceparent: str | None = None
    digest: str | None = None
    payload_digest: str | None = None


Outcome = Committed | Rejected


def decision_ms_of(outcome: Outcome) -> float | None:
    """The time from taking an intent to its decision; older versions called it `latency_ms` in the journal."""
    return outcome.decision_ms if outcome.decision_ms is not None else outcome.latency_ms or None


def from_journal(outcome: Outcome, *, digest: str) -> Outcome:
    """Return an outcome that a journal has as it is sent: without times that came after the journal was written."""
    return msgspec.structs.replace(
        outcome, latency_ms=0.0, decision_ms=decision_ms_of(outcome), commit_ms=None, digest=digest
    )


def is_final(outcome: Outcome) -> bool:
    """Whether an outcome is of an intent, and not of an entry that is none and only carries an intent's id."""
    return isinstance(outcome, Committed) or outcome.batch is not None or outcome.digest is not None


def concerns(outcome: Outcome, *, digest: str, payload_digest: str) -> bool:
    """Whether an outcome under an intent's id is of the content with these digests, and of no other.

    True where the outcome does not name its content, as those of older versions do not.
    """
    named = outcome.payload_digest if isinstance(outcome, Rejected) else None
    return outcome.digest in {None, digest} and named in {None, payload_digest}


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final[msgspec.json.Decoder[Outcome]] = msgspec.json.Decoder(Outcome)


def encode_outcome(outcome: Outcome) -> bytes:
    """JSON as it is sent to writers and kept in Redis."""
    return _ENCODER.encode(outcome)


def decode_outcome(data: bytes) -> Outcome:
    """The inverse of `encode_outcome`; raises msgspec.ValidationError."""
    return _DECODER.decode(data)
