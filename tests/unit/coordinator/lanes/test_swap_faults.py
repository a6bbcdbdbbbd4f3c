"""What becomes of a batch whatever is lost, stopped or broken around its swap: one outcome, told or waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise, product
from typing import Any

import msgspec
import pytest

from firn.model.errors import AlreadyExists, NotFound
from firn.model.intent import Append
from firn.model.operations.transaction import Transaction
from firn.model.outcome import Committed
from firn.storage.pointers import Unknown, Won
from tests.unit.coordinator.row_model.faulty_bench import HELD_S, FaultyFiles
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, new_id


async def until(is_so: Callable[[], object], within_s: float = 10.0) -> None:
    async with asyncio.timeout(within_s):
        while not is_so():  # noqa: ASYNC110 - twins tell nobody
            await asyncio.sleep(0.005)


async def check_chain(bench: Workbench, table: str = TABLE) -> None:
    """The journal names each intent once, and each segment the one before."""
    segments = await bench.journal(table)
    decided = [d.intent_id for segment in segments for d in segment.decided]
    assert len(decided) == len(set(decided))
    for before, after in pairwise(segments):
        assert after.batch.previous_segment == before.location
        assert after.batch.base_metadata == before.batch.new_metadata


def hold_telling(daemon: Any) -> tuple[asyncio.Event, asyncio.Event]:
    """Hold a daemon up between a swap and its telling: set when it is there, and to be set to let it go on."""
    there, goes_on = asyncio.Event(), asyncio.Event()
    settle: Callable[..., Awaitable[None]] = daemon.publisher._streams.settle

    async def later(*told: Any, **more: Any) -> None:
        there.set()
        await goes_on.wait()
        await settle(*told, **more)

    daemon.publisher._streams.settle = later
    return there, goes_on


@pytest.mark.parametrize("lost", list(product(("before", "after"), repeat=3)), ids="-".join)
async def test_answers_that_are_lost_in_a_row_cost_no_intent_and_double_none(lost: Sequence[Any]) -> None:
    bench = Workbench()
    async with bench.daemon("a"):
        await bench.commit(create())
        await bench.commit(append("first"))
        for when in lost:
            bench.sessions["a"].drop_next_write(when)
        intents = [append(f"f{n}") for n in range(6)]
        for intent in intents:
            await bench.commit(intent)
    assert await bench.live() == ["f0", "f1", "f2", "f3", "f4", "f5", "first"]
    await check_chain(bench)


@pytest.mark.parametrize("writes", range(12))
async def test_a_session_that_ends_unheard_at_any_write_costs_nothing(writes: int) -> None:
    """Every request to ZooKeeper that a batch makes, one after the other, finds the session gone."""
    bench = Workbench()
    async with bench.daemon("a"), bench.daemon("b"):
        await bench.commit(create())
        await bench.commit(append("first"))
        sessions = list(bench.sessions.values())
        left = {id(session): writes for session in sessions}
        for session in sessions:
            turn = session._turn

            async def expires(kind: Any, *, session: Any = session, turn: Any = turn) -> None:
                left[id(session)] -= 1
                if left[id(session)] == 0:
                    bench.zookeeper.expire(session, told=False)
                await turn(kind)

            session._turn = expires
        outcomes = await bench.settle(*(append(f"f{n}") for n in range(3)))
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    assert await bench.live() == ["f0", "f1", "f2", "first"]
    await check_chain(bench)


async def test_who_was_stopped_between_swap_and_telling_says_what_the_other_said() -> None:
    bench = Workbench(shards=1)
    intent, other = append("a", reply_to="firn:replies:w"), append("b")
    async with bench.daemon("a") as zombie:
        await bench.commit(create())
        there, goes_on = hold_telling(zombie)
        await bench.send(intent)
        await asyncio.wait_for(there.wait(), 10)
        bench.zookeeper.expire(bench.sessions["a"], told=False)
        async with bench.daemon("b"):
            first = await bench.outcome(intent)
            assert isinstance(await bench.outcome(await send(bench, other)), Committed)
            goes_on.set()
            await until(lambda: not zombie.lanes.all_under_way())
            assert await bench.outcome(intent) == first
            replies = await bench.streams.replies("firn:replies:w", block_ms=100)
            assert len({reply.data for reply in replies}) == 1
    assert await bench.live() == ["a", "b"]
    await check_chain(bench)


def lose_answer(daemon: Any) -> None:
    """The next swap of a daemon is made, and its answer is lost."""
    catalogs = daemon.lanes._shop.catalogs
    swap = catalogs.swap

    async def unanswered(*arguments: Any) -> Unknown:
        catalogs.swap = swap
        assert isinstance(await swap(*arguments), Won)
        return Unknown("the connection broke")

    catalogs.swap = unanswered


def counted(daemon: Any, operation: str, status: str) -> float:
    """What a daemon's metrics say of intents."""
    value: float = daemon.metrics.intents.labels(operation, status)._value.get()
    return value


