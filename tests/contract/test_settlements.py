"""What was decided is told once it is settled: the outcome, the reply, the event, the dead letter."""

import asyncio

import pytest

from firn.model.errors import UnknownOutcome
from tests.contract.shard_of_intents import opened, settled, take


async def test_a_settlement_tells_everybody_and_acknowledges(redis_world):
    streams, writer = await opened(redis_world), await redis_world.connect()
    reply_to = f"{streams.names.replies}etl-7"
    await streams.submit(0, b"good")
    await streams.submit(0, b"bad")
    good, bad = await take(streams)
    await streams.settle(
        [
            settled(good, intent_id="g", outcome=b"committed", reply_to=reply_to, event=b"e1"),
            settled(bad, intent_id=None, outcome=b"rejected", dead_letter=b"why"),
        ]
    )
    assert await writer.outcome("g") == b"committed"
    assert await writer.outcome("i") is None
    (reply,) = await writer.replies(reply_to, block_ms=0)
    assert reply.data == b"committed"
    assert await writer.replies(reply_to, after=reply.entry_id, block_ms=20) == []
    assert [event.data for event in await writer.events(block_ms=0)] == [b"e1"]
    (letter,) = await writer.dead_letters()
    assert letter.data == b"why"
    assert await writer.drop_dead_letters([]) == 0
    assert await writer.drop_dead_letters([letter.entry_id, "1-1"]) == 1
    assert await writer.dead_letters() == []
    assert (await streams.lag(0)).pending == 0
    await streams.settle([])


async def test_a_reply_is_waited_for(redis_world):
    streams, writer = await opened(redis_world), await redis_world.connect()
    reply_to = f"{streams.names.replies}w"
    waiting = asyncio.create_task(writer.replies(reply_to, block_ms=4000))
    await asyncio.sleep(0.1)
    await streams.submit(0, b"x")
    (entry,) = await take(streams)
    await streams.settle([settled(entry, outcome=b"done", reply_to=reply_to)])
    assert [message.data for message in await waiting] == [b"done"]


async def test_an_outcome_is_forgotten_after_its_time(redis_world):
    streams = await opened(redis_world)
    await streams.submit(0, b"x")
    (entry,) = await take(streams)
    await streams.settle([settled(entry, outcome_ttl_s=1)])
    assert await streams.outcome("i") == b"{}"
    await redis_world.pass_ms(1100)
    assert await streams.outcome("i") is None


@pytest.mark.parametrize(
    "reply_to", ["firn:intents:0", "firn:events", "somebody", "firn:replies:", "firn:replies:" + "x" * 257]
)
async def test_a_reply_is_written_to_no_stream_but_a_reply_stream(redis_world, reply_to):
    streams = await opened(redis_world)
    assert not streams.names.is_reply(reply_to)
    await streams.submit(0, b"x")
    (entry,) = await take(streams)
    await streams.settle([settled(entry, reply_to=reply_to)])
    assert await streams.outcome("i") == b"{}"
    assert b"{}" not in [message.data for message in await streams.replies(reply_to, block_ms=0)]


async def test_many_outcomes_are_read_at_once_in_the_order_that_is_asked_for(redis_world):
    streams = await opened(redis_world)
    for _ in range(3):
        await streams.submit(0, b"x")
    taken = await take(streams)
    await streams.settle([settled(entry, intent_id=f"i{at}", outcome=b"o%d" % at) for at, entry in enumerate(taken)])
    assert await streams.outcomes(["i2", "nobody", "i0", "i2"]) == [b"o2", None, b"o0", b"o2"]


JOURNALED = b'{"batch":"1","digest":"a"}'
UNJOURNALED = b'{"digest":"a"}'


@pytest.mark.parametrize("with_scripts", [True, False])
@pytest.mark.parametrize(
    ("first", "second", "kept", "replied"),
    [
        (JOURNALED, b'{"digest":"b"}', 0, 1),
        (JOURNALED, b'{"batch":"2","digest":"a"}', 0, 1),
        (JOURNALED, b'{"batch":"1","digest":"b"}', 0, 1),
        (JOURNALED, b'{"batch":"1","digest":"a","told":"again"}', 0, 0),
        (UNJOURNALED, b'{"digest":"b"}', 0, 1),
        (UNJOURNALED, JOURNALED, 1, 1),
        (b"no outcome", UNJOURNALED, 1, 1),
    ],
)
async def test_the_first_outcome_under_a_key_stands(redis_world, with_scripts, first, second, kept, replied):
    streams = await opened(redis_world)
    reply_to = f"{streams.names.replies}w"
    if not with_scripts and (telling := getattr(streams, "_telling", None)) is not None:
        telling._scripts = False
    outcomes = [first, second]
    for outcome in outcomes:
        await streams.submit(0, b"x")
        (entry,) = await take(streams)
        await streams.settle([settled(entry, outcome=outcome, journaled=b"batch" in outcome, reply_to=reply_to)])
    assert await streams.outcome("i") == outcomes[kept]
    replies = await streams.replies(reply_to, block_ms=0)
    assert [reply.data for reply in replies] == [first, outcomes[replied]]


async def test_a_settlement_may_be_repeated(redis_world):
    streams = await opened(redis_world)
    await streams.submit(0, b"x")
    (entry,) = await take(streams)
    for _ in range(2):
        await streams.settle([settled(entry)])
    assert await streams.outcome("i") == b"{}"
    assert (await streams.lag(0)).pending == 0


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_settlement_whose_answer_is_lost_is_repeated_until_it_is_known(redis_world, when):
    streams, other = await opened(redis_world), await redis_world.connect()
    await streams.submit(0, b"x")
    (entry,) = await take(streams)
    async with redis_world.reply_lost(streams, when):
        with pytest.raises(UnknownOutcome):
            await streams.settle([settled(entry)])
    assert (await other.lag(0)).pending == (1 if when == "before" else 0)
    await streams.settle([settled(entry)])
    assert (await other.lag(0)).pending == 0
