"""One intent has one final outcome: nothing that comes later under its id changes or hides it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from firn.coordinator.outcomes import refusals
from firn.model.intent import Append, digest_in, digest_of, encode_intent
from firn.model.limits import Limits
from firn.model.outcome import Committed, Outcome, Rejected, decode_outcome
from firn.model.sharding import shard_of
from tests.unit.coordinator.cli.cli_bench import CliBench
from tests.unit.coordinator.client.test_delivery import client_of
from tests.unit.coordinator.workbench import SHARDS, TABLE, Workbench, append, content_file, create, decision, new_id

OTHER = "db.others"
LIMITS = Limits(intent_bytes_max=4_000)
HEARD = "firn:replies:copy"


def sealed(*names: str, **changes: Any) -> Append:
    intent = append(*names, **changes)
    return msgspec.structs.replace(intent, digest=digest_of(intent))


def damaged(old: bytes, new: bytes) -> Callable[[Append], bytes]:
    def damage(intent: Append) -> bytes:
        payload = encode_intent(intent)
        assert old in payload
        return payload.replace(old, new)

    return damage


def other_payload(intent: Append) -> bytes:
    return encode_intent(sealed("other", intent_id=intent.intent_id, reply_to=HEARD))


def on_another_table(intent: Append) -> bytes:
    return encode_intent(sealed("other", table=OTHER, intent_id=intent.intent_id, reply_to=HEARD))


COPIES: dict[str, Callable[[Append], bytes]] = {
    "a flipped bit under its digest": damaged(b'"record-count":10', b'"record-count":11'),
    "a bad count": damaged(b'"record-count":10', b'"record-count":-1'),
    "a typo": damaged(b"data-files", b"data-filez"),
    "another operation": damaged(b'"append"', b'"upend"'),
    "too large": lambda intent: encode_intent(intent) + b" " * LIMITS.intent_bytes_max,
    "damaged, and on another table": damaged(b'"table":"db.events"', b'"table":"db.others","x":1'),
    "another payload": other_payload,
    "on another table": on_another_table,
}


async def replied(bench: Workbench, payload: bytes) -> Outcome:
    """What the writer of an entry hears on its reply stream."""
    table = msgspec.json.decode(payload, strict=False)["table"]
    before = len(await bench.streams.replies(HEARD, block_ms=0))
    await bench.streams.submit(shard_of(table, shards=SHARDS), payload)
    async with asyncio.timeout(10):
        while len(replies := await bench.streams.replies(HEARD, block_ms=100)) == before:
            pass
    return decode_outcome(replies[-1].data)


def is_unknowable(copy: str, when: str, *, redis_lost_it: bool) -> bool:
    """Whether nobody can tell that the id is another table's without looking through every journal."""
    return redis_lost_it and when == "after a takeover" and "another table" in copy


CASES = [
    pytest.param(make, when, lost, id=f"{name}, {when}{', Redis lost the first' if lost else ''}")
    for name, make in COPIES.items()
    for when in ("at once", "late", "after a takeover")
    for lost in (False, True)
    if not is_unknowable(name, when, redis_lost_it=lost)
]


