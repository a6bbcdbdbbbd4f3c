"""The ops page on a daemon with twins: what it shows is true and escaped, and it changes nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp
import pytest

from firn.coordinator.http_server import SHUTDOWN_S
from firn.coordinator.lanes.lanes import Lanes
from firn.coordinator.operations import bulletin, fleet
from firn.coordinator.pages import snapshot_graph
from firn.coordinator.pages.live import BACKLOG_MAX, Happened, LiveEvents
from firn.model.consumer import Consumer
from firn.model.errors import CorruptFile, Unavailable
from firn.model.operations.refs import CreateBranch, CreateTag
from firn.storage.consumers import Consumers
from firn.storage.membership import Membership
from firn.storage.memory_files import MemoryFiles
from firn.storage.memory_streams import MemoryStreams
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, delete, new_id

INTENT = "0196f1c2-0000-7000-8000-000000000001"
HOSTILE = 'db.<script>alert("x")</script>'
PAGES = ["/", "/tables", f"/tables/{TABLE}", "/conflicts", "/events", f"/intents/{INTENT}", "/tables/no.such"]


@asynccontextmanager
async def browsing(bench: Workbench) -> AsyncIterator[aiohttp.ClientSession]:
    async with bench.daemon(), aiohttp.ClientSession(bench.url) as browser:
        yield browser


async def text_of(browser: aiohttp.ClientSession, path: str, *, status: int = 200) -> str:
    async with browser.get(path) as answer:
        assert answer.status == status, await answer.text()
        return await answer.text()


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_forbids_foreign_content_and_frames(path: str) -> None:
    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        await bench.commit(create())
        async with browser.get(path) as answer:
            assert answer.status == (404 if "no.such" in path else 200), await answer.text()
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            page = await answer.text()
            assert "<script>" not in page
            assert " style=" not in page
            assert " on" + "click" not in page


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_nothing_can_be_changed(method: str) -> None:
    async with browsing(Workbench(http_port=0)) as browser:
        for path in ("/", "/tables", f"/tables/{TABLE}", "/conflicts"):
            async with browser.request(method, path) as answer:
                assert answer.status == 405


async def test_a_name_that_is_markup_is_shown_and_not_run() -> None:
    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        await bench.commit(create(HOSTILE, location=f"{bench.warehouse}/hostile"))
        await bench.refuse(delete("missing.parquet", table=HOSTILE, writer='<img src=x onerror="alert(1)">'))
        listed = await text_of(browser, "/tables")
        assert "&lt;script&gt;alert" in listed
        for path in ("/tables", "/conflicts", "/events", "/", f"/tables/{HOSTILE.replace('/', '%2F')}"):
            page = await text_of(browser, path)
            assert "<script>alert" not in page
            assert "<img" not in page


async def test_a_table_shows_who_committed_and_where_it_branched() -> None:
    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        await bench.commit(create())
        await bench.commit(append("a.parquet", writer="etl-7"))
        page = await text_of(browser, f"/tables/{TABLE}")
        metadata = await bench.metadata()
        assert str(metadata.current_snapshot_id) in page
        assert "etl-7" in page
        assert ">main<" in page
        assert metadata.location in page
        assert ">Oldest snapshot<" in page
        assert ">Every snapshot since<" in page
        assert '>Bases are valid for</dt><dd class="small">24 h<' in page


async def test_conflicts_are_filtered_by_table_rule_and_writer() -> None:
    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        await bench.commit(create())
        await bench.refuse(delete("gone.parquet", writer="cleaner"))
        assert "cleaner" in await text_of(browser, "/conflicts?rule=missing-file")
        assert "cleaner" in await text_of(browser, f"/conflicts?table={TABLE}&writer=cleaner")
        for other in ("rule=duplicate-file", "table=db.other", "writer=somebody"):
            assert "No conflicts" in await text_of(browser, f"/conflicts?{other}")


async def test_the_story_of_an_intent_says_why_it_was_refused() -> None:
    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        await bench.commit(create())
        intent = delete("gone.parquet")
        refused = await bench.refuse(intent)
        page = await text_of(browser, f"/intents/{intent.intent_id}?table={TABLE}")
        assert refused.rule in page
        assert "gone.parquet" in page
        assert "batch" in page
        assert "Not found" in await text_of(browser, "/intents/whatever", status=404)


async def test_a_trace_is_a_link_to_where_traces_are_shown() -> None:
    bench = Workbench(http_port=0, trace_url="https://traces.example/t/{trace}?org=1")
    async with browsing(bench) as browser:
        await bench.commit(create())
        intent = append("a", traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        await bench.commit(intent)
        hostile = append("b", summary={"trace-id": '"><script>/../?'})
        await bench.commit(hostile)
        page = await text_of(browser, f"/intents/{intent.intent_id}?table={TABLE}")
        assert 'href="https://traces.example/t/4bf92f3577b34da6a3ce929d0e0e4736?org=1"' in page
        page = await text_of(browser, f"/intents/{hostile.intent_id}?table={TABLE}")
        assert 'href="https://traces.example/t/%22%3E%3Cscript%3E%2F..%2F%3F?org=1"' in page


async def test_what_is_not_there_is_said_so() -> None:
    async with browsing(Workbench(http_port=0)) as browser:
        assert "there is no table or view" in await text_of(browser, "/tables/no.such", status=404)
        for path in ("/static/../site.py", "/static/site.py", "/static/%2e%2e/site.py"):
            async with browser.get(path) as answer:
                assert answer.status == 404


async def test_a_server_that_is_away_is_a_trouble_on_the_page_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Workbench(http_port=0)

    async def away(*_arguments: object, **_more: object) -> None:
        raise Unavailable("Redis does not answer")

    async with browsing(bench) as browser:
        await bench.commit(create())
        assert "Something is wrong" not in await text_of(browser, "/")
        with monkeypatch.context() as patch:
            patch.setattr(MemoryStreams, "lag", away)
            patch.setattr(MemoryStreams, "newest_events", away)
            page = await text_of(browser, "/")
            assert "Something is wrong" in page
            assert "Redis does not answer" in page
            assert "Not now" in await text_of(browser, "/events", status=503)
        assert "Something is wrong" not in await text_of(browser, "/")


async def test_a_mistake_of_ours_is_a_page_and_a_log_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_arguments: object, **_more: object) -> None:
        raise ZeroDivisionError

    async with browsing(Workbench(http_port=0)) as browser:
        monkeypatch.setattr(MemoryStreams, "newest_events", broken)
        assert "ZeroDivisionError" in await text_of(browser, "/events", status=500)


async def test_open_pages_are_told_what_happens() -> None:
    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        await bench.commit(create())
        async with browser.get("/live") as stream:
            await asyncio.sleep(0.05)  # it listens from its first event on
            await bench.commit(append("a.parquet"))
            async with asyncio.timeout(10):
                lines = b""
                while b"firn.table.committed" not in lines:
                    lines += await stream.content.readline()
            assert TABLE.encode() in lines


async def test_a_page_that_is_slow_holds_up_nobody() -> None:
    bench = Workbench(http_port=0)
    live = LiveEvents(bench.streams)
    async with live.listening() as slow:
        for number in range(3 * BACKLOG_MAX):
            live._tell(Happened(type="firn.table.committed", subject=str(number)))
        assert slow.qsize() == BACKLOG_MAX
        assert slow.get_nowait() == Happened(type="firn.table.committed", subject=str(2 * BACKLOG_MAX))


async def test_an_open_page_does_not_hold_up_the_daemons_end() -> None:
    bench = Workbench(http_port=0)
    async with aiohttp.ClientSession() as browser:
        async with bench.daemon():
            stream = await browser.get(f"{bench.url}/live")
            await asyncio.sleep(0.05)
            ends_at = asyncio.get_running_loop().time() + SHUTDOWN_S
        assert asyncio.get_running_loop().time() < ends_at, "it was waited for until it was cut off"
        stream.close()


async def test_a_server_that_keeps_silent_does_not_keep_whoever_looks_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ZooKeeper without a quorum refuses nothing, and answers nothing; nobody then knows who reads what."""

    async def silence(_membership: Membership) -> dict[int, str]:
        await asyncio.Event().wait()
        raise AssertionError

    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        monkeypatch.setattr(fleet, "ANSWER_S", 0.2)
        monkeypatch.setattr(Membership, "owners", silence)
        page = await text_of(browser, "/")
    assert "ZooKeeper does not answer within" in page
    assert "nobody" not in page
    assert "<dt>Daemons</dt><dd>?<small>ZooKeeper does not answer within" in page
    assert '<dt>Tables and views</dt><dd><a href="/tables">0</a></dd>' in page, "this was answered"


