"""Fair within a table: whole daemons on in-memory twins, what a writer sees of priorities and deadlines."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from firn.coordinator.daemon import wall_clock_ms
from firn.model.errors import Unavailable
from firn.model.limits import Limits
from firn.model.outcome import Committed, Rejected
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.workbench import Workbench, append, create, decision, replace


async def order_of_decisions(bench: Workbench) -> list[str]:
    return [d.intent_id for segment in await bench.journal() for d in segment.decided]


async def test_maintenance_that_came_first_yields_and_still_gets_its_turn_in_a_flood() -> None:
    bench = Gathering(limits=Limits(batch_intents_max=8, maintenance_wait_ms_max=1_500))
    async with bench.daemon() as daemon:
        await bench.commit(create())
        base = (await bench.commit(append("a", "b"))).snapshot_id
        assert base is not None
        compaction = replace(["a", "b"], ["ab"], base=base, rows=20, priority="maintenance")
        flood = [append(f"f{number}") for number in range(600)]  # 75 batches of 30 ms and more
        create_all = bench.files.create_all

        def slow(files: Any) -> None:
            time.sleep(0.03)
            create_all(files)

        bench.files.create_all = slow  # type: ignore[method-assign]
        outcomes = await bench.gathered(daemon, compaction, *flood)
        waited_s = daemon.metrics.maintenance_wait_seconds._sum.get()
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    decided = await order_of_decisions(bench)
    before = set(decided[: decided.index(compaction.intent_id)])
    yielded_to = [intent.intent_id in before for intent in flood]
    assert any(yielded_to), "it did not yield"
    assert not all(yielded_to), "it waited until the flood was over"
    assert waited_s >= 1.5
    assert yielded_to == sorted(yielded_to, reverse=True), "ingest is not in order"


async def test_a_deadline_that_passes_while_a_batch_is_tried_again_is_honoured() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        create_all, ends_at = bench.files.create_all, time.monotonic() + 0.6

        def failing(files: Any) -> None:
            if time.monotonic() < ends_at:
                raise Unavailable("the disk does not answer")
            create_all(files)

        bench.files.create_all = failing  # type: ignore[method-assign]
        late = append("late", deadline_ms=wall_clock_ms() + 300)
        outcomes = await bench.settle(append("a"), late, append("b"))
    assert [type(outcome) for outcome in outcomes] == [Committed, Rejected, Committed]
    assert isinstance(outcomes[1], Rejected)
    assert outcomes[1].rule == "deadline-passed"
    assert await bench.live() == ["a", "b"]
    assert late.intent_id in await order_of_decisions(bench)


async def test_the_repetition_of_a_committed_intent_is_not_refused_for_its_deadline() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        intent = append("a", deadline_ms=wall_clock_ms() + 2_000)
        first = await bench.commit(intent)
        bench.redis.flush_all()
        await asyncio.sleep(2.1)
        assert decision(await bench.commit(intent)) == decision(first)


async def test_epochs_of_a_writer_stay_in_order_across_priorities() -> None:
    bench = Gathering()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        epochs = [
            append(f"e{n}", writer="w", writer_sequence=n, priority="maintenance" if n % 2 else "ingest")
            for n in range(6)
        ]
        others = [append(f"o{n}") for n in range(3)]
        outcomes = await bench.gathered(daemon, epochs[0], others[0], *epochs[1:4], *others[1:], *epochs[4:])
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    decided = await order_of_decisions(bench)
    assert [d for d in decided if d in {e.intent_id for e in epochs}] == [e.intent_id for e in epochs]
