"""The first page answers whether it is healthy, how fast it is and what is refused; what is not known is ``?``."""

from __future__ import annotations

import asyncio
import re
import time

import pytest

from firn.coordinator.operations import bulletin, fleet, recent_work
from firn.coordinator.pages.live import LiveEvents
from firn.model.errors import Unavailable
from firn.storage.intent_streams import ShardLag
from firn.storage.membership import Membership
from firn.storage.memory_streams import MemoryStreams
from firn.storage.pauses import Pauses
from firn.storage.pointers import Pointers
from tests.unit.coordinator.lanes.test_pauses import until
from tests.unit.coordinator.pages.test_site import browsing, text_of
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, delete

BOUNDED_S = 20
"""What hangs here does so for ever; machines are slow at times."""

OF_REDIS = ("Waiting intents", "Oldest waits")
OF_ZOOKEEPER = ("Daemons", "Tables and views", "Paused")
OF_DAEMONS = ("Commits", "p99 of the time to an outcome", "Conflicts", "Mistakes")


def cards(page: str) -> dict[str, str]:
    """The text of each card, by its title."""
    found = re.findall(r"<dt>(.*?)</dt><dd[^>]*>(.*?)</dd>", page, re.DOTALL)
    return {title: re.sub(r"<[^>]+>", " ", value).strip() for title, value in found}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulletin, "LOOK_S", 0.02)
    monkeypatch.setattr(recent_work, "SAMPLE_S", 0.05)
    monkeypatch.setattr(fleet, "ANSWER_S", 0.2)


async def test_how_fast_it_is_and_what_is_refused() -> None:
    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        await bench.commit(create())
        for name in "abc":
            await bench.commit(append(name))
        await bench.refuse(delete("nowhere"))
        await bench.refuse(append("lost", table="db.nowhere"))

        async def shown() -> dict[str, str]:
            return cards(await text_of(browser, "/"))

        async with asyncio.timeout(10):
            while (found := await shown())["Mistakes"] != "16.7 %":  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.02)
        assert found["Conflicts"] == "16.7 %"
        assert re.fullmatch(r"[\d.]+k?/s", found["Commits"])
        assert re.fullmatch(r"[\d.]+ (s|ms|µs)", found["p99 of the time to an outcome"])
        assert (found["Daemons"], found["Tables and views"], found["Waiting intents"]) == ("1", "1", "0")
        page = await text_of(browser, "/")
        assert '<a href="/conflicts?rule=missing-file"><span class="chip">missing-file 1</span></a>' in page
        assert "4 idle shards" in page
        assert page.index("4 idle shards") < page.index("Idle shards")


async def test_a_daemon_that_has_just_started_has_no_rate_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_work, "SAMPLE_S", 60.0)
    async with browsing(Workbench(http_port=0)) as browser:
        found = cards(await text_of(browser, "/"))
    for title in OF_DAEMONS:
        assert found[title].startswith("?")
        assert "just started" in found[title]


async def hangs(*_arguments: object, **_more: object) -> None:
    await asyncio.Event().wait()


async def refuses(*_arguments: object, **_more: object) -> None:
    raise Unavailable("Redis does not answer: connection refused")


async def cannot_count(*_arguments: object, **_more: object) -> ShardLag:
    return ShardLag(length=9, undelivered=None, pending=0, entries_added=9, oldest_entry_ms=1)


@pytest.mark.parametrize("fault", [hangs, refuses])
async def test_without_redis_what_it_would_tell_is_not_known(fault: object, monkeypatch: pytest.MonkeyPatch) -> None:
    async with browsing(Workbench(http_port=0)) as browser:
        with monkeypatch.context() as patch:
            patch.setattr(MemoryStreams, "lag", fault)
            patch.setattr(MemoryStreams, "newest_events", fault)
            began = time.monotonic()
            page = await text_of(browser, "/")
            refused = [await text_of(browser, path, status=503) for path in ("/events", "/conflicts")]
        assert time.monotonic() - began < BOUNDED_S
    found = cards(page)
    for title in OF_REDIS:
        assert re.match(r"\?\s+Redis does not answer", found[title]), found[title]
    unknown = [title for title, value in found.items() if title not in OF_DAEMONS and value.startswith("?")]
    assert unknown == [*OF_REDIS]
    assert "Something is wrong" in page
    assert 'href="/docs/runbooks/servers.md#firnredisaway"' in page
    assert page.count("Redis does not answer") >= 3
    assert "No conflicts" not in page
    assert "4 shards: what waits is not known" in page
    assert "idle shard" not in page
    assert all("Redis does not answer" in text for text in refused)


async def test_without_zookeeper_what_it_would_tell_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    async with browsing(Workbench(http_port=0)) as browser:
        with monkeypatch.context() as patch:
            for owner, name in ((Membership, "owners"), (Membership, "members"), (Pointers, "list"), (Pauses, "all")):
                patch.setattr(owner, name, hangs)
            patch.setattr(Pointers, "read_cached", hangs)
            began = time.monotonic()
            found = cards(await text_of(browser, "/"))
            refused = [await text_of(browser, path, status=503) for path in ("/tables", f"/tables/{TABLE}")]
        assert time.monotonic() - began < BOUNDED_S
    for title in (*OF_ZOOKEEPER, *OF_DAEMONS):
        assert re.match(r"\?\s+ZooKeeper does not answer", found[title]), (title, found[title])
    assert found["Waiting intents"] == "0"
    assert all("ZooKeeper does not answer" in text for text in refused)


async def test_what_redis_cannot_count_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    async with browsing(Workbench(http_port=0)) as browser:
        with monkeypatch.context() as patch:
            patch.setattr(MemoryStreams, "lag", cannot_count)
            found = cards(await text_of(browser, "/"))
    assert re.match(r"\?\s+Redis cannot count", found["Waiting intents"])


async def test_what_waits_is_not_folded_away(monkeypatch: pytest.MonkeyPatch) -> None:
    lag = MemoryStreams.lag

    async def one_waits(streams: MemoryStreams, shard: int) -> ShardLag:
        if shard == 2:
            return ShardLag(length=7, undelivered=7, pending=0, entries_added=7, oldest_entry_ms=1)
        return await lag(streams, shard)

    async with browsing(Workbench(http_port=0)) as browser:
        with monkeypatch.context() as patch:
            patch.setattr(MemoryStreams, "lag", one_waits)
            page = await text_of(browser, "/")
    assert "3 idle shards" in page
    assert cards(page)["Waiting intents"] == "7"
    assert re.search(r'<tr><td class="n">2</td>.*<details>', page, re.DOTALL)


async def test_a_live_stream_lives_with_a_redis_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Workbench(http_port=0)
    monkeypatch.setattr(MemoryStreams, "newest_events", hangs)
    live = LiveEvents(bench.streams)
    async with live.listening() as queue:
        await asyncio.sleep(0.01)
        assert queue.empty()
    await until(lambda: live._reading is None)
