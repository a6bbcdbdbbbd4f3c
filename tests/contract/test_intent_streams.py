"""Intents are handed to one daemon, in order, until they are settled; and what Redis loses is noticed."""

import asyncio
import time

import pytest

from firn.model.errors import InvalidIntent, UnknownOutcome
from firn.storage.intent_streams import COUNTED_MAX, INTENT_FIELD, StreamNames, id_after
from tests.contract.shard_of_intents import opened, settled, take, taken_over


async def test_entries_are_handed_out_once_in_order_and_acknowledged(redis_world):
    streams = await opened(redis_world)
    ids = [await streams.submit(0, b"%d" % number) for number in range(5)]
    first = await take(streams, count=3)
    second = await take(streams, consumer="other")
    assert [entry.entry_id for entry in first + second] == ids
    assert [entry.payload for entry in first + second] == [b"0", b"1", b"2", b"3", b"4"]
    assert {entry.deliveries for entry in first} == {1}
    assert await take(streams) == []
    assert (await streams.lag(0)).pending == 5
    await streams.settle([settled(entry) for entry in first + second])
    assert (await streams.lag(0)).pending == 0


async def test_several_shards_are_taken_together(redis_world):
    streams = await opened(redis_world, 0, 1, 7)
    for shard in (7, 0, 1, 7):
        await streams.submit(shard, b"%d" % shard)
    taken = await take(streams, 0, 1, 7)
    assert sorted((entry.shard, entry.payload) for entry in taken) == [(0, b"0"), (1, b"1"), (7, b"7"), (7, b"7")]
    assert await streams.take([], consumer="c", count=1, block_ms=0) == []


async def test_taking_waits_for_the_first_entry_and_no_longer(redis_world):
    streams, writer = await opened(redis_world), await redis_world.connect()
    waiting = asyncio.create_task(take(streams, block_ms=4000))
    await asyncio.sleep(0.1)
    started = time.monotonic()
    await writer.submit(0, b"x")
    assert [entry.payload for entry in await waiting] == [b"x"]
    assert time.monotonic() - started < 2
    assert await take(streams, block_ms=50) == []


async def test_a_missing_group_begins_at_the_first_entry(redis_world):
    streams = await redis_world.connect()
    await streams.submit(0, b"before any daemon was there")
    assert streams.groups_created == 0
    assert await take(streams) == []
    assert streams.groups_created == 1
    assert [entry.payload for entry in await take(streams)] == [b"before any daemon was there"]
    await redis_world.lose_group(0)
    assert await take(streams) == []
    assert streams.groups_created == 2
    assert [entry.payload for entry in await take(streams)] == [b"before any daemon was there"]


async def test_an_emptied_redis_is_a_new_epoch_and_goes_on(redis_world):
    streams, other = await opened(redis_world), await redis_world.connect()
    await streams.submit(0, b"lost")
    await take(streams)
    epoch = await streams.epoch()
    assert epoch == await streams.epoch() == await other.epoch()
    created = streams.groups_created
    await redis_world.flush_all()
    await streams.submit(0, b"new")
    assert await take(streams) == []
    assert streams.groups_created > created
    assert await streams.epoch() != epoch
    assert [entry.payload for entry in await take(streams)] == [b"new"]
    assert len(await streams.pending(0, count=10)) == 1  # the new one; nothing of the old


async def test_a_wait_survives_the_loss_of_the_stream_it_waits_on(redis_world):
    streams, writer = await opened(redis_world), await redis_world.connect()
    waiting = asyncio.create_task(take(streams, block_ms=3000))
    await asyncio.sleep(0.1)
    await redis_world.flush_all()
    await asyncio.sleep(0.05)
    await writer.submit(0, b"x")
    taken = await waiting
    for _ in range(3):
        taken = taken or await take(streams, block_ms=500)
    assert [entry.payload for entry in taken] == [b"x"]


