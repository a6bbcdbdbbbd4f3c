"""Early notice: who begins work hears of others at the same, who is disturbed is told, and no commit is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from firn.coordinator.outcomes.reservations import Begun, Board, Reservations, Standing
from firn.model.errors import InvalidInput, UnknownOutcome
from firn.model.limits import Limits
from firn.model.operations.files import RowDelta
from firn.model.operations.upkeep import ExpireSnapshots
from firn.model.reservation import RESERVATIONS_MAX, Reservation, ReservedPartition, Scope
from firn.storage.intent_streams import StreamNames
from firn.storage.memory_streams import MemoryRedis
from tests.unit.coordinator.workbench import (
    TABLE,
    Workbench,
    append,
    content_file,
    create,
    delete,
    new_id,
    path_of,
    replace,
)

MINUTE_MS = 60_000


class Clock:
    """A Redis whose time passes when it is told to."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000
        self.server = MemoryRedis(now_ms=lambda: self.now_ms)
        self.streams = self.server.connect()
        self.reservations = Reservations(self.streams)


def wanted(scope: Scope | None = None, *, holder: str = "compactor", name: str | None = None, **members: Any) -> Any:
    return Reservation(
        reservation_id=name or new_id(), table=TABLE, holder=holder, scope=scope or Scope(), begun_ms=0, until_ms=0,
        **members,
    )  # fmt: skip


def files(*names: str) -> Scope:
    return Scope(files=tuple(path_of(name) for name in names))


async def begin(reservations: Reservations, scope: Scope | None = None, **members: Any) -> Begun:
    anyway = members.pop("anyway", False)
    return await reservations.begin(wanted(scope, **members), lease_ms=MINUTE_MS, anyway=anyway)


async def granted(reservations: Reservations, scope: Scope | None = None, **members: Any) -> str:
    begun = await begin(reservations, scope, **members)
    assert begun.reservation is not None
    return begun.reservation.reservation_id


async def test_a_file_is_reserved_in_all_of_its_spellings() -> None:
    clock = Clock()
    await granted(clock.reservations, Scope(files=("/wh/t/a", "s3://b/k")))
    for spelling in ("file:/wh/t/a", "file:///wh//t/a", "s3a://B/k"):
        (overlap,) = (await begin(clock.reservations, Scope(files=(spelling, "/wh/t/b")))).overlaps
        assert (overlap.certain, overlap.files) == (True, (spelling,))


async def test_who_begins_what_another_has_reserved_hears_who_and_until_when() -> None:
    clock = Clock()
    first = await begin(clock.reservations, files("a", "b"), holder="compactor-1", purpose="nightly")
    assert first.reservation is not None
    assert first.reservation.until_ms == clock.now_ms + MINUTE_MS
    refused = await begin(clock.reservations, files("b", "c"), holder="compactor-2")
    assert refused.reservation is None
    (overlap,) = refused.overlaps
    assert (overlap.certain, overlap.files) == (True, (path_of("b"),))
    assert overlap.reservation == first.reservation
    assert "compactor-1 has reserved 2 files" in str(overlap)
    assert (await begin(clock.reservations, files("c"), holder="compactor-2")).overlaps == ()
    all_the_same = await begin(clock.reservations, files("a"), holder="compactor-3", anyway=True)
    assert all_the_same.reservation is not None
    assert [o.reservation.holder for o in all_the_same.overlaps] == ["compactor-1"]
    board = await clock.reservations.of(TABLE)
    assert {r.holder for r in board.reservations} == {"compactor-1", "compactor-2", "compactor-3"}
    assert (await clock.reservations.of("db.another")).standings == ()


async def test_what_only_may_overlap_is_granted_and_told() -> None:
    clock = Clock()
    await granted(clock.reservations, files("a"))
    begun = await begin(clock.reservations, Scope(partitions=(ReservedPartition(0, (1,)),)))
    assert begun.reservation is not None
    assert [overlap.certain for overlap in begun.overlaps] == [False]


async def test_a_lease_ends_unless_it_is_renewed() -> None:
    clock = Clock()
    mine = await granted(clock.reservations)
    clock.now_ms += MINUTE_MS - 1
    renewed = await clock.reservations.renew(TABLE, mine, lease_ms=2 * MINUTE_MS)
    assert renewed is not None
    assert renewed.reservation.until_ms == clock.now_ms + 2 * MINUTE_MS
    clock.now_ms += 2 * MINUTE_MS - 1
    assert (await begin(clock.reservations)).reservation is None
    clock.now_ms += 1
    assert await clock.reservations.renew(TABLE, mine, lease_ms=MINUTE_MS) is None
    other = await granted(clock.reservations)
    assert await clock.reservations.end(TABLE, mine) == 0
    assert await clock.reservations.end(TABLE, other) == 1
    assert (await clock.reservations.of(TABLE)).standings == ()
    clock.now_ms += Limits().reservation_ms_max + 10 * MINUTE_MS
    assert (await clock.streams.book(TABLE)).notes == {}


