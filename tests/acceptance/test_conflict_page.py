"""The conflict report's page in a real browser: seen on a phone and in the dark, and by assistive tools."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, sync_playwright

from firn.pipeline.conflict_page import conflict_page
from firn.pipeline.conflict_report import (
    HOUR_MS,
    UNNAMED,
    ConflictReport,
    HourLine,
    PairLine,
    RuleLine,
    TableLine,
    Window,
)

EXECUTABLE = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NOW = datetime(2026, 3, 8, 12, tzinfo=UTC)
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
LONG = "warehouse_with_a_long_name.events_of_the_northern_region_by_customer_and_day"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if EXECUTABLE is None:
        if "CI" in os.environ:
            pytest.fail("CI must look at the page: install chromium")
        pytest.skip("no chromium on PATH to look at the page with")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=EXECUTABLE, args=["--no-sandbox"])
        yield started
        started.close()


def busy_week() -> ConflictReport:
    """A week with compactions at night that lose, and a name that is markup."""
    dice = random.Random(7)
    start_ms = int(NOW.timestamp() * 1000) - 167 * HOUR_MS
    writers = ("compactor-0", "compactor-1", "merge-orders", "gdpr-deletes", "backfill", HOSTILE, UNNAMED)
    pairs = [
        PairLine(loser=loser, winner=winner, rejected=dice.randrange(1, 120))
        for loser in writers
        for winner in writers[:5]
        if dice.random() < 0.6
    ]
    hours = [
        HourLine(
            hour_ms=start_ms + hour * HOUR_MS,
            committed=dice.randrange(300, 2_000),
            rejected=dice.randrange(12) + (dice.randrange(60) if hour % 24 in (1, 2, 3) else 0),
        )
        for hour in range(168)
    ]
    rejected = sum(pair.rejected for pair in pairs)
    names = ("db.orders", "db.events", LONG, HOSTILE, "db.sessions")
    return ConflictReport(
        window=Window(since_ms=start_ms),
        committed=sum(hour.committed for hour in hours),
        rejected=rejected,
        tables=tuple(
            TableLine(table=name, committed=40_000 // (at + 1), rejected=rejected // 2 ** (at + 1))
            for at, name in enumerate(names)
        ),
        rules=(
            RuleLine(rule="missing-file", hint="replan", rejected=rejected // 2),
            RuleLine(rule="conflicting-data", hint="replan", rejected=rejected // 3),
            RuleLine(rule="row-conflict", hint="replan", rejected=rejected // 9),
            RuleLine(rule="partial-match", hint="narrow-filter", rejected=rejected // 18),
        ),
        pairs=tuple(sorted(pairs, key=lambda pair: -pair.rejected)),
        hours=tuple(hours),
    )


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_the_page_is_seen_and_heard_on_any_screen(browser: Browser, tmp_path: Path, width: int, scheme: str) -> None:
    path = tmp_path / "conflicts.html"
    path.write_text(conflict_page(busy_week(), now=NOW), encoding="utf-8")
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme="dark" if scheme == "dark" else "light"
    )
    errors: list[str] = []
    with context.new_page() as page:
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(path.as_uri())
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page is wider than the screen"
        assert page.title().startswith("firn: conflicts")
        bars = page.locator("svg .rejected")
        boxes = [bars.nth(at).bounding_box() for at in range(bars.count())]
        assert all(box is not None and box["width"] > 0.5 for box in boxes), "a bar has no width"
        plot = page.locator("figure svg").first.bounding_box()
        tallest = max((box["height"] for box in boxes if box is not None), default=0)
        assert plot is not None
        assert tallest == pytest.approx(plot["height"], abs=1)
    context.close()
    assert errors == []
