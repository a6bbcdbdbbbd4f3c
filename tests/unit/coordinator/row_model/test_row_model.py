"""Whatever several writers submit, the rows are what their statements make of them one after the other."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.unit.coordinator.row_model.machine import RowMachine


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


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES)
def test_every_commit_does_to_the_rows_what_its_statement_says_at_length(machine: type[RowMachine]) -> None:
    run_state_machine_as_test(machine, settings=MANY)
