"""What the demo shows while it runs and at its end."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from firn.coordinator.demo.actors import Report
from firn.model.amounts import plural

WINDOW_S: Final = 5.0
"""Rates and latencies shown live are over this long."""
UNKNOWN: Final = "…"
"""Shown for what nothing is known of yet."""

_SAMPLE: Final = re.compile(r"^(firn_\w+?)(?:\{[^}]*\})? ([0-9.eE+-]+)$", re.MULTILINE)


class Scoreboard:
    """Gathers reports and the daemon's metrics."""

    def __init__(self, *, seconds: float) -> None:
        self.reports: list[Report] = []
        self._seconds = seconds
        self._started = time.monotonic()
        self._recent: deque[tuple[float, Report]] = deque()
        self._batches: deque[tuple[float, float, float]] = deque()
        self._lag: float | None = None

    def add(self, report: Report) -> None:
        """Take in one outcome; the first starts the clock, since processes take a while to load."""
        if not self.reports:
            self._started = time.monotonic()
        self.reports.append(report)
        self._recent.append((time.monotonic(), report))

    def read_metrics(self, text: str) -> None:
        """Take in the daemon's ``/metrics``."""
        sums: defaultdict[str, float] = defaultdict(float)
        for name, value in _SAMPLE.findall(text):
            sums[name] += float(value)
        self._batches.append((time.monotonic(), sums["firn_batch_intents_sum"], sums["firn_batch_intents_count"]))
        self._lag = sums["firn_lag_intents"] + sums["firn_pending_intents"]

    def live(self) -> RenderableType:
        """The display while the demo runs."""
        self._forget_old()
        left = max(0.0, self._seconds - (time.monotonic() - self._started))
        table = Table.grid(padding=(0, 3))
        for name, value in self._figures():
            table.add_row(Text(name, style="dim"), Text(value, style="bold"))
        bar = Text("█" * int(40 * (1 - left / self._seconds))) + Text("░" * int(40 * left / self._seconds), style="dim")
        return Panel(Group(table, bar), title=f"firn demo — {left:.0f} s left", expand=False)

    def line(self) -> str:
        """The same as one line, where there is no terminal."""
        self._forget_old()
        return "  ".join(f"{name}: {value}" for name, value in self._figures())

    def _figures(self) -> list[tuple[str, str]]:
        recent = [report for _, report in self._recent]
        span = min(WINDOW_S, max(0.5, time.monotonic() - self._started))
        latencies = sorted(report.latency_ms for report in recent)
        status = Counter(report.status for report in recent)
        total = Counter(report.status for report in self.reports)
        return [
            ("committed/s", f"{status['committed'] / span:.0f}"),
            ("rejected/s", f"{status['rejected'] / span:.1f}"),
            ("intents per batch", self._per_batch()),
            ("latency p50 / p99", _median_and_slow(latencies)),
            ("lag", UNKNOWN if self._lag is None else plural(round(self._lag), "intent")),
            ("total", f"{total['committed']} committed, {total['rejected']} rejected"),
        ]

    def _per_batch(self) -> str:
        if len(self._batches) < 2:
            return UNKNOWN
        (_, first_sum, first_count), (_, last_sum, last_count) = self._batches[0], self._batches[-1]
        batches = last_count - first_count
        return f"{(last_sum - first_sum) / batches:.1f}" if batches else UNKNOWN

    def _forget_old(self) -> None:
        limit = time.monotonic() - WINDOW_S
        while self._recent and self._recent[0][0] < limit:
            self._recent.popleft()
        while len(self._batches) > 2 and self._batches[0][0] < limit:
            self._batches.popleft()


def summary_table(reports: Sequence[Report], *, seconds: float) -> Table:
    """Outcomes and latencies by operation, over the whole run."""
    table = Table(title="summary", title_justify="left")
    for column in ("operation", "committed", "rejected", "unknown", "per second", "p50 ms", "p99 ms"):
        table.add_column(column, justify="left" if column == "operation" else "right")
    for operation in sorted({report.operation for report in reports}):
        own = [report for report in reports if report.operation == operation]
        status = Counter(report.status for report in own)
        latencies = sorted(report.latency_ms for report in own)
        table.add_row(
            operation,
            *(str(status[name]) for name in ("committed", "rejected", "unknown")),
            f"{status['committed'] / seconds:.1f}",
            f"{_quantile(latencies, 0.5):.0f}",
            f"{_quantile(latencies, 0.99):.0f}",
        )
    return table


def conflict_table(rejections: Sequence[dict[str, object]], *, limit: int) -> Table:
    """The conflict log: what was refused, by which rule, and who came first."""
    title = (
        f"conflict log ({len(rejections)} rejected" + (f", the last {limit}" if len(rejections) > limit else "") + ")"
    )
    table = Table(title=title, title_justify="left")
    for column in ("intent", "rule", "won by", "snapshot", "files", "hint"):
        table.add_column(column, overflow="fold")
    for data in rejections[-limit:]:
        table.add_row(
            Text(str(data.get("intent-id", ""))),
            Text(str(data.get("rule", ""))),
            Text(str(data.get("conflicting-writer", "—"))),
            Text(str(data.get("conflicting-snapshot-id", "—"))),
            Text(str(data.get("files-count", 0))),
            Text(str(data.get("hint", ""))),
        )
    return table


def _median_and_slow(ordered_ms: Sequence[float]) -> str:
    if not ordered_ms:
        return UNKNOWN
    return f"{_quantile(ordered_ms, 0.5):.0f} / {_quantile(ordered_ms, 0.99):.0f} ms"


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
