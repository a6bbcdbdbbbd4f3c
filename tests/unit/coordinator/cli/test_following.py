"""Commands without an end of their own end with Ctrl-C, whatever they are at."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from firn.coordinator.cli.following import until_interrupted
from firn.coordinator.cli.reach import Reach
from tests.unit.coordinator.hard_of_hearing import HardOfHearing


class Here:
    """Runs work as `Reach` does."""

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run(work)


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    until_interrupted(cast("Reach", Here()), work)


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_one_ctrl_c_is_enough_though_a_library_loses_cancellations(lost: int) -> None:
    deaf = HardOfHearing(lost)

    async def work() -> None:
        asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), signal.SIGINT)
        await deaf.work()

    run(work)
    assert deaf.missed == lost
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_work_that_ends_by_itself_has_ended_and_what_it_raises_is_raised() -> None:
    found = []

    async def ends() -> None:
        found.append(1)

    async def fails() -> None:
        raise OSError("no disk")

    run(ends)
    assert found == [1]
    with pytest.raises(OSError, match="no disk"):
        run(fails)
