"""A daemon's clock that jumps while a batch is under way: it is on the record, and decides nothing."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from firn.coordinator.config import DaemonSettings, HttpSettings, Settings, WarehouseSettings
from firn.coordinator.daemon import Daemon, wall_clock_ms
from firn.model.outcome import Committed
from tests.unit.coordinator.lanes.test_swap_faults import check_chain
from tests.unit.coordinator.row_model.faulty_bench import HELD_S, FaultyFiles
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
YEAR_2100_MS = 4_102_444_800_000


class Clock:
    def __init__(self) -> None:
        self.set_ms: int | None = None
        self.ahead_ms = 0

    def __call__(self) -> int:
        return wall_clock_ms() + self.ahead_ms if self.set_ms is None else self.set_ms


@pytest.mark.parametrize(
    "jump",
    [HOUR_MS, -HOUR_MS, DAY_MS, -DAY_MS, 30 * DAY_MS, "1970", "2100"],
    ids=["+1h", "-1h", "+1d", "-1d", "+30d", "1970", "2100"],
)
@pytest.mark.parametrize("moment", ["write", "swap", "between"])
async def test_a_jump_loses_expires_and_turns_back_nothing(
    monkeypatch: pytest.MonkeyPatch, jump: int | str, moment: str
) -> None:
    monkeypatch.setattr("firn.coordinator.replay.history_limit.LOOK_EVERY", 1)
    files, clock = FaultyFiles(), Clock()
    bench = Workbench(files=files)
    settings = Settings(
        warehouse=WarehouseSettings(location=bench.warehouse), daemon=DaemonSettings(id="a", shards=bench.shards),
        http=HttpSettings(port=-1),
    )  # fmt: skip
    session, streams = bench.zookeeper.connect(), bench.redis.connect(names=bench.names)
    daemon = Daemon(settings, session=session, streams=streams, files=files, wall_ms=clock)
    await daemon.start()

    def leap() -> None:
        if isinstance(jump, int):
            clock.ahead_ms = jump
        else:
            clock.set_ms = 0 if jump == "1970" else YEAR_2100_MS

    try:
        # A table with a day's history: what is older goes with each commit.
        await bench.commit(create(properties={"history.expire.max-snapshot-age-ms": str(DAY_MS // 2)}))
        for n in range(3):
            await bench.commit(append(f"before{n}"))
        with_deadline = append("in-time", deadline_ms=wall_clock_ms() + 10 * HOUR_MS)
        files.entered.clear()
        files.gate.clear()
        await bench.send(append("under-way"), append("behind"), with_deadline)
        assert await asyncio.to_thread(files.entered.wait, HELD_S)
        if moment != "between":
            leap()
        if moment == "swap":
            session.drop_next_write("before")
        files.gate.set()
        if moment == "between":
            while len(await bench.live()) < 4:  # noqa: ASYNC110 - twins tell nobody
                await asyncio.sleep(0.005)
            leap()
        outcomes = await bench.settle(append("after"), append("later"))
        clock.set_ms, clock.ahead_ms = None, 0
        outcomes += await bench.settle(append("back"))
        metadata = await bench.metadata()
        assert not daemon.lanes.stalled
        assert not daemon.lanes.unreadable
    finally:
        await daemon.stop()
        await session.close()
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    live = set(await bench.live())
    assert {"before0", "before1", "before2", "under-way", "behind", "after", "later", "back"} <= live
    times = [snapshot.timestamp_ms for snapshot in metadata.snapshots]
    assert all(before <= after for before, after in pairwise(times))
    assert metadata.last_updated_ms >= max(times)
    logged = [entry.timestamp_ms for entry in metadata.snapshot_log]
    assert logged == sorted(logged)
    assert {1, 2, 3} <= {snapshot.sequence_number for snapshot in metadata.snapshots}, "the history has expired"
    await check_chain(bench, TABLE)
