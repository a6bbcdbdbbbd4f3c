"""The list of tables: what is known of each, in bounded time and reads however many there are; ``?`` of all else."""

from __future__ import annotations

import re
import time

import aiohttp
import msgspec
import pytest

from firn.coordinator.lanes.lanes import Lanes
from firn.coordinator.pages import store_reads, table_facts, table_list
from firn.coordinator.pages.table_facts import RATE_MS, facts_of
from firn.coordinator.tables.table_reader import TableReader
from firn.model.metadata import TableMetadata
from tests.unit.coordinator.pages.test_site import browsing, text_of
from tests.unit.coordinator.pages.test_store_reads import HangingFiles
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create

COLUMNS = ("Name", "Last change", "Size", "Rows", "Commits", "History", "Daemon", "Waiting", "State")


async def rows(browser: aiohttp.ClientSession, query: str = "") -> dict[str, dict[str, str]]:
    """Each row's cells as text, by the table's name and the column's."""
    page = await text_of(browser, f"/tables{query}")
    found = {}
    for row in re.findall(r"<tr><td.*?</tr>", page, re.DOTALL):
        cells = re.findall(r'<td[^>]*data-label="([^"]*)"[^>]*>(.*?)</td>', row, re.DOTALL)
        told = {label: " ".join(re.sub(r"<[^>]+>", " ", cell).split()) for label, cell in cells}
        found[told["Name"].partition(" ")[0]] = told
    return found


async def test_a_table_is_listed_with_its_size_its_rate_and_its_history() -> None:
    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        await bench.commit(create())
        await bench.commit(create("db.empty"))
        for name in "abc":
            await bench.commit(append(name))
        found = await rows(browser)
    assert tuple(found[TABLE]) == COLUMNS
    assert re.fullmatch(r"[\d.]+ (B|KiB) 3 files", found[TABLE]["Size"])
    assert found[TABLE]["Rows"].isdecimal()
    assert found[TABLE]["Commits"] == "0.6/min"
    assert re.fullmatch(r"\d+ s 3 snapshots", found[TABLE]["History"])
    assert (found[TABLE]["Waiting"], found[TABLE]["State"]) == ("0", "good")
    assert (found["db.empty"]["Size"], found["db.empty"]["Rows"]) == ("0 B 0 files", "0")
    assert (found["db.empty"]["Commits"], found["db.empty"]["History"]) == ("0/s", "–")


async def test_what_a_store_does_not_tell_in_time_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_facts, "PATIENCE_S", 0.1)
    monkeypatch.setattr(store_reads, "PATIENCE_S", 60.0)
    files = HangingFiles()
    bench = Workbench(http_port=0, files=files)
    try:
        async with browsing(bench) as browser:
            await bench.commit(create())
            await bench.commit(create("db.other"))
            files.hangs = True
            for _ in range(3):
                began = time.monotonic()
                found = await rows(browser)
                assert time.monotonic() - began < 15
            assert files.hanging == 1, "each look at it costs another thread"
            assert (found[TABLE]["Size"], found[TABLE]["Rows"], found[TABLE]["Commits"]) == ("? ? files", "?", "?")
            assert found[TABLE]["History"] == "?"
            assert "still being read" in found[TABLE]["State"]
            assert found["db.other"]["Rows"] == "0"
            files.goes_on.set()
    finally:
        files.goes_on.set()


class CountingReads:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        metadata = TableReader.metadata

        def counted(reader: TableReader, location: str, *, digest: str | None = None) -> TableMetadata:
            self.count += 1
            return metadata(reader, location, digest=digest)

        monkeypatch.setattr(TableReader, "metadata", counted)