async def check_events(bench: Workbench, *tables: str, lost: Sequence[Any] = ()) -> None:
    """Every version of every table has its event, in Redis or in the events that a consumer read and Redis `lost`."""
    events = [*lost, *await bench.events()]
    announced = {(e["subject"], e["data"]["metadata-location"]) for e in events if e["type"] == "firn.table.committed"}
    for table in tables:
        moved = [s.batch for s in await bench.journal(table) if s.batch.base_metadata != s.batch.new_metadata]
        assert {(table, batch.new_metadata) for batch in moved} <= announced


OTHER = "db.others"


def both_tables(*names: str) -> Transaction:
    intent_id = new_id()
    members = (append(*names, intent_id=intent_id), append(*names, table=OTHER, intent_id=intent_id))
    return Transaction(intent_id=intent_id, table=TABLE, members=members)


@pytest.mark.parametrize("made", [lambda: append("a"), lambda: both_tables("a")], ids=["append", "transaction"])
async def test_a_commit_whose_answer_is_lost_has_its_events_and_is_counted_once(made: Callable[[], Any]) -> None:
    bench, intent = Workbench(), made()
    async with bench.daemon("a") as daemon:
        for table in (TABLE, OTHER):
            await bench.commit(create(table))
        await bench.commit(both_tables("first"))
        lose_answer(daemon)
        assert isinstance(await bench.outcome(await send(bench, intent)), Committed)
        await until(lambda: not daemon.lanes.all_under_way())
        assert daemon.metrics.unknown_swaps._value.get() == 1
        appends, both = counted(daemon, "append", "committed"), counted(daemon, "transaction", "committed")
        assert (appends, both) == ((1, 1) if isinstance(intent, Append) else (0, 2))
        place = msgspec.json.decode(await bench.streams.table(TABLE) or b"{}")
    assert place["metadata-location"] == (await bench.journal())[-1].batch.new_metadata
    await check_events(bench, TABLE, OTHER)
    await check_chain(bench)


@pytest.mark.parametrize(
    ("made", "name", "status"),
    [
        (lambda: append("a"), "append", "committed"),
        (lambda: both_tables("a"), "transaction", "committed"),
        (lambda: append("a", branch="nowhere"), "append", "rejected"),
    ],
    ids=["append", "transaction", "rejection"],
)
async def test_what_a_daemon_decided_before_it_died_is_published_and_counted_by_the_next(
    made: Callable[[], Any], name: str, status: str
) -> None:
    bench, intent = Workbench(shards=1), made()
    async with bench.daemon("a") as dead:
        await stop_before_publishing(bench, dead, intent)
        before = len(await bench.events())
        bench.zookeeper.expire(bench.sessions["a"], told=False)
        async with bench.daemon("b") as heir:
            outcome = await bench.outcome(intent)
            assert isinstance(outcome, Committed) is (status == "committed")
            await until(lambda: not heir.lanes.all_under_way())
            assert counted(heir, name, status) == 1
            await bench.commit(append("b"))
            assert counted(heir, name, status) == 1 + (name == "append" and status == "committed")
        events = (await bench.events())[before:]
    assert len({event["id"] for event in events}) == len(events)
    if status == "rejected":
        assert [e["id"] for e in events if e["type"] == "firn.intent.rejected"] == [intent.intent_id]
    await check_events(bench, TABLE, OTHER)
    await check_chain(bench)


def epoch() -> Append:
    return append("a", writer="w", writer_sequence=1)


