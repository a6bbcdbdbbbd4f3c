"""Shards that were another daemon's for a while: what that one did is no loss, and what it left is taken up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

import pytest

from firn.coordinator.daemon import Daemon
from firn.coordinator.intake import ownership as ownership_module
from firn.model.intent import encode_intent
from firn.model.outcome import Committed
from firn.model.sharding import assign, shard_of
from firn.storage.memory_redis import Stream
from tests.contract.shard_of_intents import settled
from tests.unit.coordinator.workbench import Workbench, append, create, new_id

SHARDS = 2
OTHERS = next(shard for shard, owner in assign(SHARDS, ["a", "b"]).items() if owner == "b")
"""The shard of two that "b" gets as soon as it is there."""

TABLE = next(name for name in (f"db.t{n}" for n in range(20)) if shard_of(name, shards=SHARDS) == OTHERS)
SOON_S = 10


async def until(condition: Any) -> None:
    """Wait until `condition()` holds."""
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110 - the twins tell nobody
            await asyncio.sleep(0.005)


class Stopped:
    """A daemon whose next call of a method of its streams waits until it may go on, so that its round does not end."""

    def __init__(self, daemon: Daemon, method: str) -> None:
        self.calls = 0
        self._streams: Any = daemon.intake._streams
        self._method = method
        self._waits, self._goes_on = asyncio.Event(), asyncio.Event()

    async def __aenter__(self) -> Self:
        asked = getattr(self._streams, self._method)

        async def later(*args: Any, **options: Any) -> Any:
            self.calls += 1
            self._waits.set()
            await self._goes_on.wait()
            return await asked(*args, **options)

        setattr(self._streams, self._method, later)
        async with asyncio.timeout(SOON_S):
            await self._waits.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.go_on()

    def go_on(self) -> None:
        """Let it go on."""
        self._goes_on.set()


def lost(daemon: Daemon) -> float | None:
    """What the daemon says was lost unread."""
    return daemon.metrics.registry.get_sample_value("firn_lost_entries_total", {"was": "waiting"})


def stream(bench: Workbench) -> Stream:
    """The stream of the shard that changes hands."""
    return bench.redis.streams[bench.names.intents(OTHERS)]


async def work_and_trim(bench: Workbench, daemon: Daemon) -> None:
    """Have a daemon that owns the shard take entries of it and remove them."""
    await until(lambda: OTHERS in daemon.ownership.owned())
    for _ in range(3):
        await bench.commit(append(new_id(), table=TABLE))
    there = len(stream(bench).entries)
    daemon.intake._janitor_at = 0.0
    await until(lambda: len(stream(bench).entries) < there)


async def look(daemon: Daemon) -> None:
    """Have a daemon look at what it lost, of every shard."""
    make_due(daemon)
    async with Stopped(daemon, "deliveries") as stopped, asyncio.timeout(SOON_S):
        stopped.go_on()
        while stopped.calls <= 2 * SHARDS:  # the second round of them began after this was asked
            make_due(daemon)
            await asyncio.sleep(0.01)


def make_due(daemon: Daemon) -> None:
    """It is every shard's turn to be looked at."""
    intake = daemon.intake
    intake._measured.update(dict.fromkeys(intake._measured, 0.0))
    intake._measure_at = 0.0


def lose_one(bench: Workbench) -> None:
    """Remove an entry that nobody has read."""
    name = bench.names.intents(OTHERS)
    bench.redis.delete_entry(name, bench.redis.add(name, {b"intent": b"{}"}))


@asynccontextmanager
async def two_shards() -> AsyncIterator[tuple[Workbench, Daemon]]:
    """A daemon that has a table on the shard."""
    bench = Workbench(shards=SHARDS)
    async with bench.daemon("a") as daemon:
        await bench.commit(create(TABLE))
        yield bench, daemon


async def test_what_another_took_and_removed_after_the_shard_was_given_up_in_a_look_is_not_lost() -> None:
    async with two_shards() as (bench, daemon):
        async with Stopped(daemon, "deliveries") as stopped, bench.daemon("b") as other:
            await until(lambda: OTHERS in other.ownership.owned())
            stopped.go_on()
            await work_and_trim(bench, other)
        await until(lambda: OTHERS in daemon.ownership.owned())
        await bench.commit(append(new_id(), table=TABLE))
        await look(daemon)
        assert lost(daemon) == 0
        lose_one(bench)
        await look(daemon)
        assert lost(daemon) == 1, "nothing is counted at all"


