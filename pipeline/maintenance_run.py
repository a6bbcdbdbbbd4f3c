"""Carrying out a maintenance plan: one run a table at a time, everything at low priority, giving way to ingest.

Between two actions, and between two commits of a compaction, the run looks at the queue: as soon as intents wait for
longer than they should, it stops, and the next run goes on with what is left. What somebody has reserved the whole
table for is not rewritten under their hands.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final, Literal, Protocol

import msgspec

from firn.coordinator.client.answers import Answer, Unknown
from firn.model.amounts import plural
from firn.model.errors import FirnError, Unavailable
from firn.model.outcome import Rejected
from firn.model.sharding import shard_of
from firn.model.table_properties import MAINTAIN, MAINTAIN_ORPHANS_AGE_HOURS, MAINTAIN_ORPHANS_SEARCHED_MS
from firn.pipeline.dangling_deletes import removal_of_dangling
from firn.pipeline.journal_copy import copy_old_journal
from firn.pipeline.maintenance_plan import Action, MaintenancePlan, plan_maintenance
from firn.pipeline.manifest_rewrite import rewrite_manifests
from firn.pipeline.orphan_files import HOUR_MS, remove_orphans
from firn.pipeline.partition_statistics import compute_partition_statistics
from firn.pipeline.snapshot_expiry import expire_snapshots
from firn.pipeline.table_health import health_of
from firn.pipeline.upkeep import Upkeep
from firn.pipeline.work_under_way import shards_of_streams
from firn.storage.intent_streams import IntentStreams
from firn.storage.leases import Leases
from firn.storage.manifest_reader import StoredManifests
from firn.storage.sessions import Session

LAG_S_MAX: Final = 10.0
"""How long the oldest waiting intent of the table's shard may have waited, for maintenance to go on."""

LOCK_TIMEOUT_S: Final = 1.0
SLOW_LOCK_TIMEOUT_S: Final = 20.0
"""How long a run waits for its lock: the second when nobody has it, but ZooKeeper takes its time."""

LOCK_PREFIX: Final = ".maintenance."
"""What the locks of runs begin with; no table's name does."""

_REWRITES: Final[frozenset[Action]] = frozenset(
    {"compact", "rewrite-deletes", "remove-dangling-deletes", "rewrite-manifests"}
)

Status = Literal["done", "nothing", "failed", "unknown", "yielded", "reserved"]
"""``unknown``: a server did not answer; what was under way may have been done, or may still be."""


class SparkWork(Protocol):
    """The actions that take Spark, which is started by the first of them. What they return is for people."""

    def compact(self, table: str, *, go_on: Callable[[], bool]) -> tuple[Status, str]:
        """Compact a table by its properties, as long as `go_on` says yes between its commits, or else it has yielded.

        Raises when it did not succeed.
        """
        ...

    def rewrite_deletes(self, table: str) -> tuple[Answer | None, str]:
        """Rewrite files of deleted positions; the answer, None when there was nothing to do, and what is to be told."""
        ...

    def distinct_values(self, table: str) -> Answer | None:
        """Compute and attach statistics of distinct values; None when there was nothing to count."""
        ...


