"""Dry runs by a command's settings; a module of its own, because it loads all rules of replay."""

from __future__ import annotations

from collections.abc import Sequence

from firn.coordinator.cli.reach import Reach
from firn.coordinator.insight.dry_runs import DryRuns
from firn.coordinator.insight.forecast import Forecast
from firn.coordinator.replay.attempt import Placement
from firn.model.intent import Intent
from firn.storage.pointers import Pointers


async def forecasts(reach: Reach, intents: Sequence[Intent]) -> list[Forecast]:
    """Return what would become of the intents, one after the other."""
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
