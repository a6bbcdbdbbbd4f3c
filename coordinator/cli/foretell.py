"""Dry runs of commands: what would become of intents now."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK
from firn.coordinator.cli.explained import forecast_lines
from firn.coordinator.cli.reach import Reach
from firn.model.intent import Intent

if TYPE_CHECKING:
    from firn.coordinator.insight.forecast import Forecast


def foretell(reach: Reach, intents: Sequence[Intent]) -> int:
    """Say what would become of the intents, one after the other; with --json one a line. 1 when one is refused."""
    dry_runs = importlib.import_module("firn.coordinator.cli.forecasts")
    found: list[Forecast] = reach.run(dry_runs.forecasts(reach, intents))
    for position, told in enumerate(found):
        if reach.output.as_json:
            reach.output.line(told)
            continue
        if position:
            reach.output.say()
        reach.output.lines(forecast_lines(told))
    if not found:
        reach.output.say("no intents")
    return EXIT_OK if all(told.is_yes for told in found) else EXIT_NO
