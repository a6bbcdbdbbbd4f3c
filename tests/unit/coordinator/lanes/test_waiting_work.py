"""Work that waits can still be validated when its turn comes: an expiry leaves it what it was planned on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from firn.coordinator.daemon import Daemon
from firn.coordinator.lanes.waiting import WaitingIntents
from firn.coordinator.replay.holds import Hold, holds_of, holds_of_payload
from firn.model.intent import Append, Intent, Overwrite, RowDelta, encode_intent
from firn.model.limits import Limits
from firn.model.operations.refs import CherryPick, CreateBranch, CreateTag, FastForward, Publish
from firn.model.operations.upkeep import ExpireSnapshots, SetStatistics
from firn.model.outcome import Committed, Outcome
from firn.model.sharding import shard_of
from tests.unit.coordinator.lanes.test_floods import FLOODED, FloodBench
from tests.unit.coordinator.replay.gathering import HELD_S, Gathering
from tests.unit.coordinator.transactions.ledger import transaction
from tests.unit.coordinator.workbench import TABLE, Workbench, append, content_file, create, new_id, replace

SHARD = shard_of(TABLE, shards=4)
FOREVER_MS = 2**62


def intent(kind: type, **members: Any) -> Any:
    return kind(**{"intent_id": new_id(), "table": TABLE, **members})


def expire_all() -> ExpireSnapshots:
    return ExpireSnapshots(intent_id=new_id(), table=TABLE, older_than_ms=FOREVER_MS)


async def with_history(bench: Workbench, *names: str) -> list[int]:
    """A table with one snapshot per name, oldest first."""
    await bench.commit(create())
    ids = [(await bench.commit(append(name))).snapshot_id for name in names]
    assert None not in ids
    return ids  # type: ignore[return-value]


async def behind_a_full_lane(bench: Gathering, daemon: Daemon, *intents: Intent, in_lane: int) -> list[Outcome]:
    """The outcomes of intents of which only the first ones find room in the lane before any of them is decided."""
    bench.gated.entered.clear()
    bench.gated.gate.clear()
    first = append("blocker")
    await bench.send(first)
    assert await asyncio.to_thread(bench.gated.entered.wait, HELD_S)
    await bench.send(*intents)
    backlog = daemon.intake._backlogs[SHARD]
    async with asyncio.timeout(HELD_S):
        while (daemon.lanes.depths[TABLE], backlog.entries) != (in_lane, len(intents) - in_lane):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    bench.gated.gate.set()
    return [await bench.outcome(one) for one in (first, *intents)][1:]


def committed(outcome: Outcome) -> Committed:
    assert isinstance(outcome, Committed), outcome
    return outcome


async def test_an_intent_that_waits_in_its_stream_keeps_its_base_and_the_way_to_it() -> None:
    bench = Gathering(limits=Limits(lane_intents_max=3))
    async with bench.daemon() as daemon:
        first, second, third, fourth = await with_history(bench, "a", "b", "c", "d")
        rewrite = replace(["a", "b"], ["ab"], base=second, rows=20)
        expired, *_, rewritten = await behind_a_full_lane(
            bench, daemon, expire_all(), append("x"), append("y"), append("z"), rewrite, in_lane=2
        )
    assert committed(expired).details["removed"] == [first]
    kept = dict(committed(expired).details["kept"])
    assert rewrite.intent_id in kept[second]
    assert {third, fourth} < set(kept)
    committed(rewritten)
    assert await bench.live() == ["ab", "blocker", "c", "d", "x", "y", "z"]


async def test_an_intent_that_was_planned_on_an_empty_branch_keeps_all_of_its_history() -> None:
    bench = Gathering(limits=Limits(lane_intents_max=3))
    async with bench.daemon() as daemon:
        history = await with_history(bench, "a", "b", "c")
        late = intent(Overwrite, base_snapshot_id=None, removed_data_files=(content_file("a").file_path,),
                      data_files=(content_file("a2"),), isolation="snapshot", validate="none")  # fmt: skip
        expired, *_, overwritten = await behind_a_full_lane(
            bench, daemon, expire_all(), append("x"), append("y"), late, in_lane=2
        )
    assert committed(expired).details["removed-count"] == 0
    assert set(history) <= set(dict(committed(expired).details["kept"]))
    committed(overwritten)


@pytest.mark.parametrize("waits", ["in-the-lane", "in-the-stream"])
async def test_a_branch_that_an_intent_waits_to_write_to_does_not_age(waits: str) -> None:
    bench = Gathering(limits=Limits(lane_intents_max=3))
    async with bench.daemon() as daemon:
        first, second = await with_history(bench, "a", "b")
        await bench.commit(intent(CreateBranch, ref_name="dev", snapshot_id=first, max_ref_age_ms=1))
        await bench.commit(intent(CreateBranch, ref_name="unused", snapshot_id=first, max_ref_age_ms=1))
        onto = append("on-dev", branch="dev")
        before = () if waits == "in-the-lane" else (append("x"), append("y"))
        expired, *_, written = await behind_a_full_lane(bench, daemon, expire_all(), *before, onto, in_lane=2)
        metadata = await bench.metadata()
    details = committed(expired).details
    assert set(details["removed-refs"]) == {"unused"}
    assert onto.intent_id in details["kept-refs"]["dev"]
    assert metadata.refs["dev"].snapshot_id == committed(written).snapshot_id
    assert second in details["removed"]


async def test_more_waiting_intents_than_are_looked_at_keep_what_they_may_have_been_planned_on() -> None:
    bench = Gathering(limits=Limits(lane_intents_max=3, waiting_scan_entries_max=1))
    async with bench.daemon() as daemon:
        _, second, *_ = await with_history(bench, "a", "b", "c")
        rewrite = replace(["a", "b"], ["ab"], base=second, rows=20)
        expired, *_, rewritten = await behind_a_full_lane(
            bench, daemon, expire_all(), *(append(f"x{n}") for n in range(600)), rewrite, in_lane=2
        )
    assert committed(expired).details["removed-count"] == 0
    committed(rewritten)


async def test_what_has_been_decided_or_is_in_a_lane_or_of_another_table_holds_nothing() -> None:
    bench = Workbench()
    under_way: set[str] = set()
    waiting = WaitingIntents(
        bench.streams, shards=4, limits=Limits(), under_way=lambda _shard, entry_id: entry_id in under_way
    )
    assert await waiting.holds(TABLE) == ()
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("a"))).snapshot_id
        assert base is not None
        await bench.commit(replace(["a"], ["b"], base=base))
    await asyncio.sleep(0)
    assert await waiting.holds(TABLE) == ()
    await bench.send(replace(["b"], ["c"], base=7), replace(["b"], ["d"], base=7), replace(["b"], ["e"], base=8))
    await bench.streams.submit(SHARD, b"no intent")
    await bench.streams.submit(SHARD, encode_intent(replace(["b"], ["c"], base=9, table="db.another")))
    assert {hold.snapshot_ids for hold in await waiting.holds(TABLE)} == {(7,), (8,)}
    (taken, *_) = await bench.streams.take([SHARD], consumer="c", count=1, block_ms=0)
    assert len(await waiting.holds(TABLE)) == 2
    under_way.add(taken.entry_id)
    assert len(await waiting.holds(TABLE)) == 2  # the second is the same need
    (taken, *_) = await bench.streams.take([SHARD], consumer="c", count=1, block_ms=0)
    under_way.add(taken.entry_id)
    assert [hold.snapshot_ids for hold in await waiting.holds(TABLE)] == [(8,)]


async def test_whoever_asks_from_another_lane_hears_of_all_but_what_it_has_in_hand() -> None:
    bench = Workbench()
    waiting = WaitingIntents(bench.streams, shards=4, limits=Limits(), under_way=lambda _shard, _entry_id: True)
    base = 6
    await bench.send(replace(["a"], ["b"], base=base), replace(["a"], ["b"], base=base + 1))
    both = transaction(append("x", table="db.first"), replace(["a"], ["b"], base=base + 2))
    await bench.send(both)
    first_shard = shard_of("db.first", shards=4)
    in_hand = {(first_shard, standing.entry_id) for standing in await bench.streams.standing(first_shard, count=9)
               if standing.payload == encode_intent(both)}  # fmt: skip
    assert len(in_hand) == 1

    async def held(besides: set[tuple[int, str]] | None) -> set[int]:
        return {number for hold in await waiting.holds(TABLE, besides=besides) for number in hold.snapshot_ids}

    assert await held(in_hand) == {6, 7}
    assert await held(set()) == {6, 7, 8}
    assert await held(None) == {8}


async def test_a_transaction_that_waits_in_another_tables_lane_keeps_its_bases() -> None:
    bench = FloodBench()
    async with bench.daemon() as daemon:
        await bench.commit(create(FLOODED))
        first, second, third = await with_history(bench, "a", "b", "c")
        bench.slow.gate.clear()
        blocker = append("x", table=FLOODED)
        await bench.send(blocker)
        rewrite = replace(["a", "b"], ["ab"], base=second, rows=20)
        both = transaction(append("y", table=FLOODED), rewrite)
        await bench.send(both)
        async with asyncio.timeout(HELD_S):
            while daemon.lanes.depths.get(FLOODED) != 1:  # noqa: ASYNC110 - lanes tell nobody
                await asyncio.sleep(0.005)
        expired = await bench.commit(expire_all())
        bench.slow.gate.set()
        await bench.commit(both)
    assert expired.details["removed"] == [first]
    assert both.intent_id in dict(expired.details["kept"])[second]
    assert third in dict(expired.details["kept"])
    assert await bench.live() == ["ab", "c"]


async def test_an_intent_that_comes_into_the_lane_while_the_streams_are_read_keeps_its_base() -> None:
    bench = Workbench()
    async with bench.daemon() as daemon:
        first, second, third = await with_history(bench, "a", "b", "c")
        rewrite = replace(["a", "b"], ["ab"], base=second, rows=20)
        streams_read = daemon._waiting.holds

        async def holds(table: str, **asked: Any) -> tuple[Hold, ...]:
            await bench.send(rewrite)
            async with asyncio.timeout(HELD_S):
                while daemon.lanes.depths[TABLE] != 1:  # noqa: ASYNC110 - lanes tell nobody
                    await asyncio.sleep(0.005)
            return await streams_read(table, **asked)

        daemon._waiting.holds = holds  # type: ignore[method-assign]
        expired = await bench.commit(expire_all())
        committed(await bench.outcome(rewrite))
    assert expired.details["removed"] == [first]
    assert {second, third} <= set(dict(expired.details["kept"]))


NEEDS: list[tuple[Intent, dict[str, Any]]] = [
    (append("a"), {"refs": ("main",)}),
    (replace(["a"], ["b"], base=5, branch="dev"), {"snapshot_ids": (5,), "refs": ("dev",)}),
    (intent(Overwrite, base_snapshot_id=None), {"refs": ("main",), "from_start": ("main",)}),
    (intent(RowDelta, base_snapshot_id=None, branch="b"), {"refs": ("b",), "from_start": ("b",)}),
    (intent(RowDelta), {"refs": ("main",)}),
    (intent(CreateTag, ref_name="t", snapshot_id=5), {"snapshot_ids": (5,), "refs": ("main", "t")}),
    (intent(FastForward, to="dev"), {"refs": ("main", "dev")}),
    (intent(CherryPick, snapshot_id=5), {"snapshot_ids": (5,), "refs": ("main",), "picked": (5,)}),
    (intent(Publish, wap_id="w"), {"refs": ("main",), "wap_id": "w"}),
    (intent(Append, stage=True, wap_id="w"), {"refs": ("main",)}),
    (intent(SetStatistics, statistics={"snapshot-id": 5}), {"snapshot_ids": (5,), "refs": ("main",)}),
]


@pytest.mark.parametrize(("waits", "needs"), NEEDS)
def test_what_an_intent_needs_is_the_same_whether_it_was_decoded_or_only_glanced_at(
    waits: Intent, needs: dict[str, Any]
) -> None:
    expected = (Hold(who=f"intent {waits.intent_id}, which waits,", **needs),)
    assert holds_of(waits) == expected
    assert holds_of_payload(encode_intent(waits), table=TABLE) == expected
    assert holds_of_payload(encode_intent(waits), table="db.another") == ()
    assert holds_of_payload(encode_intent(waits), table=TABLE, elsewhere=True) == ()


@pytest.mark.parametrize(
    "payload",
    [b"", b"null", b"[]", b"\xff", b'{"table": 5}', b'{"table": "db.events", "members": [1, null]}', b"[" * 100_000,
     b'{"a":' * 100_000],
)  # fmt: skip
def test_what_is_no_intent_needs_nothing(payload: bytes) -> None:
    assert holds_of_payload(payload, table=TABLE) == ()


def test_members_of_the_wrong_kind_need_nothing() -> None:
    payload = b'{"table": "db.events", "branch": 7, "base-snapshot-id": "x", "statistics": [], "operation": "publish"}'
    (hold,) = holds_of_payload(payload, table=TABLE)
    assert (hold.snapshot_ids, hold.refs, hold.wap_id) == ((), ("main",), None)