async def test_of_many_who_begin_the_same_at_once_one_has_it() -> None:
    clock = Clock()
    begun = await asyncio.gather(*(begin(clock.reservations, files("a"), holder=f"w{n}") for n in range(20)))
    assert sum(one.reservation is not None for one in begun) == 1
    held = await clock.reservations.of(TABLE)
    assert {overlap.reservation for one in begun for overlap in one.overlaps} == set(held.reservations)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_begin_whose_answer_got_lost_can_be_repeated(when: Any) -> None:
    clock = Clock()
    mine = wanted(files("a"))
    clock.streams.drop_next_write(when)
    with pytest.raises(UnknownOutcome):
        await clock.reservations.begin(mine, lease_ms=MINUTE_MS)
    assert (await clock.reservations.begin(mine, lease_ms=MINUTE_MS)).reservation is not None
    assert len((await clock.reservations.of(TABLE)).standings) == 1


async def test_reservations_are_bounded_in_number_size_and_time() -> None:
    clock = Clock()
    for number in range(RESERVATIONS_MAX):
        await granted(clock.reservations, files(str(number)))
    with pytest.raises(InvalidInput, match="as many as it may"):
        await begin(clock.reservations, files("one more"))
    with pytest.raises(InvalidInput, match="bytes"):
        await Reservations(MemoryRedis().connect()).begin(
            wanted(files(*(f"{n}" * 50 for n in range(5_000)))), lease_ms=MINUTE_MS
        )
    for lease_ms in (0, Limits().reservation_ms_max + 1):
        with pytest.raises(InvalidInput, match="lease"):
            await clock.reservations.begin(wanted(), lease_ms=lease_ms)


async def test_notes_that_nobody_of_ours_wrote_are_nobodys() -> None:
    clock = Clock()
    far = msgspec.structs.replace(wanted(files("x"), name="far"), until_ms=clock.now_ms + 10**12)
    notes: dict[str, bytes | None] = {
        "r:junk": b"no json", "r:list": b"[]", "r:deep": b"[" * 100_000, "r:long": b'"' + b"x" * 10**6,
        "r:other-id": msgspec.json.encode(msgspec.structs.replace(far, reservation_id="another")),
        "r:far": msgspec.json.encode(far), "d:far": b"{}",
    }  # fmt: skip
    assert await clock.streams.note(TABLE, notes, version=0, lives_ms=MINUTE_MS)
    (standing,) = (await clock.reservations.of(TABLE)).standings
    assert standing.disturbances == ()
    assert standing.reservation.until_ms == clock.now_ms + Limits().reservation_ms_max
    await granted(clock.reservations, files("a"))
    assert {name[:2] for name in (await clock.streams.book(TABLE)).notes} == {"r:", "d:"}
    assert len((await clock.streams.book(TABLE)).notes) == 3


async def test_the_base_of_reserved_work_is_kept_from_expiry_until_the_lease_ends() -> None:
    bench = Workbench()
    reservations = Reservations(bench.streams)
    expiries = [ExpireSnapshots(intent_id=new_id(), table=TABLE, older_than_ms=2**62) for _ in range(2)]
    async with bench.daemon():
        await bench.commit(create())
        first, second, third = [(await bench.commit(append(name))).snapshot_id for name in ("a", "b", "c")]
        mine = await granted(reservations, files("a", "b"), base_snapshot_id=second)
        expired = await bench.commit(expiries[0])
        assert expired.details["removed"] == [first]
        assert f"reservation {mine} of compactor" in dict(expired.details["kept"])[second]
        assert second is not None
        await bench.commit(replace(["a", "b"], ["ab"], base=second, rows=20, reservation_id=mine))
        await ended(reservations, mine)
        assert third in (await bench.commit(expiries[1])).details["removed"]


async def ended(reservations: Reservations, mine: str) -> None:
    async with asyncio.timeout(10):
        while (await reservations.of(TABLE)).find(mine) is not None:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.005)


async def disturbed(reservations: Reservations, mine: str) -> Standing:
    """The reservation, as its holder sees it who renews until it is disturbed."""
    async with asyncio.timeout(10):
        while True:
            standing = await reservations.renew(TABLE, mine, lease_ms=MINUTE_MS)
            assert standing is not None
            if standing.disturbances:
                return standing
            await asyncio.sleep(0.005)


SCOPES: list[tuple[Scope, str]] = [
    (files("a", "x"), "1 of the reserved files was removed"),
    (Scope(files=(path_of("a").replace("memory://wh", "MEMORY://WH"),)), "1 of the reserved files was removed"),
    (Scope(partitions=(ReservedPartition(0, ()),)), "1 file of the reserved partitions was added or removed"),
    (Scope(row_filter={"type": "eq", "term": "id", "value": 1}), "may hold reserved rows"),
    (Scope(), "delete on main"),
]


