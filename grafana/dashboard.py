"""A dashboard: rows of panels, and Grafana's JSON of it."""

from __future__ import annotations

from typing import Any

import msgspec
from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, DashboardLinkType

from grafana.panels import SOURCE


class Dashboard(msgspec.Struct, frozen=True, kw_only=True):
    """One dashboard: rows of panels."""

    uid: str
    title: str
    question: str
    rows: tuple[tuple[str, tuple[Any, ...]], ...]
    per_table: bool = False


def built(described: Dashboard) -> str:
    """The dashboard as Grafana's JSON."""
    builder = (
        dashboard.Dashboard(described.title)
        .uid(described.uid)
        .description(described.question)
        .tags(["firn"])
        .refresh("10s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .readonly()
        .link(dashboard.DashboardLink("firn").type(DashboardLinkType.DASHBOARDS).tags(["firn"]).as_dropdown(False))  # noqa: FBT003 - the library's
    )
    if described.per_table:
        names = dashboard.QueryVariable("table").label("Table").datasource(SOURCE).multi(True).include_all(True)  # noqa: FBT003 - the library's
        builder = builder.with_variable(names.query("label_values(firn_table_snapshots, table)"))
    for title, panels in described.rows:
        builder = builder.with_row(dashboard.Row(title))
        for panel in panels:
            builder = builder.with_panel(panel)
    return JSONEncoder(sort_keys=True, indent=1).encode(builder.build()) + "\n"
