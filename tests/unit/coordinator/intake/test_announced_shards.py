"""Writers are told how many streams there are, again after a fail-over has lost it."""

from __future__ import annotations

import asyncio

from tests.unit.coordinator.workbench import Workbench, create


async def test_a_number_of_shards_that_a_fail_over_lost_is_said_again_though_no_group_was_lost() -> None:
    bench = Workbench(shards=2)
    async with bench.daemon() as daemon:
        await bench.commit(create())
        assert await bench.streams.settings() == daemon.intake.announcement
        bench.redis.put(bench.names.settings, None)
        assert await bench.streams.settings() is None
        daemon.intake._janitor_at = 0.0
        async with asyncio.timeout(5):
            while await bench.streams.settings() != daemon.intake.announcement:  # noqa: ASYNC110 - twins tell nobody
                await asyncio.sleep(0.01)
