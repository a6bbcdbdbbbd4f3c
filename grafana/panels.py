"""The kinds of panels that the dashboards are made of, each with what firn wants of it."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from grafana_foundation_sdk.builders import bargauge, common, dashboard, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models.common import BigValueGraphMode, StackingMode
from grafana_foundation_sdk.models.dashboard import DataSourceRef, DataTransformerConfig, Threshold, ThresholdsMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

CLUSTER: Final = 'cluster=~"$cluster"'
_SELECTOR: Final = re.compile(r"\b((?:firn_|process_)\w+|up|ALERTS)\b(?:\{([^}]*)\})?")

SOURCE: Final = DataSourceRef(type_val="prometheus", uid="prometheus")


class Query(msgspec.Struct, frozen=True):
    """A PromQL expression and what its series are called."""

    expression: str
    legend: str = ""


def of_cluster(expression: str) -> str:
    """Narrow every selector of an expression to the cluster that is chosen on the dashboard."""
    return _SELECTOR.sub(lambda found: f"{found[1]}{{{f'{found[2]}, ' if found[2] else ''}{CLUSTER}}}", expression)


def lines(
    title: str, *queries: Query, unit: str = "short", about: str = "", stacked: bool = False, width: int = 8
) -> Any:
    """Values over time."""
    panel = timeseries.Panel().unit(unit).min(0).line_width(1).fill_opacity(25 if stacked else 6)
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    return _asked(_titled(panel, title, about=about, width=width, height=8), *queries)


def number(
    title: str, query: str, *, unit: str = "short", about: str = "", warn: float | None = None, bad: float | None = None
) -> Any:
    """One value now: green until it reaches `warn` or `bad`; without either it is not judged."""
    judged = warn is not None or bad is not None
    steps = [Threshold(value=None, color="green" if judged else "text")]
    steps += [Threshold(value=value, color=color) for value, color in ((warn, "orange"), (bad, "red")) if value]
    thresholds = dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)
    panel = stat.Panel().unit(unit).thresholds(thresholds).graph_mode(BigValueGraphMode.AREA).reduce_options(_newest())
    return _asked(_titled(panel, title, about=about, width=6, height=4), Query(query))


def spread(title: str, metric: str, *, about: str = "") -> Any:
    """A histogram over time."""
    query = Query(f"sum by (le) (rate({metric}_bucket[$__rate_interval]))", "{{le}}")
    panel = _titled(heatmap.Panel().unit("s"), title, about=about, width=8, height=8)
    return _asked(panel, query, form=PromQueryFormat.HEATMAP)


def bars(title: str, query: Query, *, unit: str = "short", about: str = "") -> Any:
    """Values now, side by side."""
    panel = bargauge.Panel().unit(unit).reduce_options(_newest())
    return _asked(_titled(panel, title, about=about, width=8, height=8), query, instant=True)


def listing(
    title: str, query: str, *columns: tuple[str, str], value: str | None = "intents", width: int = 12, about: str = ""
) -> Any:
    """Labels, by the names that are given, and the `value` (None: it says nothing), as a table."""
    titles = {**dict(columns), **({} if value is None else {"Value": value})}
    panel = table.Panel().with_transformation(
        DataTransformerConfig(
            id_val="organize",
            options={
                "excludeByName": {"Time": True, "Value": value is None},
                "indexByName": {name: position for position, name in enumerate(titles)},
                "renameByName": titles,
            },
        )
    )
    panel = _titled(panel, title, about=about, width=width, height=8)
    return _asked(panel, Query(query), instant=True, form=PromQueryFormat.TABLE)


def _newest() -> Any:
    return common.ReduceDataOptions().calcs(["lastNotNull"])


def _titled(panel: Any, title: str, *, about: str, width: int, height: int) -> Any:
    return panel.title(title).description(about).datasource(SOURCE).span(width).height(height)


def _asked(panel: Any, *queries: Query, instant: bool = False, form: PromQueryFormat | None = None) -> Any:
    for position, query in enumerate(queries):
        target = prometheus.Dataquery().ref_id(chr(ord("A") + position)).datasource(SOURCE)
        target = target.expr(of_cluster(query.expression))
        target = target.legend_format(query.legend or "__auto")
        target = target.instant() if instant else target.range()
        panel = panel.with_target(target if form is None else target.format(form))
    return panel
