"""Outcomes: the one final answer to an intent, and its JSON form."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

Hint = Literal["retry", "replan", "narrow-filter", "fix"]
"""What the writer can do: ask for the same again (a rejection is final: under a new intent id), read the table and plan
again, ask for less, or mend the intent."""


class Committed(  # gc=False: nothing in it leads back to it, and a batch makes thousands
    msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True, tag="committed", tag_field="status",
    gc=False,
):  # fmt: skip
    """The intent is in the table, exactly once.

    `snapshot_id` is None where the operation makes no snapshot. `replays` counts how often the batch had to be
    replayed because another commit came first; `latency_ms` is from the daemon's taking it to its decision. `details`
    is what else the operation has to say, such as ids that were assigned or what was kept. `traceparent` is that
    of the intent.
    """

    intent_id: str
    table: str
    snapshot_id: int | None = None
    sequence_number: int | None = None
    metadata_location: str | None = None
    batch: str
    replays: int = 0
    latency_ms: float
    details: dict[str, Any] = {}
    traceparent: str | None = None


class Rejected(
    msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True, tag="rejected", tag_field="status"
):
    """The intent has had no effect and never will.

    `rule` names the check that refused it. The `conflicting_*` members name the commit that came first, if one did and
    it is known: its snapshot, or for a change that makes none the operation and the metadata file that it made.
    `files`, `columns` and `partitions` are those concerned (at most `Limits.rejection_files_max` of each; there were
    `files_count` files). `base_snapshot_id` is what the intent was planned on, `head_snapshot_id` what its `branch` (or
    tag) pointed at when it was refused. `details` name the member of a transaction that was refused. `traceparent` is
    the intent's. `digest`, of the intent's content, is given where there is no journal to keep the rejection.
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
    traceparent: str | None = None
    digest: str | None = None


Outcome = Committed | Rejected

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final[msgspec.json.Decoder[Outcome]] = msgspec.json.Decoder(Outcome)


def encode_outcome(outcome: Outcome) -> bytes:
    """JSON as it is sent to writers and kept in Redis."""
    return _ENCODER.encode(outcome)


def decode_outcome(data: bytes) -> Outcome:
    """The inverse of `encode_outcome`; raises msgspec.ValidationError."""
    return _DECODER.decode(data)
