"""The pointer moves once, from where it was expected, by who holds the lock; and a lost answer is said to be one."""

import asyncio

import msgspec
import pytest

from firn.model.errors import CorruptFile, InvalidInput, NotFound, Unavailable, UnknownOutcome
from firn.storage.leases import Leases
from firn.storage.pointers import (
    TABLES,
    FencedOut,
    Lost,
    Pointer,
    PointerChange,
    Pointers,
    Unknown,
    Versioned,
    Won,
    pointer_from_json,
    pointer_to_json,
)
from tests.contract.coordination_worlds import until


def pointer(table="db.t", metadata="m0"):
    return Pointer(table=table, uuid="u", location=f"/wh/{table}", metadata_location=metadata)


def change(table="db.t", *, metadata="m0", expected=None):
    return PointerChange(table=table, pointer=pointer(table, metadata), expected=expected)


async def daemon(world, member="one"):
    session = await world.connect()
    return session, Leases(session, member=member), Pointers(session)


async def test_a_pointer_is_created_moved_read_and_removed(world):
    _, leases, pointers = await daemon(world)
    lease = await leases.acquire("db.t", timeout_s=5)
    with pytest.raises(NotFound):
        await pointers.read("db.t")
    assert await pointers.list() == []
    assert await pointers.swap([change()], leases=[lease]) == Won({"db.t": 0})
    assert await pointers.swap([change(metadata="m1", expected=0)], leases=[lease]) == Won({"db.t": 1})
    assert await pointers.read("db.t") == Versioned(pointer(metadata="m1"), 1)
    assert await pointers.read_cached("db.t") == Versioned(pointer(metadata="m1"), 1)
    assert await pointers.list() == ["db.t"]
    removal = PointerChange(table="db.t", pointer=None, expected=1)
    assert await pointers.swap([removal], leases=[lease]) == Won({})
    assert await pointers.list() == []


async def test_a_swap_from_an_old_version_is_lost_and_changes_nothing(world):
    _, leases, pointers = await daemon(world)
    lease = await leases.acquire("db.t", timeout_s=5)
    await pointers.swap([change()], leases=[lease])
    await pointers.swap([change(metadata="m1", expected=0)], leases=[lease])
    for late in (
        change(metadata="m2", expected=0),
        change(metadata="m2", expected=2),
        change(metadata="m2"),
        PointerChange(table="db.t", pointer=None, expected=0),
    ):
        assert await pointers.swap([late], leases=[lease]) == Lost(("db.t",))
    assert await pointers.swap([change("db.none", expected=0)], leases=[lease]) == Lost(("db.none",))
    assert await pointers.read("db.t") == Versioned(pointer(metadata="m1"), 1)


async def test_of_racing_swaps_exactly_one_wins_even_without_a_lock(world):
    daemons = [await daemon(world, f"m{number}") for number in range(3)]
    for expected in (None, *range(10)):
        outcomes = await asyncio.gather(
            *(
                pointers.swap([change(metadata=f"{expected} by {number}", expected=expected)], leases=[])
                for number, (_, _, pointers) in enumerate(daemons)
            )
        )
        winners = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Won)]
        assert len(winners) == 1
        assert all(isinstance(outcome, Won) or outcome == Lost(("db.t",)) for outcome in outcomes)
        now = await daemons[0][2].read("db.t")
        assert now.pointer.metadata_location == f"{expected} by {winners[0]}"


async def test_several_tables_move_together_or_not_at_all(world):
    _, leases, pointers = await daemon(world)
    held = [await leases.acquire(table, timeout_s=5) for table in ("a", "b")]
    assert await pointers.swap([change("a"), change("b")], leases=held) == Won({"a": 0, "b": 0})
    both = [change("a", metadata="m1", expected=0), change("b", metadata="m1", expected=7)]
    assert await pointers.swap(both, leases=held) == Lost(("b",))
    assert (await pointers.read("a")).version == 0
    rename = [PointerChange(table="a", pointer=None, expected=0), change("c")]
    assert await pointers.swap(rename, leases=held) == Won({"c": 0})
    assert await pointers.list() == ["b", "c"]


async def test_a_swap_after_the_lock_was_released_is_fenced(world):
    _, leases, pointers = await daemon(world)
    lease = await leases.acquire("db.t", timeout_s=5)
    await leases.release(lease)
    assert await pointers.swap([change()], leases=[lease]) == FencedOut()
    assert await pointers.list() == []


async def test_a_swap_after_the_session_was_lost_is_fenced(world):
    session, leases, pointers = await daemon(world)
    lease = await leases.acquire("db.t", timeout_s=5)
    await world.expire(session)
    assert await pointers.swap([change()], leases=[lease]) == FencedOut()


async def test_a_lock_removed_by_an_operator_fences_the_swap(world):
    _, leases, pointers = await daemon(world)
    operator = await world.connect()
    lease = await leases.acquire("db.t", timeout_s=5)
    await operator.delete(lease.path)
    assert await pointers.swap([change()], leases=[lease]) == FencedOut()


