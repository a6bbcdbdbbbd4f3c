"""Dry runs of commands: what would become of intents now."""

from __future__ import annotations

from collections.abc import Sequence

from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK
from firn.coordinator.cli.explained import forecast_lines
from firn.coordinator.cli.reach import Reach
from firn.coordinator.insight.dry_run import Forecast
from firn.coordinator.insight.dry_runs import DryRuns
from firn.coordinator.replay.attempt import Placement
from firn.model.intent import Intent
from firn.storage.pointers import Pointers


def foretell(reach: Reach, intents: Sequence[Intent]) -> int:
    """Say what would become of the intents, one after the other; with --json one a line. 1 when one is refused."""
    found = reach.run(_forecasts(reach, intents))
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


async def _forecasts(reach: Reach, intents: Sequence[Intent]) -> list[Forecast]:
    settings = reach.settings
    placement = Placement(warehouse=settings.warehouse.location, allowed=settings.allowed_locations)
    async with reach.session() as session, reach.streams_if_any() as streams:
        runs = DryRuns(
            streams=streams,
            files=reach.files,
            pointers=Pointers(session),
            limits=settings.limits,
            placement=placement,
        )
        return await runs.of(intents)