class Full(MemoryFiles):
    """A store that takes nothing more of one table once it is `full`."""

    full = False

    def create_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        if self.full and any("/db/events/" in location for location, _ in files):
            raise Unavailable("No space left on device")
        super().create_all(files)


async def test_every_daemon_says_what_another_is_stuck_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why a table stalls is known to the daemon that has it; whoever looks need not know which that is."""
    monkeypatch.setattr(bulletin, "LOOK_S", 0.02)
    files = Full()
    bench = Workbench(http_port=0, files=files)
    async with bench.daemon("a") as one:
        at_one = bench.url
        async with bench.daemon("b"), aiohttp.ClientSession(at_one) as first:
            at_other = bench.url
            async with aiohttp.ClientSession(at_other) as second:
                await bench.commit(create())
                await bench.commit(create("db.other"))
                files.full = True
                waits = append("a")
                await bench.send(waits)
                owner, elsewhere = (at_one, second) if TABLE in one.lanes.tables() else (at_other, first)
                async with asyncio.timeout(10):
                    while "No space left" not in await text_of(elsewhere, f"/tables/{TABLE}"):  # noqa: ASYNC110 - nothing tells
                        await asyncio.sleep(0.02)
                for path in ("/", "/tables"):
                    assert "No space left" in await text_of(elsewhere, path)
                assert f'href="{owner}/tables/{TABLE}"' in await text_of(elsewhere, f"/tables/{TABLE}")
                assert "No space left" not in await text_of(elsewhere, "/tables/db.other")
                files.full = False
                await bench.outcome(waits)
                async with asyncio.timeout(10):
                    while "No space left" in await text_of(elsewhere, f"/tables/{TABLE}"):  # noqa: ASYNC110 - nothing tells
                        await asyncio.sleep(0.02)


async def test_branches_and_tags_are_listed_however_old_what_they_point_at_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph draws the newest snapshots only."""
    monkeypatch.setattr(snapshot_graph.graph_of, "__kwdefaults__", {"limit": 2})
    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        await bench.commit(create())
        first = await bench.commit(append("a"))
        at = first.snapshot_id
        assert at is not None
        await bench.commit(CreateTag(intent_id=new_id(), table=TABLE, ref_name="eod<1>", snapshot_id=at))
        await bench.commit(CreateBranch(intent_id=new_id(), table=TABLE, ref_name="audit", snapshot_id=at))
        for name in "bcd":
            await bench.commit(append(name))
        page = await text_of(browser, f"/tables/{TABLE}")
        assert "2 older snapshots not drawn" in page
        listed = page.partition("Branches and tags")[2]
        assert re.findall(r'data-label="Name">([^<]*)</td><td data-label="Kind">(\w+)', listed) == [
            ("main", "branch"), ("audit", "branch"), ("eod&lt;1&gt;", "tag"),
        ]  # fmt: skip
        assert str(first.snapshot_id) in listed