class ActionDone(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What became of one action; `took_s` seconds."""

    action: Action
    status: Status
    message: str
    took_s: float = 0.0


class TableRun(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What became of one table. `skipped`: why nothing was even tried. Without actions nothing was wanted.

    `journal_copied` segments of the journal were copied to where other engines leave them alone.
    """

    table: str
    actions: tuple[ActionDone, ...] = ()
    skipped: str | None = None
    journal_copied: int = 0

    @property
    def ok(self) -> bool:
        """Whether no action failed, or has no known end."""
        return self.skipped is None and all(one.status not in {"failed", "unknown"} for one in self.actions)


def plan_table(upkeep: Upkeep, table: str, *, now_ms: int | None = None) -> MaintenancePlan:
    """Look at a table and decide; changes nothing. Raises what reading it raises."""
    now = upkeep.table(table)
    now_ms = round(time.time() * 1000) if now_ms is None else now_ms
    return plan_maintenance(health_of(upkeep, now, now_ms=now_ms), now.metadata.properties)


def maintain(
    upkeep: Upkeep,
    table: str,
    *,
    spark: SparkWork,
    lag_s_max: float = LAG_S_MAX,
    leave_out: Collection[Action] = (),
    now_ms: int | None = None,
    progress: Callable[[Action], None] | None = None,
) -> TableRun:
    """Plan a table's maintenance and carry it out, unless another run is at it.

    `leave_out`: actions that are not done all the same. `now_ms` is what the clock says unless a test does. An action
    that fails is told, and the others go on: none needs another. Raises Unavailable when a server does not answer, and
    what reading the table raises.
    """

    async def alone(session: Session) -> TableRun:
        member = f"{socket.gethostname()}-{os.getpid()}"
        leases = Leases(session, member=member)
        try:
            lease = await leases.acquire(LOCK_PREFIX + table, timeout_s=LOCK_TIMEOUT_S)
            if lease is None:
                holder = await leases.holder(LOCK_PREFIX + table)
                if holder is None or holder.member == member:  # nobody has it: ZooKeeper is slow
                    lease = await leases.acquire(LOCK_PREFIX + table, timeout_s=SLOW_LOCK_TIMEOUT_S)
            if lease is None:
                return TableRun(table=table, skipped="another run is at it")
            return await asyncio.to_thread(run)
        finally:
            await leases.close()

    def run() -> TableRun:
        now = upkeep.table(table)
        copied = 0
        if MAINTAIN.of(now.metadata.properties):
            copied = sum(copy_old_journal(upkeep.files, place, limits=upkeep.limits) for place in now.all_places)
        paused = now.pointer.paused
        if paused is not None:  # nothing would be committed, and every action waits for its outcome
            why = f"the table is paused by {paused.by}: {paused.reason}"
            return TableRun(table=table, skipped=why, journal_copied=copied)
        plan = plan_table(upkeep, table, now_ms=now_ms)
        wanted = [action for action in plan.wanted if action not in leave_out]
        done = _Run(upkeep, table, spark=spark, lag_s_max=lag_s_max, now_ms=now_ms).carry_out(wanted, progress)
        return msgspec.structs.replace(done, journal_copied=copied)

    return upkeep.with_session(alone)


class _Run:
    """One table's run."""

    def __init__(self, upkeep: Upkeep, table: str, *, spark: SparkWork, lag_s_max: float, now_ms: int | None) -> None:
        self._upkeep = upkeep
        self._table = table
        self._lag_s_max = lag_s_max
        self._now_ms = now_ms
        self._work: dict[Action, Callable[[], tuple[Status, str]]] = {
            "compact": lambda: spark.compact(table, go_on=lambda: self._waited_s() <= lag_s_max),
            "rewrite-deletes": lambda: _told(*spark.rewrite_deletes(table)),
            "remove-dangling-deletes": self._remove_dangling_deletes,
            "rewrite-manifests": self._rewrite_manifests,
            "partition-statistics": self._partition_statistics,
            "distinct-values": lambda: _told(spark.distinct_values(table), "statistics attached"),
            "expire": self._expire,
            "remove-orphans": self._remove_orphans,
        }

    def carry_out(self, actions: Sequence[Action], progress: Callable[[Action], None] | None) -> TableRun:
        done: list[ActionDone] = []
        for action in actions:
            waited_s = self._waited_s()
            if waited_s > self._lag_s_max:
                why = f"intents have been waiting for {waited_s:.1f} s: the next run goes on here"
                done.append(ActionDone(action=action, status="yielded", message=why))
                break
            if progress is not None:
                progress(action)
            done.append(self._done(action))
        return TableRun(table=self._table, actions=tuple(done))

    def _done(self, action: Action) -> ActionDone:
        holder = self._holder_of_all() if action in _REWRITES else None
        if holder is not None:
            return ActionDone(action=action, status="reserved", message=f"{holder} has reserved the whole table")
        began_s = time.monotonic()
        try:
            status, message = self._work[action]()
        except Unavailable as error:
            status, message = "unknown", str(error)
        except FirnError as error:
            status, message = "failed", str(error)
        return ActionDone(action=action, status=status, message=message, took_s=round(time.monotonic() - began_s, 3))

    def _waited_s(self) -> float:
        return self._upkeep.with_streams(self._oldest_s)

    async def _oldest_s(self, streams: IntentStreams) -> float:
        """How long the oldest intent of the table's shard has waited, in seconds by Redis's clock."""
        lag = await streams.lag(shard_of(self._table, shards=await shards_of_streams(streams)))
        if lag.oldest_entry_ms is None:
            return 0.0
        return (await streams.clock_ms() - lag.oldest_entry_ms) / 1000

    def _holder_of_all(self) -> str | None:
        board = self._upkeep.client.reserved(self._table)
        return next((one.holder for one in board.reservations if one.scope.is_whole), None)

    def _remove_dangling_deletes(self) -> tuple[Status, str]:
        upkeep = self._upkeep
        metadata = upkeep.table(self._table).metadata
        reader = StoredManifests(upkeep.files, limits=upkeep.limits)
        intent = removal_of_dangling(self._table, metadata, files=reader)
        if intent is None:
            return _told(None, "")
        answer = upkeep.client.submit(intent).result(upkeep.timeout_s)
        return _told(answer, f"{plural(len(intent.removed_delete_files), 'delete file')} removed that reached nothing")

    def _rewrite_manifests(self) -> tuple[Status, str]:
        done = rewrite_manifests(self._upkeep, self._table)
        return _told(
            done.answer, f"{plural(done.before, 'manifest')} of {plural(done.files, 'file')} became {done.after:,}"
        )

    def _partition_statistics(self) -> tuple[Status, str]:
        done = compute_partition_statistics(self._upkeep, self._table)
        return _told(done.answer, f"{plural(done.partitions, 'partition')} counted")

    def _expire(self) -> tuple[Status, str]:
        done = expire_snapshots(self._upkeep, self._table, now_ms=self._now_ms)
        status, message = _told(done.answer, "")
        if status != "done":
            return status, message
        removal = done.removal
        assert removal is not None
        count = getattr(done.answer, "details", {}).get("removed-count", 0)
        message = f"{plural(count, 'snapshot')} expired, {plural(removal.count, 'file')} removed"
        if removal.failed:
            return "failed", f"{message}, {len(removal.failed):,} could not be, first {': '.join(removal.failed[0])}"
        if removal.unreadable:
            return "failed", f"{message}, {len(removal.unreadable):,} cannot be read, first {removal.unreadable[0]}"
        return "done", message

    def _remove_orphans(self) -> tuple[Status, str]:
        """Search, and note that it was done: only then is the next search due later."""
        hours = MAINTAIN_ORPHANS_AGE_HOURS.sane(self._upkeep.table(self._table).metadata.properties)
        found = remove_orphans(
            self._upkeep, self._table, older_than_ms=hours * HOUR_MS, dry_run=False, now_ms=self._now_ms
        )
        message = f"{found.count:,} of {plural(found.listed, 'file')} removed, older than {plural(hours, 'hour')}"
        if found.failed:
            return "failed", f"{message}; {len(found.failed):,} could not be, first {': '.join(found.failed[0])}"
        searched_ms = round(time.time() * 1000) if self._now_ms is None else self._now_ms
        ticket = self._upkeep.client.update_properties(
            self._table, {MAINTAIN_ORPHANS_SEARCHED_MS.name: str(searched_ms)}, priority="maintenance"
        )
        return _told(ticket.result(self._upkeep.timeout_s), message)


def _told(answer: Answer | None, message: str) -> tuple[Status, str]:
    if answer is None:
        return "nothing", "nothing to do any more"
    if isinstance(answer, Rejected) and answer.hint in {"replan", "retry"}:
        return "yielded", f"others changed the table meanwhile: the next run looks again ({answer.rule})"
    if isinstance(answer, Rejected):
        return "failed", f"{answer.rule}: {answer.message}"
    if isinstance(answer, Unknown):
        return "unknown", f"{answer.reason}; it may still be committed ({answer.intent_id})"
    return "done", message