async def test_unsettled_entries_are_taken_over_when_idle_and_counted(redis_world):
    streams = await opened(redis_world)
    ids = [await streams.submit(0, b"%d" % number) for number in range(4)]
    taken = await take(streams, consumer="dead")
    await streams.settle([settled(taken[1])])
    assert await streams.pending(0, min_idle_ms=60_000, count=10) == []
    await redis_world.pass_ms(120)
    again = await taken_over(streams, 0, consumer="heir", min_idle_ms=100, count=2)
    assert [(entry.entry_id, entry.deliveries) for entry in again] == [(ids[0], 2), (ids[2], 2)]
    assert again[0].payload == b"0"
    rest = await taken_over(streams, 0, consumer="heir", min_idle_ms=100)
    assert [(entry.entry_id, entry.deliveries) for entry in rest] == [(ids[3], 2)]
    everything = await taken_over(streams, 0, consumer="third")
    assert [(entry.entry_id, entry.deliveries) for entry in everything] == [(ids[0], 3), (ids[2], 3), (ids[3], 3)]


async def test_reading_again_is_no_delivery(redis_world):
    streams = await opened(redis_world)
    ids = [await streams.submit(0, b"%d" % number) for number in range(3)]
    await take(streams, count=2)
    first = (await streams.pending(0, count=1))[0]
    await taken_over(streams, 0, consumer="c", count=1)
    for _ in range(3):
        found = await streams.pending(0, count=10)
        again = await streams.read_again(0, found, consumer="c")
    assert [(one.entry_id, one.deliveries) for one in found] == [(ids[0], 2), (ids[1], 1)]
    assert [(entry.entry_id, entry.deliveries, entry.payload) for entry in again] == [
        (ids[0], 2, b"0"),
        (ids[1], 1, b"1"),
    ]
    assert first.entry_id == ids[0]
    assert await streams.read_again(0, [], consumer="c") == []
    assert [entry.entry_id for entry in await take(streams)] == [ids[2]]


async def test_pending_entries_are_listed_from_anywhere_on(redis_world):
    streams = await opened(redis_world)
    ids = [await streams.submit(0, b"%d" % number) for number in range(5)]
    taken = await take(streams, count=4)
    await streams.settle([settled(taken[1])])
    assert [one.entry_id for one in await streams.pending(0, start=ids[1], count=10)] == ids[2:4]
    assert [one.entry_id for one in await streams.pending(0, start=ids[2], count=1)] == [ids[2]]
    assert await streams.pending(0, start=id_after(ids[3]), count=10) == []


async def test_what_is_settled_meanwhile_is_not_read_again(redis_world):
    streams = await opened(redis_world)
    for number in range(2):
        await streams.submit(0, b"%d" % number)
    taken = await take(streams)
    found = await streams.pending(0, count=10)
    await streams.settle([settled(taken[0])])
    assert [entry.payload for entry in await streams.read_again(0, found, consumer="c")] == [b"1"]
    assert streams.entries_lost == 0


async def test_entries_deleted_while_pending_are_counted_as_lost(redis_world):
    streams = await opened(redis_world)
    ids = [await streams.submit(0, b"%d" % number) for number in range(3)]
    await take(streams)
    await redis_world.delete_entry(0, ids[1])
    again = await taken_over(streams, 0, consumer="c")
    assert [entry.entry_id for entry in again] == [ids[0], ids[2]]
    assert streams.entries_lost == 1
    assert (await streams.lag(0)).pending == 2


async def test_where_nothing_ever_was_nothing_is_pending(redis_world):
    streams = await redis_world.connect()
    assert await streams.pending(5, count=10) == []
    assert await streams.trim(6) == 0
    assert (await streams.lag(7)).length == 0


@pytest.mark.parametrize("fields", [{b"other": b"x"}, {b"intent": b"x", b"y": b"z"}, {b"Intent": b"x"}, {b"": b""}])
async def test_entries_with_other_fields_come_with_what_they_have(redis_world, fields):
    streams = await opened(redis_world)
    await redis_world.add_fields(streams.names.intents(0), fields)
    (entry,) = await take(streams)
    assert (entry.payload, entry.fields) == (None, fields)
    (entry,) = await taken_over(streams, 0, consumer="c", count=1)
    assert (entry.payload, entry.fields) == (None, fields)


