"""A coordination session behaves the same on ZooKeeper and on its twin."""

import asyncio
from typing import Any

import pytest

from firn.model.errors import AlreadyExists, Fenced, InvalidInput, NotFound, Unavailable, UnknownOutcome
from firn.storage.sessions import (
    ZNODE_BYTES_MAX,
    Check,
    Create,
    Delete,
    NodeStat,
    OpFailed,
    Set,
    decode_name,
    encode_name,
)
from tests.contract.coordination_worlds import until


async def test_nodes_are_made_read_changed_and_removed(world):
    session = await world.connect()
    path, made = await session.create("/a", b"1")
    assert (path, made.version, made.ephemeral_owner) == ("/a", 0, 0)
    assert await session.get("/a") == (b"1", made)
    changed = await session.set("/a", b"2", version=0)
    assert changed.version == 1
    assert changed.mzxid > changed.czxid == made.czxid
    assert await session.sync_get("/a") == (b"2", changed)
    assert await session.exists("/a") == changed
    assert await session.delete("/a", version=1)
    assert await session.exists("/a") is None


async def test_errors_say_what_is_wrong(world):
    session = await world.connect()
    await session.create("/a")
    with pytest.raises(AlreadyExists):
        await session.create("/a")
    for missing in (
        session.get("/b"),
        session.sync_get("/b"),
        session.children("/b"),
        session.delete("/b"),
        session.set("/b", b"", version=0),
        session.create("/b/c"),
    ):
        with pytest.raises(NotFound, match=r"there is no node .*/b"):
            await missing
    assert await session.set("/a", b"", version=7) is None
    assert await session.delete("/a", version=7) is False
    await session.create("/a/b")
    assert await session.delete("/a") is False
    with pytest.raises(InvalidInput, match=str(ZNODE_BYTES_MAX)):
        await session.create("/large", b"x" * (ZNODE_BYTES_MAX + 1))
    with pytest.raises(InvalidInput):
        await session.multi([Create("/large", b"x" * (ZNODE_BYTES_MAX + 1))])


async def test_paths_are_ensured_and_children_listed(world):
    session, other = await world.connect(), await world.connect()
    await asyncio.gather(session.ensure_path("/x/y/z"), other.ensure_path("/x/y/z"))
    for name in ("b", "a"):
        await session.create(f"/x/y/{name}")
    assert await session.children("/x/y") == ["a", "b", "z"]
    assert await session.children("/x") == ["y"]
    await session.ensure_path("/x/y")


async def test_sequential_nodes_are_numbered_and_tokens_grow(world):
    session = await world.connect()
    await session.create("/queue")
    made = [await session.create("/queue/q-", ephemeral=True, sequence=True) for _ in range(3)]
    paths = [path for path, _ in made]
    assert paths == sorted(paths)
    assert all(path[:9] == "/queue/q-" and path[9:].isdigit() and len(path) == 19 for path in paths)
    assert made[0][1].czxid < made[1][1].czxid < made[2][1].czxid
    assert {stat.ephemeral_owner for _, stat in made} == {session.session_id}


async def test_a_multi_happens_as_a_whole_or_not_at_all(world):
    session = await world.connect()
    await session.create("/lock")
    await session.create("/a", b"1")
    results: list[Any] = await session.multi([Check("/lock"), Set("/a", b"2", 0), Create("/b", b"x")])
    assert [type(result) for result in results] == [bool, NodeStat, str]
    assert (results[1].version, results[2]) == (1, "/b")

    for ops, reasons in (
        ([Check("/lock"), Set("/a", b"3", 0), Create("/c", b"")], ["rolled-back", "bad-version", "rolled-back"]),
        ([Check("/none"), Set("/a", b"3", 1)], ["no-node", "rolled-back"]),
        ([Set("/a", b"3", 1), Create("/b", b"")], ["rolled-back", "node-exists"]),
        ([Create("/c", b""), Delete("/none", 0)], ["rolled-back", "no-node"]),
        ([Create("/c", b""), Delete("/b", 9)], ["rolled-back", "bad-version"]),
    ):
        failed = await session.multi(ops)
        assert [result.reason for result in failed if isinstance(result, OpFailed)] == reasons
    assert (await session.get("/a"))[0] == b"2"
    assert await session.exists("/c") is None
    assert await session.multi([Delete("/b", 0), Create("/b", b"again")]) == [True, "/b"]