@pytest.mark.parametrize(("scope", "what"), SCOPES)
async def test_a_commit_that_disturbs_is_not_refused_and_the_holder_is_told(scope: Scope, what: str) -> None:
    bench = Workbench()
    reservations = Reservations(bench.streams)
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("a", "b"))).snapshot_id
        mine = await granted(reservations, scope, base_snapshot_id=base, holder="etl-7")
        other = delete("a", writer="gdpr")
        outcome = await bench.commit(other)
        (found,) = (await disturbed(reservations, mine)).disturbances
        assert (found.snapshot_id, found.intents, found.writer) == (outcome.snapshot_id, (other.intent_id,), "gdpr")
        assert what in found.what
        events = [e for e in await bench.events() if e["type"] == "firn.reservation.disturbed"]
    (event,) = events
    assert event["subject"] == TABLE
    assert event["data"]["holder"] == "etl-7"
    assert event["data"]["disturbance"]["snapshot-id"] == outcome.snapshot_id


async def test_what_touches_nothing_reserved_disturbs_nobody() -> None:
    bench = Workbench()
    reservations = Reservations(bench.streams)
    async with bench.daemon():
        await bench.commit(create())
        before = (await bench.commit(append("a", "b", "c", "d"))).snapshot_id
        assert before is not None
        untouched = [
            await granted(reservations, files("a")),
            await granted(reservations, Scope(branch="dev")),
            await granted(reservations, Scope(partitions=(ReservedPartition(7, (1,)),))),
        ]
        rows = await granted(reservations, Scope(row_filter={"type": "eq", "term": "id", "value": 1}), anyway=True)
        await bench.commit(replace(["b", "c"], ["bc"], base=before, rows=20))  # no new rows
        await bench.commit(append("e"))
        await bench.commit(delete("d"))
        await disturbed(reservations, rows)  # so all of it has been looked at
        board = await reservations.of(TABLE)
    found = {one: board.find(one) for one in untouched}
    assert all(standing is not None and standing.disturbances == () for standing in found.values())
    assert (told := board.find(rows)) is not None
    assert told.disturbances[0].files == (path_of("e"),)


async def test_a_commit_under_a_reservation_ends_it_and_one_that_is_refused_does_not() -> None:
    bench = Workbench()
    reservations = Reservations(bench.streams)
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("a", "b"))).snapshot_id
        assert base is not None
        mine = await granted(reservations, files("a", "b"), base_snapshot_id=base)
        await bench.refuse(replace(["nothing"], ["n"], base=base, reservation_id=mine))
        assert (await reservations.of(TABLE)).find(mine) is not None
        await bench.commit(replace(["a", "b"], ["ab"], base=base, rows=20, reservation_id=mine))
        await ended(reservations, mine)
        assert [e for e in await bench.events() if e["type"] == "firn.reservation.disturbed"] == []


async def test_work_that_was_planned_after_a_commit_is_not_disturbed_by_it() -> None:
    bench = Workbench()
    reservations = Reservations(bench.streams)
    async with bench.daemon() as daemon:
        await bench.commit(create())
        look = daemon._disturbances._reservations.of
        gate = asyncio.Event()

        async def late(table: str) -> Board:
            await gate.wait()
            return await look(table)

        daemon._disturbances._reservations.of = late  # type: ignore[method-assign]
        base = (await bench.commit(append("a"))).snapshot_id
        mine = await granted(reservations, Scope(), base_snapshot_id=base)
        gate.set()
        await asyncio.sleep(0.05)
        assert (await reservations.of(TABLE)).find(mine).disturbances == ()  # type: ignore[union-attr]
        await bench.commit(append("b"))
        await disturbed(reservations, mine)


async def test_rows_deleted_from_a_reserved_file_disturb() -> None:
    bench = Workbench()
    reservations = Reservations(bench.streams)
    vector = msgspec.structs.replace(
        content_file("v", rows=1), content="position-deletes", referenced_data_file=path_of("a")
    )
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("a"))).snapshot_id
        mine = await granted(reservations, files("a"), base_snapshot_id=base)
        await bench.commit(RowDelta(intent_id=new_id(), table=TABLE, base_snapshot_id=base, delete_files=(vector,)))
        (found,) = (await disturbed(reservations, mine)).disturbances
    assert found.what == "rows of 1 of the reserved files were deleted"


async def test_a_redis_without_reservations_costs_no_commit_anything() -> None:
    bench = Workbench()
    async with bench.daemon() as daemon:
        await bench.commit(create())

        async def broken(table: str) -> Board:
            raise InvalidInput("too many notes", where=table)

        daemon._reservations.of = broken  # type: ignore[method-assign]
        await bench.commit(append("a"))
        await bench.commit(ExpireSnapshots(intent_id=new_id(), table=TABLE, older_than_ms=2**62))
        await bench.commit(append("b"))
    assert StreamNames().book(TABLE) == "firn:book:db.events"


async def test_what_landed_just_before_work_without_a_base_began_does_not_disturb_it() -> None:
    bench = Workbench()
    reservations = Reservations(bench.streams)
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("a"))
        await asyncio.sleep(0.003)  # so that the clock, which counts milliseconds, has gone on
        late = await granted(reservations, Scope())  # the commit has not been compared with reservations yet
        touching = await bench.commit(append("b"))
        await disturbed(reservations, late)
        board = await reservations.of(TABLE)
    assert (told := board.find(late)) is not None
    assert [one.snapshot_id for one in told.disturbances] == [touching.snapshot_id]
