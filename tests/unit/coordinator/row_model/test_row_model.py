"""Whatever several writers submit, the rows are what their statements make of them one after the other."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from firn.model.outcome import Rejected
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


@given(partitioned=st.just(value=True))  # the machine makes notes, which only Hypothesis takes
@settings(max_examples=1, deadline=None)
def test_a_compaction_over_several_specs_may_lose_to_equality_deletes_though_it_keeps_the_age(
    partitioned: bool,
) -> None:
    """The model expects what the rules say; were all files of one spec, it would not hear of a refusal."""
    machine = RowMachineV3()
    least, keeps_age = Choices(lambda least, _: least), Choices(lambda least, most: int((least, most) == (0, 1)))
    try:
        machine.begin(least, partitioned=partitioned)
        for kind, choices in (("update_spec", Choices(lambda _, most: most)), ("append", least)):
            machine._plan(kind, choices)
            machine._submit([machine.waiting.pop()], "none", [])
        machine._plan("equality", least)
        machine._plan("compaction", keeps_age)
        planned = [machine.waiting.pop(0), machine.waiting.pop(0)]
        for one in planned:
            machine._submit([one], "none", [])
        refused = machine.decided[planned[1].intent.intent_id]
        assert isinstance(refused, Rejected)
        assert refused.rule == "new-deletes"
    finally:
        machine.teardown()


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES)
def test_every_commit_does_to_the_rows_what_its_statement_says_at_length(machine: type[RowMachine]) -> None:
    run_state_machine_as_test(machine, settings=MANY)