async def test_a_page_reads_its_own_tables_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_list, "TABLES_A_PAGE", 5)
    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        for number in range(12):
            await bench.commit(create(f"db.t{number:02}"))
        reads = CountingReads(monkeypatch)
        assert len(await rows(browser)) == 5
        assert reads.count == 5
        assert len(await rows(browser)) == 5
        assert reads.count == 5, "what has not moved was read again"
        await bench.commit(append("a", table="db.t00"))
        before = reads.count
        await rows(browser)
        assert reads.count == before, "a table that moves all the time was read for each look"
        monkeypatch.setattr(table_facts, "FRESH_S", 0.0)
        assert (await rows(browser))["db.t00"]["History"].endswith("1 snapshot")
        assert list(await rows(browser, "?page=3")) == ["db.t10", "db.t11"]
        assert list(await rows(browser, "?page=99")) == ["db.t10", "db.t11"]
        page = await text_of(browser, "/tables?contains=db&sort=name&page=2")
        assert '<a href="/tables?contains=db&amp;sort=name&amp;page=3">next</a>' in page
        assert '<option value="name" selected>' in page


async def test_it_is_sorted_by_the_last_change_while_that_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        for name in "abc":
            await bench.commit(create(f"db.{name}"))
        await bench.commit(append("x", table="db.b"))
        assert list(await rows(browser, "?sort=name")) == ["db.a", "db.b", "db.c"]
        assert next(iter(await rows(browser, "?sort=changed"))) == "db.b"
        monkeypatch.setattr(table_list, "DATED_MAX", 2)
        assert list(await rows(browser, "?sort=changed")) == ["db.a", "db.b", "db.c"]
        assert "Too many tables to sort them" in await text_of(browser, "/tables?sort=changed")
        assert "Too many" not in await text_of(browser, "/tables?sort=changed&contains=db.b")
        assert list(await rows(browser, "?sort=typo")) == ["db.a", "db.b", "db.c"]


async def test_what_waits_for_a_table_of_another_daemon_is_not_known_here() -> None:
    bench = Workbench(http_port=0)
    async with bench.daemon("a") as one:
        at_one = bench.url
        async with bench.daemon("b"), aiohttp.ClientSession(at_one) as first:
            for name in "abcdefgh":
                await bench.commit(create(f"db.{name}"))
            found = await rows(first)
            mine = one.lanes.tables()
            assert 0 < len(mine) < 8
            assert {name: row["Waiting"] for name, row in found.items()} == {
                name: "0" if name in mine else "?" for name in found
            }
            other = next(name for name in found if name not in mine)
            assert "only its daemon knows" in await text_of(first, f"/tables/{other}")


async def test_manifests_that_are_not_merged_are_on_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lanes, "unmerged", property(lambda _: {"db.other": "m1.avro: cannot be <merged>"}))
    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        await bench.commit(create())
        await bench.commit(create("db.other"))
        found = await rows(browser)
        assert list(found) == ["db.other", TABLE], "what needs somebody comes first"
        assert "m1.avro: cannot be &lt;merged&gt;" in found["db.other"]["State"]
        assert found[TABLE]["State"] == "good"


async def test_the_rate_of_a_history_that_was_cut_is_over_what_is_left() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        for name in "abcd":
            await bench.commit(append(name))
        metadata = await bench.metadata()
    snapshots = tuple(
        msgspec.structs.replace(one, timestamp_ms=1_000_000 + 10_000 * number)
        for number, one in enumerate(metadata.snapshots)
    )
    whole = msgspec.structs.replace(metadata, snapshots=snapshots)
    cut = msgspec.structs.replace(metadata, snapshots=snapshots[1:])
    now_ms = 1_000_000 + 40_000
    assert facts_of(whole, now_ms=now_ms).commits_per_s == pytest.approx(4 / (RATE_MS / 1000))
    assert facts_of(cut, now_ms=now_ms).commits_per_s == pytest.approx(3 / 30)
    assert facts_of(whole, now_ms=now_ms + 10 * RATE_MS).commits_per_s == 0.0
    foreign = msgspec.structs.replace(snapshots[-1], summary=None)
    bare = facts_of(msgspec.structs.replace(metadata, snapshots=(*snapshots[:-1], foreign)), now_ms=now_ms)
    assert (bare.bytes, bare.files, bare.records) == (None, None, None)
