"""An entry that arrives after its shard was given up is added anew: its new owner may have looked for such already."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from firn.coordinator.daemon import Daemon
from firn.coordinator.intake import intake as intake_module
from firn.model.errors import Unavailable
from firn.model.outcome import Committed
from firn.model.sharding import shard_of
from firn.storage.intent_streams import Entry
from firn.storage.memory_streams import MemoryStreams
from tests.unit.coordinator.workbench import Workbench, append, create


async def test_an_entry_of_a_shard_that_was_given_up_meanwhile_is_added_anew_and_committed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Workbench()
    take = MemoryStreams.take
    given_up: list[Entry] = []
    armed: list[Daemon] = []

    async def taken_too_late(self: MemoryStreams, shards: Any, **options: Any) -> Any:
        entries = await take(self, shards, **options)
        if entries and armed and not given_up:
            given_up.extend(entries)
            armed[0].intake._backlogs.clear()
        return entries

    monkeypatch.setattr(MemoryStreams, "take", taken_too_late)

    def added() -> int:
        return sum(stream.added for name, stream in bench.redis.streams.items() if ":intents:" in name)

    async with bench.daemon() as daemon:
        await bench.commit(create())
        before = added()
        armed.append(daemon)
        await bench.commit(append("a.parquet"))
        assert given_up, "nothing came too late: the test proves nothing"
        assert added() - before == 2, "the entry, and the same added anew"
        assert len(await bench.live()) == 1


async def test_what_came_with_an_entry_that_cannot_be_added_anew_now_is_not_left_lying(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Workbench()
    take, move = MemoryStreams.take, MemoryStreams.move
    armed: list[Daemon] = []
    failed: list[int] = []

    async def taken_too_late(self: MemoryStreams, shards: Any, **options: Any) -> Any:
        entries = await take(self, shards, **options)
        if armed and not failed and entries:
            await asyncio.sleep(0.05)  # so that both are there
            more = await take(self, shards, **{**options, "block_ms": 0})
            entries = sorted([*entries, *more], key=lambda entry: entry.shard)
        if armed and not failed and len({entry.shard for entry in entries}) == 2:
            failed.append(entries[-1].shard)
            del armed[0].intake._backlogs[entries[-1].shard]
        return entries

    async def moved_later(self: MemoryStreams, entry: Entry, *, to_shard: int) -> None:
        if len(failed) == 1:
            failed.append(entry.shard)
            raise Unavailable("Redis is away")
        await move(self, entry, to_shard=to_shard)

    monkeypatch.setattr(MemoryStreams, "take", taken_too_late)
    monkeypatch.setattr(MemoryStreams, "move", moved_later)
    names = {shard_of(f"db.t{n}", shards=bench.shards): f"db.t{n}" for n in range(20)}
    tables = [names[shard] for shard in sorted(names)[:2]]
    async with bench.daemon() as daemon:
        for table in tables:
            await bench.commit(create(table))
        armed.append(daemon)
        intents = [append("a", table=table) for table in tables]
        await bench.send(*intents)
        assert all([isinstance(await bench.outcome(intent), Committed) for intent in intents])
    assert len(failed) == 2, "nothing failed: the test proves nothing"


@pytest.mark.parametrize(
    "during",
    ["clock_ms", "lag", "deliveries", "standing", "trim", "remove_idle_consumers", "announce", "foreign_keys", "take"],
)
async def test_a_shard_may_be_given_up_during_any_call_of_a_round(during: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards are given up beside the intake's rounds: it goes on with the others, whatever it was waiting for."""
    monkeypatch.setattr(intake_module, "MEASURE_S", 0.02)
    monkeypatch.setattr(intake_module, "JANITOR_S", 0.02)
    monkeypatch.setattr(intake_module, "TRIM_WORTH", 1)
    bench = Workbench(shards=4)
    async with bench.daemon() as daemon:
        streams: Any = daemon.intake._streams
        call, given_up = getattr(streams, during), list[int]()

        async def interrupted(*args: Any, **options: Any) -> Any:
            found = await call(*args, **options)
            if daemon.intake._backlogs and len(given_up) < 10:
                given_up.append(len(given_up) % 4)
                daemon.intake.forget({given_up[-1], (given_up[-1] + 1) % 4})
            return found

        await bench.commit(create())
        monkeypatch.setattr(streams, during, interrupted)
        daemon.intake._groups_seen -= 1  # as if a group had been missing
        async with asyncio.timeout(20):
            for number in range(10_000):
                if during == "foreign_keys":
                    daemon.intake._foreign = {9: "list"}  # which is looked for again until it is gone
                if during == "standing":
                    daemon.intake.forget({number % 4})  # it is read when a shard is taken over
                await bench.commit(append(f"f{number}"))
                if len(given_up) >= 4:
                    break
        assert len(given_up) >= 4, "nothing was given up: the test proves nothing"
