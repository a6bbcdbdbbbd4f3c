"""Entries that somebody removes before they are read are counted, on any Redis, and nothing else is."""

from __future__ import annotations

from firn.coordinator.intake.lost_entries import LostEntries
from firn.coordinator.metrics import Metrics
from firn.storage.intent_streams import COUNTED_MAX
from tests.contract.shard_of_intents import opened, settled, take, taken_over


class Reader:
    """A daemon's part of it: takes, trims and looks on shard 0."""

    def __init__(self, streams):
        self.streams = streams
        self.metrics = Metrics(version="1", daemon="d")
        self.owns = True
        self.accounts = LostEntries(streams, self.metrics, still_owns=self.still_owns)
        self.accounts.took_over(0)

    async def still_owns(self, _shard):
        return self.owns

    async def submit(self, count):
        return [await self.streams.submit(0, b"x") for _ in range(count)]

    async def take(self, count):
        taken = await take(self.streams, count=count)
        self.accounts.took(taken)
        return taken

    async def settle(self, taken):
        await self.streams.settle([settled(entry) for entry in taken])
        self.accounts.trimmed(0, await self.streams.trim(0))

    async def lost(self, was="waiting"):
        """In all, after another look."""
        await self.accounts.look(0)
        return self.metrics.registry.get_sample_value("firn_lost_entries_total", {"was": was})


async def reader(redis_world):
    return Reader(await opened(redis_world))


async def test_taking_settling_and_trimming_lose_nothing(redis_world):
    one = await reader(redis_world)
    for waiting in (1, 3, 7):
        await one.submit(10)
        assert await one.lost() == 0
        taken = await one.take(10 - waiting)
        assert await one.lost() == 0
        await one.settle(taken)
        assert await one.lost() == 0
        await one.settle(await one.take(waiting))


async def test_a_stream_that_is_cut_loses_what_waited_in_it(redis_world):
    one = await reader(redis_world)
    await one.submit(9)
    assert await one.lost() == 0
    await one.take(2)
    await redis_world.cut(0, keep=3)
    assert await one.lost() == 4
    await one.submit(2)
    await one.settle(await one.take(9))
    assert await one.lost() == 4
    await one.submit(1)
    await redis_world.cut(0, keep=0)
    assert await one.lost() == 5


async def test_what_is_lost_beside_reads_is_counted_all_the_same(redis_world):
    """All of it between two looks: handed out, cut, handed out again."""
    one = await reader(redis_world)
    await one.submit(5)
    assert await one.lost() == 0
    await one.take(1)
    await redis_world.cut(0, keep=2)
    taken = await one.take(5)
    await one.submit(4)
    await one.settle([*taken, *await one.take(4)])
    assert await one.lost() == 2


async def test_one_that_is_deleted_from_among_those_that_wait_is_lost(redis_world):
    one = await reader(redis_world)
    ids = await one.submit(5)
    await one.take(1)
    assert await one.lost() == 0
    await redis_world.delete_entry(0, ids[3])
    assert await one.lost() == 1
    assert len(await one.take(9)) == 3
    assert await one.lost() == 1


async def test_who_removes_what_was_handed_out_loses_nothing_that_waits(redis_world):
    one = await reader(redis_world)
    ids = await one.submit(6)
    taken = await one.take(4)
    assert await one.lost() == 0
    await one.streams.settle([settled(entry) for entry in taken[:2]])
    await redis_world.cut(0, keep=3)
    assert await one.lost() == 0
    await redis_world.delete_entry(0, ids[3])
    assert await one.lost() == 0
    await taken_over(one.streams, 0, consumer="c")
    assert await one.lost("taken") == 2, "those that were under way and are gone"


async def test_what_a_former_reader_was_still_handed_is_not_lost(redis_world):
    one = await reader(redis_world)
    await one.submit(1)
    assert await one.lost() == 0
    await one.submit(3)
    late = await take(one.streams, consumer="former", count=2)
    assert await one.lost() == 0
    for entry in late:
        await one.streams.move(entry, to_shard=0)
    assert len(await one.take(9)) == 4
    assert await one.lost() == 0


async def test_what_was_lost_while_nobody_read_is_counted_by_the_next_reader_once(redis_world):
    before = await reader(redis_world)
    await before.submit(5)
    await before.settle(await before.take(2))
    assert await before.lost() == 0
    await redis_world.cut(0, keep=1)
    after = Reader(before.streams)
    assert await after.lost() == 2
    await after.settle(await after.take(9))
    assert await Reader(before.streams).lost() == 0
    await after.submit(2)
    assert await Reader(before.streams).lost() == 0


async def test_behind_a_long_queue_it_is_found_out_when_that_is_read(redis_world):
    one = await reader(redis_world)
    await one.submit(1)
    await one.take(1)
    assert await one.lost() == 0
    await one.submit(COUNTED_MAX + 20)
    await redis_world.cut(0, keep=COUNTED_MAX + 10)
    assert await one.lost() == 0
    await one.take(20)
    assert await one.lost() == 10


async def test_of_a_stream_that_was_begun_anew_what_was_seen_waiting_is_lost(redis_world):
    one = await reader(redis_world)
    await one.submit(5)
    await one.take(1)
    assert await one.lost() == 0
    await redis_world.flush_all()
    assert await take(one.streams) == []
    assert await one.lost() == 4
    await one.submit(1)
    assert len(await one.take(9)) == 1
    assert await one.lost() == 4


async def test_after_an_answer_that_was_lost_the_count_begins_anew(redis_world):
    one = await reader(redis_world)
    await one.submit(4)
    assert await one.lost() == 0
    await take(one.streams, count=2)  # nobody heard of these
    one.accounts.start_over()
    assert await one.lost() == 0
    await redis_world.cut(0, keep=1)
    assert await one.lost() == 1


async def test_what_the_next_reader_takes_and_trims_is_not_lost_whether_one_knows_of_it_or_not(redis_world):
    one = await reader(redis_world)
    after = Reader(one.streams)

    async def others_work():
        await after.submit(3)
        await after.settle(await after.take(9))

    await others_work()
    assert await one.lost() == 0
    await others_work()
    one.owns = False
    assert await one.lost() == 0, "told, before it knows that it owns the shard no more"
    one.owns = True
    one.accounts.forget(0)
    assert await one.lost() == 0, "told of a shard that was given up"
    await others_work()
    assert await one.lost() == 0, "counted for a shard that was given up"
    one.accounts.took_over(0)
    assert await one.lost() == 0, "told when it has the shard again"
    await one.submit(2)
    await redis_world.cut(0, keep=1)
    assert await one.lost() == 1


async def test_what_is_lost_while_nobody_can_say_who_owns_the_shard_is_told_later(redis_world):
    one = await reader(redis_world)
    await one.submit(4)
    assert await one.lost() == 0
    await redis_world.cut(0, keep=3)
    one.owns = False
    assert await one.lost() == 0
    await one.settle(await one.take(1))
    one.owns = True
    assert await one.lost() == 1
    assert await one.lost() == 1


async def test_a_shard_that_is_given_up_during_a_look_has_no_account_afterwards(redis_world):
    one = await reader(redis_world)
    await one.submit(1)
    asked = one.streams.deliveries

    async def given_up(shard):
        found = await asked(shard)
        one.accounts.forget(shard)
        return found

    one.streams.deliveries = given_up
    assert await one.lost() == 0
    one.streams.deliveries = asked
    after = Reader(one.streams)
    await after.submit(3)
    await after.settle(await after.take(9))
    assert await one.lost() == 0
