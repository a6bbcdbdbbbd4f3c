"""A store that hangs under one table: its page says so, is not read twice for it, and keeps no other page back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import aiohttp
import pytest

from firn.coordinator.pages import store_reads
from firn.coordinator.pages.site import PARALLEL_MAX
from firn.coordinator.pages.store_reads import StoreReads
from firn.model.errors import NotFound, Unavailable
from firn.storage.failing_files import FailingFiles, Fault
from firn.storage.memory_files import MemoryFiles
from tests.unit.coordinator.lanes.test_pauses import until
from tests.unit.coordinator.pages.test_site import browsing, text_of
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create

SLOW = Fault(kind="slow")
GIVES_UP_S = 20.0


class HangingFiles(FailingFiles):
    """Files of which, once `hangs` is set, no read below the table returns until `goes_on` is."""

    def __init__(self) -> None:
        self.hangs = False
        self.goes_on = threading.Event()
        self.hanging = 0
        super().__init__(MemoryFiles(), self._fault, sleep=self._hang)

    def _fault(self, operation: str, location: str) -> Fault | None:
        return SLOW if self.hangs and operation == "read" and TABLE.replace(".", "/") in location else None

    def _hang(self, _seconds: float) -> None:
        self.hanging += 1
        self.goes_on.wait(GIVES_UP_S)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Iterator[HangingFiles]:
    monkeypatch.setattr(store_reads, "PATIENCE_S", 0.05)
    hanging = HangingFiles()
    yield hanging
    hanging.goes_on.set()


async def test_a_table_whose_store_hangs_is_shown_without_its_files_and_the_fleet_as_ever(files: HangingFiles) -> None:
    bench = Workbench(http_port=0, files=files)
    async with browsing(bench) as browser:
        await bench.commit(create())
        intent = append("a.parquet")
        await bench.commit(intent)
        files.hangs = True
        for _ in range(PARALLEL_MAX + 1):
            page = await text_of(browser, f"/tables/{TABLE}")
            assert "Its files are not shown" in page
            assert "the store has not answered for" in page
            assert "metadata.json" in page
        assert files.hanging == 1, "each look at it costs another thread"
        story = await text_of(browser, f"/intents/{intent.intent_id}?table={TABLE}")
        assert "Committed." in story
        assert "journal was not read" in story
        assert "All servers answer" in await text_of(browser, "/")
        files.hangs = False
        files.goes_on.set()
        await _shown_again(browser)


async def _shown_again(browser: aiohttp.ClientSession) -> None:
    async with asyncio.timeout(GIVES_UP_S):
        while True:
            if "Its files are not shown" not in await text_of(browser, f"/tables/{TABLE}"):
                return
            await asyncio.sleep(0.01)


async def test_who_waits_for_a_table_does_not_keep_those_who_look_at_the_fleet(
    files: HangingFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_reads, "PATIENCE_S", GIVES_UP_S)
    bench = Workbench(http_port=0, files=files)
    async with browsing(bench) as browser:
        await bench.commit(create())
        files.hangs = True
        waiting = [asyncio.create_task(text_of(browser, f"/tables/{TABLE}")) for _ in range(PARALLEL_MAX)]
        await until(lambda: files.hanging == PARALLEL_MAX)
        for path in ("/", "/tables", "/conflicts", "/events"):
            await text_of(browser, path)
        assert not any(one.done() for one in waiting)
        files.goes_on.set()
        await asyncio.gather(*waiting)


async def test_what_a_read_raises_is_raised_and_the_table_is_read_again() -> None:
    reads = StoreReads()

    def missing() -> str:
        raise NotFound("gone")

    with pytest.raises(NotFound, match="gone"):
        await reads.read(TABLE, missing)
    assert await reads.read(TABLE, lambda: "there") == "there"


async def test_a_read_that_fails_after_it_was_given_up_disturbs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_reads, "PATIENCE_S", 0.01)
    reads, goes_on = StoreReads(), threading.Event()

    def hangs() -> str:
        goes_on.wait(GIVES_UP_S)
        raise NotFound("gone")

    with pytest.raises(Unavailable, match="has not answered"):
        await reads.read(TABLE, hangs)
    goes_on.set()
    async with asyncio.timeout(GIVES_UP_S):
        while True:
            try:
                assert await reads.read(TABLE, lambda: "there") == "there"
                break
            except Unavailable:
                await asyncio.sleep(0.01)