async def test_what_another_took_and_removed_while_a_daemon_was_stopped_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stopped past the end of its session, it goes on where it was, and asks Redis before it hears of that."""
    monkeypatch.setattr(ownership_module, "RECHECK_S", 60.0)  # it is stopped: nothing of it may ask ZooKeeper
    async with two_shards() as (bench, daemon):
        await look(daemon)
        async with Stopped(daemon, "deliveries") as stopped:
            session = bench.sessions["a"]
            session._watches.clear()
            bench.zookeeper.expire(session, told=False)
            async with bench.daemon("b") as other:
                await work_and_trim(bench, other)
                assert OTHERS in daemon.ownership.owned(), "it knows already: the test proves nothing"
                looked = stopped.calls
                stopped.go_on()
                await until(lambda: stopped.calls > looked)
                await until(lambda: OTHERS not in daemon.ownership.owned())
        assert lost(daemon) == 0


async def test_a_daemon_that_hears_in_a_look_that_its_session_is_in_doubt_takes_nothing() -> None:
    async with two_shards() as (bench, daemon), Stopped(daemon, "deliveries") as stopped:
        bench.sessions["a"].suspend()
        intent = append(new_id(), table=TABLE)
        await bench.send(intent)
        stopped.go_on()
        await asyncio.sleep(0.3)
        group = stream(bench).group
        assert group is not None
        assert not group.pending
        bench.sessions["a"].resume()
        assert isinstance(await bench.outcome(intent), Committed)


async def test_a_shard_that_was_lost_and_won_back_within_one_read_is_taken_over_like_any_other() -> None:
    """The intake cannot see that its shard was gone: it waits for Redis all the time."""
    async with two_shards() as (bench, daemon):
        await look(daemon)
        left = append(new_id(), table=TABLE)
        async with Stopped(daemon, "take"):
            bench.zookeeper.expire(bench.sessions["a"])
            assert not daemon.ownership.owned()
            for payload in (b"{}", b"{}", encode_intent(left)):
                await bench.streams.submit(OTHERS, payload)
            *done, _ = await bench.streams.take([OTHERS], consumer="b", count=3, block_ms=0)
            await bench.streams.settle([settled(entry) for entry in done])
            assert await bench.streams.trim(OTHERS) >= len(done) == 2
            await until(lambda: OTHERS in daemon.ownership.owned())
        assert isinstance(await bench.outcome(left), Committed), "what the other one left is not taken up"
        await look(daemon)
        assert lost(daemon) == 0


class SlowReader:
    """Reads pages when it is told to; and then leaves them to the daemon."""

    def __init__(self) -> None:
        self.asked = 0
        self.reads = asyncio.Event()

    def takes(self, payloads: Sequence[bytes]) -> bool:
        return bool(payloads)

    async def read_ahead(self, payloads: Sequence[bytes]) -> list[None]:
        if payloads:
            self.asked += 1
            await self.reads.wait()
        return [None] * len(payloads)


async def test_what_was_being_read_when_its_shard_was_lost_is_taken_up_when_it_is_won_back() -> None:
    """It counts as under way until it has been read: who looks at what is pending meanwhile passes over it."""
    async with two_shards() as (bench, daemon):
        reader: Any = SlowReader()
        left = append(new_id(), table=TABLE)
        async with Stopped(daemon, "take"):
            await bench.streams.submit(OTHERS, encode_intent(left))
            await bench.streams.take([OTHERS], consumer="dead", count=1, block_ms=0)
            daemon.intake._reader = reader
            daemon.intake._backlogs[OTHERS].start_over()
        async with Stopped(daemon, "take"):
            assert reader.asked == 1
            bench.zookeeper.expire(bench.sessions["a"])
            assert not daemon.ownership.owned()
            await until(lambda: OTHERS in daemon.ownership.owned())
        await asyncio.sleep(0.3)  # time enough to look at what is pending
        reader.reads.set()
        assert isinstance(await bench.outcome(left), Committed)
