"""Events as a page lists them: filtered by the address, each linked to its table, its intents and what won."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec
import pytest

from firn.coordinator.pages.event_log import CHOICES, KINDS, EventFilter, event_in, line_of, lines_of
from firn.model import event as event_module
from firn.model.event import Event
from firn.storage.intent_streams import Message
from tests.unit.coordinator.pages.test_site import browsing, text_of
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, delete, replace

DOCUMENTED = re.sub(r"-\n", "-", str(event_module.__doc__))
HOSTILE = '"><script>alert(1)</script>&event=x'


async def listed(browser: aiohttp.ClientSession, **asked: str) -> list[str]:
    """The rows of the page, as HTML."""
    page = await text_of(browser, f"/events?{urlencode(asked)}")
    return [row for row in re.findall(r"<tr><td.*?</tr>", page, re.DOTALL) if "colspan" not in row]


def test_every_documented_event_can_be_chosen() -> None:
    assert set(KINDS) == set(re.findall(r"``firn\.([a-z-]+\.[a-z-]+)``", DOCUMENTED))


async def test_events_are_filtered_by_the_address_and_the_form_shows_it() -> None:
    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        await bench.commit(create())
        await bench.commit(create("db.other"))
        await bench.commit(append("a", writer="etl"))
        await bench.refuse(delete("nowhere", writer="cleaner"))
        await bench.refuse(delete("nowhere", table="db.other", writer="etl"))
        assert len(await listed(browser)) == 5
        for asked, count in (
            ({"table": TABLE}, 3), ({"table": "db.oth"}, 0), ({"event": "intent.rejected"}, 2),
            ({"outcome": "committed"}, 3), ({"outcome": "rejected", "table": TABLE}, 1), ({"writer": "cleaner"}, 1),
            ({"operation": "delete-files"}, 2), ({"rule": "missing-file", "writer": "etl"}, 1),
            ({"table": f" {TABLE} "}, 3),
        ):  # fmt: skip
            assert len(await listed(browser, **asked)) == count, asked
        page = await text_of(browser, "/events?outcome=rejected&writer=cleaner&rule=missing-file")
        assert "<option selected>rejected</option>" in page
        assert "<option selected>missing-file</option>" in page
        assert 'name="writer" value="cleaner"' in page
        assert "alert" not in page


@pytest.mark.parametrize("name", CHOICES)
async def test_what_no_event_can_have_is_named(name: str) -> None:
    async with browsing(Workbench(http_port=0)) as browser:
        page = await text_of(browser, f"/events?{name}=typo")
        assert f"No event has {name} &#39;typo&#39;" in page
        assert "<option selected>typo</option>" in page


async def test_each_event_is_linked_to_its_table_its_intents_and_what_won() -> None:
    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        await bench.commit(create())
        base = (await bench.commit(append("a", "b", writer="etl"))).snapshot_id
        assert base is not None
        first = replace(["a"], ["c"], base=base, writer="compactor")
        await bench.commit(first)
        second = replace(["a"], ["d"], base=base, writer="late")
        outcome = await bench.refuse(second)
        (row,) = await listed(browser, outcome="rejected")
        assert f'href="/tables/{TABLE}"' in row
        assert f'href="/intents/{second.intent_id}?table={TABLE}">{second.intent_id}</a>' in row
        assert outcome.conflicting_intent_id == first.intent_id
        assert f'href="/intents/{first.intent_id}?table={TABLE}">{first.intent_id}</a>' in row
        assert "compactor" in row
        assert f'href="/events?outcome=rejected&amp;rule={outcome.rule}"' in row
        (newest, *_) = await listed(browser, outcome="committed")
        assert f'href="/intents/{first.intent_id}?table={TABLE}">{first.intent_id}</a>' in newest
        assert re.search(r'<span class="mono">\d{17,19}</span>', newest)
        for path in ("/", "/conflicts", "/events"):
            page = await text_of(browser, path)
            assert "…" not in page, "an id is cut"
            assert second.intent_id in page
            assert first.intent_id in page
        story = await text_of(browser, f"/intents/{second.intent_id}?table={TABLE}")
        assert "Rejected: " in story
        assert f"/events?table={TABLE}" in await text_of(browser, f"/tables/{TABLE}")


async def test_a_filter_is_text_whatever_it_is() -> None:
    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        await bench.commit(create())
        await bench.refuse(delete("nowhere", writer=HOSTILE))
        for name in EventFilter.__struct_fields__:
            page = await text_of(browser, f"/events?{urlencode({name: HOSTILE})}")
            assert "<script>" not in page
            assert html.escape(HOSTILE, quote=False)[:10] in page.replace("&#34;", '"')
        (row,) = await listed(browser, writer=HOSTILE)
        (address,) = re.findall(r'class="name" href="(/events[^"]*)"', row)
        async with browser.get(html.unescape(address)) as answer:
            assert answer.url.query["writer"] == HOSTILE


FOREIGN: list[dict[str, Any]] = [
    {}, {"rule": 7, "message": ["x"], "intent-id": 5, "intents": "abc", "committed": "many", "snapshot-ids": {"a": 1}},
    {"intents": [None, "../../x", 3], "tables": [1, None], "conflicting-snapshot-id": "x"},
    {"conflicting-intent-id": "x", "conflicting-writer": 3},
    {"committed": -3, "rejected": True, "behind": [], "snapshot-ids": [[1]], "operation": None, "writer": {}},
]  # fmt: skip


@pytest.mark.parametrize("kind", [*KINDS, "of.others", ""])
@pytest.mark.parametrize("data", FOREIGN)
async def test_what_others_write_into_the_stream_breaks_no_page(kind: str, data: dict[str, Any]) -> None:
    event = Event(id="1", source="x", type=f"firn.{kind}", subject="t", time="not a time", data=data)
    line = line_of(event)
    assert all("/" not in intent for intent in line.intents)
    messages = [Message("1-0", msgspec.json.encode(event)), Message("2-0", b"\xff"), Message("3-0", b"{}")]
    assert lines_of(messages, EventFilter(), limit=9) == (line,)
    assert event_in(b"[]") is None


async def test_foreign_events_are_shown_and_break_nothing() -> None:
    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        for kind in (*KINDS, "of.others"):
            for data in FOREIGN:
                event = Event(id="1", source="x", type=f"firn.{kind}", subject="t", time="", data=data)
                await bench.streams.publish([msgspec.json.encode(event)])
        assert len(await listed(browser)) == len(FOREIGN) * (len(KINDS) + 1)
        for path in ("/", "/conflicts"):
            await text_of(browser, path)
