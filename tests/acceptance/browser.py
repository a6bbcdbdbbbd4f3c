"""A real browser, and what must hold of every page in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

EXECUTABLE: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window; CI must have one."""
    if EXECUTABLE is None:
        if "CI" in os.environ:
            pytest.fail("CI must look at the pages: install chromium")
        pytest.skip("no chromium on PATH to look at the pages with")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=EXECUTABLE, args=["--no-sandbox"])
        yield started
        started.close()


def check_readable(page: Page) -> None:
    """It is live, has no fault that an accessibility checker finds, and is not wider than its screen."""
    expect(page.locator("#live")).to_have_text("live")
    found = Axe().run(page)
    assert found.violations_count == 0, f"{page.url}: {found.generate_report()}"
    too_wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert too_wide <= 0, page.url
    cut = page.evaluate(
        "innerWidth > 640 ? 0 : Math.max(0, ...[...document.querySelectorAll('.scroll:has(> table.stack)')]"
        ".map((region) => region.scrollWidth - region.clientWidth))"
    )
    assert cut <= 0, f"{page.url}: rows that are stacked on a phone are cut off at its edge"
