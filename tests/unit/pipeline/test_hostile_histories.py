"""Whatever writers call a file, maintenance removes none that a table names, and none outside of its own folders."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given

from tests.strategies.examples import AT_LENGTH, examples
from tests.unit.pipeline.hostile_world import Step, World

WRITES = (
    "append", "append", "stage", "append-anything", "delete", "delete-all", "ref", "go-back", "statistics",
    "call-statistics", "drop-statistics", "place", "register", "wait",
    "old-place", "copy",
)  # fmt: skip
NUMBERS = st.integers(0, 999)


def steps_of(*kinds: str) -> st.SearchStrategy[Step]:
    return st.tuples(st.sampled_from(kinds), st.integers(0, 1), NUMBERS, NUMBERS)


STEPS = st.lists(
    st.one_of(steps_of(*WRITES), steps_of(*WRITES), steps_of("expire"), steps_of("maintain")), min_size=6, max_size=25
)


async def play(steps: Sequence[Step]) -> None:
    async with World.open() as world:
        for table in (0, 1):
            await world.take(("append", table, 0, 0))
        for step in (
            *steps,
            *(("expire", table, 0, 0) for table in (0, 1)),
            *(("maintain", table, 0, 0) for table in (0, 1)),
        ):
            await world.take(step)


@pytest.mark.timeout(1800 if AT_LENGTH else 300)
@given(steps=STEPS)
@examples(8, at_most=400, suppress_health_check=[HealthCheck.too_slow])
def test_a_reader_never_misses_a_file_whatever_writers_call_it(steps: list[Step]) -> None:
    asyncio.run(play(steps))