@pytest.mark.parametrize(
    ("made", "again"),
    [(lambda: append("a"), lambda first: first), (lambda: both_tables("a"), lambda first: first),
     (epoch, lambda first: msgspec.structs.replace(first, intent_id=new_id()))],
    ids=["append", "transaction", "epoch under another id"],
)  # fmt: skip
async def test_a_commit_whose_queue_was_emptied_before_it_was_published_has_its_event(
    made: Callable[[], Any], again: Callable[[Any], Any]
) -> None:
    bench, intent = Workbench(shards=1), made()
    async with bench.daemon("a") as dead:
        await stop_before_publishing(bench, dead, intent)
        lost = await bench.events()
        bench.redis.flush_all()
        bench.zookeeper.expire(bench.sessions["a"], told=False)
        async with bench.daemon("b") as heir:
            for _ in range(2):
                assert isinstance(await bench.outcome(await send(bench, again(intent))), Committed)
            await until(lambda: not heir.lanes.all_under_way())
    ids = [event["id"] for event in [*lost, *await bench.events()]]
    assert len(set(ids)) == len(ids)
    await check_events(bench, TABLE, OTHER, lost=lost)
    await check_chain(bench)


async def stop_before_publishing(bench: Workbench, daemon: Any, intent: Any) -> None:
    """Make both tables, and have the daemon stop where the intent's swap is won and nothing of it is published."""
    for table in (TABLE, OTHER):
        await bench.commit(create(table))
    there, _ = hold_telling(daemon)
    await bench.send(intent)
    await asyncio.wait_for(there.wait(), 10)


async def send(bench: Workbench, intent: Any) -> Any:
    await bench.send(intent)
    return intent


async def test_who_was_stopped_before_its_swap_finds_the_work_done() -> None:
    files = FaultyFiles()
    bench = Workbench(files=files, shards=1)
    intent, other = append("a"), append("b")
    async with bench.daemon("a") as zombie:
        await bench.commit(create())
        files.entered.clear()
        files.gate.clear()
        await bench.send(intent)
        assert await asyncio.to_thread(files.entered.wait, HELD_S)
        bench.zookeeper.expire(bench.sessions["a"], told=False)
        gate, files.gate = files.gate, type(files.gate)()
        files.gate.set()  # for the other daemon; the zombie waits at the first
        async with bench.daemon("b"):
            first = await bench.outcome(intent)
            await bench.commit(other)
            gate.set()
            await until(lambda: not zombie.lanes.all_under_way())
            assert await bench.outcome(intent) == first
    assert await bench.live() == ["a", "b"]
    await check_chain(bench)


@pytest.mark.parametrize("error", [MemoryError, RecursionError, RuntimeError])
async def test_what_may_have_been_swapped_is_not_refused_for_a_mistake_of_ours(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """Its swap took effect, its answer was lost, and then the table cannot be read for want of memory."""
    bench = Workbench()
    intent = append("a")
    async with bench.daemon("a") as daemon:
        await bench.commit(create())
        state = daemon.lanes._lanes[TABLE]._commits._state
        load, broken = type(state).load, True

        def fails(self: Any, versioned: Any) -> None:
            if broken and versioned is not None and versioned.version > 0:
                raise error("cannot go on")
            load(self, versioned)

        monkeypatch.setattr(type(state), "load", fails)
        bench.sessions["a"].drop_next_write("after")
        await bench.send(intent)
        await asyncio.sleep(0.5)
        assert await bench.streams.outcome(intent.intent_id) is None, "it was told what nobody can know"
        assert daemon.lanes.stalled
        broken = False
        assert isinstance(await bench.outcome(intent), Committed)
        await bench.commit(append("b"))
        assert not daemon.lanes.stalled
    assert await bench.live() == ["a", "b"]
    await check_chain(bench)


@pytest.mark.parametrize("error", [AlreadyExists("taken"), NotFound("there is no folder")])
async def test_what_a_store_says_of_new_files_is_no_fault_of_the_intents(error: Exception) -> None:
    """A store that repeats a request by itself may say "exists"; a folder may be swept away at the wrong moment."""
    bench = Workbench()
    create_all, failures = bench.files.create_all, [error, error]

    def fails(files: Any) -> None:
        if failures:
            raise failures.pop()
        create_all(files)

    async with bench.daemon() as daemon:
        await bench.commit(create())
        bench.files.create_all = fails  # type: ignore[method-assign]
        await bench.commit(append("a"))
        assert not daemon.lanes.unreadable
    assert await bench.live() == ["a"]
