"""What somebody else does to a stream or its group is found out, and entries that stand in it unread can be read."""

from __future__ import annotations

import pytest

from firn.coordinator.intake.lost_entries import LostEntries
from firn.coordinator.metrics import Metrics
from firn.model.errors import Unavailable
from firn.storage.intent_streams import FIRST_ID
from tests.contract.shard_of_intents import opened, settled, take


class Reader:
    """A daemon's part of it, on shard 0, after a first look at an unread entry."""

    def __init__(self, streams):
        self.streams = streams
        self.accounts = LostEntries(streams, Metrics(version="1", daemon="d"), still_owns=self.owns)
        self.accounts.took_over(0)

    async def owns(self, _shard):
        return True

    async def take(self, count=100, consumer="c"):
        taken = await take(self.streams, count=count, consumer=consumer)
        self.accounts.took(taken)
        return taken

    async def look(self, held_back=0):
        return await self.accounts.look(0, held_back=held_back)


async def reader(redis_world, *, waiting):
    """A reader, and the ids of entries that wait behind one that was settled."""
    one = Reader(await opened(redis_world))
    await one.streams.submit(0, b"first")
    await one.streams.settle([settled(entry) for entry in await one.take()])
    ids = [await one.streams.submit(0, b"x") for _ in range(waiting)]
    assert await one.look() is None
    return one, ids


async def test_a_reader_that_nobody_disturbs_finds_nothing(redis_world):
    one, _ = await reader(redis_world, waiting=7)
    for count in (1, 3, 3):
        taken = await one.take(count)
        assert await one.look(held_back=count) is None
        await one.streams.settle([settled(entry) for entry in taken])
        one.accounts.trimmed(0, await one.streams.trim(0))
        assert await one.look() is None


@pytest.mark.parametrize("reads_on", [False, True])
@pytest.mark.parametrize("to", [2, -1, 0])
async def test_a_group_that_was_set_forward_is_found_out(redis_world, to, reads_on):
    one, ids = await reader(redis_world, waiting=4)
    await redis_world.set_position(0, ids[to])
    if reads_on:
        await one.streams.submit(0, b"next")
        assert await one.take()
    assert await one.look() == "position"
    assert await one.look() is None, "told once"


async def test_a_group_that_was_set_back_hands_out_again_and_nothing_is_lost(redis_world):
    one, _ = await reader(redis_world, waiting=3)
    await one.streams.settle([settled(entry) for entry in await one.take()])
    assert await one.look() is None
    await redis_world.set_position(0, FIRST_ID)
    assert await one.look() == "position"
    assert len(await one.take()) == 4
    lost = one.accounts._metrics.registry.get_sample_value("firn_lost_entries_total", {"was": "waiting"})
    assert lost == 0


async def test_who_else_reads_in_the_group_is_found_out(redis_world):
    one, _ = await reader(redis_world, waiting=3)
    assert await take(one.streams, consumer="foreign", count=1)
    assert await one.look() == "position"
    taken = await take(one.streams, consumer="foreign", count=1)
    await redis_world.acknowledge(0, taken[0].entry_id)
    assert await one.take()
    assert await one.look() == "position", "although it was read on from there"


async def test_what_is_held_back_and_no_longer_pending_is_found_out(redis_world):
    one, _ = await reader(redis_world, waiting=3)
    taken = await one.take()
    assert await one.look(held_back=3) is None
    await redis_world.acknowledge(0, taken[1].entry_id)
    assert await one.look(held_back=3) == "pending"
    await redis_world.delete_consumer(0, "c")
    assert await one.look(held_back=2) == "pending"


async def test_another_stream_under_the_name_is_found_out(redis_world):
    one, _ = await reader(redis_world, waiting=3)
    await redis_world.delete_stream(0)
    await one.streams.submit(0, b"x")
    assert await take(one.streams) == [], "the group is made anew"
    assert await one.look() == "replaced"
    assert len(await one.take()) == 1


async def test_what_is_neither_pending_nor_there_cannot_be_reclaimed_all_else_can(redis_world):
    one, ids = await reader(redis_world, waiting=4)
    await one.take()
    await redis_world.delete_consumer(0, "c")
    await redis_world.delete_entry(0, ids[1])
    assert await one.streams.reclaim(0, ids, consumer="d") == [ids[0], *ids[2:]]
    assert await one.streams.reclaim(0, [], consumer="d") == []
    found = await one.streams.pending(0, count=10)
    assert [(each.entry_id, each.deliveries) for each in found] == [(ids[0], 1), (ids[2], 1), (ids[3], 1)]
    assert [entry.payload for entry in await one.streams.read_again(0, found, consumer="d")] == [b"x"] * 3


async def test_consumers_without_work_are_removed_and_those_with_it_stay(redis_world):
    one, ids = await reader(redis_world, waiting=2)
    await take(one.streams, consumer="busy", count=1)
    idle = await take(one.streams, consumer="idle", count=1)
    await one.streams.settle([settled(entry) for entry in idle])
    assert await one.streams.remove_idle_consumers(0, keep="c", idle_ms=60_000) == []
    await redis_world.pass_ms(30)
    assert await one.streams.remove_idle_consumers(0, keep="c", idle_ms=20) == ["idle"]
    assert [each.entry_id for each in await one.streams.pending(0, count=10)] == ids[:1]
    assert await one.streams.remove_idle_consumers(7, keep="c", idle_ms=0) == [], "nobody reads that one"


async def test_a_key_that_is_no_stream_is_named_and_costs_no_other_shard_its_outcomes(redis_world):
    streams = await opened(redis_world, 0, 1)
    await streams.submit(0, b"x")
    await streams.submit(1, b"y")
    taken = await take(streams, 0, 1)
    await redis_world.replace_by_text(0)
    assert await streams.foreign_keys([0, 1, 2]) == {0: "string"}
    assert await streams.foreign_keys([]) == {}
    with pytest.raises(Unavailable, match="WRONGTYPE"):
        await take(streams, 0, 1)
    await streams.settle([settled(entry, intent_id=f"i{entry.shard}") for entry in taken])
    assert await streams.outcomes(["i0", "i1"]) == [b"{}", b"{}"]
    assert (await streams.lag(1)).pending == 0
