"""Whatever several writers submit, the rows are what their statements make of them one after the other."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from tests.unit.coordinator.row_model.machine import RowMachine
from tests.unit.coordinator.row_model.planning import Choices


class RowMachineV3(RowMachine):
    """A table of format v3 from the start: deletion vectors, row ids."""

    format_version = 3


MACHINES: Final = [RowMachine, RowMachineV3]
ANY_PACE: Final = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
SAMPLE: Final = settings(max_examples=8, stateful_step_count=20, suppress_health_check=ANY_PACE)
MANY: Final = settings(max_examples=300, stateful_step_count=50, suppress_health_check=ANY_PACE)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("machine", MACHINES)
def test_every_commit_does_to_the_rows_what_its_statement_says(machine: type[RowMachine]) -> None:
    run_state_machine_as_test(machine, settings=SAMPLE)


BESIDE_A_REWRITE: Final = ("equality", "equality", "equality", "append", "merge_on_read", "drop_deletes", "update_spec")


@pytest.mark.timeout(300)
@given(partitioned=st.booleans(), v3=st.booleans(), data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=ANY_PACE)
def test_rewrites_over_several_specs_are_refused_exactly_where_rows_would_change(
    partitioned: bool, v3: bool, data: st.DataObject
) -> None:
    """What is committed leaves the rows as they were; what equality deletes are in the way of would not have."""
    _rewrite_beside_equality_deletes(partitioned, v3, data)


@pytest.mark.long
@given(partitioned=st.booleans(), v3=st.booleans(), data=st.data())
@settings(max_examples=2000, deadline=None, suppress_health_check=ANY_PACE)
def test_rewrites_over_several_specs_are_refused_exactly_where_rows_would_change_at_length(
    partitioned: bool, v3: bool, data: st.DataObject
) -> None:
    _rewrite_beside_equality_deletes(partitioned, v3, data)


def _rewrite_beside_equality_deletes(partitioned: bool, v3: bool, data: st.DataObject) -> None:
    """Rewrites wait while others commit what they have planned."""
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


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES)
def test_every_commit_does_to_the_rows_what_its_statement_says_at_length(machine: type[RowMachine]) -> None:
    run_state_machine_as_test(machine, settings=MANY)
