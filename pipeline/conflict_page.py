"""The conflict report as one page that needs nothing else: no script, no file beside it, no network.

Names of tables and writers come from outside: all of them are escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from firn.pipeline.conflict_report import HOUR_MS, ConflictReport, HourLine

TEMPLATES: Final = Path(__file__).parent / "templates"

BARS_MAX: Final = 24 * 14
"""Columns of the plot over time; when there are more hours, a column is a day."""

LINES_MAX: Final = 30
"""Tables, rules and pairs that are listed; the rest is counted."""

MATRIX_MAX: Final = 12
"""Writers on each side of the matrix of losers and winners."""


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One column of the plot over time, number `at` from 0; heights are shares of the highest of its kind."""

    at: int
    when: str
    committed: int
    rejected: int
    committed_share: float
    rejected_share: float


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """The plot over time: a column for each `unit`, without gaps."""

    unit: str
    bars: tuple[Bar, ...]
    rejected_max: int
    committed_max: int


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """Losers down, winners across; cells are rejections, `largest` is the greatest of them."""

    losers: tuple[str, ...]
    winners: tuple[str, ...]
    cells: tuple[tuple[int, ...], ...]
    largest: int
    left_out: int


def conflict_page(report: ConflictReport, *, now: datetime) -> str:
    """The page. `now` is when it was made."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["number"] = lambda value: f"{value:,}".replace(",", "\u202f")
    environment.filters["percent"] = lambda share: f"{100 * share:.3g} %"
    return environment.get_template("conflicts.html").render(
        report=report,
        timeline=timeline_of(report.hours),
        matrix=matrix_of(report),
        window=_window_text(report),
        made=_minute(int(now.timestamp() * 1000)),
        lines_max=LINES_MAX,
    )


def timeline_of(hours: Sequence[HourLine]) -> Timeline | None:
    """The plot over time; None when there is nothing in it."""
    if not hours:
        return None
    first, last = hours[0].hour_ms, hours[-1].hour_ms
    unit, step = ("hour", HOUR_MS) if (last - first) // HOUR_MS < BARS_MAX else ("day", 24 * HOUR_MS)
    committed: Counter[int] = Counter()
    rejected: Counter[int] = Counter()
    for hour in hours:
        committed[hour.hour_ms // step] += hour.committed
        rejected[hour.hour_ms // step] += hour.rejected
    columns = range(first // step, last // step + 1)
    committed_max, rejected_max = max(committed.values()), max(rejected.values())
    return Timeline(
        unit=unit,
        bars=tuple(
            Bar(
                at=at,
                when=_minute(column * step) if unit == "hour" else _minute(column * step)[:10],
                committed=committed[column],
                rejected=rejected[column],
                committed_share=committed[column] / max(1, committed_max),
                rejected_share=rejected[column] / max(1, rejected_max),
            )
            for at, column in enumerate(columns)
        ),
        rejected_max=rejected_max,
        committed_max=committed_max,
    )


def matrix_of(report: ConflictReport) -> Matrix | None:
    """Those who lose and those who win most often against each other; None without a rejection."""
    if not report.pairs:
        return None
    lost: Counter[str] = Counter()
    won: Counter[str] = Counter()
    counts = {(pair.loser, pair.winner): pair.rejected for pair in report.pairs}
    for (loser, winner), count in counts.items():
        lost[loser] += count
        won[winner] += count
    losers = tuple(name for name, _ in lost.most_common(MATRIX_MAX))
    winners = tuple(name for name, _ in won.most_common(MATRIX_MAX))
    cells = tuple(tuple(counts.get((loser, winner), 0) for winner in winners) for loser in losers)
    shown = sum(map(sum, cells))
    return Matrix(
        losers=losers, winners=winners, cells=cells, largest=max(map(max, cells)),
        left_out=sum(counts.values()) - shown,
    )  # fmt: skip


def _window_text(report: ConflictReport) -> str:
    window = report.window
    since = "the beginning" if window.since_ms is None else _minute(window.since_ms)
    until = "now" if window.until_ms is None else _minute(window.until_ms)
    return f"from {since} to {until}"


def _minute(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
