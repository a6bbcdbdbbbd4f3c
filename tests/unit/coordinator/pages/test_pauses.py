"""Pages say which tables are paused, by whom and why, wherever somebody looks who waits."""

from __future__ import annotations

import msgspec

from firn.coordinator.operations.pausing import pause_table, resume_table
from tests.unit.coordinator.lanes.test_pauses import WHY, held_back, until
from tests.unit.coordinator.pages.test_site import browsing, text_of
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create


async def test_a_paused_table_is_shown_with_its_reason_on_every_page_that_leads_to_it() -> None:
    bench = Workbench(http_port=0)
    async with browsing(bench) as browser:
        await bench.commit(create())
        why = msgspec.structs.replace(WHY, reason='<script>alert("x")</script>')
        session = bench.zookeeper.connect()
        await pause_table(session, TABLE, why)
        await until(lambda: TABLE in bench.daemons[0].paused)
        waiting = append("later")
        await bench.send(waiting)
        await held_back(bench, 1)
        for path in ("/", "/tables", f"/tables/{TABLE}", f"/intents/{waiting.intent_id}?table={TABLE}"):
            page = await text_of(browser, path)
            assert "aused" in page, path
            assert why.by in page, path
            assert "&lt;script&gt;alert" in page, path
            assert "<script>alert" not in page, path
        await resume_table(session, TABLE)
        await until(lambda: TABLE not in bench.daemons[0].paused)
        assert "Paused tables" not in await text_of(browser, "/")