async def test_only_what_is_settled_is_trimmed(redis_world):
    streams = await opened(redis_world)
    ids = [await streams.submit(0, b"%d" % number) for number in range(6)]
    taken = await take(streams, count=4)
    assert await streams.trim(0) == 0
    await streams.settle([settled(taken[0]), settled(taken[2])])
    assert await streams.trim(0) == 1
    await streams.settle([settled(taken[1])])
    assert await streams.trim(0) == 2
    assert [one.entry_id for one in await streams.pending(0, count=9)] == [ids[3]]
    rest = await take(streams)
    assert [entry.entry_id for entry in rest] == ids[4:]
    await streams.settle([settled(entry) for entry in [taken[3], *rest]])
    assert await streams.trim(0) == 2, "all but the one that was handed out last"
    assert (await streams.lag(0)).length == 1
    assert await streams.submit(0, b"after") > ids[-1]
    assert [entry.payload for entry in await take(streams)] == [b"after"]


async def test_the_lag_says_how_much_waits_and_since_when(redis_world):
    streams = await opened(redis_world)
    empty = await streams.lag(0)
    assert (empty.length, empty.undelivered, empty.pending, empty.oldest_entry_ms) == (0, 0, 0, None)
    ids = [await streams.submit(0, b"x") for _ in range(5)]
    lag = await streams.lag(0)
    assert (lag.length, lag.undelivered, lag.pending, lag.entries_added) == (5, 5, 0, 5)
    assert lag.oldest_entry_ms == int(ids[0].split("-")[0])
    taken = await take(streams, count=2)
    await streams.settle([settled(taken[0])])
    lag = await streams.lag(0)
    assert (lag.length, lag.undelivered, lag.pending) == (5, 3, 1)
    assert lag.oldest_entry_ms == int(ids[1].split("-")[0])
    assert lag.oldest_undelivered_ms == int(ids[2].split("-")[0])
    await streams.trim(0)
    lag = await streams.lag(0)
    assert (lag.length, lag.undelivered, lag.pending, lag.entries_added) == (4, 3, 1, 5)


async def test_what_is_removed_unread_can_be_told_from_the_servers_counts(redis_world):
    streams = await opened(redis_world)
    ids = [await streams.submit(0, b"%d" % number) for number in range(5)]
    taken = await take(streams, count=2)
    before = await streams.deliveries(0)
    assert (before.added, before.removed, before.undelivered) == (5, 0, 3)
    assert (before.delivered_id, before.delivered_there, before.delivered) == (ids[1], True, 2)
    await streams.settle([settled(entry) for entry in taken])
    assert await streams.trim(0) == 1
    own = await streams.deliveries(0)
    assert (own.added, own.removed, own.undelivered, own.delivered_there) == (5, 1, 3, True)
    await redis_world.cut(0, keep=1)
    cut = await streams.deliveries(0)
    assert (cut.added, cut.removed, cut.undelivered) == (5, 4, 1)
    assert (cut.delivered_id, cut.delivered_there, cut.delivered) == (ids[1], False, 2)


async def test_more_than_a_few_undelivered_entries_are_not_counted(redis_world):
    streams = await opened(redis_world)
    for _ in range(COUNTED_MAX):
        await streams.submit(0, b"x")
    assert (await streams.deliveries(0)).undelivered == COUNTED_MAX
    await streams.submit(0, b"x")
    assert (await streams.deliveries(0)).undelivered is None
    assert await streams.deliveries(1) is None, "nobody reads that one"


async def test_nothing_waits_where_all_that_waited_was_removed(redis_world):
    """Servers differ in what they call the lag then, and some never come back from it."""
    streams = await opened(redis_world)
    for _ in range(4):
        await streams.submit(0, b"x")
    await take(streams, count=1)
    await redis_world.cut(0, keep=0)
    lag = await streams.lag(0)
    assert (lag.undelivered, lag.entries_added, lag.length) == (0, 4, 0)


