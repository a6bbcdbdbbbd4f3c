"""Charts as the shapes of an SVG: where lines, areas, cells and ticks are drawn. Pure: series in, pixels out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from firn.coordinator.pages.prometheus import Series, Span
from firn.coordinator.pages.units import base_of, told

WIDTH: Final = 480
HEIGHT: Final = 200
LEFT: Final = 58
RIGHT: Final = 8
TOP: Final = 8
BOTTOM: Final = 22

SERIES_MAX: Final = 12
"""Lines of one chart: those with the highest values. The legend says how many are left out."""

COLORS: Final = 12
"""Classes ``c0`` … that the style sheet has colours for."""

TICKS_MAX: Final = 5
HEAT_LEVELS: Final = 5
HEAT_COLUMNS_MAX: Final = 60


class Tick(msgspec.Struct, frozen=True):
    """A mark of an axis, in pixels from the left or the top, and what it says."""

    at: float
    text: str


class Stroke(msgspec.Struct, frozen=True, kw_only=True):
    """A series as it is drawn: `line` and `area` are SVG paths; `now` and `most` are told in the legend."""

    name: str
    color: int
    line: str
    area: str
    now: str
    most: str


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell of a heat map, `level` 1 (few) to 5 (most)."""

    x: float
    y: float
    width: float
    height: float
    level: int
    text: str


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A drawing of `WIDTH` by `HEIGHT`. `left_out` series are not in it; `spoken` says in words what it shows."""

    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    strokes: tuple[Stroke, ...] = ()
    cells: tuple[Cell, ...] = ()
    left_out: int = 0
    spoken: str = ""


def line_chart(named: Sequence[tuple[str, Series]], span: Span, *, unit: str, stacked: bool) -> Chart:
    """Values over time. Stacked series lie on one another, in the order of the legend."""
    loudest = sorted(named, key=lambda pair: -max(value for _, value in pair[1].points))
    shown = sorted(loudest[:SERIES_MAX], key=lambda pair: [n[0] for n in named].index(pair[0]))
    floors: dict[float, float] = {}
    tops: list[list[tuple[float, float, float]]] = []  # of each series: time, from, to
    for _, series in shown:
        laid = []
        for at, value in series.points:
            floor = floors.get(round(at, 3), 0.0) if stacked else 0.0
            laid.append((at, floor, floor + value))
            floors[round(at, 3)] = floor + value
        tops.append(laid)
    marks = nice_ticks(max((top for laid in tops for _, _, top in laid), default=0.0), unit=unit)
    most = marks[-1]
    strokes = tuple(
        Stroke(
            name=name, color=position % COLORS, now=told(series.last, unit) if _is_now(series, span) else "–",
            most=told(max(value for _, value in series.points), unit), **_paths(laid, span, most=most),
        )
        for position, ((name, series), laid) in enumerate(zip(shown, tops, strict=True))
    )  # fmt: skip
    return Chart(
        x_ticks=time_ticks(span),
        y_ticks=tuple(Tick(_y(mark, most), told(mark, unit)) for mark in marks),
        strokes=strokes,
        left_out=len(named) - len(shown),
        spoken="; ".join(f"{stroke.name}: now {stroke.now}, at most {stroke.most}" for stroke in strokes),
    )


def heat_map(named: Sequence[tuple[str, Series]], span: Span, *, unit: str) -> Chart:
    """A histogram over time, from its cumulative buckets, each named by its upper bound: the more, the darker."""
    buckets = sorted((float(name), series) for name, series in named)
    every = max(1, math.ceil((span.end - span.start) / span.step / HEAT_COLUMNS_MAX))
    times = sorted({at for _, series in buckets for at, _ in series.points})[::every]
    below = dict.fromkeys(times, 0.0)
    counts: list[tuple[float, dict[float, float]]] = []
    for bound, series in buckets:
        cumulative = dict(series.points)
        row = {at: max(0.0, cumulative.get(at, below[at]) - below[at]) for at in times}
        below = {at: max(below[at], cumulative.get(at, below[at])) for at in times}
        counts.append((bound, row))
    filled = [i for i, (_, row) in enumerate(counts) if any(row.values())]
    counts = counts[filled[0] : filled[-1] + 1] if filled else []
    most = max((count for _, row in counts for count in row.values()), default=0.0)
    height = (HEIGHT - TOP - BOTTOM) / max(1, len(counts))
    width = (WIDTH - LEFT - RIGHT) * span.step * every / (span.end - span.start)
    cells = tuple(
        Cell(
            x=round(_x(at, span), 1), y=round(HEIGHT - BOTTOM - (i + 1) * height, 1),
            width=round(min(width, WIDTH - RIGHT - _x(at, span)), 1), height=round(height, 1),
            level=math.ceil(count / most * HEAT_LEVELS), text=f"up to {_bound(bound, unit)}: {told(count, 'ops')}",
        )
        for i, (bound, row) in enumerate(counts) for at, count in row.items() if count > 0
    )  # fmt: skip
    labels = range(0, len(counts), max(1, math.ceil(len(counts) / TICKS_MAX)))
    busiest = max(counts, key=lambda pair: sum(pair[1].values()), default=None)
    return Chart(
        x_ticks=time_ticks(span),
        y_ticks=tuple(
            Tick(round(HEIGHT - BOTTOM - (i + 1) * height, 1), _bound(counts[i][0], unit)) for i in labels
        ),
        cells=cells,
        spoken="" if busiest is None else f"most take up to {_bound(busiest[0], unit)}",
    )  # fmt: skip


def spark_line(series: Series, span: Span) -> Stroke:
    """The course of one number, filled, for a drawing of the same size without axes."""
    laid = [(at, 0.0, value) for at, value in series.points]
    most = max(1e-12, *(value for _, value in series.points)) * 1.2
    return Stroke(name="", color=0, now="", most="", **_paths(laid, span, most=most))


def _bound(value: float, unit: str) -> str:
    return "more" if math.isinf(value) else told(value, unit)


def nice_ticks(most: float, *, unit: str) -> tuple[float, ...]:
    """Round numbers from 0 to `most` or a little above it; at least two."""
    if most <= 0:
        return (0.0, 1.0)
    base = base_of(unit)
    magnitude = base ** math.floor(math.log(most, base))
    factors = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256) if base != 10 else (0.2, 0.25, 0.5, 1, 2, 2.5, 5)
    for factor in factors:
        step = factor * magnitude
        count = math.ceil(most / step - 1e-9)
        if count <= TICKS_MAX - 1:
            return tuple(i * step for i in range(count + 1))
    return (0.0, most)


def time_ticks(span: Span) -> tuple[Tick, ...]:
    """Round moments (UTC) of the time axis."""
    steps = (60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600)
    step = next((s for s in steps if (span.end - span.start) / s <= TICKS_MAX + 1), 21_600)
    first = math.ceil(span.start / step) * step
    moments = range(first, int(span.end) + 1, step)
    return tuple(
        Tick(round(_x(at, span), 1), f"{datetime.fromtimestamp(at, tz=UTC):%H:%M}")
        for at in moments
        if LEFT + 16 <= _x(at, span) <= WIDTH - RIGHT - 14
    )


def _paths(laid: Sequence[tuple[float, float, float]], span: Span, *, most: float) -> dict[str, str]:
    """Line and area; a gap in the data is a gap in the drawing."""
    lines, areas = [], []
    for run in _runs(laid, span):
        upper = [f"{_x(at, span):.1f} {_y(top, most):.1f}" for at, _, top in run]
        lower = [f"{_x(at, span):.1f} {_y(floor, most):.1f}" for at, floor, _ in reversed(run)]
        if len(run) == 1:  # one point alone would be invisible
            upper.append(f"{_x(run[0][0], span) + 2:.1f} {_y(run[0][2], most):.1f}")
        lines.append("M" + "L".join(upper))
        areas.append("M" + "L".join((*upper, *lower)) + "Z")
    return {"line": "".join(lines), "area": "".join(areas)}


def _runs(laid: Sequence[tuple[float, float, float]], span: Span) -> list[list[tuple[float, float, float]]]:
    runs: list[list[tuple[float, float, float]]] = []
    for point in laid:
        if not runs or point[0] - runs[-1][-1][0] > 1.5 * span.step:
            runs.append([])
        runs[-1].append(point)
    return runs


def _is_now(series: Series, span: Span) -> bool:
    return span.end - series.points[-1][0] <= 1.5 * span.step


def _x(at: float, span: Span) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (at - span.start) / (span.end - span.start)


def _y(value: float, most: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most)
