"""A refusal that no journal keeps is final, too: whoever asks again hears it again, from whichever daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from firn.coordinator.outcomes import refusals
from firn.model.errors import Unavailable
from firn.model.intent import Intent, RenameTable, encode_intent
from firn.model.outcome import Outcome, Rejected, decode_outcome
from firn.model.sharding import shard_of
from firn.storage.memory_streams import MemoryRedis, MemoryStreams
from firn.storage.pointers import Pointers
from tests.unit.coordinator.workbench import SHARDS, TABLE, Workbench, append, create, delete, new_id

START_MS = 1_800_000_000_000
LONG_MS = 60_000


class Bench(Workbench):
    """A workbench whose Redis has a clock of its own, and counts what it is asked for outcomes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.now_ms = START_MS
        self.redis = MemoryRedis(now_ms=lambda: self.now_ms)
        self.streams = self.redis.connect(names=self.names)
        self.asked: list[list[str]] = []
        self.failures = 0
        real = MemoryStreams.outcomes

        async def outcomes(streams: MemoryStreams, intent_ids: Sequence[str]) -> list[bytes | None]:
            self.asked.append(list(intent_ids))
            if self.failures:
                self.failures -= 1
                raise Unavailable("Redis does not answer")
            return await real(streams, intent_ids)

        monkeypatch.setattr(MemoryStreams, "outcomes", outcomes)

    def fresh_id(self) -> str:
        """An intent id that was made now."""
        return new_id(self.now_ms)

    async def answer(self, intent: Intent) -> Outcome:
        """What one submission is answered; the outcome's key may be from another."""
        reply_to = f"{self.names.replies}{new_id()}"
        await self.send(msgspec.structs.replace(intent, reply_to=reply_to))
        async with asyncio.timeout(10):
            (reply,) = await self.streams.replies(reply_to, block_ms=10_000)
        return decode_outcome(reply.data)

    async def names_of_tables(self) -> set[str]:
        """Names that have a table."""
        pointers = Pointers(self.zookeeper.connect())
        return {name for name in await pointers.list() if not (await pointers.read(name)).pointer.dropped}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


async def refused_rename(bench: Bench) -> tuple[RenameTable, Outcome]:
    """A rename of a table that comes later."""
    rename = RenameTable(intent_id=bench.fresh_id(), table=TABLE, new_name="db.elsewhere")
    first = await bench.answer(rename)
    assert isinstance(first, Rejected)
    assert (first.rule, first.batch) == ("unknown-table", None)
    return rename, first


@pytest.mark.parametrize("pause_ms", [0, LONG_MS])
async def test_what_was_refused_is_refused_again_when_it_would_be_right_by_now(bench: Bench, pause_ms: int) -> None:
    async with bench.daemon():
        rename, first = await refused_rename(bench)
        await bench.commit(create(intent_id=bench.fresh_id()))
        bench.now_ms += pause_ms
        assert await bench.answer(rename) == first
        assert await bench.names_of_tables() == {TABLE}
        assert not await bench.streams.dead_letters()


async def test_a_refusal_that_redis_has_forgotten_is_not_decided_anew_from_the_entry_that_a_stream_still_has(
    bench: Bench,
) -> None:
    """A stream keeps the entry that was handed out last, and a daemon that takes it over looks for unanswered ones."""
    made = create(intent_id=bench.fresh_id())
    async with bench.daemon("a"):
        rename, _ = await refused_rename(bench)
    async with bench.daemon("b"):
        await bench.commit(made)
    bench.redis.keys.pop(bench.names.outcome(rename.intent_id))
    bench.now_ms += 26 * 3_600_000
    async with bench.daemon("c") as daemon:
        await bench.answer(append("a", intent_id=bench.fresh_id()))
        assert await bench.names_of_tables() == {TABLE}
        assert daemon.metrics.reclaimed_entries._value.get() == 0
        assert await bench.streams.outcome(rename.intent_id) is None


@pytest.mark.parametrize("pause_ms", [0, LONG_MS])
async def test_another_daemon_says_the_same(bench: Bench, pause_ms: int) -> None:
    async with bench.daemon("a"):
        rename, first = await refused_rename(bench)
    async with bench.daemon("b"):
        await bench.commit(create(intent_id=bench.fresh_id()))
        bench.now_ms += pause_ms
        assert await bench.answer(rename) == first
        assert await bench.names_of_tables() == {TABLE}


async def test_mistakes_are_counted_apart_from_conflicts(bench: Bench) -> None:
    """What only its writer can mend says nothing about who fights whom: alerts tell them apart by the hint."""
    async with bench.daemon() as daemon:
        await refused_rename(bench)
        await bench.commit(create(intent_id=bench.fresh_id()))
        await bench.refuse(create(intent_id=bench.fresh_id()))
        await bench.refuse(delete("nowhere", intent_id=bench.fresh_id()))
        await bench.streams.submit(0, b"no intent")
        while not await bench.streams.dead_letters():  # noqa: ASYNC110 - as soon as it is set aside
            await asyncio.sleep(0.005)
        counted = {
            (sample.labels["rule"], sample.labels["hint"])
            for sample in next(iter(daemon.metrics.conflicts.collect())).samples
            if sample.name == "firn_conflicts_total"
        }
    assert counted == {
        ("unknown-table", "fix"), ("table-exists", "fix"), ("missing-file", "replan"), ("malformed-json", "fix")
    }  # fmt: skip


