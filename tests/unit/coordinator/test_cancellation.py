"""A cancelled task ends, though a library may lose the cancellation."""

from __future__ import annotations

import asyncio

import pytest

from firn.coordinator.cancellation import cancel_all
from tests.unit.coordinator.hard_of_hearing import HardOfHearing


@pytest.mark.parametrize("lost", [0, 1, 3])
async def test_tasks_are_cancelled_until_they_have_ended(lost: int) -> None:
    deaf = HardOfHearing(lost)
    tasks = [asyncio.create_task(deaf.work()), asyncio.create_task(asyncio.sleep(60))]
    await asyncio.sleep(0)
    await cancel_all(tasks, again_s=0.01)
    assert all(task.cancelled() for task in tasks)
    assert deaf.missed == lost


async def test_what_a_task_fails_with_meanwhile_is_nobodys() -> None:
    async def fails() -> None:
        raise OSError("no disk")

    done = asyncio.create_task(fails())
    await asyncio.sleep(0)
    await cancel_all([done])
    assert done.done()
