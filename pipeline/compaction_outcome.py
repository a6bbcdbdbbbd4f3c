"""What became of a compaction, group by group, and how it is told while it goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from firn.model.amounts import plural, size_text
from firn.pipeline.compaction_plan import CompactionPlan

GroupStatus = Literal["written", "committed", "needless", "reserved", "postponed", "conflict", "failed", "unknown"]
"""``written``: not committed yet, which only progress says. ``needless``: others have rewritten or removed its files
meanwhile. ``reserved``: others have said that they are at work on them. ``postponed``: the compaction was told not to
go on before it came to it. ``conflict``: it lost to other commits as often as it was tried. ``failed``: its job, or its
intent for another reason. ``unknown``: the outcome of its intent is not known; it may be committed."""

Stage = Literal["planned", "written", "settled"]


class GroupOutcome(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """One group's end. Sizes are bytes of data files; `files_after` are those written, 0 unless they may be live.

    `attempts` counts how often its files were written, `conflicts` how often it lost, `message` says why it is not
    committed.
    """

    number: int
    partition: str
    status: GroupStatus
    files_before: int
    bytes_before: int
    files_after: int = 0
    bytes_after: int = 0
    snapshot_id: int | None = None
    attempts: int = 0
    conflicts: int = 0
    message: str | None = None

    def __str__(self) -> str:
        before = f"{plural(self.files_before, 'file')} of {size_text(self.bytes_before)}"
        head = f"{self.number}. {self.partition}: {self.status}, {before}"
        if self.status in {"written", "committed", "unknown"}:
            head += f" → {self.files_after:,} of {size_text(self.bytes_after)}"
        return f"{head} ({self.message})" if self.message else head


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a compaction is: `groups_done` of `groups_total` are settled.

    It is told once ``planned``, then for every group when its files are ``written`` and when it is ``settled``, whose
    `group` it is. A group that loses to another commit is written again.
    """

    stage: Stage
    groups_done: int
    groups_total: int
    group: GroupOutcome | None = None


ProgressCallback = Callable[[Progress], None]


class CompactionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A compaction's end: its plan, every group, and delete files that reached nothing any more and were removed."""

    table: str
    plan: CompactionPlan
    groups: tuple[GroupOutcome, ...]
    dangling_removed: int = 0

    @property
    def committed(self) -> tuple[GroupOutcome, ...]:
        """The groups that are in the table."""
        return tuple(group for group in self.groups if group.status == "committed")

    @property
    def files_before(self) -> int:
        """Data files that were rewritten."""
        return sum(group.files_before for group in self.committed)

    @property
    def bytes_before(self) -> int:
        """Bytes of those."""
        return sum(group.bytes_before for group in self.committed)

    @property
    def files_after(self) -> int:
        """Data files in their place."""
        return sum(group.files_after for group in self.committed)

    @property
    def bytes_after(self) -> int:
        """Bytes of those."""
        return sum(group.bytes_after for group in self.committed)

    @property
    def conflicts(self) -> int:
        """How often a group lost to another commit, whatever became of it."""
        return sum(group.conflicts for group in self.groups)

    @property
    def postponed(self) -> int:
        """How many groups are left to another compaction, because this one was told not to go on."""
        return sum(group.status == "postponed" for group in self.groups)

    @property
    def ok(self) -> bool:
        """Whether no group failed, or has an unknown outcome, or has lost for good."""
        return all(group.status in {"committed", "needless", "reserved", "postponed"} for group in self.groups)

    @property
    def unknown(self) -> bool:
        """Whether a group has an unknown outcome."""
        return any(group.status == "unknown" for group in self.groups)

    def as_json(self) -> dict[str, Any]:
        """The outcome in types that JSON has."""
        return {
            "table": self.table,
            "ok": self.ok,
            "files-before": self.files_before,
            "bytes-before": self.bytes_before,
            "files-after": self.files_after,
            "bytes-after": self.bytes_after,
            "conflicts": self.conflicts,
            "dangling-delete-files-removed": self.dangling_removed,
            "groups": msgspec.to_builtins(self.groups),
        }

    def __str__(self) -> str:
        if not self.groups:
            said = str(self.plan)
        else:
            counts = Counter(group.status for group in self.groups)
            states = ", ".join(f"{count} {status}" for status, count in counts.items())
            said = (
                f"{plural(self.files_before, 'file')} of {size_text(self.bytes_before)} → {self.files_after:,} of "
                f"{size_text(self.bytes_after)}; groups: {states}; {plural(self.conflicts, 'conflict')}"
            )
        if self.dangling_removed:
            said += f"; {plural(self.dangling_removed, 'delete file')} that reached nothing removed"
        return "\n".join([said, *(f"  {group}" for group in self.groups if group.status != "committed")])