async def test_redis_is_asked_by_who_has_just_got_a_shard_and_by_nobody_who_has_had_it(bench: Bench) -> None:
    async with bench.daemon():
        while not await bench.streams.settings():  # noqa: ASYNC110 - as soon as it takes entries
            await asyncio.sleep(0.01)
        bench.now_ms += refusals.YOUNG_MS
        await bench.answer(create(intent_id=bench.fresh_id()))
        assert len(bench.asked) == 1
        bench.now_ms += 3 * refusals.YOUNG_MS
        await bench.commit(append("first in long", intent_id=bench.fresh_id()))
        assert len(bench.asked) == 1
    waited = append("queued while there was no daemon", intent_id=bench.fresh_id())
    await bench.send(waited)
    bench.now_ms += LONG_MS
    async with bench.daemon("b"):
        await bench.commit(append("behind it", intent_id=bench.fresh_id()))
        assert any(waited.intent_id in ids for ids in bench.asked)


async def test_what_is_remembered_is_bounded_and_redis_knows_the_rest(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "RECENT_MAX", 2)
    async with bench.daemon() as daemon:
        rename, first = await refused_rename(bench)
        for _ in range(3):
            await bench.refuse(append("x", table="db.nowhere", intent_id=bench.fresh_id()))
        assert len(daemon.publisher.refusals._recent) == 2
        await bench.commit(create(intent_id=bench.fresh_id()))
        bench.now_ms += LONG_MS
        assert await bench.answer(rename) == first


async def test_a_refusal_that_redis_lost_is_nobody_s_and_the_intent_is_decided_anew(bench: Bench) -> None:
    async with bench.daemon("a"):
        rename, _ = await refused_rename(bench)
    bench.redis.flush_all()
    async with bench.daemon("b"):
        await bench.commit(create(intent_id=bench.fresh_id()))
        await bench.commit(rename)
        assert await bench.names_of_tables() == {"db.elsewhere"}


async def test_other_content_under_its_id_is_not_answered_with_it(bench: Bench) -> None:
    async with bench.daemon():
        rename, first = await refused_rename(bench)
        await bench.commit(create(intent_id=bench.fresh_id()))
        other = await bench.answer(append("a", intent_id=rename.intent_id))
        assert isinstance(other, Rejected)
        assert other.rule == "intent-id-reuse"
        assert await bench.outcome(rename) == first, "the id stays the first one's"


async def test_somebody_s_garbage_with_the_same_id_refuses_nothing(bench: Bench) -> None:
    async with bench.daemon("a"):
        await bench.commit(create(intent_id=bench.fresh_id()))
        intent = append("a", intent_id=bench.fresh_id())
        garbage = encode_intent(intent).replace(b"data-files", b"no-such-member")
        await bench.streams.submit(shard_of(TABLE, shards=SHARDS), garbage)
        assert isinstance(await bench.outcome(intent), Rejected)
        bench.now_ms += LONG_MS
        answer = await bench.answer(intent)
        assert not isinstance(answer, Rejected), answer
        assert await bench.live() == ["a"]


async def test_while_redis_cannot_say_nothing_is_decided(bench: Bench) -> None:
    async with bench.daemon("a"):
        rename, first = await refused_rename(bench)
    async with bench.daemon("b"):
        await bench.commit(create(intent_id=bench.fresh_id()))
        bench.now_ms += LONG_MS
        bench.failures = 2
        assert await bench.answer(rename) == first
        assert bench.failures == 0


async def test_redis_is_asked_of_what_is_late_or_was_handed_out_before_and_of_nothing_else(bench: Bench) -> None:
    made = bench.fresh_id()
    async with bench.daemon("a"):
        await bench.commit(create(intent_id=made))
        bench.now_ms += LONG_MS
        bench.asked.clear()
        await bench.commit(append("new", intent_id=bench.fresh_id()))
        assert bench.asked == []
        late = append("late", intent_id=new_id(bench.now_ms - LONG_MS))
        await bench.commit(late)
        assert bench.asked == [[late.intent_id]]


def test_a_rejection_has_the_digest_only_where_no_journal_has_the_intent() -> None:
    outcome: dict[str, Any] = {
        "intent_id": "i", "table": "t", "rule": "unknown-table", "message": "m", "hint": "fix"
    }  # fmt: skip
    assert b"digest" not in msgspec.json.encode(Rejected(**outcome))
    assert decode_outcome(msgspec.json.encode(Rejected(**outcome, digest="d"))) == Rejected(**outcome, digest="d")
