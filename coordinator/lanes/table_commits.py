"""The commits of one table: a batch under the table's lock, on its state as it is then, until it has been decided.

After a lost or unanswered swap it reads the pointer and the journal again: whatever of the batch stands there has been
committed. It never decides on an answer it did not get.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from firn.coordinator.commits.commit import Part, Plan, Prepared, is_light, prepare
from firn.coordinator.commits.registration import read_registered, reads_metadata
from firn.coordinator.commits.rename_commit import prepare_rename, rename_in
from firn.coordinator.commits.transaction_commit import prepare_transaction
from firn.coordinator.commits.transaction_tables import TransactionTables
from firn.coordinator.lanes.first_outcomes import FirstOutcomes
from firn.coordinator.lanes.held_intents import HeldIntents
from firn.coordinator.lanes.lane_lock import LaneLock
from firn.coordinator.lanes.lane_places import LanePlaces
from firn.coordinator.lanes.lane_queue import LaneQueue, unless_late
from firn.coordinator.lanes.paused_tables import TablePausedError
from firn.coordinator.lanes.work_behind import WorkBehind
from firn.coordinator.lanes.workshop import Workshop
from firn.coordinator.metrics import TableSize
from firn.coordinator.pending import Pending, operations_in, transaction_in
from firn.coordinator.replay.attempt import Attempt, Found, Placement
from firn.coordinator.replay.decision import Refused
from firn.coordinator.replay.draft import ManifestRef, location_of
from firn.coordinator.replay.merging import is_long, is_overlong
from firn.coordinator.replay.places import chooses_places, may_make
from firn.coordinator.tables.table_locations import LOCATIONS_LOCK
from firn.coordinator.tables.table_state import TableState
from firn.model.errors import AlreadyExists, CorruptFile, FirnError, InvalidInput, NotFound, Unavailable
from firn.model.identifiers import uuid7
from firn.model.journal import Retried
from firn.model.manifest import ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.operations.tables import RegisterTable
from firn.model.operations.views import RegisterView
from firn.model.outcome import Outcome, Rejected
from firn.model.table_properties import MAX_SWAPS_PER_SECOND
from firn.storage.leases import Lease
from firn.storage.log import get_logger
from firn.storage.pointers import FencedOut, Lost, Swap, Unknown, Versioned, Won

T = TypeVar("T")


class UnpreparedBatchError(Exception):
    """A batch that could not be replayed on a table whose own state was read; `cause` names what failed."""

    def __init__(self, cause: FirnError) -> None:
        self.cause = cause
        super().__init__(str(cause))


class TableCommits:
    """Commits the batches of one lane, one at a time. `lock` is its table's, `queue` what waits behind a batch; `held`
    takes what cannot be decided.
    """

    def __init__(self, table: str, shop: Workshop, *, lock: LaneLock, queue: LaneQueue, held: HeldIntents) -> None:
        self.table = table
        self.size: TableSize | None = None
        """How much the table's last commit carried."""
        self.stage: str | None = None
        """What the batch under way is at, as the metrics call it; None between two."""
        self._shop = shop
        self._lock = lock
        self._places = LanePlaces(table, shop)
        self._behind = WorkBehind(table, shop, queue=queue)
        self._first_outcomes = FirstOutcomes(shop, queue=queue, held=held)
        put_away = shop.kept.take(table)
        self._state = put_away or TableState(table, reader=shop.reader, journal=shop.journal, limits=shop.limits)
        self._was_away = put_away is not None
        """Whether the state is of an earlier lane, and has not been compared with the pointer yet."""
        self._others = TransactionTables(
            pointers=shop.pointers, catalogs=shop.catalogs, reader=shop.reader, journal=shop.journal,
            limits=shop.limits, run=shop.threads.read, ages=shop.ages,
        )  # fmt: skip
        self._followed: int | None = None
        """The fencing token under which the state is what the pointer says; None when it may not be."""
        self._swaps_max = 0
        """What the table wanted when it was forgotten."""
        self._log = get_logger().bind(table=table)

    @property
    def swaps_per_second_max(self) -> int:
        """How often the table wants to be swapped at most, 0 for as often as can be."""
        metadata = self._state.metadata
        return self._swaps_max if metadata is None else MAX_SWAPS_PER_SECOND.sane(metadata.properties)

    @property
    def memory(self) -> int:
        """Bytes that is known of the table takes, about."""
        return self._state.memory

    def put_away(self) -> None:
        """The lane has ended in good order: the next one for its table may go on from what is known here."""
        if self._state.pointer is not None:
            self._shop.kept.put_away(self._state)

    def make_small(self) -> None:
        """Forget what can be read again; what was decided stays known. Not while a batch is under way."""
        self._swaps_max = self.swaps_per_second_max
        self._followed = None
        self._state.make_small()
        self._others.forget()

    def doubt(self) -> None:
        """Something went wrong: look at the pointer again before the state is used."""
        self._followed = None

    def forget(self) -> None:
        """The states cannot be trusted: read all of them anew."""
        self._followed = None
        self._state = TableState(
            self.table, reader=self._shop.reader, journal=self._shop.journal, limits=self._shop.limits
        )
        self._others.forget()

    def look_again(self) -> None:
        """What could not be read of the journal may be there again."""
        self._state.decisions.look_again()

    def forget_others(self) -> None:
        """What is known of other tables of transactions cannot be trusted."""
        self._others.forget()

    async def settle(self, batch: list[Pending]) -> None:
        """Attempts until every intent of the batch has its outcome; `batch` keeps those that have none yet.

        Raises TablePausedError before anything is read of a table that is paused, its own or another of a transaction.
        """
        shop, limits = self._shop, self._shop.limits
        batch_id = uuid7(now_ms=shop.wall_ms(), entropy=secrets.token_bytes(10))
        retried: list[Retried] = []
        plan: Plan | None = None
        unusable: dict[str, str] = {}
        while (number := len(retried)) < limits.swap_attempts_max:
            if not await self._has_table(batch):
                self._refuse_unknown(await self._first_outcomes.tell_refused(batch))
                return
            registered = await self._registered(batch, batch_id)
            async with self._lock.together(await self._further_locks(batch)) as leases:
                await self._follow(leases[0], batch)
                self._say_what_was_found(retried)
                batch[:] = await self._first_outcomes.tell(batch, self._state)
                if not batch:
                    return
                await self._wait_for_merges()
                batch[:] = [unless_late(pending, now_ms=shop.wall_ms()) for pending in batch]
                placement = await self._places.placement(batch, self._state, registered)
                placement = msgspec.structs.replace(placement, unusable={**placement.unusable, **unusable})
                plan = Plan(
                    daemon=shop.daemon, batch=batch_id, pendings=tuple(batch), placement=placement,
                    limits=limits, written={} if plan is None else plan.written,
                    waiting=await self._behind.needs(batch, self._state),
                )  # fmt: skip
                attempt = self._attempt(batch_id, number, batch)
                try:
                    prepared = await self._prepared(plan, attempt, leases=leases, retried=retried)
                except (CorruptFile, InvalidInput, NotFound) as error:
                    raise UnpreparedBatchError(error) from error
                if not prepared.parts:
                    self._publish_unjournaled(batch, prepared.outcomes)
                    return
                swap, found = await asyncio.gather(self._write(prepared, leases), self._places.unusable_files(prepared))
                if not found.keys() <= unusable.keys():
                    unusable |= found  # replayed again, the intents that name these files are refused
                    shop.metrics.count_written(prepared.files)
                    continue
                won = await self._swap(swap, prepared, leases, batch, retried=retried, number=number)
                shop.metrics.count_written(prepared.files)
                if won:
                    return
        raise Unavailable(f"{limits.swap_attempts_max} swaps of one batch in a row did not come off")

    def _say_what_was_found(self, retried: list[Retried]) -> None:
        """After a swap that did not come off: where the table was found, which tells who came first."""
        pointer = self._state.pointer
        if retried and retried[-1].found_metadata is None and pointer is not None:
            retried[-1] = msgspec.structs.replace(retried[-1], found_metadata=pointer.metadata_location)

    async def _prepared(
        self, plan: Plan, attempt: Attempt, *, leases: Sequence[Lease], retried: Sequence[Retried]
    ) -> Prepared:
        """Replay and encode the batch; a transaction on all of its tables, a rename on both names."""
        reader, retries, clock = self._shop.reader, tuple(retried), time.monotonic
        renaming = rename_in(plan.pendings)
        if renaming is not None:
            target = await self._timed("load", self._others.read_name(renaming.new_name))
            work = self._shop.threads.compute(
                prepare_rename, plan, self._state, target, reader=reader, attempt=attempt, retried=retries,
                lock_tokens={lease.table: lease.token for lease in leases}, clock=clock,
            )  # fmt: skip
            return await self._timed("replay", work)
        transaction = transaction_in(plan.pendings)
        if transaction is None:
            run = self._shop.threads.compute if not is_light(plan, self._state) else run_here
            work = run(
                prepare, plan, self._state, reader=reader, attempt=attempt, retried=retries,
                lock_token=leases[0].token, clock=clock,
            )  # fmt: skip
            return await self._timed("replay", work)
        others = await self._timed("load", self._others.read(transaction))
        waiting = await self._behind.needs_beside(plan.pendings, others.states)
        others = msgspec.structs.replace(others, waiting=waiting)
        foreign = await self._places.foreign([self._state, *others.states.values()])
        plan = msgspec.structs.replace(plan, placement=msgspec.structs.replace(plan.placement, foreign=foreign))
        work = self._shop.threads.compute(
            prepare_transaction, plan, self._state, others, reader=reader, attempt=attempt, retried=retries,
            lock_tokens={lease.table: lease.token for lease in leases}, clock=clock,
        )  # fmt: skip
        return await self._timed("replay", work)

    async def _swap(
        self,
        swap: Swap,
        prepared: Prepared,
        leases: Sequence[Lease],
        batch: Sequence[Pending],
        *,
        retried: list[Retried],
        number: int,
    ) -> bool:
        """Move the pointers; True when the batch is committed and its outcomes are on their way."""
        shop, metrics = self._shop, self._shop.metrics
        own, *others = prepared.parts
        outcome = await self._timed("swap", shop.catalogs.swap(swap, own.put))
        self._followed = None
        match outcome:
            case Won(versions=versions):
                for part in others:
                    shop.publisher.announce(part.segment)
                notice = shop.publisher.publish(own.segment, batch, decided_at=prepared.decided_at)
                await asyncio.sleep(0)  # so that writers hear of it while the rest is done
                shop.publisher.count(notice)
                for part in prepared.parts:
                    self._advance(part, versions)
                    shop.landed(part.working, part.segment, batch)
                self._followed = leases[0].token if self.table in versions else None
                metrics.batches.labels("won").inc()
                metrics.batch_intents.observe(len(batch))
                if others:
                    metrics.transaction_tables.observe(len(prepared.parts))
                self._log_won(prepared, number)
                return True
            case Lost():
                metrics.batches.labels("lost").inc()
                metrics.replays.inc()
            case FencedOut():
                metrics.batches.labels("fenced").inc()
                metrics.fenced_swaps.inc()
                self._lock.lost()
            case Unknown(reason=reason):
                metrics.batches.labels("unknown").inc()
                metrics.unknown_swaps.inc()
                self._log.warning("swap unanswered", reason=reason, batch=own.segment.batch.batch)
        retried.append(Retried(attempt=number, reason=type(outcome).__name__.lower()))
        return False

    def _advance(self, part: Part, versions: Mapping[str, int]) -> None:
        """Take over what a won swap made of a table."""
        assert part.change.pointer is not None
        table = part.change.table
        if part.change.pointer.catalog == "metastore":
            self._shop.replaced.moved(part.state.metadata, part.working.metadata)
        part.state.advance(part.change.pointer, versions.get(table), part.working)
        if table == self.table:
            self.size = size_after(part, self.size)
        part.state.decisions.add(part.segment)
        for location, packed in part.manifests:
            self._shop.reader.remember(location, packed)
        if part.working.change in {"created", "registered", "dropped"}:
            self._shop.locations.forget(table)
        self._follow_merges(part)

    def _follow_merges(self, part: Part) -> None:
        """Begin the merges that a won swap has made worth while; those that it took over are done."""
        table, metadata, merges = part.change.table, part.working.metadata, self._shop.merges
        merges.took_over(part.working.taken_over)
        if metadata is None:
            return
        if merges.is_excluded(table):
            heads = part.state.heads.values()
            merges.forget_missing(table, (location_of(one) for head in heads for one in head.manifests))
        for branch in {draft.branch for draft in part.working.snapshots}:
            head = part.working.heads.get(branch)
            if head is not None:
                self._begin_merges(table, metadata, head.manifests)

    def _log_won(self, prepared: Prepared, number: int) -> None:
        own = prepared.parts[0]
        batch = own.segment.batch
        others = {"other_tables": [part.change.table for part in prepared.parts[1:]]} if batch.others else {}
        self._log.info(
            "batch committed",
            batch=batch.batch,
            intents=len(own.segment.decided),
            intent_ids=[d.intent_id for d in own.segment.decided[:20]],
            rejected=sum(o.__struct_config__.tag == "rejected" for o in prepared.outcomes),
            snapshots=sum(len(part.working.snapshots) for part in prepared.parts),
            metadata=batch.new_metadata,
            replays=number,
            **others,
        )

    async def tell_as_known(self, batch: Sequence[Pending], why: str) -> list[Pending]:
        """Tell again what was decided before, of a table that does not pass its checks, as `why` says; what is new of
        the batch. Raises Unavailable where Redis would have to say it and does not answer.
        """
        return await self._first_outcomes.tell_as_known(batch, self._state, why=why)

    async def _has_table(self, batch: Sequence[Pending]) -> bool:
        """Whether there is a pointer, or is about to be: names that mean nothing get no lock and no state."""
        if self._lock.has_lease or self._state.pointer is not None:
            return True
        if any(may_make(operation) and operation.table == self.table for operation in operations_in(batch)):
            return True
        try:
            await self._shop.pointers.read(self.table)
        except NotFound:
            await self._is_unknown_for_certain()
            return False
        return True

    async def _is_unknown_for_certain(self, lease: Lease | None = None) -> None:
        """Raise Unavailable where ZooKeeper has no pointer because it is not the one that had it."""
        await self._shop.stores.confirm_now()
        await self._shop.ages.check_absent(self.table, lock_token=None if lease is None else lease.token)

    def _refuse_unknown(self, batch: Sequence[Pending]) -> None:
        refused = Refused(rule="unknown-table", message=f"there is no table {self.table!r}", hint="fix")
        for pending in batch:
            self._shop.publisher.refuse(pending, pending.verdict or refused)

    def _publish_unjournaled(self, batch: Sequence[Pending], outcomes: Sequence[Outcome]) -> None:
        """There was no table, and there still is none: all are refused, and there is no journal to put it in."""
        for pending, outcome in zip(batch, outcomes, strict=True):
            assert isinstance(outcome, Rejected)
            self._shop.publisher.unjournaled(pending, outcome)

    async def _further_locks(self, batch: Sequence[Pending]) -> tuple[str, ...]:
        """The locks that the batch needs beside its table's: whoever chooses a place holds all places still."""
        places = (LOCATIONS_LOCK,) if any(chooses_places(o) for o in operations_in(batch)) else ()
        renaming = rename_in(batch)
        if renaming is not None:
            return (renaming.new_name, *places)
        transaction = transaction_in(batch)
        return places if transaction is None else (*await self._others.to_lock(transaction), *places)

    async def _follow(self, lease: Lease, batch: Sequence[Pending]) -> None:
        """Bring the state to where the pointer is now, unless nobody but this lane can have moved it.

        Raises Unavailable where ZooKeeper is not the deployment's, or older than the table.
        """
        if self._followed == lease.token:
            return
        await self._shop.stores.confirm()
        try:
            versioned = await self._shop.catalogs.read(self.table)
        except NotFound:
            versioned = None
            if not any(isinstance(one, RegisterTable | RegisterView) for one in operations_in(batch)):
                await self._is_unknown_for_certain(lease)
        if versioned is not None:
            await self._places.compare(versioned.pointer, lock_token=lease.token)
        if versioned is not None and versioned.pointer.paused is not None:
            raise TablePausedError(self.table, versioned.pointer.paused)
        try:
            await self._load(versioned)
        except CorruptFile as error:
            if not self._was_away:
                raise
            self._log.info("known state does not fit", reason=str(error))  # what was known long ago refuses nothing
            self.forget()
            await self._load(versioned)
        self._was_away = False
        self._followed = lease.token

    async def _load(self, versioned: Versioned | None) -> None:
        try:
            await self._timed("load", self._shop.threads.read(self._state.load, versioned))
        except (FirnError, OSError):
            raise
        except Exception as error:
            # For want of memory, or by a mistake of ours: no intent is at fault, and some may have been committed.
            raise Unavailable(f"what is known of the table could not be read: {error!r}") from error

    async def _registered(self, batch: Sequence[Pending], batch_id: str) -> Mapping[str, Found]:
        """The metadata that the batch registers, read while no other table waits for it."""
        shop = self._shop
        reading = [operation for operation in operations_in(batch) if reads_metadata(operation)]
        if not reading or self._state.current is not None:
            return {}
        placement = Placement(warehouse=shop.warehouse, allowed=shop.allowed)
        attempt = self._attempt(batch_id, 0, batch)
        work = shop.threads.read(
            read_registered, reading, reader=shop.reader, attempt=attempt, placement=placement, limits=shop.limits
        )
        return await self._timed("load", work)

    def _attempt(self, batch_id: str, number: int, batch: Sequence[Pending]) -> Attempt:
        now_ms, merges = self._shop.wall_ms(), self._shop.merges
        tables = {self.table, *(operation.table for operation in operations_in(batch))}
        return Attempt(
            batch=batch_id,
            token=uuid7(now_ms=now_ms, entropy=secrets.token_bytes(10)),
            number=number,
            now_ms=now_ms,
            queued_ms=max(pending.entry_ms for pending in batch),
            merges={table: finished for table in tables if (finished := merges.finished(table))},
        )

    async def _wait_for_merges(self) -> None:
        """Wait for a merge, a few seconds at most, if a branch of the table has too many manifests."""
        metadata = self._state.metadata
        if metadata is None:
            return
        long = [head.manifests for head in self._state.heads.values() if is_overlong(metadata, head.manifests)]
        for manifests in long:
            self._begin_merges(self.table, metadata, manifests)
        if long:
            await self._timed("load", self._shop.merges.wait(self.table))

    def _begin_merges(self, table: str, metadata: TableMetadata, manifests: Sequence[ManifestRef]) -> None:
        """Have small manifests merged beside the commits, where there are many."""
        if not is_long(metadata, manifests):
            return
        stored = [manifest for manifest in manifests if isinstance(manifest, ManifestFile)]
        self._shop.merges.begin(table, metadata, stored, new_location=lambda: self._merge_location(metadata))

    def _merge_location(self, metadata: TableMetadata) -> str:
        """Return a name for a merged manifest that is used by nothing else."""
        unique = uuid7(now_ms=self._shop.wall_ms(), entropy=secrets.token_bytes(10))
        return f"{metadata.location}/metadata/{unique}-merged.avro"

    async def _write(self, prepared: Prepared, leases: Sequence[Lease]) -> Swap:
        """Write the files of the batch; encode its swap while they are being written."""
        shop = self._shop

        def meanwhile() -> Swap:
            changes = [part.change for part in prepared.parts]
            return shop.catalogs.worded(changes, leases=leases, unmoved=prepared.unmoved)

        try:
            return await self._timed("write", shop.writes.create_all(prepared.files, meanwhile=meanwhile))
        except (AlreadyExists, NotFound) as error:
            # The next attempt has other names, and makes folders anew: this says nothing of the intents or the table.
            raise Unavailable(f"the batch could not be written ({type(error).__name__}): {error}") from error

    async def _timed(self, stage: str, work: Awaitable[T]) -> T:
        started, self.stage = time.monotonic(), stage
        try:
            return await work
        finally:
            self.stage = None
            self._shop.metrics.stage_seconds.labels(stage).observe(time.monotonic() - started)


def size_after(part: Part, before: TableSize | None) -> TableSize | None:
    """How large a table is after its part in a swap; None for a view and for a table that is gone."""
    metadata, pointer = part.working.metadata, part.change.pointer
    if metadata is None or pointer is None:
        return None
    written = dict(part.files if part.put is None else (*part.files, part.put)).get(pointer.metadata_location)
    if written is None:
        return before
    head = part.state.heads.get(metadata.current_snapshot_id)
    return TableSize(
        table=pointer.table,
        snapshots=len(metadata.snapshots),
        manifests=0 if head is None else len(head.manifests),
        metadata_bytes=len(written),
        streaming_writers=part.state.decisions.writers,
        oldest_ms=metadata.snapshots[0].timestamp_ms if metadata.snapshots else None,
        whole_since_ms=metadata.snapshot_log[0].timestamp_ms if metadata.snapshot_log else None,
    )


async def run_here(work: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """As `asyncio.to_thread`, without the thread."""
    return work(*arguments, **named)
