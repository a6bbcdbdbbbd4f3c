"""The ops page in a real browser: clicked through, live, on a phone, in the dark, attacked, and for assistive tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from firn import ContentFile, RejectedError
from tests.acceptance.browser import check_readable, chromium
from tests.acceptance.stack import SCHEMA, DaemonProcess, Stack

TABLE = "shop.orders"
HOSTILE = 'shop.<img src=x onerror="document.title=1">'
LONG = "warehouse_with_a_long_name.events_of_the_northern_region_by_customer_and_day_" + "and_hour_" * 12
PAGES = [
    "/", "/tables", f"/tables/{TABLE}", "/conflicts", "/events", "/events?outcome=rejected", "/dashboards",
    "/docs/runbooks/servers.md",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def daemon(stack: Stack) -> DaemonProcess:
    """A daemon with a table that has a branch and a tag, rejections, and a table whose name is markup."""
    process = stack.daemon()
    with stack.client() as client:
        client.create_table(TABLE, SCHEMA).committed(30)
        client.create_table(HOSTILE, SCHEMA, location=f"{stack.warehouse}/hostile").committed(30)
        client.create_table(LONG, SCHEMA, location=f"{stack.warehouse}/long").committed(30)
        base = client.append(TABLE, [data_file(stack, 1)], writer="etl").committed(30).snapshot_id
        assert base is not None
        client.create_branch(TABLE, "audit", snapshot_id=base).committed(30)
        client.create_tag(TABLE, "month-end", snapshot_id=base).committed(30)
        client.append(TABLE, [data_file(stack, 2)], writer="etl").committed(30)
        for table, writer in ((TABLE, "cleaner"), (HOSTILE, HOSTILE), (LONG, LONG)):
            with pytest.raises(RejectedError):
                client.delete_files(table, ["/nowhere.parquet"], writer=writer).committed(30)
    return process


def data_file(stack: Stack, number: int) -> ContentFile:
    """A file of the table, which nobody reads here."""
    return ContentFile(
        file_path=f"{stack.warehouse}/shop/orders/data/{number}.parquet", file_format="parquet", spec_id=0,
        record_count=10, file_size_in_bytes=1_000,
    )  # fmt: skip


@pytest.fixture
def page(browser: Browser, daemon: DaemonProcess) -> Iterator[Page]:
    """A page in a new window; whatever its console complains of fails the test."""
    context = browser.new_context(base_url=daemon.http, viewport={"width": 1300, "height": 900})
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    context.close()
    assert [text for text in complaints if "ERR_CONNECTION_REFUSED" not in text] == []


def test_an_operator_finds_out_what_was_refused_and_by_whom(page: Page) -> None:
    """From the fleet to the conflict log, to one rule, to the story of the intent, to its table."""
    page.goto("/")
    expect(page.get_by_text("All servers answer")).to_be_visible()
    page.get_by_role("link", name="Conflicts").click()
    page.get_by_label("Writer").fill("cleaner")
    page.get_by_role("button", name="Show").click()
    row = page.get_by_role("row").nth(1)
    expect(row).to_contain_text("missing-file")
    expect(row).to_contain_text("/nowhere.parquet")
    row.locator("a.mono").click()
    expect(page.get_by_text("Rejected: missing-file")).to_be_visible()
    page.get_by_role("link", name=TABLE).click()
    expect(page.get_by_role("heading", name=TABLE)).to_be_visible()
    expect(page.get_by_text("tag month-end")).to_be_visible()
    expect(page.locator(".graph circle")).to_have_count(2)


def test_an_open_page_shows_a_commit_without_being_asked(page: Page, stack: Stack) -> None:
    page.goto(f"/tables/{TABLE}")
    expect(page.locator("#live")).to_have_text("live")
    expect(page.locator(".graph circle")).to_have_count(2)
    with stack.client() as client:
        client.append(TABLE, [data_file(stack, 3)], writer="latecomer").committed(30)
    expect(page.get_by_text("1 intent of latecomer")).to_be_visible(timeout=10_000)
    expect(page.locator(".graph circle")).to_have_count(3)


def test_a_live_page_leaves_the_keyboard_and_what_is_marked_where_they_are(page: Page, stack: Stack) -> None:
    """Who goes through it by keys goes on from where they were; who marks an id to copy it has time to."""
    page.goto(f"/tables/{TABLE}")
    expect(page.locator("#live")).to_have_text("live")
    batches = page.get_by_role("region", name="Batches")
    link = batches.get_by_role("link").last
    link.focus()
    where = link.get_attribute("href")
    with stack.client() as client:
        client.append(TABLE, [data_file(stack, 4)], writer="first").committed(30)
        expect(page.get_by_text("1 intent of first")).to_be_visible(timeout=10_000)
        assert page.evaluate("document.activeElement.getAttribute('href')") == where
        page.locator("h1").select_text()
        client.append(TABLE, [data_file(stack, 5)], writer="second").committed(30)
        page.wait_for_timeout(2_500)
        assert page.evaluate("getSelection().toString()").strip() == TABLE
        page.evaluate("getSelection().removeAllRanges()")
        expect(page.get_by_text("1 intent of second")).to_be_visible(timeout=10_000)


def test_markup_in_names_is_text(page: Page) -> None:
    """A table and a writer whose name is an image that runs a script: shown as written, on every page that has it."""
    for path in ("/tables", "/conflicts", "/events", "/"):
        page.goto(path)
        expect(page.locator("main")).to_contain_text(HOSTILE)
        assert page.locator("img").count() == 0
        assert page.title() != "1"
    page.goto("/tables")
    page.locator('a[href^="/tables/shop.%3C"]').click()
    expect(page.locator("h1")).to_have_text(HOSTILE)


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 390),
        ("dark", 1300),
        pytest.param("dark", 390, marks=pytest.mark.long),
        pytest.param("light", 1300, marks=pytest.mark.long),
    ],
)
def test_everybody_can_read_it(
    browser: Browser, daemon: DaemonProcess, scheme: str, width: int, tmp_path: Path
) -> None:
    """No page has a fault that an accessibility checker finds, nor is wider than the screen it is shown on."""
    context = browser.new_context(
        base_url=daemon.http,
        viewport={"width": width, "height": 800},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    opened = context.new_page()
    for number, path in enumerate(PAGES):
        opened.goto(path)
        check_readable(opened)
        opened.screenshot(path=tmp_path / f"{number}-{scheme}-{width}.png")
    context.close()


def test_a_page_says_that_the_daemon_is_gone(page: Page, daemon: DaemonProcess) -> None:
    page.goto("/")
    expect(page.locator("#live")).to_have_text("live")
    assert daemon.terminate() == 0
    expect(page.locator("#live")).to_contain_text("does not answer", timeout=15_000)
    page.goto("about:blank")


def test_a_redis_that_hangs_is_a_question_mark_with_its_reason_and_its_runbook(
    page: Page, stack: Stack, daemon: DaemonProcess
) -> None:
    waiting = page.locator("dl.cards div", has_text="Waiting intents").locator("dd")
    page.goto("/")
    expect(waiting).to_have_text("0")
    stack.redis_server.pause()
    try:
        expect(waiting).to_contain_text("?", timeout=15_000)
        expect(waiting).to_contain_text("Redis does not answer")
        page.get_by_role("link", name="Runbook").first.click()
        expect(page.locator("#firnredisaway")).to_be_visible(timeout=15_000)
    finally:
        stack.redis_server.resume()
    page.goto("/")
    expect(waiting).to_have_text("0", timeout=15_000)
