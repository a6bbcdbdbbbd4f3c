"""What a backlog counts as held back is what is pending and in no lane: a higher count would be reported as a loss."""

from __future__ import annotations

import random

import pytest

from firn.coordinator.intake.backlog import Backlog
from firn.model.limits import Limits
from tests.unit.coordinator.workbench import Workbench, append, create

TABLES = [f"db.t{number}" for number in range(3)]


@pytest.mark.parametrize("restarts", [False, True], ids=["", "looked through again"])
@pytest.mark.parametrize("tables", [1, 3])
@pytest.mark.parametrize("left_behind", [0, 150])
async def test_what_is_held_back_is_counted_exactly(
    left_behind: int, tables: int, restarts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    choices = random.Random(tables)
    bench = Workbench(shards=1, limits=Limits(lane_intents_max=20, batch_intents_max=10))
    async with bench.daemon():
        await bench.settle(*(create(table) for table in TABLES))
    intents = [append(f"f{number}", table=choices.choice(TABLES[:tables])) for number in range(300)]
    await bench.send(*intents)
    if left_behind:
        await bench.streams.take([0], consumer="dead", count=left_behind, block_ms=0)
    step, counts = Backlog.step, list[tuple[int, int]]()

    async with bench.daemon() as daemon:
        group = bench.redis.streams[bench.names.intents(0)].group
        assert group is not None

        async def counted(self: Backlog) -> bool:
            if restarts and choices.random() < 0.05:
                self.start_over()
            stepped = await step(self)
            if self.caught_up:
                counts.append((self.entries, len(group.pending) - daemon.lanes.count_under_way(0)))
            return stepped

        monkeypatch.setattr(Backlog, "step", counted)
        for intent in intents:
            await bench.outcome(intent, timeout_s=60)
    assert max(counted for counted, _ in counts) > 100, "nothing was held back: the test proves nothing"
    assert [pair for pair in counts if pair[0] != pair[1]] == []