async def test_a_watch_tells_once_of_a_change(world):
    session, other = await world.connect(), await world.connect()
    await session.create("/a", b"1")
    told: list[str] = []
    await session.get("/a", watch=lambda: told.append("data"))
    await session.children("/a", watch=lambda: told.append("children"))
    await session.exists("/b", watch=lambda: told.append("exists"))
    await other.create("/a/c")
    await until(lambda: "children" in told)
    await other.create("/b")
    await until(lambda: "exists" in told)
    await other.set("/a", b"2", version=0)
    await until(lambda: "data" in told)
    told.clear()
    await other.set("/a", b"3", version=1)
    await asyncio.sleep(0.05)
    assert told == []


async def test_the_end_of_a_session_takes_its_ephemeral_nodes_and_raises_its_epoch(world):
    session, other = await world.connect(), await world.connect()
    states: list[str] = []
    remove = session.add_listener(states.append)
    await session.create("/mine", ephemeral=True)
    await session.create("/stays")
    first = session.session_id
    assert session.epoch == 0
    await world.expire(session)
    await until(lambda: "connected" in states)
    assert session.epoch == 1
    assert session.session_id != first
    assert states[-2:] == ["lost", "connected"]
    assert await other.exists("/mine") is None
    assert await session.exists("/stays") is not None
    remove()
    states.clear()
    await world.expire(session)
    assert states == []


async def test_a_suspended_session_sends_no_write_and_keeps_its_nodes(world):
    session, other = await world.connect(), await world.connect()
    await session.create("/mine", ephemeral=True)
    await world.suspend(session)
    for write in (session.create("/b"), session.multi([Create("/b", b"")])):
        with pytest.raises(Unavailable) as raised:
            await write
        assert not isinstance(raised.value, UnknownOutcome)
    await world.resume(session)
    assert session.epoch == 0
    assert await other.exists("/mine") is not None
    assert await session.exists("/b") is None


async def test_a_watch_is_told_when_the_connection_goes(world):
    session = await world.connect()
    told: list[str] = []
    await session.create("/a")
    await session.get("/a", watch=lambda: told.append("a"))
    await world.suspend(session)
    await until(lambda: told == ["a"])
    await world.resume(session)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_write_whose_reply_is_lost_has_an_unknown_outcome(world, when):
    session, other = await world.connect(), await world.connect()
    async with world.reply_lost(session, when):
        with pytest.raises(UnknownOutcome):
            await session.create("/a")
    await until(lambda: session.state == "connected")
    assert (await other.exists("/a") is not None) == (when == "after")
    assert session.epoch == 0


async def test_a_closed_session_does_nothing_more(world):
    session, other = await world.connect(), await world.connect()
    await session.create("/mine", ephemeral=True)
    await session.close()
    await session.close()
    assert session.state == "lost"
    assert await other.exists("/mine") is None
    with pytest.raises(Fenced):
        await session.create("/b")
    with pytest.raises(Fenced):
        await session.get("/")


@pytest.mark.parametrize(
    "name",
    [
        "db.events",
        ".",
        "..",
        "zookeeper",
        "a/b",
        "%2E",
        "é🙂",
        "\x00\n",
        "\u202eabc",
        "a b",
        "~",
        "T",
        "t",
        "\U0010ffff",
    ],
)
async def test_every_name_is_a_node_and_is_read_back(world, name):
    session = await world.connect()
    await session.create(f"/{encode_name(name)}", name.encode())
    (encoded,) = await session.children("/")
    assert decode_name(encoded) == name


def test_names_that_no_table_has_are_refused():
    for name in ("", "x" * 1025, "\ud800"):
        with pytest.raises(InvalidInput):
            encode_name(name)
    for encoded in ("a%2fb", "%ff", "a b", "zookeeper", "%41"):
        with pytest.raises(InvalidInput):
            decode_name(encoded)
