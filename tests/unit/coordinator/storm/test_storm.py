"""Whatever fails, in whatever order: each intent is committed once or refused, and told the same each time."""

from __future__ import annotations

import asyncio
import os
import random
from typing import Final

import pytest

from tests.unit.coordinator.storm.storm import Storm

SEED_VARIABLE: Final = "FIRN_TEST_SEED"
"""A seed that failed, to try it again; the order of threads is not in it."""

STEPS: Final = 120


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What daemons wait for in life, and how long journals grow until they get a checkpoint."""
    for name, value in {
        "coordinator.lanes.lane.BACKOFF_S": (0.001, 0.01),
        "coordinator.lanes.lane_lock.LOCK_TIMEOUT_S": 2.0,
        "coordinator.lanes.held_intents.LOOK_AGAIN_S": (0.05, 0.1),
        "coordinator.intake.intake.BLOCK_MS": 20,
        "coordinator.intake.intake.RETRY_S": 0.02,
        "coordinator.intake.intake.JANITOR_S": 0.3,
        "coordinator.intake.ownership.RECHECK_S": 0.1,
        "coordinator.intake.quarantine.QUIET_S": 0.02,
        "coordinator.intake.quarantine.ALONE_S": 0.1,
        "coordinator.outcomes.publish.RETRY_S": (0.001, 0.01),
        "coordinator.journal.decisions.CHECKPOINT_SEGMENTS": 6,
        "coordinator.journal.decisions.CHECKPOINT_INTENTS": 20,
        "storage.leases.SWEEP_RETRY_S": 0.05,
        "coordinator.daemon.JOIN_RETRY_S": 0.02,
    }.items():
        monkeypatch.setattr(f"firn.{name}", value)


def seeds(count: int) -> list[int]:
    given = os.environ.get(SEED_VARIABLE)
    if given:
        return [int(given)]
    dice = random.Random(20260101) if "CI" in os.environ else random.SystemRandom()
    return [dice.randrange(2**32) for _ in range(count)]


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_storms_cost_nothing_and_double_nothing() -> None:
    for seed in seeds(300):
        await weather(seed)


async def weather(seed: int) -> None:
    print(f"{SEED_VARIABLE}={seed}")
    async with asyncio.timeout(200):
        await Storm(seed).run(STEPS)
