"""Writers of every operation from outside, random faults, and a check that shares no reader with firn.

A failure prints ``seed=…`` and the command that tries it again; FIRN_TEST_INTENTS changes how many intents a run has.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.acceptance.conftest import SEED_VARIABLE
from tests.acceptance.fault_programme import FaultProgramme
from tests.acceptance.outside_checker import operations_committed
from tests.acceptance.outside_history import HistoryFault
from tests.acceptance.stack import Stack

pytestmark = pytest.mark.alone

INTENTS_VARIABLE: Final = "FIRN_TEST_INTENTS"
GIVEN: Final = os.environ.get(SEED_VARIABLE)
SAMPLE_SEEDS = range(1, 3)
LONG_SEEDS = range(100, 150)
SAMPLE: Final[dict[str, Any]] = {"intents": 120, "writers": 6, "calm_s": 1.0, "most_faults": 7}
LONG: Final[dict[str, Any]] = {"intents": 2_000, "writers": 16, "calm_s": 5.0, "most_faults": 1_000}
"""With all seeds 100 000 intents."""


def run(stack: Stack, seed: int, *, intents: int, **plan: Any) -> None:
    """One run; a failure says how to have it again."""
    intents = int(os.environ.get(INTENTS_VARIABLE, intents))
    programme = FaultProgramme(stack, seed=seed, intents=intents, **plan)
    try:
        programme.run()
    except AssertionError as error:
        again = f"{SEED_VARIABLE}={seed} {INTENTS_VARIABLE}={intents} python -m pytest {Path(__file__).name} -k sample"
        raise AssertionError(f"seed={seed} {dict(programme.faults)}\nagain: {again}\n{error}") from error
    finally:
        print(f"seed={seed}", dict(programme.faults), sorted(operations_committed(programme.board.wishes).items()))


@pytest.mark.parametrize("seed", SAMPLE_SEEDS if GIVEN is None else [int(GIVEN)])
def test_a_sample_of_intents_survives_faults_as_it_was_answered(stack: Stack, seed: int) -> None:
    run(stack, seed, **SAMPLE)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", LONG_SEEDS if GIVEN is None else [int(GIVEN)])
def test_a_hundred_thousand_intents_survive_faults_as_they_were_answered(stack: Stack, seed: int) -> None:
    run(stack, seed, **LONG)


def test_the_check_finds_outcomes_that_storage_does_not_bear_out(stack: Stack) -> None:
    """Each of these would be a fault of firn's; the same history must pass without it."""
    programme = FaultProgramme(stack, seed=1, intents=60, writers=6, calm_s=1.0, most_faults=0)
    programme.run()
    wishes = programme.board.wishes
    appends = [w for w in wishes if w.committed and w.intent["operation"] == "append" and not w.intent.get("stage")]
    one, other = appends[0], appends[-1]
    refused = {"intent-id": one.intent_id, "status": "rejected", "table": one.intent["table"], "rule": "missing-file"}
    moved = {**one.outcome, "snapshot-id": other.outcome["snapshot-id"] + 1}
    for wish, answers in (
        (one, []),
        (one, [refused]),
        (one, [moved]),
        (one, [one.outcome, refused]),
        (next(w for w in wishes if w.hostile and not w.committed), [one.outcome]),
    ):
        before, wish.answers = wish.answers, answers
        with pytest.raises(HistoryFault):
            programme.check()
        wish.answers = before
    files = programme.board.files
    path = one.intent["data-files"][0]["file-path"]
    before_file = files[path]
    files[path] = replace(before_file, ids=(*before_file.ids, 0))
    with pytest.raises(HistoryFault, match="count"):
        programme.check()
    files[path] = before_file
    programme.check()
