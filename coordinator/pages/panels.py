"""Dashboards with what Prometheus answers: every panel asked for, and made ready to be drawn."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from firn.coordinator.pages.charts import Chart, Stroke, heat_map, line_chart, spark_line
from firn.coordinator.pages.dashboard_files import Dashboard, Panel, Step, Variable
from firn.coordinator.pages.prometheus import Prometheus, Series, Span
from firn.coordinator.pages.units import told
from firn.model.errors import Unavailable

POINTS: Final = 120
"""Of each line, about: one for every few pixels of a chart."""

ROWS_MAX: Final = 30
CHOICES_MAX: Final = 500
ALL: Final = ".*"
VALUE: Final = "Value"
"""What Grafana calls the number beside the labels."""

RANGES: Final[Mapping[str, int]] = {"15m": 900, "1h": 3_600, "6h": 21_600, "24h": 86_400}
"""Spans of time that can be chosen, in seconds."""

JUDGED: Final[Mapping[str, str]] = {"green": "good", "orange": "warn", "red": "bad"}
_LEGEND: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A value of several side by side; `share` is its part of the largest, in per cent."""

    name: str
    value: str
    share: float


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """A panel as the page shows it: by its kind, one of these is there. `trouble` when it could not be asked for."""

    panel: Panel
    trouble: str | None = None
    chart: Chart | None = None
    value: str | None = None
    judged: str = ""
    spark: Stroke | None = None
    bars: tuple[Bar, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()

    @property
    def counted(self) -> bool:
        """Whether a table's last column is a number."""
        return not self.panel.columns or VALUE in dict(self.panel.columns)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        charted = self.chart is not None and (self.chart.strokes or self.chart.cells)
        return not (charted or self.value is not None or self.bars or self.rows)


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A variable, what there is to choose from, and what was chosen (empty: all)."""

    variable: Variable
    values: tuple[str, ...]
    chosen: str


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """What a dashboard is asked about: the span of time, the rates' window in seconds, the variables' values."""

    span: Span
    rate_s: int
    chosen: Mapping[str, str]

    def query(self, expression: str) -> str:
        """The expression with Grafana's variables filled in."""
        filled = expression.replace("$__rate_interval", f"{self.rate_s}s")
        for name, value in self.chosen.items():
            filled = filled.replace(f"${name}", pattern_of(value) if value else ALL)
        return filled


def moment_of(*, now: float, length_s: int, scrape_s: float, chosen: Mapping[str, str]) -> Moment:
    """The newest `length_s` seconds. A rate looks back far enough to have two points, however seldom there are any."""
    step = max(scrape_s, length_s / POINTS)
    end = now // scrape_s * scrape_s
    span = Span(start=end - length_s, end=end, step=step)
    return Moment(span=span, rate_s=round(max(4 * scrape_s, step + scrape_s)), chosen=chosen)


def pattern_of(value: str) -> str:
    """A regular expression for exactly this text, as it stands within the quotes of PromQL."""
    return re.escape(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


async def draw(dashboard: Dashboard, prometheus: Prometheus, moment: Moment) -> list[tuple[str, list[Drawn]]]:
    """Every row with its panels, asked for all at once. Raises nothing for want of an answer: the panel says so."""
    asked = [panel for row in dashboard.rows for panel in row.panels]
    answers = iter(await asyncio.gather(*(_drawn(panel, prometheus, moment) for panel in asked)))
    return [(row.title, [next(answers) for _ in row.panels]) for row in dashboard.rows]


async def choices_of(dashboard: Dashboard, prometheus: Prometheus, moment: Moment) -> tuple[Choice, ...]:
    """What there is to choose from; what was chosen is among it, even when nothing is known of it any more."""
    found = []
    for variable in dashboard.variables:
        chosen = moment.chosen.get(variable.name, "")
        try:
            values = await prometheus.values_of(variable.name, metric=moment.query(variable.metric), span=moment.span)
        except Unavailable:
            values = []  # every panel says why
        values = sorted({*values[:CHOICES_MAX], *([chosen] if chosen else [])})
        found.append(Choice(variable=variable, values=tuple(values), chosen=chosen))
    return tuple(found)


async def _drawn(panel: Panel, prometheus: Prometheus, moment: Moment) -> Drawn:
    try:
        if panel.kind in {"bargauge", "table"}:
            asked = [prometheus.now(moment.query(t.expr), at=moment.span.end) for t in panel.targets]
        else:
            asked = [prometheus.over_time(moment.query(t.expr), moment.span) for t in panel.targets]
        answers = await asyncio.gather(*asked)
    except Unavailable as error:
        return Drawn(panel=panel, trouble=str(error))
    named = [
        (name_of(series.labels, target.legend_format), series)
        for target, found in zip(panel.targets, answers, strict=True)
        for series in found
    ]
    match panel.kind:
        case "stat":
            return _stat(panel, named, moment)
        case "bargauge":
            return _bars(panel, named)
        case "table":
            return _table(panel, [series for _, series in named])
        case "heatmap":
            return Drawn(panel=panel, chart=heat_map(named, moment.span, unit=panel.unit) if named else None)
    if not named:
        return Drawn(panel=panel)
    return Drawn(panel=panel, chart=line_chart(named, moment.span, unit=panel.unit, stacked=panel.stacked))


def name_of(labels: Mapping[str, str], legend: str) -> str:
    """What a series is called: its legend filled in, or its labels."""
    if legend and legend != "__auto":
        return _LEGEND.sub(lambda found: labels.get(found[1], ""), legend)
    return ", ".join(f"{name} {value}" for name, value in labels.items()) or "value"


def judged_by(steps: Sequence[Step], value: float) -> str:
    """``good``, ``warn`` or ``bad`` by the thresholds, nothing where there are none."""
    reached = [step.color for step in steps if step.value is None or value >= step.value]
    return JUDGED.get(reached[-1], "") if reached else ""


def _stat(panel: Panel, named: Sequence[tuple[str, Series]], moment: Moment) -> Drawn:
    if not named:
        return Drawn(panel=panel)
    series = named[0][1]
    return Drawn(
        panel=panel, value=told(series.last, panel.unit), judged=judged_by(panel.steps, series.last),
        spark=spark_line(series, moment.span),
    )  # fmt: skip


def _bars(panel: Panel, named: Sequence[tuple[str, Series]]) -> Drawn:
    ordered = sorted(named, key=lambda pair: -pair[1].last)[:ROWS_MAX]
    most = max((series.last for _, series in ordered), default=0.0) or 1.0
    return Drawn(
        panel=panel,
        bars=tuple(
            Bar(name=name, value=told(series.last, panel.unit), share=round(100 * max(0.0, series.last) / most, 1))
            for name, series in ordered
        ),
    )


def _table(panel: Panel, found: Sequence[Series]) -> Drawn:
    labels = dict.fromkeys(name for series in found for name in series.labels)
    columns = panel.columns or (*((name, name) for name in labels), (VALUE, "value"))
    rows = tuple(
        tuple(told(series.last, panel.unit) if name == VALUE else series.labels.get(name, "") for name, _ in columns)
        for series in found[:ROWS_MAX]
    )
    return Drawn(panel=panel, columns=tuple(title for _, title in columns), rows=rows)
