"""A paused table: intents are taken and wait, nothing is swapped, nothing is lost, and nobody else is held up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from firn.coordinator.daemon import wall_clock_ms
from firn.coordinator.lanes.lane_queue import LaneQueue
from firn.coordinator.operations.pausing import Drain, drain, pause_table, resume_table
from firn.model.errors import NotFound
from firn.model.operations.tables import DropTable
from firn.model.outcome import Committed, Rejected
from firn.model.pause import Pause
from firn.model.sharding import shard_of
from firn.storage.leases import Leases
from firn.storage.pauses import Pauses
from firn.storage.pointers import PointerChange, Pointers, Won
from tests.unit.coordinator.lanes.test_lane_queue import NOW_MS, batches, ingest, names, queue_of
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.transactions.ledger import A, B, transaction, with_tables
from tests.unit.coordinator.workbench import SHARDS, TABLE, Workbench, append, create, new_id

WHY = Pause(by="ann@here", since_ms=1_000, reason="moving the bucket")
WAIT_S = 10.0


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not holds():  # noqa: ASYNC110 - twins have no event for it
            await asyncio.sleep(0.005)


async def pause(bench: Workbench, table: str = TABLE) -> None:
    """Pause a table, and wait until every daemon has heard."""
    session = bench.zookeeper.connect()
    await pause_table(session, table, WHY)
    await session.close()
    await until(lambda: all(table in daemon.paused for daemon in bench.daemons))


async def resume(bench: Workbench, table: str = TABLE) -> Pause | None:
    session = bench.zookeeper.connect()
    was = await resume_table(session, table)
    await session.close()
    return was


async def held_back(bench: Workbench, count: int) -> None:
    """Wait until so many entries wait in their streams."""
    await until(lambda: sum(b.entries for d in bench.daemons for b in d.intake._backlogs.values()) == count)


async def test_intents_of_a_paused_table_wait_and_are_decided_in_order_when_it_is_resumed() -> None:
    bench = Workbench()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        await bench.commit(append("before"))
        await pause(bench)
        waiting = [append(name) for name in ("one", "two")]
        await bench.send(*waiting)
        await held_back(bench, 2)
        assert daemon.lanes.depths.get(TABLE, 0) == 0, "a paused table takes nothing of the daemon's memory"
        assert daemon.metrics.tables_paused._value.get() == 1
        assert await bench.live() == ["before"]
        was = await resume(bench)
        assert was == WHY
        outcomes = [await bench.outcome(intent) for intent in waiting]
        assert [type(o) for o in outcomes] == [Committed, Committed]
        assert await bench.live() == ["before", "one", "two"]
        assert daemon.metrics.tables_paused._value.get() == 0
        assert daemon.intake.redis_answers


async def test_intents_of_a_paused_table_do_not_count_as_waiting() -> None:
    """FirnIntentsWait would page somebody for a table that was paused on purpose."""
    bench = Workbench(shards=1)
    async with bench.daemon() as daemon:
        await bench.commit(create())
        await pause(bench)
        waiting = append("one")
        await bench.send(waiting)
        await held_back(bench, 1)
        (backlog,) = daemon.intake._backlogs.values()
        lag = await bench.streams.lag(0)
        assert lag.oldest_entry_ms is not None
        assert backlog.waiting_since_ms(lag) is None
        assert backlog.waiting_since_ms(msgspec.structs.replace(lag, oldest_undelivered_ms=7)) == 7
        await resume(bench)
        await bench.outcome(waiting)
        assert backlog.waiting_since_ms(lag) == lag.oldest_entry_ms


async def test_other_tables_of_the_same_shard_go_on() -> None:
    bench = Workbench(shards=1)
    async with bench.daemon():
        await with_tables(bench, A, B)
        await pause(bench, A)
        held = append("a", table=A)
        await bench.send(held)
        await bench.commit(append("b", table=B))
        await held_back(bench, 1)
        assert await bench.live(A) == []
        await resume(bench, A)
        assert isinstance(await bench.outcome(held), Committed)


async def test_a_pause_outlives_restarts_and_takeovers() -> None:
    bench = Workbench()
    async with bench.daemon("a"):
        await bench.commit(create())
        await pause(bench)
        waiting = append("later")
        await bench.send(waiting)
        await held_back(bench, 1)
    async with bench.daemon("b") as other:
        assert TABLE in other.paused, "known before the first intent is taken"
        await held_back(bench, 1)
        assert await bench.live() == []
        await resume(bench)
        assert isinstance(await bench.outcome(waiting), Committed)


async def test_a_swap_that_was_under_way_cannot_come_off_after_the_pause() -> None:
    """Even one whose daemon holds the lock and has heard of nothing: the pointer has moved from under it."""
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
    session, other = bench.zookeeper.connect(), bench.zookeeper.connect()
    leases = Leases(session, member="slow")
    lease = await leases.acquire(TABLE, timeout_s=1)
    assert lease is not None
    read = await Pointers(session).read(TABLE)
    done = await pause_table(other, TABLE, WHY, lock_wait_s=0.05)
    assert done.held_by == "slow"
    moved = msgspec.structs.replace(read.pointer, metadata_location="elsewhere")
    change = PointerChange(table=TABLE, pointer=moved, expected=read.version)
    assert not isinstance(await Pointers(session).swap([change], leases=[lease]), Won)
    found = (await Pointers(other).read(TABLE)).pointer
    assert (found.paused, found.metadata_location) == (WHY, read.pointer.metadata_location)
    await leases.close()


async def test_a_daemon_that_has_not_heard_finds_the_pause_at_the_pointer() -> None:
    bench = Workbench()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        await pause(bench)
        waiting = append("later")
        daemon.paused._tables = {}  # as if the watch had not come yet
        await bench.send(waiting)
        await held_back(bench, 1)
        assert TABLE in daemon.paused
        assert await bench.live() == []
        await resume(bench)
        assert isinstance(await bench.outcome(waiting), Committed)


async def test_a_batch_under_way_is_finished_and_what_waits_behind_it_goes_back_to_the_stream() -> None:
    bench = Gathering()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        bench.gated.entered.clear()
        bench.gated.gate.clear()
        first, behind = append("first"), append("behind")
        await bench.send(first)
        await asyncio.to_thread(bench.gated.entered.wait, WAIT_S)
        await bench.send(behind)
        await until(lambda: daemon.lanes.depths.get(TABLE) == 1)
        pausing = asyncio.create_task(pause_table(bench.zookeeper.connect(), TABLE, WHY))
        await until(lambda: TABLE in daemon.paused)
        bench.gated.gate.set()
        assert (await pausing).held_by is None
        assert isinstance(await bench.outcome(first), Committed)
        await held_back(bench, 1)
        assert await bench.live() == ["first"]
        await resume(bench)
        assert isinstance(await bench.outcome(behind), Committed)


async def test_a_transaction_over_a_paused_table_waits_as_a_whole_while_its_first_table_goes_on() -> None:
    bench = Workbench()
    async with bench.daemon() as daemon:
        await with_tables(bench, A, B)
        await pause(bench, B)
        both = transaction(append("x", table=A), append("x", table=B))
        await bench.send(both)
        await until(lambda: daemon.lanes.depths.get(A) == 1)
        await bench.commit(append("y", table=A))
        assert (await bench.live(A), await bench.live(B)) == (["y"], [])
        await resume(bench, B)
        assert isinstance(await bench.outcome(both), Committed)
        assert (await bench.live(A), await bench.live(B)) == (["x", "y"], ["x"])


async def test_a_transaction_finds_the_pause_of_another_table_at_its_pointer() -> None:
    bench = Workbench()
    async with bench.daemon() as daemon:
        await with_tables(bench, A, B)
        await pause(bench, B)
        daemon.paused._tables = {}
        both = transaction(append("x", table=A), append("x", table=B))
        await bench.send(both)
        await until(lambda: B in daemon.paused)
        await until(lambda: daemon.lanes.depths.get(A) == 1)
        assert (await bench.live(A), await bench.live(B)) == ([], [])
        await resume(bench, B)
        assert isinstance(await bench.outcome(both), Committed)


async def test_later_epochs_of_a_streaming_writer_do_not_overtake_a_parked_one() -> None:
    bench = Workbench()
    async with bench.daemon() as daemon:
        await with_tables(bench, A, B)
        await pause(bench, B)
        first = transaction(append("x", table=A), append("x", table=B), writer="stream", writer_sequence=1)
        second = append("y", table=A, writer="stream", writer_sequence=2)
        await bench.send(first, second)
        await until(lambda: daemon.lanes.depths.get(A) == 2)
        await resume(bench, B)
        assert isinstance(await bench.outcome(first), Committed)
        assert isinstance(await bench.outcome(second), Committed)


def test_what_is_parked_takes_waiting_epochs_of_its_writer_along_and_comes_back_first() -> None:
    epochs = [ingest(str(n), writer="w", writer_sequence=n) for n in (1, 2, 3)]
    queue = queue_of(epochs[0], batch_intents_max=10)
    queue.park(queue.next_batch(now_ms=NOW_MS))
    assert (len(queue), queue.parked) == (0, 1)
    queue.unpark()
    queue.put(epochs[1])
    first = queue.next_batch(now_ms=NOW_MS)
    assert first == epochs[:2]
    queue.put(ingest("other"))
    queue.park(first)
    queue.put(epochs[2])
    assert (len(queue), queue.parked) == (1, 3)
    queue.unpark()
    assert batches(queue) == [["1", "2", "3", "other"]]


def test_epochs_that_wait_already_are_parked_with_the_first_of_their_writer() -> None:
    parked, behind, other = (
        ingest("1", writer="w", writer_sequence=1), ingest("2", writer="w", writer_sequence=2), ingest("other"),
    )  # fmt: skip
    queue = queue_of(behind, other)
    queue.park([parked])
    assert batches_until_empty(queue) == [["other"]]
    queue.unpark()
    assert batches(queue) == [["1", "2"]]


def batches_until_empty(queue: LaneQueue) -> list[list[str]]:
    """What is due while the rest is parked."""
    found = []
    while len(queue):
        found.append(names(queue.next_batch(now_ms=NOW_MS)))
    return found


async def test_a_deadline_that_passes_meanwhile_is_told_when_the_table_is_resumed() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await pause(bench)
        late = append("late", deadline_ms=wall_clock_ms() + 50)
        await bench.send(late)
        await held_back(bench, 1)
        await asyncio.sleep(0.1)
        assert await bench.streams.outcome(late.intent_id) is None
        await resume(bench)
        outcome = await bench.outcome(late)
        assert isinstance(outcome, Rejected)
        assert outcome.rule == "deadline-passed"


async def test_what_was_submitted_is_decided_when_a_drain_ends() -> None:
    bench = Gathering()
    seen: list[Drain] = []
    shard = shard_of(TABLE, shards=SHARDS)
    async with bench.daemon():
        await bench.commit(create())
        bench.gated.gate.clear()
        intents = [append(str(n)) for n in range(5)]
        await bench.send(*intents)
        cut = await drain(bench.streams, TABLE, shard=shard, timeout_s=0.05, progress=seen.append)
        assert (cut.submitted, cut.left) == (5, 5)
        draining = asyncio.create_task(drain(bench.streams, TABLE, shard=shard, timeout_s=WAIT_S, progress=seen.append))
        await until(lambda: len(seen) > 2)
        later = append("later")
        await bench.send(later)
        bench.gated.gate.set()
        assert await draining == Drain(submitted=5, left=0)
        for intent in intents:
            assert await bench.streams.outcome(intent.intent_id) is not None
        await bench.outcome(later)


@pytest.mark.parametrize("what", ["unknown", "dropped"])
async def test_only_what_is_there_can_be_paused(what: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        if what == "dropped":
            await bench.commit(create())
            await bench.commit(DropTable(intent_id=new_id(), table=TABLE))
        session = bench.zookeeper.connect()
        with pytest.raises(NotFound):
            await pause_table(session, TABLE, WHY)
        assert await Pauses(session).all() == {}


async def test_half_a_pause_and_half_a_resume_are_mended_by_the_next() -> None:
    """The note without the mark (its maker died in between) pauses; resuming removes whichever there is."""
    bench = Workbench()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        session = bench.zookeeper.connect()
        await Pauses(session).note(TABLE, WHY)
        await until(lambda: TABLE in daemon.paused)
        waiting = append("later")
        await bench.send(waiting)
        await held_back(bench, 1)
        assert await resume_table(session, TABLE) == WHY
        assert isinstance(await bench.outcome(waiting), Committed)
        await pause_table(session, TABLE, WHY)
        await Pauses(session).forget(TABLE)  # the mark without the note
        again = append("again")
        await bench.send(again)
        await asyncio.sleep(0.1)
        assert await bench.streams.outcome(again.intent_id) is None
        assert await resume_table(session, TABLE) == WHY
        assert isinstance(await bench.outcome(again), Committed)
