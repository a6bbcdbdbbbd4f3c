"""What replay says of one intent: applied, or refused with everything its writer needs to know."""

from __future__ import annotations

from typing import Any

import msgspec

from firn.model.outcome import Hint


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """The intent is part of the new state; both numbers are None where the operation makes no snapshot.

    `details` is what else its writer should know (JSON), such as ids that were assigned.
    """

    snapshot_id: int | None = None
    sequence_number: int | None = None
    details: dict[str, Any] = {}


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The intent conflicts with what the table is now, or asks for what cannot be.

    `conflicting_*` name the commit that came first, as far as it is known. `files`, `columns` and `partitions` are all
    that are concerned. Base and head are filled in where the rule that refuses does not say.
    """

    rule: str
    message: str
    hint: Hint
    conflicting_snapshot_id: int | None = None
    conflicting_intent_id: str | None = None
    conflicting_writer: str | None = None
    conflicting_operation: str | None = None
    conflicting_metadata_location: str | None = None
    files: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    branch: str | None = None
    base_snapshot_id: int | None = None
    head_snapshot_id: int | None = None
    details: dict[str, Any] = {}


Decision = Applied | Refused


class Refusal(Exception):
    """Raised inside a rule to end the replay of one intent; `replay_intent` turns it into its value."""

    def __init__(self, refused: Refused) -> None:
        self.refused = refused
        super().__init__(refused.message)
