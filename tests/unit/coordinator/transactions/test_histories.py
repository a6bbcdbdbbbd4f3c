"""Transactions cut histories back as any commit does, and leave what others need of the tables that they change."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from firn.coordinator.outcomes.reservations import Reservations
from firn.model.intent import Intent
from firn.model.operations.refs import CreateTag
from firn.model.operations.upkeep import UpdateProperties
from firn.model.outcome import Committed
from firn.model.reservation import Reservation, Scope
from tests.unit.coordinator.lanes.test_floods import FLOODED, FloodBench
from tests.unit.coordinator.transactions.ledger import A, B, fsck, snapshot_of, transaction, with_tables
from tests.unit.coordinator.workbench import Workbench, append, new_id, path_of, replace

COUNT = 40
KEPT = 2
LIMIT = {"firn.snapshots-max": str(KEPT)}
TURN = 8
"""A history that is too long is looked at when its last sequence number is a multiple of this."""


def both(name: str, first: str = A, second: str = B) -> Any:
    return transaction(append(name, table=first), append(name, table=second))


def limited(table: str, **updates: str) -> UpdateProperties:
    return UpdateProperties(intent_id=new_id(), table=table, updates=updates or LIMIT)


async def up_to_the_turn(bench: Workbench, table: str) -> list[int]:
    """Give a table a long history, and a limit after that; the next commit but one cuts it back."""
    found = [(await bench.commit(append(f"f{n:02d}", table=table))).snapshot_id for n in range(2 * TURN - 1)]
    await bench.commit(limited(table))
    assert None not in found
    return found  # type: ignore[return-value]


async def history(bench: Workbench, table: str) -> set[int]:
    return {snapshot.snapshot_id for snapshot in (await bench.metadata(table)).snapshots}


async def test_tables_that_only_transactions_write_to_keep_what_they_may() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B, properties=LIMIT)
        first = await bench.commit(both("f00"))
        tagged = snapshot_of(first, 1)
        await bench.commit(CreateTag(intent_id=new_id(), table=B, ref_name="keep", snapshot_id=tagged))
        longest = 0
        for number in range(1, COUNT):
            await bench.commit(both(f"f{number:02d}"))
            longest = max(longest, *[len(await history(bench, table)) for table in (A, B)])
    async with bench.daemon():
        await bench.commit(both("afterwards"))
        assert longest <= KEPT + TURN + 1
        assert tagged in await history(bench, B)
        for table in (A, B):
            assert await bench.live(table) == ["afterwards", *(f"f{number:02d}" for number in range(COUNT))]
        await fsck(bench, A, B)


@pytest.mark.parametrize("wish", ["firn.expire-on-commit", "gc.enabled"])
async def test_a_transaction_that_turns_the_limit_off_cuts_nothing(wish: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B)
        before = [*await up_to_the_turn(bench, B), (await bench.commit(append("last", table=B))).snapshot_id]
        await bench.commit(transaction(append("x", table=A), limited(B, **{wish: "false"}), append("y", table=B)))
        assert set(before) < await history(bench, B)


async def test_work_that_waits_in_the_lane_of_a_table_beside_keeps_its_base() -> None:
    bench = FloodBench()
    async with bench.daemon() as daemon:
        await with_tables(bench, A, FLOODED)
        ids = await up_to_the_turn(bench, FLOODED)
        bench.slow.gate.clear()
        blocker, together = append("blocker", table=FLOODED), both("x", A, FLOODED)
        rewrite = replace(["f03", "f04"], ["f34"], base=ids[5], table=FLOODED, rows=20)
        await bench.send(blocker)
        await until_queued(daemon, FLOODED, under_way=1)
        await bench.send(together)
        await until_wanted(daemon, FLOODED)
        await bench.send(rewrite)
        await until_queued(daemon, FLOODED, queued=1)
        bench.slow.gate.set()
        outcomes = [await bench.outcome(intent) for intent in (blocker, together, rewrite)]
        assert all(isinstance(outcome, Committed) for outcome in outcomes), outcomes
        sequence = [outcome.sequence_number for outcome in outcomes if isinstance(outcome, Committed)]
        left = await history(bench, FLOODED)
        await fsck(bench, A, FLOODED)
    assert sequence[0] == 2 * TURN
    assert sequence[2] == 2 * TURN + 2, "the transaction was between the two"
    assert left.isdisjoint(ids[:5])
    assert set(ids[5:]) < left


async def until_queued(daemon: Any, table: str, *, queued: int = 0, under_way: int = 0) -> None:
    async with asyncio.timeout(10):
        while True:
            lane = daemon.lanes._lanes.get(table)
            if lane is not None and lane.depth == queued and (not under_way or lane._commits.stage == "write"):
                return
            await asyncio.sleep(0.005)


async def until_wanted(daemon: Any, table: str) -> None:
    async with asyncio.timeout(10):
        while not daemon.lanes._lanes[table]._lock.is_wanted:  # noqa: ASYNC110 - leases tell only the lane
            await asyncio.sleep(0.005)


async def test_what_was_reserved_of_a_table_beside_stays() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B)
        ids = await up_to_the_turn(bench, B)
        reserved = Reservation(
            reservation_id=new_id(), table=B, holder="compactor", scope=Scope(files=(path_of("f03", table=B),)),
            begun_ms=0, until_ms=0, base_snapshot_id=ids[5],
        )  # fmt: skip
        await Reservations(bench.streams).begin(reserved, lease_ms=60_000)
        await bench.commit(append("last", table=B))
        await bench.commit(both("x"))
        left = await history(bench, B)
    assert left.isdisjoint(ids[:5])
    assert ids[5] in left
    assert len(left) <= KEPT + 3, "what came after a base is not kept for it"


@pytest.mark.parametrize("again", [True, False])
async def test_a_transaction_is_not_in_its_own_way(again: bool) -> None:
    """What it was planned on is needed until it is committed, and not by itself any more then."""
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B)
        ids = await up_to_the_turn(bench, B)
        await bench.commit(append("last", table=B))
        rewrite: Intent = replace(["f03", "f04"], ["f34"], base=ids[5], table=B, rows=20)
        members = (rewrite, append("x", table=B)) if again else (rewrite,)
        await bench.commit(transaction(append("x", table=A), *members))
        left = await history(bench, B)
    assert left.isdisjoint(ids)
