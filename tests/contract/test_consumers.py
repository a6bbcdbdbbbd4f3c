"""A consumer moves from where it was expected to be, once, whatever answer gets lost."""

import contextlib

import pytest

from firn.model.consumer import CONSUMERS_MAX, Consumer, TableConsumers
from firn.model.errors import ConsumerMovedError, CorruptFile, FirnError, InvalidInput, NotFound
from firn.storage.consumers import CONSUMERS, Consumers

UUID = "0b9e5cf2-6a55-4a44-8a0c-6f1ad0a4c1a5"
ETL = Consumer(name="etl", snapshot_id=1, snapshot_ms=10, updated_ms=100)


async def connected(world) -> Consumers:
    return Consumers(await world.connect())


async def advance(consumers: Consumers, *, expected: int | None, to: int, name: str = "etl") -> Consumer:
    return await consumers.advance(UUID, name, expected=expected, to=to, snapshot_ms=20, now_ms=200)


async def test_consumers_are_made_listed_moved_and_removed(world):
    consumers = await connected(world)
    assert (await consumers.of(UUID), await consumers.all()) == (None, [])
    await consumers.put("db.t", UUID, ETL)
    other = Consumer(name="a", branch="audit", updated_ms=1)
    await consumers.put("db.t", UUID, other)
    found = TableConsumers(table="db.t", table_uuid=UUID, consumers=(other, ETL))
    assert await consumers.of(UUID) == found
    assert await consumers.all() == [found]
    moved = await advance(consumers, expected=1, to=2)
    assert (moved.snapshot_id, moved.snapshot_ms, moved.updated_ms) == (2, 20, 200)
    assert await consumers.remove(UUID, "a")
    assert not await consumers.remove(UUID, "a")
    assert await consumers.remove(UUID, "etl")
    assert await consumers.all() == [], "the node of the last one goes with it"


async def test_of_two_that_have_read_the_same_the_second_cannot_move_on(world):
    one, two = await connected(world), await connected(world)
    await one.put("db.t", UUID, ETL)
    await advance(one, expected=1, to=2)
    with pytest.raises(ConsumerMovedError, match="is at snapshot 2, not at 1"):
        await advance(two, expected=1, to=3)
    repeated = await advance(two, expected=1, to=2)
    assert repeated.snapshot_id == 2
    with pytest.raises(NotFound, match="no consumer 'nobody'"):
        await advance(one, expected=1, to=2, name="nobody")
    with pytest.raises(NotFound):
        await one.advance("another", "etl", expected=1, to=2, snapshot_ms=None, now_ms=1)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_answer_leaves_it_where_it_was_or_where_it_was_to_go(world, when):
    session = await world.connect()
    consumers, others = Consumers(session), await connected(world)
    await consumers.put("db.t", UUID, ETL)
    async with world.reply_lost(session, when):
        with contextlib.suppress(FirnError):
            await advance(consumers, expected=1, to=2)
    assert (await advance(others, expected=1, to=2)).snapshot_id == 2, "to repeat it is safe"


async def test_a_node_that_firn_did_not_write_is_said_to_be_unreadable_and_left_out_of_lists(world):
    session = await world.connect()
    consumers = Consumers(session)
    await consumers.put("db.t", UUID, ETL)
    await session.create(f"{CONSUMERS}/torn", b'{"table":')
    await session.create(f"{CONSUMERS}/copied", b'{"table":"t","table-uuid":"other"}')
    for uuid in ("torn", "copied"):
        with pytest.raises(CorruptFile):
            await consumers.of(uuid)
        with pytest.raises(CorruptFile):
            await consumers.put("t", uuid, ETL)
    assert [one.table_uuid for one in await consumers.all()] == [UUID]


async def test_a_table_has_only_so_many_consumers(world):
    consumers = await connected(world)
    many = tuple(Consumer(name=f"c{number:02}", updated_ms=1) for number in range(CONSUMERS_MAX))
    await consumers.change(UUID, lambda _: TableConsumers(table="db.t", table_uuid=UUID, consumers=many))
    with pytest.raises(InvalidInput, match="as many as it may"):
        await consumers.put("db.t", UUID, ETL)
    await consumers.put("db.t", UUID, many[0].advanced(3, snapshot_ms=None, now_ms=2))
    await consumers.forget(UUID)
    await consumers.forget(UUID)
    assert await consumers.of(UUID) is None