async def test_the_consumers_of_a_tables_changes_are_on_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        await bench.commit(create())
        seen = await bench.commit(append("a"))
        await bench.commit(append("b"))
        assert "Consumers of its changes" not in await text_of(browser, f"/tables/{TABLE}")
        uuid = str((await bench.metadata()).table_uuid)
        consumers = Consumers(bench.zookeeper.connect())
        for name, snapshot_id in (("dashboards", seen.snapshot_id), ("gone", 5), ("new", None)):
            await consumers.put(TABLE, uuid, Consumer(name=name, snapshot_id=snapshot_id, updated_ms=1_000))
        page = (await text_of(browser, f"/tables/{TABLE}")).partition("Consumers of its changes")[2]
        rows = [re.sub(r"<[^>]+>", " ", row) for row in re.findall(r"<tr><td.*?</tr>", page, re.DOTALL)[:3]]
        assert [row.split()[:3] for row in rows] == [
            ["dashboards", "main", "lapsed"], ["gone", "main", "lost"], ["new", "main", "lapsed"],
        ]  # fmt: skip
        assert "1 snapshot" in rows[0]
        assert str(seen.snapshot_id) in rows[0]
        assert "?" in rows[1]
        monkeypatch.setattr(Consumers, "of", unreadable)
        assert "Its consumers are not known: node: broken" in await text_of(browser, f"/tables/{TABLE}")


async def unreadable(*_arguments: object) -> None:
    raise CorruptFile("node", "broken")


async def test_a_table_with_manifests_that_cannot_be_merged_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lanes, "unmerged", property(lambda _: {TABLE: "m1.avro: cannot be <merged>"}))
    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        await bench.commit(create())
        await bench.commit(create("db.other"))
        page = await text_of(browser, f"/tables/{TABLE}")
        other = await text_of(browser, "/tables/db.other")
        assert "no table is stuck" in await text_of(browser, "/")
    assert "m1.avro: cannot be &lt;merged&gt;" in page
    assert "not merged" not in other
