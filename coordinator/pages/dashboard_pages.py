"""The pages that draw the dashboards: Grafana's panels, from the same queries, for whoever has no Grafana."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, urlencode

from aiohttp import web

from firn.coordinator.pages.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from firn.coordinator.pages.dashboard_files import read_dashboards
from firn.coordinator.pages.documents import runbook_address
from firn.coordinator.pages.panels import RANGES, choices_of, draw, moment_of
from firn.coordinator.pages.prometheus import Alert, Prometheus
from firn.model.errors import NotFound, Unavailable

REFRESH_S: Final = 10
"""How often an open dashboard asks for itself again."""

RANGE_DEFAULT: Final = "1h"
SIZES: Final = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM}

CHOICE_MAX: Final = 500
"""Characters of a variable's value."""


class DashboardPages:
    """``/dashboards`` and one page for each of them. Without a Prometheus they say what to set."""

    def __init__(self, prometheus: Prometheus | None, *, page: Callable[..., web.Response]) -> None:
        self._prometheus = prometheus
        self._page = page
        self._dashboards = read_dashboards()

    async def overview(self, _request: web.Request) -> web.Response:
        """Alerts now, and which dashboard answers what."""
        alerts, trouble = await self.alerts()
        return self._page(
            "dashboards.html", here="/dashboards", poll=REFRESH_S, on_events=False, alerts=alerts, trouble=trouble,
            dashboards=self._dashboards.values(), connected=self._prometheus is not None,
        )  # fmt: skip

    async def dashboard(self, request: web.Request) -> web.Response:
        """One dashboard, over the span of time and for the variables that the address says."""
        name = request.match_info["dashboard"]
        found = self._dashboards.get(name)
        if found is None:
            raise NotFound(f"there is no dashboard {name[:80]!r}: there are {', '.join(self._dashboards)}")
        chosen = {v.name: request.query.get(v.name, "")[:CHOICE_MAX] for v in found.variables}
        span = request.query.get("range", RANGE_DEFAULT)
        span = span if span in RANGES else RANGE_DEFAULT
        known: dict[str, Any] = {
            "here": "/dashboards", "dashboard": found, "dashboards": self._dashboards.values(), "span": span,
            "ranges": list(RANGES), "chosen": chosen, "address": _address, "size": SIZES,
        }  # fmt: skip
        if self._prometheus is None:
            return self._page("dashboard.html", rows=(), choices=(), alerts=(), trouble=None, connected=False, **known)
        scrape_s = await self._prometheus.scrape_s()
        moment = moment_of(now=time.time(), length_s=RANGES[span], scrape_s=scrape_s, chosen=chosen)
        choices = await choices_of(found, self._prometheus, moment)
        alerts, trouble = await self.alerts()
        rows = () if trouble else await draw(found, self._prometheus, moment)
        return self._page(
            "dashboard.html", poll=REFRESH_S, on_events=False, rows=rows, choices=choices, alerts=alerts,
            trouble=trouble, connected=True, **known,
        )  # fmt: skip

    async def close(self) -> None:
        """Close what is open to Prometheus."""
        if self._prometheus is not None:
            await self._prometheus.close()

    async def alerts(self) -> tuple[list[Alert], str | None]:
        """Pending and firing alerts, or why they are not known."""
        if self._prometheus is None:
            return [], None
        try:
            return await self._prometheus.alerts(), None
        except Unavailable as error:
            return [], str(error)


def runbook_of(alert: Alert) -> str | None:
    """Return where an alert's runbook is: the daemon's copy, or the address that the alert's rule gives."""
    own = runbook_address(alert.runbook)
    is_web = alert.runbook_url.startswith(("https://", "http://"))
    return own or (alert.runbook_url if is_web else None)


def _address(name: str, span: str, chosen: dict[str, str]) -> str:
    """Where a dashboard is, with what has been chosen."""
    asked = {"range": span, **{variable: value for variable, value in chosen.items() if value}}
    return f"/dashboards/{quote(name)}?{urlencode(asked)}"
