"""What a dry run foretells of an intent."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from firn.coordinator.insight.landed import Landed
from firn.model.outcome import Outcome, Rejected


class FutureSnapshot(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """A snapshot that a commit would make. `intents_count` intents of the dry run would share it."""

    table: str
    snapshot_id: int
    parent_snapshot_id: int | None = None
    sequence_number: int
    operation: str | None = None
    branch: str | None = None
    """None: staged, no branch would point at it."""
    summary: dict[str, str] = {}
    intents_count: int = 1
    added_files: tuple[str, ...] = ()
    added_files_count: int = 0
    removed_files: tuple[str, ...] = ()
    removed_files_count: int = 0


class Forecast(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """What would become of one intent now.

    ``would-commit``: `snapshot` is what it would make, if it makes one, and `details` what its outcome would say.
    ``would-reject``: `outcome` is the rejection. ``decided``: the intent was submitted before, and `outcome` is what
    became of it. `rebased_over` are the snapshots that came to its branch after `base_snapshot_id`, newest first; None
    where it names no base, or the base is not in the branch's history.
    `metadata_location` is the table that it was judged on; `waiting` counts the intents of the table's queue that were
    submitted before and are undecided (None: not known), any of which may change the answer.
    """

    status: Literal["would-commit", "would-reject", "decided"]
    intent_id: str
    table: str
    operation: str
    branch: str | None = None
    base_snapshot_id: int | None = None
    head_snapshot_id: int | None = None
    metadata_location: str | None = None
    snapshot: FutureSnapshot | None = None
    other_snapshots: tuple[FutureSnapshot, ...] = ()
    """What a transaction would make besides."""
    details: dict[str, Any] = {}
    rebased_over: tuple[Landed, ...] | None = None
    rebased_over_count: int = 0
    outcome: Outcome | None = None
    waiting: int | None = None
    caveats: tuple[str, ...] = ()

    @property
    def is_yes(self) -> bool:
        """Whether it would be, or is, committed."""
        return self.status == "would-commit" or (self.outcome is not None and not isinstance(self.outcome, Rejected))
