"""Whatever several writers submit, the rows are what their statements make of them one after the other."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import HealthCheck, event, given
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from tests.strategies.examples import AT_LENGTH, examples
from tests.unit.coordinator.row_model.machine import RowMachine
from tests.unit.coordinator.row_model.planning import Choices


class RowMachineV3(RowMachine):
    """A table of format v3 from the start: deletion vectors, row ids."""

    format_version = 3


class RowMachineV1(RowMachine):
    """A table that begins without deletes, and is brought to newer formats while it is written to."""

    format_version = 1


MACHINES: Final = [RowMachineV1, RowMachine, RowMachineV3]
ANY_PACE: Final = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
TIMEOUT_S: Final = 1800 if AT_LENGTH else 300


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("machine", MACHINES)
def test_every_commit_does_to_the_rows_what_its_statement_says(machine: type[RowMachine]) -> None:
    steps = 50 if AT_LENGTH else 20
    tried = examples(7, at_most=300, stateful_step_count=steps, suppress_health_check=ANY_PACE)
    run_state_machine_as_test(machine, settings=tried)


BESIDE_A_REWRITE: Final = ("equality", "equality", "equality", "append", "merge_on_read", "drop_deletes", "update_spec")


@pytest.mark.timeout(TIMEOUT_S)
@given(partitioned=st.booleans(), v3=st.booleans(), data=st.data())
@examples(25, at_most=2_000, suppress_health_check=ANY_PACE)
def test_rewrites_over_several_specs_are_refused_exactly_where_rows_would_change(
    partitioned: bool, v3: bool, data: st.DataObject
) -> None:
    """What is committed leaves the rows as they were; what equality deletes are in the way of would not have.

    Rewrites wait while others commit what they have planned.
    """
    machine = RowMachineV3() if v3 else RowMachine()
    choices = Choices(lambda least, most: data.draw(st.integers(least, most)))

    def decide(kind: str) -> None:
        machine._plan(kind, choices)
        if machine.waiting:
            machine._submit([machine.waiting.pop()], "none", [])

    try:
        machine.begin(choices, partitioned=partitioned)
        for kind in ("update_spec", "append", "equality"):
            decide(kind)
        for _ in range(3):
            machine._plan("compaction", choices)
            rewrites, machine.waiting = machine.waiting, []
            for kind in data.draw(st.lists(st.sampled_from(BESIDE_A_REWRITE), max_size=2)):
                decide(kind)
            if rewrites:
                machine._submit(rewrites, "none", [])
    finally:
        machine.teardown()
        for (kind, outcome), count in machine.model.counts.items():
            if kind in {"compaction", "drop-deletes"}:
                event(f"{kind}: {outcome}", count)
