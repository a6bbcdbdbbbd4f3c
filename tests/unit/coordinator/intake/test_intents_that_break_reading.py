"""An intent over which reading itself fails costs itself and nothing else, whatever the interpreter says of it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from firn.coordinator.intake.read_appends import Rules, read_intent
from firn.model.intent_codec import DecodedIntent
from firn.model.outcome import Committed, Rejected
from firn.model.sharding import shard_of
from tests.unit.coordinator.workbench import Workbench, append, create, decision

REPLIES = "firn:replies:w"


@pytest.fixture
def breaks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have the reading of what says so fail, as it does where memory runs out."""

    def with_error(error: type[Exception]) -> None:
        def read(payload: bytes, rules: Rules) -> DecodedIntent:
            if b'"breaks"' in payload:
                raise error
            return read_intent(payload, rules)

        monkeypatch.setattr("firn.coordinator.intake.intake.read_intent", read)

    return with_error


@pytest.mark.parametrize("error", [MemoryError, RecursionError, SystemError])
@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
async def test_it_is_refused_once_and_its_neighbours_are_committed(
    breaks: Any, capsys: pytest.CaptureFixture[str], error: type[Exception], *, long: bool
) -> None:
    breaks(error)
    bench = Workbench()
    summary = {"breaks": "x" * (100_000 if long else 1)}
    bad = append("bad", summary=summary, reply_to=REPLIES)
    good = [append(name) for name in ("a", "b", "c")]
    async with bench.daemon() as daemon:
        await bench.commit(create())
        await bench.send(good[0], bad, good[1])
        refused = await bench.outcome(bad)
        outcomes = [await bench.outcome(intent) for intent in good[:2]]
        outcomes += await bench.settle(good[2])
        replies = await bench.streams.replies(REPLIES, block_ms=100)
        letters = await bench.streams.dead_letters()
        assert daemon.health().ready
        assert not daemon.lanes.all_under_way()
    assert isinstance(refused, Rejected)
    assert (refused.rule, refused.hint) == ("internal-error", "fix")
    assert error.__name__ in refused.message
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    assert await bench.live() == ["a", "b", "c"]
    assert len(replies) == len(letters) == 1
    assert capsys.readouterr().out.count("intent not read") == 1


async def test_what_was_decided_before_it_broke_stays_decided(breaks: Any) -> None:
    bench = Workbench()
    intent = append("a", summary={"breaks": "later"})
    async with bench.daemon():
        await bench.commit(create())
        first = await bench.commit(intent)
        breaks(MemoryError)
        await bench.send(intent)
        await bench.commit(append("b"))
        async with asyncio.timeout(5):
            while not (letters := await bench.streams.dead_letters()):  # noqa: ASYNC110 - twins tell nobody
                await asyncio.sleep(0.01)
        assert await bench.outcome(intent) == first
    assert await bench.live() == ["a", "b"]
    assert msgspec.json.decode(letters[0].data)["outcome"]["rule"] == "internal-error"


async def test_what_only_the_journal_remembers_is_told_again(breaks: Any) -> None:
    bench = Workbench()
    intent = append("a", summary={"breaks": "later"}, reply_to=REPLIES)
    async with bench.daemon():
        await bench.commit(create())
        first = await bench.commit(intent)
    bench.redis.flush_all()
    breaks(MemoryError)
    async with bench.daemon("b"):
        await bench.send(intent)
        assert decision(await bench.outcome(intent)) == decision(first)
        (letter,) = await bench.streams.dead_letters()
        assert len(await bench.streams.replies(REPLIES, block_ms=0)) == 1
    told = msgspec.json.decode(letter.data)["outcome"]
    assert (told["rule"], told["intent-id"]) == ("internal-error", "")
    assert f"intent {intent.intent_id} had been decided before" in told["message"]
    assert await bench.live() == ["a"]


async def test_where_the_journal_cannot_say_nobody_is_told(breaks: Any) -> None:
    bench = Workbench()
    intent = append("a", summary={"breaks": "later"}, reply_to=REPLIES)
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(intent)
        head = (await bench.journal())[-1].location
    bench.redis.flush_all()
    bench.files.delete(head)
    breaks(MemoryError)
    async with bench.daemon("b"):
        await bench.send(intent)
        async with asyncio.timeout(5):
            while not await bench.streams.dead_letters():  # noqa: ASYNC110 - twins tell nobody
                await asyncio.sleep(0.01)
        assert await bench.streams.outcome(intent.intent_id) is None
        assert await bench.streams.replies(REPLIES, block_ms=0) == []


async def test_who_may_have_been_committed_by_the_daemon_before_is_told_nothing(breaks: Any) -> None:
    """A daemon may die between a swap and its telling: the entry comes again, and there is no outcome in Redis."""
    breaks(MemoryError)
    bench = Workbench()
    intent = append("a", summary={"breaks": "now"}, reply_to=REPLIES)
    async with bench.daemon("a"):
        await bench.commit(create())
    await bench.send(intent)
    shard = shard_of(intent.table, shards=bench.shards)
    assert await bench.streams.take([shard], consumer="died", count=1, block_ms=0)
    async with bench.daemon("b"), asyncio.timeout(5):
        while not await bench.streams.dead_letters():  # noqa: ASYNC110 - twins tell nobody
            await asyncio.sleep(0.01)
    assert await bench.streams.outcome(intent.intent_id) is None
    assert await bench.streams.replies(REPLIES, block_ms=0) == []
