"""What is in Redis beside intents: events, what daemons announce, and books of notes that go by themselves."""

import asyncio

import pytest

from firn.model.errors import InvalidInput


async def test_events_are_published_in_order_and_waited_for(redis_world):
    streams, reader = await redis_world.connect(), await redis_world.connect()
    await streams.publish([])
    waiting = asyncio.create_task(reader.events(block_ms=4000))
    await asyncio.sleep(0.1)
    await streams.publish([b"1", b"2", b"3"])
    first = await waiting
    rest = await reader.events(after=first[-1].entry_id, block_ms=0)
    assert [event.data for event in first + rest] == [b"1", b"2", b"3"]
    assert [event.data for event in await reader.events(block_ms=0, count=2)] == [b"1", b"2"]


async def test_the_newest_events_say_where_to_begin(redis_world):
    streams = await redis_world.connect()
    assert await streams.newest_events(count=5) == []
    await streams.publish([b"%d" % number for number in range(10)])
    newest = await streams.newest_events(count=3)
    assert [event.data for event in newest] == [b"7", b"8", b"9"]
    await streams.publish([b"after"])
    assert [event.data for event in await streams.events(after=newest[-1].entry_id, block_ms=0)] == [b"after"]


async def test_what_daemons_announce_is_there_until_redis_is_emptied(redis_world):
    daemon, writer = await redis_world.connect(), await redis_world.connect()
    assert await writer.settings() is None
    await daemon.announce(b"1")
    await daemon.announce(b"2")
    assert await writer.settings() == b"2"
    await daemon.announce_tables({})
    await daemon.announce_tables({"db.é t": b"here", "db.u": b"there", "db.none": None})
    assert [await writer.table(name) for name in ("db.é t", "db.u", "db.none")] == [b"here", b"there", None]
    await daemon.announce_tables({"db.é t": b"moved", "db.u": None})
    assert [await writer.table(name) for name in ("db.é t", "db.u")] == [b"moved", None]
    await redis_world.flush_all()
    assert await writer.settings() is None
    assert await writer.table("db.é t") is None


async def test_notes_are_changed_by_one_of_those_who_saw_the_same_version(redis_world):
    streams, other = await redis_world.connect(), await redis_world.connect()
    empty = await streams.book("db.é t")
    assert (empty.notes, empty.version) == ({}, 0)
    assert await streams.note("db.é t", {"a": b"1", "b": b"\xff"}, version=0, lives_ms=60_000)
    assert not await other.note("db.é t", {"a": b"2"}, version=0, lives_ms=60_000)
    book = await other.book("db.é t")
    assert (book.notes, book.version) == ({"a": b"1", "b": b"\xff"}, 1)
    assert await other.note("db.é t", {"a": None, "gone": None, "c": b""}, version=1, lives_ms=60_000)
    assert (await streams.book("db.é t")).notes == {"b": b"\xff", "c": b""}
    assert (await streams.book("db.t")).notes == {}
    wrote = await asyncio.gather(*(
        one.note("db.é t", {"d": name}, version=2, lives_ms=60_000)
        for one, name in ((streams, b"s"), (other, b"o"))
    ))  # fmt: skip
    assert sorted(wrote) == [False, True]
    assert (await streams.book("db.é t")).notes["d"] == (b"s" if wrote[0] else b"o")


async def test_one_question_tells_whether_any_of_many_tables_has_notes(redis_world):
    streams = await redis_world.connect()
    tables = [f"db.t{number}" for number in range(20)]
    assert not await streams.any_notes(tables)
    await streams.note("db.t7", {"a": b"1"}, version=0, lives_ms=60_000)
    assert await streams.any_notes(tables)
    assert not await streams.any_notes([table for table in tables if table != "db.t7"])


async def test_a_book_goes_when_its_time_is_over_and_tells_redis_s_time(redis_world):
    streams = await redis_world.connect()
    before = (await streams.book("db.t")).now_ms
    await streams.note("db.t", {"a": b"1"}, version=0, lives_ms=1000)
    assert (await streams.book("db.t")).notes
    await redis_world.pass_ms(1100)
    after = await streams.book("db.t")
    assert (after.notes, after.version) == ({}, 0)
    assert 1000 <= after.now_ms - before < 60_000


async def test_a_book_with_too_many_notes_is_not_read(redis_world):
    streams = await redis_world.connect()
    await streams.note("db.t", {str(number): b"" for number in range(1001)}, version=0, lives_ms=1000)
    with pytest.raises(InvalidInput, match="1002 notes"):
        await streams.book("db.t")