@pytest.mark.parametrize(("copy", "when", "redis_lost_it"), CASES)
async def test_what_comes_later_under_the_id_of_a_commit_changes_nothing(
    copy: Callable[[Append], bytes], when: str, *, redis_lost_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = CliBench(limits=LIMITS)
    intent = sealed("a", reply_to=HEARD)
    payload = copy(intent)
    monkeypatch.setattr(refusals, "YOUNG_MS", 1_000 if when == "at once" else -1)
    async with bench.daemon("a"):
        for table in (TABLE, OTHER):
            await bench.commit(create(table))
        first = await bench.commit(intent)
        key = bench.names.outcome(intent.intent_id)
        stored = await bench.streams.outcome(intent.intent_id)
        if redis_lost_it:
            bench.redis.keys.pop(key)
            # The entry goes as well: a daemon that begins answers what stands in a stream without an outcome.
            bench.redis.streams[bench.names.intents(shard_of(TABLE, shards=SHARDS))].entries.clear()
        if when != "after a takeover":
            answer = await replied(bench, payload)
    if when == "after a takeover":
        async with bench.daemon("b"):
            answer = await replied(bench, payload)
    assert isinstance(answer, Rejected)
    assert answer.digest != digest_of(intent), "it would be taken for the answer to the first"
    if answer.rule != "intent-id-reuse" and len(payload) <= LIMITS.intent_bytes_max:
        assert answer.payload_digest == digest_in(payload)
    assert await bench.streams.outcome(intent.intent_id) == (None if redis_lost_it else stored)
    assert await bench.live(OTHER) == []
    assert await bench.live() == ["a"]
    for command in (("outcome",), ("explain",)):
        said = await bench.firn(*command, intent.intent_id, "--table", TABLE, "--json")
        assert said.code == 0, said
        assert said.json.get("outcome", said.json)["snapshot-id"] == first.snapshot_id


@pytest.mark.parametrize("copy", [other_payload, on_another_table])
async def test_the_event_of_what_comes_later_under_the_id_of_a_rejection_has_an_id_of_its_own(
    copy: Callable[[Append], bytes],
) -> None:
    bench = CliBench(limits=LIMITS)
    intent = sealed("a", branch="nobody-made-this", reply_to=HEARD)
    async with bench.daemon("a"):
        for table in (TABLE, OTHER):
            await bench.commit(create(table))
        await replied(bench, encode_intent(intent))
        await replied(bench, copy(intent))
        rejected = [event for event in await bench.events() if event["type"] == "firn.intent.rejected"]
    assert [event["data"]["rule"] for event in rejected] == ["unknown-branch", "intent-id-reuse"]
    assert rejected[0]["id"] == intent.intent_id
    assert len({event["id"] for event in rejected}) == 2, "a consumer would drop the second as delivered twice"


async def test_an_intent_under_whose_id_a_damaged_copy_came_first_is_decided_by_itself() -> None:
    """The damaged copy has an answer of its own, which gives way to the intent's."""
    bench = CliBench(limits=LIMITS)
    intent = sealed("a", reply_to=HEARD)
    async with bench.daemon():
        await bench.commit(create())
        answer = await replied(bench, damaged(b"data-files", b"data-filez")(intent))
        assert isinstance(answer, Rejected)
        assert answer.rule == "unknown-field"
        assert isinstance(await replied(bench, encode_intent(intent)), Committed)
        assert isinstance(await bench.outcome(intent), Committed)
    assert (await bench.firn("outcome", intent.intent_id)).code == 0


async def test_where_redis_has_only_the_answer_to_a_damaged_copy_the_journal_is_asked() -> None:
    bench = CliBench()
    intent = sealed("a", reply_to=HEARD)
    garbage = Rejected(intent_id=intent.intent_id, table=OTHER, rule="unknown-field", message="m", hint="fix")
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(intent)
        bench.redis.keys[bench.names.outcome(intent.intent_id)] = (msgspec.json.encode(garbage), None)
    for command in ("outcome", "explain"):
        for table in ((), ("--table", TABLE)):
            assert (await bench.firn(command, intent.intent_id, *table)).code == 0


@pytest.mark.parametrize("takeover", [False, True])
async def test_an_id_that_was_refused_for_want_of_a_table_is_not_used_for_another(*, takeover: bool) -> None:
    bench = Workbench()
    intent = append("a", table="db.nowhere")
    async with bench.daemon("a"):
        await bench.commit(create())
        first = await bench.refuse(intent)
        if not takeover:
            answer = await replied(bench, encode_intent(sealed("b", intent_id=intent.intent_id, reply_to=HEARD)))
    if takeover:
        async with bench.daemon("b"):
            answer = await replied(bench, encode_intent(sealed("b", intent_id=intent.intent_id, reply_to=HEARD)))
    assert isinstance(answer, Rejected)
    assert answer.rule == "intent-id-reuse"
    assert await bench.outcome(intent) == first
    assert await bench.live() == []


async def test_an_id_whose_table_is_dropped_and_made_anew_keeps_its_outcome() -> None:
    bench = Workbench()
    intent = append("a")
    async with bench.daemon():
        await bench.commit(create())
        first = await bench.commit(intent)
        bench.redis.keys.pop(bench.names.outcome(intent.intent_id))
        assert decision(await bench.commit(intent)) == decision(first)


async def test_a_client_does_not_take_the_answer_to_a_damaged_copy_for_its_own() -> None:
    bench = Workbench()
    async with bench.daemon("a"):
        await bench.commit(create())
    async with client_of(bench) as client:
        ticket = await client.append(TABLE, [content_file("a")], intent_id=new_id())
        stream = f"firn:intents:{shard_of(TABLE, shards=SHARDS)}"
        ((entry_id, fields),) = list(bench.redis.streams[stream].entries.items())[-1:]
        whole = fields[b"intent"]
        fields[b"intent"] = whole.replace(b'"record-count":10', b'"record-count":11')
        assert fields[b"intent"] != whole
        assert entry_id
        async with bench.daemon("b"):
            assert isinstance(await bench.outcome(ticket), Rejected)  # type: ignore[arg-type]
            await bench.streams.submit(shard_of(TABLE, shards=SHARDS), whole)
            await ticket.committed(10)
    assert await bench.live() == ["a"]