async def test_a_zombies_swap_fails_even_after_another_took_and_released_the_lock(world):
    (zombie, zombies, its_pointers), (_, leases, pointers) = await daemon(world), await daemon(world, "two")
    old = await zombies.acquire("db.t", timeout_s=5)
    await pointers.swap([change()], leases=[])
    await world.freeze_past_expiry(zombie)
    assert zombies.is_held(old)  # that is what it believes
    new = await leases.acquire("db.t", timeout_s=15)
    await leases.release(new)
    outcome = await its_pointers.swap([change(metadata="zombie", expected=0)], leases=[old])
    assert isinstance(outcome, Unknown | FencedOut)
    await until(lambda: zombie.epoch > 0 and zombie.state == "connected")
    assert not zombies.is_held(old)
    assert await its_pointers.swap([change(metadata="zombie", expected=0)], leases=[old]) == FencedOut()
    assert await pointers.read("db.t") == Versioned(pointer(), 0)


async def test_an_old_lease_never_passes_for_a_later_one(world):
    """The check that the server makes, without the local one in front of it."""
    _, leases, pointers = await daemon(world)
    _, others, _ = await daemon(world, "two")
    old = await leases.acquire("db.t", timeout_s=5)
    await leases.release(old)
    await leases.forget("db.t")  # sequence numbers begin anew
    new = await others.acquire("db.t", timeout_s=5)
    assert new.path != old.path
    assert await pointers.swap([change()], leases=[old]) == FencedOut()


@pytest.mark.parametrize(("when", "landed"), [("before", False), ("after", True)])
async def test_a_swap_whose_answer_is_lost_is_unknown_and_reading_settles_it(world, when, landed):
    session, leases, pointers = await daemon(world)
    lease = await leases.acquire("db.t", timeout_s=5)
    await pointers.swap([change()], leases=[lease])
    async with world.reply_lost(session, when):
        assert isinstance(await pointers.swap([change(metadata="m1", expected=0)], leases=[lease]), Unknown)
    await until(lambda: session.state == "connected")
    assert await pointers.read("db.t") == Versioned(pointer(metadata="m1" if landed else "m0"), int(landed))
    await until(lambda: leases.is_held(lease))


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_answer_lost_before_the_swap_was_sent_is_no_unknown_swap(world, when):
    session, _, pointers = await daemon(world)
    async with world.reply_lost(session, when):
        with pytest.raises(Unavailable) as raised:
            await pointers.swap([change()], leases=[])
        assert not isinstance(raised.value, UnknownOutcome)
    await until(lambda: session.state == "connected")
    assert await pointers.swap([change()], leases=[]) == Won({"db.t": 0})


async def test_nothing_is_sent_while_the_session_is_suspended(world):
    session, leases, pointers = await daemon(world)
    lease = await leases.acquire("db.t", timeout_s=5)
    await pointers.swap([change()], leases=[lease])
    await world.suspend(session)
    with pytest.raises(Unavailable):
        await pointers.swap([change(metadata="m1", expected=0)], leases=[lease])
    await world.resume(session)
    assert (await pointers.read("db.t")).version == 0


async def test_foreign_and_damaged_nodes_are_named_and_hide_no_table(world):
    session, _, pointers = await daemon(world)
    await pointers.swap([change("db.t"), change("db.é/x")], leases=[])
    await session.create(f"{TABLES}/not a name")
    await session.create(f"{TABLES}/broken", b"{")
    await session.create(f"{TABLES}/moved", pointer_to_json(pointer("db.t")))
    assert await pointers.list() == ["broken", "db.t", "db.é/x", "moved"]
    for table in ("broken", "moved"):
        with pytest.raises(CorruptFile, match=table):
            await pointers.read(table)


async def test_changes_that_make_no_sense_are_refused_before_anything_is_sent(world):
    _, _, pointers = await daemon(world)
    huge = msgspec.structs.replace(pointer(), watermarks={str(n): "x" * 100 for n in range(1000)})
    large = [
        PointerChange(
            table=f"t{n}",
            pointer=msgspec.structs.replace(pointer(f"t{n}"), metadata_location="x" * 60_000),
            expected=None,
        )
        for n in range(10)
    ]
    for changes in (
        [],
        [change(), change(metadata="m1")],
        [PointerChange(table="db.t", pointer=None, expected=None)],
        [PointerChange(table="db.t", pointer=pointer("db.other"), expected=None)],
        [PointerChange(table="db.t", pointer=huge, expected=None)],
        large,
    ):
        with pytest.raises(InvalidInput):
            await pointers.swap(changes, leases=[])
    assert await pointers.list() == []


def test_a_pointer_keeps_what_a_newer_version_wrote():
    stored = pointer_to_json(
        Pointer(
            table="db.t",
            uuid="u",
            location="/t",
            metadata_location="/t/m",
            journal_head="/t/j",
            watermarks={"e/0": "1-0"},
        )
    )
    assert msgspec.json.decode(stored)["metadata-location"] == "/t/m"
    newer = msgspec.json.encode({**msgspec.json.decode(stored), "shiny": {"a": [1]}})
    read = pointer_from_json(newer)
    assert read.extra == {"shiny": {"a": [1]}}
    assert msgspec.json.decode(pointer_to_json(read)) == msgspec.json.decode(newer)


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"table":1}', b"\xff", b"[" * 100_000, b'{"table":"t","uuid":"u","location":"l"}']
)
def test_what_is_no_pointer_is_said_to_be_corrupt(data):
    with pytest.raises(CorruptFile, match="pointer"):
        pointer_from_json(data)
