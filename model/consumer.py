"""Named consumers of a table's changes: how far each has come, and for how long expiry waits for it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from firn.model.ancestry import ancestors_of
from firn.model.metadata import TableMetadata
from firn.model.operations.common import Count, SnapshotId
from firn.model.snapshot import MAIN_BRANCH

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS

HOLD_DAYS_DEFAULT: Final = 7.0
HOLD_DAYS_MAX: Final = 30.0
"""A longer hold than this would let a forgotten consumer fill the table's metadata."""

HELD_SNAPSHOTS_MAX: Final = 10_000
"""Snapshots behind which a consumer is not waited for any longer, however young it is."""

CONSUMERS_MAX: Final = 64
"""Consumers of one table."""

ConsumerName = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.\-]+$")]
HoldDays = Annotated[float, msgspec.Meta(gt=0, le=HOLD_DAYS_MAX)]

ConsumerState = Literal["current", "behind", "lapsed", "lost"]
"""``lapsed``: expiry does not wait for it any longer. ``lost``: what came after its snapshot is not known any more."""


class Consumer(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """How far a consumer of one branch has come. Times are Unix milliseconds.

    It has seen everything up to `snapshot_id`, made at `snapshot_ms`; None: nothing yet, of a branch that was empty. It
    last moved at `updated_ms`, and expiry waits for it until `hold_days` later. `lapsed_ms` and `lost_ms` are when a
    daemon noticed and reported it.
    """

    name: ConsumerName
    branch: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] = MAIN_BRANCH
    snapshot_id: SnapshotId | None = None
    snapshot_ms: Count | None = None
    hold_days: HoldDays = HOLD_DAYS_DEFAULT
    updated_ms: Count
    lapsed_ms: Count | None = None
    lost_ms: Count | None = None

    @property
    def held_until_ms(self) -> int:
        """When its hold ends."""
        return self.updated_ms + round(self.hold_days * DAY_MS)

    def advanced(self, snapshot_id: int, *, snapshot_ms: int | None, now_ms: int) -> Consumer:
        """Return it as of now, having seen everything up to a snapshot."""
        return msgspec.structs.replace(
            self, snapshot_id=snapshot_id, snapshot_ms=snapshot_ms, updated_ms=now_ms, lapsed_ms=None, lost_ms=None
        )


class TableConsumers(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """The consumers of one table by its uuid; `table` is the name under which it was last seen."""

    table: str
    table_uuid: str
    consumers: tuple[Consumer, ...] = ()

    def find(self, name: str) -> Consumer | None:
        """Return the consumer of this name."""
        return next((one for one in self.consumers if one.name == name), None)

    def with_consumer(self, consumer: Consumer) -> TableConsumers:
        """Return them with this one, in the place of an earlier one of its name."""
        others = [one for one in self.consumers if one.name != consumer.name]
        return msgspec.structs.replace(self, consumers=tuple(sorted([*others, consumer], key=lambda one: one.name)))

    def without(self, name: str) -> TableConsumers:
        """Return them without the one of this name."""
        return msgspec.structs.replace(self, consumers=tuple(one for one in self.consumers if one.name != name))


class ConsumerStatus(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A consumer against its table: `behind` counts the snapshots that it has not seen, None where nobody can.

    `lag_ms` is how long ago the oldest change was made that it has not seen, as far as that is known; 0: it has seen
    everything.
    """

    consumer: Consumer
    state: ConsumerState
    behind: int | None
    lag_ms: int | None


def status_of(consumer: Consumer, metadata: TableMetadata, *, now_ms: int) -> ConsumerStatus:
    """Compare a consumer with its table."""
    return status_with(unseen_by(consumer, metadata), consumer, now_ms=now_ms)


def status_with(unseen: list[int] | None, consumer: Consumer, *, now_ms: int) -> ConsumerStatus:
    """Judge a consumer by what `unseen_by` said of it."""
    if unseen is None:
        seen_ms = consumer.snapshot_ms
        lag_ms = None if seen_ms is None else max(0, now_ms - seen_ms)
        return ConsumerStatus(consumer=consumer, state="lost", behind=None, lag_ms=lag_ms)
    if not unseen:
        return ConsumerStatus(consumer=consumer, state="current", behind=0, lag_ms=0)
    lapsed = now_ms > consumer.held_until_ms or len(unseen) > HELD_SNAPSHOTS_MAX
    return ConsumerStatus(
        consumer=consumer,
        state="lapsed" if lapsed else "behind",
        behind=len(unseen),
        lag_ms=max(0, now_ms - unseen[-1]),
    )


def unseen_by(consumer: Consumer, metadata: TableMetadata) -> list[int] | None:
    """Return the times (ms) of the snapshots that a consumer has not seen, newest first; None: not all are known."""
    head = metadata.head(consumer.branch)
    if head is None:
        return [] if consumer.snapshot_id is None else None
    times: list[int] = []
    parent_id: int | None = head.snapshot_id
    for snapshot in ancestors_of(metadata, head.snapshot_id):
        if snapshot.snapshot_id == consumer.snapshot_id:
            return times
        times.append(snapshot.timestamp_ms)
        parent_id = snapshot.parent_snapshot_id
    return times if parent_id == consumer.snapshot_id else None
