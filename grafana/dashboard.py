"""A dashboard: rows of panels, and Grafana's JSON of it."""

from __future__ import annotations

from typing import Any

import msgspec
from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, DashboardLinkType

from grafana.panels import SOURCE, of_cluster


class Dashboard(msgspec.Struct, frozen=True, kw_only=True):
    """One dashboard: rows of panels."""

    uid: str
    title: str
    question: str
    rows: tuple[tuple[str, tuple[Any, ...]], ...]
    per_table: bool = False


def _variable(label: str, title: str, *, metric: str) -> dashboard.QueryVariable:
    """Return a choice among the values that a label of a metric has; all of them also means: or no such label."""
    variable = dashboard.QueryVariable(label).label(title).datasource(SOURCE).query(f"label_values({metric}, {label})")
    return variable.multi(True).include_all(True).all_value(".*")  # noqa: FBT003 - the library's


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
    builder = builder.with_variable(_variable("cluster", "Cluster", metric="firn_build_info"))
    if described.per_table:
        builder = builder.with_variable(_variable("table", "Table", metric=of_cluster("firn_table_snapshots")))
    for title, panels in described.rows:
        builder = builder.with_row(dashboard.Row(title))
        for panel in panels:
            builder = builder.with_panel(panel)
    return JSONEncoder(sort_keys=True, indent=1).encode(builder.build()) + "\n"
