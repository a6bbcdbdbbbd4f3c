"""`firn dead-letters`: what can be submitted again is decided once, the rest is said; what is dropped is chosen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any, Never

import msgspec
import pytest

from firn.coordinator.replay import engine
from firn.model.intent import DeleteFiles, Intent, encode_intent
from firn.model.outcome import Rejected
from firn.storage.intent_streams import DEAD_LETTER_FIELD
from tests.unit.coordinator.cli.cli_bench import CliBench
from tests.unit.coordinator.workbench import SHARDS, TABLE, append, create, delete, new_id

OTHER = "db.other"


async def letters(bench: CliBench, count: int) -> list[dict[str, Any]]:
    """All letters, once there are so many."""
    async with asyncio.timeout(10):
        while len(await bench.streams.dead_letters()) < count:  # noqa: ASYNC110 - twins have no event for it
            await asyncio.sleep(0.005)
    return (await bench.firn("dead-letters", "--json")).lines


@contextlib.contextmanager
def a_fault_in(operation: type) -> Iterator[None]:
    """Within: the replay of an operation fails as by a mistake of firn's."""

    def fail(*_: object) -> Never:
        raise RuntimeError("a fault")

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(engine.OPERATIONS, operation, fail)
        yield


def set_aside(bench: CliBench, intent: Intent, *, rule: str = "poison") -> None:
    """Leave a letter as a daemon does that could not even refuse the intent."""
    payload = encode_intent(intent)
    outcome = {"intent-id": intent.intent_id, "table": intent.table, "rule": rule, "message": "died", "hint": "fix"}
    letter = {"entry-id": "1-1", "outcome": outcome, "payload": payload.decode(), "payload-bytes": len(payload)}
    bench.redis.add(bench.names.dead_letters, {DEAD_LETTER_FIELD.encode(): msgspec.json.encode(letter)})


async def test_a_fault_of_firns_is_set_aside_and_once_it_is_mended_a_new_id_makes_a_new_intent() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("a", "b"))
        broken = delete("a")
        with a_fault_in(DeleteFiles):
            first = await bench.refuse(broken)
        (letter,) = await letters(bench, 1)
        assert (letter["journaled"], letter["outcome"]["rule"]) == (True, "internal-error")
        shown = await bench.firn("dead-letters", "show", letter["id"])
        assert f"firn dead-letters retry {letter['id']} --new-id" in shown.out

        said = await bench.firn("dead-letters", "retry", letter["id"], "--json")
        assert said.code == 1
        (line,) = said.lines
        answer = msgspec.convert(line["answer"], Rejected)
        assert (answer.intent_id, answer.rule) == (first.intent_id, first.rule), "an intent is decided once"
        assert await bench.live() == ["a", "b"]

        said = await bench.firn("dead-letters", "retry", letter["id"], "--new-id", "--by", "ann", "--json")
        assert said.code == 0
        (line,) = said.lines
        assert line["answer"]["status"] == "committed"
        assert line["answer"]["intent-id"] != broken.intent_id
        assert await bench.live() == ["b"]
        assert await letters(bench, 0) == [], "a letter that was committed is done with"
        told = [event for event in await bench.events() if event["type"].startswith("firn.dead-letter.")]
        assert [(e["type"], e["data"]["by"]) for e in told[1:]] == [
            ("firn.dead-letter.retried", "ann"), ("firn.dead-letter.dropped", "ann"),
        ]  # fmt: skip


async def test_what_was_decided_meanwhile_is_answered_and_not_submitted() -> None:
    bench = CliBench()
    early = append("early")
    async with bench.daemon():
        await bench.commit(create())
        set_aside(bench, early)
        await bench.commit(early)
        entries = sum([(await bench.streams.lag(shard)).entries_added for shard in range(SHARDS)])
        said = await bench.firn("dead-letters", "retry", "--rule", "poison", "--json")
        assert [line["answer"]["status"] for line in said.lines] == ["committed"]
        assert sum([(await bench.streams.lag(shard)).entries_added for shard in range(SHARDS)]) == entries
        assert await bench.live() == ["early"]


async def test_a_retried_intent_may_be_refused_and_then_its_letter_stays() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("a"))
        again = append("a")  # the file is in the table already
        set_aside(bench, again)
        (letter,) = await letters(bench, 1)
        said = await bench.firn("dead-letters", "retry", letter["id"])
        assert said.code == 1
        assert "duplicate-file" in said.out
        fresh = await bench.firn("dead-letters", "retry", letter["id"], "--new-id", "--json")
        (line,) = fresh.lines
        assert line["answer"]["status"] == "rejected"
        assert line["answer"]["intent-id"] != again.intent_id
        assert await bench.live() == ["a"]
        assert len(await letters(bench, 1)) == 1


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
            set_aside(bench, append("x", table=table, intent_id=new_id()))
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
