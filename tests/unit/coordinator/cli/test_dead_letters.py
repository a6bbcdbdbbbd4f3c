"""`firn dead-letters`: what can be submitted again is decided once, the rest is said; what is dropped is chosen."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from firn.model.outcome import Rejected
from tests.unit.coordinator.cli.cli_bench import CliBench
from tests.unit.coordinator.workbench import SHARDS, TABLE, append, create, new_id

OTHER = "db.other"


async def letters(bench: CliBench, count: int) -> list[dict[str, Any]]:
    """All letters, once there are so many."""
    async with asyncio.timeout(10):
        while len(await bench.streams.dead_letters()) < count:  # noqa: ASYNC110 - twins have no event for it
            await asyncio.sleep(0.005)
    return (await bench.firn("dead-letters", "--json")).lines


async def test_what_was_refused_for_want_of_a_table_that_came_later_needs_a_new_id() -> None:
    bench = CliBench()
    async with bench.daemon():
        early = append("early")
        first = await bench.refuse(early)
        (letter,) = await letters(bench, 1)
        assert (letter["journaled"], letter["outcome"]["rule"]) == (False, "unknown-table")
        shown = await bench.firn("dead-letters", "show", letter["id"])
        assert f"firn dead-letters retry {letter['id']} --new-id" in shown.out
        await bench.commit(create())

        (line,) = (await bench.firn("dead-letters", "retry", letter["id"], "--json")).lines
        assert msgspec.convert(line["answer"], Rejected) == first, "an intent is decided once"
        assert await bench.live() == []

        said = await bench.firn("dead-letters", "retry", letter["id"], "--new-id", "--by", "ann", "--json")
        assert said.code == 0
        (line,) = said.lines
        assert line["answer"]["status"] == "committed"
        assert line["answer"]["intent-id"] != early.intent_id
        assert await bench.live() == ["early"]
        assert await letters(bench, 0) == [], "a letter that was committed is done with"
        told = [event for event in await bench.events() if event["type"].startswith("firn.dead-letter.")]
        assert [(e["type"], e["data"]["by"]) for e in told[1:]] == [
            ("firn.dead-letter.retried", "ann"), ("firn.dead-letter.dropped", "ann"),
        ]  # fmt: skip


async def test_what_was_decided_meanwhile_is_answered_and_not_submitted() -> None:
    bench = CliBench()
    early = append("early")
    async with bench.daemon("a"):
        await bench.refuse(early)
        (letter,) = await letters(bench, 1)
    del bench.redis.keys[bench.names.outcome(early.intent_id)]  # so nobody remembers that it was refused
    async with bench.daemon("b"):
        await bench.commit(create())
        await bench.commit(early)
        entries = sum([(await bench.streams.lag(shard)).entries_added for shard in range(SHARDS)])
        said = await bench.firn("dead-letters", "retry", "--rule", "unknown-table", "--json")
        assert [line["answer"]["status"] for line in said.lines] == ["committed"]
        assert sum([(await bench.streams.lag(shard)).entries_added for shard in range(SHARDS)]) == entries
        assert await bench.live() == ["early"]
        assert letter["outcome"]["intent-id"] == early.intent_id


async def test_a_rejection_on_record_stays_and_a_new_id_makes_a_new_intent() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("a"))
        again = append("a")  # the file is in the table already
        outcome = await bench.refuse(again)
        (letter,) = await letters(bench, 1)
        assert letter["journaled"]
        said = await bench.firn("dead-letters", "retry", letter["id"])
        assert said.code == 1
        assert outcome.rule in said.out
        fresh = await bench.firn("dead-letters", "retry", letter["id"], "--new-id", "--json")
        (line,) = fresh.lines
        assert line["answer"]["status"] == "rejected"
        assert line["answer"]["intent-id"] != again.intent_id
        assert await bench.live() == ["a"]


async def test_what_is_no_intent_is_shown_and_said_to_be_beyond_a_retry() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.streams.submit(0, b'{"intent-id": "\x1b[31mred"}')
        (letter,) = await letters(bench, 1)
        said = await bench.firn("dead-letters", "show", letter["id"])
        assert "not possible:" in said.out
        assert "\x1b" not in said.out
        assert (await bench.firn("dead-letters", "show", letter["id"], "--json")).json["retry"] is False
        retried = await bench.firn("dead-letters", "retry", letter["id"])
        assert retried.code == 1
        assert "not submitted:" in retried.out
        assert len(await bench.streams.dead_letters()) == 1


async def test_letters_are_chosen_by_table_rule_age_and_number() -> None:
    bench = CliBench()
    async with bench.daemon():
        for table in (TABLE, OTHER, OTHER):
            await bench.refuse(append("x", table=table, intent_id=new_id()))
        await bench.streams.submit(0, b"no json")
        await letters(bench, 4)

        async def listed(*options: str) -> int:
            return len((await bench.firn("dead-letters", "list", *options, "--json")).lines)

        assert await listed() == 4
        assert await listed("--table", OTHER) == 2
        assert await listed("--rule", "malformed-json") == 1
        assert await listed("--table", OTHER, "--limit", "1") == 1
        assert await listed("--since", "1h") == 4
        assert await listed("--until", "1h") == 0

        assert (await bench.firn("dead-letters", "drop", "--yes")).code == 2, "everything has to be said"
        said = await bench.firn("dead-letters", "drop", "--table", OTHER, "--yes", "--json")
        assert said.json["count"] == 2
        assert await listed() == 2


@pytest.mark.parametrize("action", ["retry", "drop", "show"])
async def test_a_letter_that_is_not_there_is_said(action: str) -> None:
    bench = CliBench()
    arguments = ("--yes",) if action == "drop" else ()
    said = await bench.firn("dead-letters", action, "1-1", *arguments)
    assert said.code == 1
    assert "there is no such dead letter: 1-1" in said.err
    assert (await bench.firn("dead-letters", "retry", "../x")).code == 2