async def test_an_entry_on_the_wrong_shard_is_moved(redis_world):
    streams = await opened(redis_world, 0, 1)
    await streams.submit(0, b"x")
    await redis_world.add_fields(streams.names.intents(0), {b"odd": b"1"})
    for entry in await take(streams, 0):
        await streams.move(entry, to_shard=1)
    assert (await streams.lag(0)).pending == 0
    moved = await take(streams, 0, 1)
    assert [(entry.shard, entry.payload, entry.fields) for entry in moved] == [(1, b"x", {}), (1, None, {b"odd": b"1"})]


async def test_an_intent_over_the_limit_is_refused_before_it_is_sent(redis_world):
    streams = await opened(redis_world, payload_bytes_max=10)
    await streams.submit(0, b"x" * 10)
    with pytest.raises(InvalidIntent, match="limit of 10"):
        await streams.submit(0, b"x" * 11)
    assert (await streams.lag(0)).length == 1


@pytest.mark.parametrize(("when", "landed"), [("before", 0), ("after", 1)])
async def test_a_submission_whose_answer_is_lost_is_unknown_and_sent_once(redis_world, when, landed):
    streams, other = await opened(redis_world), await redis_world.connect()
    async with redis_world.reply_lost(streams, when):
        with pytest.raises(UnknownOutcome):
            await streams.submit(0, b"x")
    assert (await other.lag(0)).length == landed


async def test_two_prefixes_share_a_server_and_see_nothing_of_each_other(redis_world):
    one, two = await opened(redis_world), await opened(redis_world, names=StreamNames("other"))
    await one.submit(0, b"x")
    assert await take(two) == []
    assert len(await take(one)) == 1
    assert await one.epoch() != await two.epoch()
    assert INTENT_FIELD == "intent"


async def test_an_entry_stands_until_it_is_trimmed_or_redis_is_emptied(redis_world):
    streams = await opened(redis_world)
    assert not await streams.holds(0, "1-1")
    first, second = await streams.submit(0, b"x"), await streams.submit(0, b"y")
    (entry, _) = await take(streams)
    assert await streams.holds(0, first)
    assert not await streams.holds(1, first)
    await streams.settle([settled(entry)])
    assert await streams.holds(0, first)
    await streams.trim(0)
    assert [await streams.holds(0, entry_id) for entry_id in (first, second)] == [False, True]
    await redis_world.flush_all()
    assert not await streams.holds(0, second)


async def test_whoever_looks_sees_what_waits_what_is_taken_and_what_is_settled_and_changes_nothing(redis_world):
    streams = await redis_world.connect()
    assert await streams.standing(3) == []
    ids = [await streams.submit(3, b"%d" % number) for number in range(5)]
    assert {(one.state, one.consumer) for one in await streams.standing(3)} == {("waiting", None)}
    assert streams.groups_created == 0
    await take(streams, 3)
    first, second = await take(streams, 3, consumer="daemon-a", count=2)
    await streams.settle([settled(first)])
    seen = await streams.standing(3)
    assert [one.entry_id for one in seen] == ids
    assert [one.state for one in seen] == ["settled", "taken", "waiting", "waiting", "waiting"]
    assert (seen[1].consumer, seen[1].deliveries, seen[1].payload) == ("daemon-a", 1, second.payload)
    assert [one.entry_id for one in await streams.standing(3, after=ids[1], count=2)] == ids[2:4]
    assert [entry.payload for entry in await take(streams, 3)] == [b"2", b"3", b"4"]


async def test_the_clock_is_the_one_of_entry_ids(redis_world):
    streams = await opened(redis_world)
    before = await streams.clock_ms()
    entry_id = await streams.submit(0, b"{}")
    after = await streams.clock_ms()
    assert before <= int(entry_id.partition("-")[0]) <= after
