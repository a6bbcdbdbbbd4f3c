"""Charts and units: what is drawn is where its value is, gaps stay gaps, and numbers read as people say them."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.coordinator.pages.charts import (
    BOTTOM,
    HEAT_LEVELS,
    HEIGHT,
    LEFT,
    RIGHT,
    SERIES_MAX,
    TICKS_MAX,
    TOP,
    WIDTH,
    heat_map,
    line_chart,
    nice_ticks,
    time_ticks,
)
from firn.coordinator.pages.prometheus import Series, Span
from firn.coordinator.pages.units import told

SPAN = Span(start=1_000_020.0, end=1_000_920.0, step=10.0)
POINT = re.compile(r"([\d.]+) ([\d.]+)")


def series(*values: float | None, labels: dict[str, str] | None = None) -> Series:
    """Values at the beginning of the span, one a step; None: a gap."""
    points = tuple((SPAN.start + i * SPAN.step, v) for i, v in enumerate(values) if v is not None)
    return Series(labels=labels or {}, points=points)


def points_of(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in POINT.findall(path)]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "short", "0"),
        (41, "short", "41"),
        (1_500, "short", "1.5 k"),
        (0.0667, "ops", "0.0667/s"),
        (120.4, "ops", "120/s"),
        (0.0042, "s", "4.2 ms"),
        (0.00042, "s", "420 µs"),
        (95, "s", "95 s"),
        (180, "s", "3 min"),
        (7_200, "s", "2 h"),
        (259_200, "s", "3 d"),
        (0.256, "percentunit", "25.6 %"),
        (131 * 2**20, "bytes", "131 MiB"),
        (5.72 * 2**20, "Bps", "5.72 MiB/s"),
        (100, "bytes", "100 B"),
        (math.nan, "s", "–"),
    ],
)
def test_numbers_read_as_people_say_them(value: float, unit: str, text: str) -> None:
    assert told(value, unit) == text


@given(st.floats(min_value=1e-6, max_value=1e15), st.sampled_from(["short", "bytes", "s"]))
def test_an_axis_has_few_round_ticks_and_holds_the_highest_value(most: float, unit: str) -> None:
    ticks = nice_ticks(most, unit=unit)
    assert ticks[0] == 0
    assert ticks[-1] >= most * (1 - 1e-9)
    assert 2 <= len(ticks) <= TICKS_MAX
    steps = [b - a for a, b in pairwise(ticks)]
    assert max(steps) == pytest.approx(min(steps))


@pytest.mark.parametrize("length_s", [900, 3_600, 21_600, 86_400])
def test_a_time_axis_has_marks_that_do_not_run_into_one_another(length_s: int) -> None:
    ticks = time_ticks(Span(start=1_000_000.0, end=1_000_000.0 + length_s, step=length_s / 120))
    assert len(ticks) >= 3
    assert all(b.at - a.at >= 50 for a, b in pairwise(ticks))


def test_a_value_is_drawn_where_its_axis_says() -> None:
    chart = line_chart([("a", series(0, 5, 10))], SPAN, unit="short", stacked=False)
    (stroke,) = chart.strokes
    heights = [y for _, y in points_of(stroke.line)]
    assert heights == [HEIGHT - BOTTOM, (HEIGHT - BOTTOM + TOP) / 2, TOP]
    assert {tick.text: tick.at for tick in chart.y_ticks}["10"] == TOP
    assert points_of(stroke.line)[0][0] == LEFT


def test_stacked_series_lie_on_one_another() -> None:
    chart = line_chart([("a", series(2, 2)), ("b", series(2, 2))], SPAN, unit="short", stacked=True)
    lower, upper = ([y for _, y in points_of(stroke.line)] for stroke in chart.strokes)
    assert all(above < below for above, below in zip(upper, lower, strict=True))
    assert points_of(chart.strokes[1].area)[-1][1] == lower[0]
    assert chart.strokes[1].now == "–", "it ended long before now"


def test_a_gap_in_the_data_is_a_gap_in_the_line() -> None:
    chart = line_chart([("a", series(1, 1, None, None, 1, 1))], SPAN, unit="short", stacked=False)
    assert chart.strokes[0].line.count("M") == 2


def test_a_chart_draws_the_loudest_and_says_how_many_it_leaves_out() -> None:
    many = [(str(i), series(i, i)) for i in range(SERIES_MAX + 3)]
    chart = line_chart(many, SPAN, unit="short", stacked=False)
    assert chart.left_out == 3
    assert [stroke.name for stroke in chart.strokes] == [str(i) for i in range(3, SERIES_MAX + 3)]
    assert "14: now –, at most 14" in chart.spoken


def test_a_heat_map_shows_what_each_bucket_adds() -> None:
    """Buckets are cumulative: 10 up to 1 s and 12 up to 5 s are 10 and 2, the rest is empty."""
    buckets = [("0.5", series(0, 0)), ("1", series(10, 10)), ("5", series(12, 12)), ("+Inf", series(12, 12))]
    chart = heat_map(buckets, SPAN, unit="s")
    assert {(cell.level, cell.text) for cell in chart.cells} == {
        (HEAT_LEVELS, "up to 1 s: 10/s"),
        (1, "up to 5 s: 2/s"),
    }
    assert all(cell.x >= LEFT and cell.x + cell.width <= WIDTH - RIGHT + 0.1 for cell in chart.cells)
    assert "1 s" in chart.spoken
