"""The client's promises, on in-memory twins with a real daemon."""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from firn import AsyncClient, AsyncTicket, Committed, Rejected, RejectedError, Unknown, UnknownOutcome
from firn.coordinator.client.intents import new_intent_id, sealed
from firn.model.errors import InvalidIntent, Misconfigured, NotFound, Unavailable
from firn.model.intent import Append, ContentFile, digest_of, encode_intent
from firn.model.outcome import encode_outcome
from tests.unit.coordinator.workbench import SCHEMA, TABLE, Workbench, append, content_file, new_id, path_of


def client_of(bench: Workbench, **options) -> AsyncClient:
    return AsyncClient(**{"connect": bench.redis.connect, "files": bench.files, "resubmit_after_s": 0.1, **options})


async def queued(bench: Workbench) -> int:
    """Entries that were ever added to the table's stream, on any shard."""
    return sum(s.added for name, s in bench.redis.streams.items() if ":intents:" in name)


async def created(client: AsyncClient) -> Committed:
    ticket = await client.create_table(TABLE, SCHEMA)
    return await ticket.committed(10)


async def test_an_append_is_committed_and_its_ticket_says_so() -> None:
    bench = Workbench()
    async with bench.daemon(), client_of(bench) as client:
        await created(client)
        ticket = await client.append(TABLE, [content_file("a")], summary={"run": "7"})
        outcome = await ticket.result(10)
        assert isinstance(outcome, Committed)
        assert outcome.intent_id == ticket.intent_id
        assert await ticket.result(0) == outcome, "a ticket can be waited for again"
        assert await client.outcome(ticket.intent_id) == outcome
        assert client.unresolved == 0
    assert await bench.live() == ["a"]


async def test_every_operation_travels() -> None:
    bench = Workbench()
    async with bench.daemon(), client_of(bench) as client:
        await created(client)
        base = await (await client.append(TABLE, [content_file("a"), content_file("b")])).committed(10)
        assert base.snapshot_id is not None
        rewrite = await client.replace(
            TABLE,
            removed=[content_file("a"), path_of("b")],
            added=[content_file("ab", rows=20)],
            base_snapshot_id=base.snapshot_id,
            priority="maintenance",
        )
        await rewrite.committed(10)
        assert await bench.live() == ["ab"]
        await (await client.delete_files(TABLE, [path_of("ab")])).committed(10)
        assert await bench.live() == []
        await (await client.drop_table(TABLE)).committed(10)
        with pytest.raises(NotFound):
            await client.table(TABLE)


async def test_a_rejection_is_an_outcome_and_committed_raises_it() -> None:
    bench = Workbench()
    async with bench.daemon(), client_of(bench) as client:
        await created(client)
        ticket = await client.delete_files(TABLE, [path_of("never")])
        outcome = await ticket.result(10)
        assert isinstance(outcome, Rejected)
        with pytest.raises(RejectedError, match="missing-file") as caught:
            await ticket.committed(10)
        assert caught.value.outcome == outcome


async def test_without_a_daemon_the_answer_is_unknown_and_comes_true_later() -> None:
    bench = Workbench()
    async with client_of(bench) as client:
        ticket = await client.create_table(TABLE, SCHEMA)
        answer = await ticket.result(0.05)
        assert isinstance(answer, Unknown)
        assert answer.intent_id == ticket.intent_id
        assert answer.reason == "no outcome within 0.05 s; queued on shard 4, and no daemon has answered"
        assert not ticket.done
        with pytest.raises(UnknownOutcome):
            await ticket.committed(0)
        assert await client.outcome(ticket.intent_id) is None
        async with bench.daemon():
            assert isinstance(await ticket.result(10), Committed)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_answer_to_the_submission_costs_nothing(when: str) -> None:
    bench = Workbench()
    streams = bench.redis.connect()
    async with bench.daemon(), client_of(bench, connect=lambda: streams) as client:
        await created(client)
        streams.drop_next_write(when)  # type: ignore[arg-type]
        ticket = await client.append(TABLE, [content_file("a")])
        await ticket.committed(10)
    assert await bench.live() == ["a"]


async def test_an_emptied_redis_makes_the_client_submit_again() -> None:
    bench = Workbench()
    async with client_of(bench) as client:
        async with bench.daemon():
            await created(client)
        tickets = [await client.append(TABLE, [content_file(f"f{i}")]) for i in range(50)]
        bench.redis.flush_all()
        async with bench.daemon():
            outcomes = [await ticket.committed(10) for ticket in tickets]
    assert len(outcomes) == 50
    assert await bench.live() == sorted(f"f{i}" for i in range(50))


async def test_redis_emptied_while_the_daemon_works_loses_nothing() -> None:
    bench = Workbench()
    async with bench.daemon(), client_of(bench) as client:
        await created(client)
        tickets = []
        for i in range(60):
            tickets.append(await client.append(TABLE, [content_file(f"f{i}")]))
            if i % 20 == 10:
                bench.redis.flush_all()
        for ticket in tickets:
            await ticket.committed(10)
    assert await bench.live() == sorted(f"f{i}" for i in range(60))


async def test_a_redis_whose_clock_went_back_is_heard() -> None:
    """The emptied stream starts with smaller ids than the client has read."""
    bench = Workbench()
    async with bench.daemon(), client_of(bench) as client:
        await created(client)
        bench.redis.flush_all()
        bench.redis.now_ms = lambda: time.time_ns() // 1_000_000 - 600_000
        last_ms = int(client._delivery._cursor.partition("-")[0])
        async with asyncio.timeout(10):
            number = 0
            while int(client._delivery._cursor.partition("-")[0]) in (0, last_ms):  # until it reads the new stream
                await (await client.append(TABLE, [content_file(f"f{number}")])).committed(10)
                number += 1


async def test_redis_away_while_submitting_and_waiting() -> None:
    bench = Workbench()
    async with bench.daemon(), client_of(bench) as client:
        await created(client)
        bench.redis.down = True
        ticket = await client.append(TABLE, [content_file("a")])
        answer = await ticket.result(0.3)
        assert isinstance(answer, Unknown)
        assert "the last attempt: " in answer.reason
        assert "Redis" in answer.reason, "why it was not even queued"
        bench.redis.down = False
        await ticket.committed(10)
    assert await bench.live() == ["a"]


async def test_an_outcome_that_only_its_key_still_tells_is_found() -> None:
    bench = Workbench()
    async with bench.daemon(), client_of(bench) as client:
        await created(client)
    async with client_of(bench) as client:
        ticket = await client.append(TABLE, [content_file("a")])
        told = Committed(intent_id=ticket.intent_id, table=TABLE, batch="b", latency_ms=1.0)
        bench.redis.put(bench.streams.names.outcome(ticket.intent_id), encode_outcome(told))
        assert await ticket.result(5) == told


async def test_an_entry_that_waits_for_a_daemon_is_not_multiplied() -> None:
    bench = Workbench()
    async with client_of(bench, resubmit_after_s=0.05) as client:
        ticket = await client.append(TABLE, [content_file("a")])
        await ticket.result(0.2)
        assert ticket.attempts == 1
        await ticket.result(0.8)
        assert 2 <= ticket.attempts <= 3  # at 0.25, 0.75 and slower ticks: it may stand for other reasons
        bench.redis.flush_all()
        before = ticket.attempts
        for _ in range(100):
            await ticket.result(0.02)
            if ticket.attempts > before:
                break
        assert await queued(bench) == 1


async def test_silence_makes_submissions_rarer() -> None:
    bench = Workbench()
    streams = bench.redis.connect()

    async def nothing(shard: int, entry_id: str) -> bool:
        return False

    streams.holds = nothing  # type: ignore[method-assign]
    async with client_of(bench, connect=lambda: streams, resubmit_after_s=0.05) as client:
        ticket = await client.append(TABLE, [content_file("a")])
        await ticket.result(1.0)
        # 0, 0.05, 0.15, 0.35, 0.75 and slower ticks.
        assert 3 <= ticket.attempts <= 6
        assert await queued(bench) == ticket.attempts


async def test_too_many_unresolved_intents_make_submitting_wait() -> None:
    bench = Workbench()
    async with client_of(bench, unresolved_max=2) as client:
        await client.create_table(TABLE, SCHEMA)
        await client.append(TABLE, [content_file("a")])
        third = asyncio.create_task(client.append(TABLE, [content_file("b")]))
        await asyncio.sleep(0.05)
        assert not third.done()
        assert client.unresolved == 2
        async with bench.daemon():
            await (await third).result(10)


async def test_the_shards_are_those_that_the_daemons_announce() -> None:
    bench = Workbench(shards=3)
    async with bench.daemon(), client_of(bench) as client:
        await created(client)
    assert {name for name in bench.redis.streams if ":intents:" in name} <= {f"firn:intents:{i}" for i in range(3)}


async def test_a_shard_that_nobody_serves_is_left_when_the_daemons_announce_themselves() -> None:
    bench = Workbench(shards=1)
    async with client_of(bench) as client:
        ticket = await client.create_table("db.t19", SCHEMA)
        assert await client._streams.settings() is None
        async with bench.daemon():
            await ticket.committed(10)


async def test_epochs_of_a_streaming_writer_are_sent_one_after_the_other() -> None:
    """A later epoch that came first would have the earlier one refused for good."""
    bench = Workbench()
    streams = bench.redis.connect()
    async with bench.daemon(), client_of(bench, connect=lambda: streams) as client:
        await created(client)
        streams.drop_next_write("before")
        tickets = [
            await client.append(TABLE, [content_file(f"e{i}")], writer="etl", writer_sequence=i) for i in range(10)
        ]
        for ticket in tickets:
            await ticket.committed(10)
    assert await bench.live() == sorted(f"e{i}" for i in range(10))


async def test_closing_answers_unknown_and_refuses_more() -> None:
    bench = Workbench()
    client = client_of(bench)
    ticket = await client.append(TABLE, [content_file("a")])
    await client.close()
    assert isinstance(await ticket.result(), Unknown)
    with pytest.raises(Unavailable, match="closed"):
        await client.append(TABLE, [content_file("b")])


async def test_the_same_intent_submitted_twice_is_one() -> None:
    bench = Workbench()
    intent = append("a")
    async with bench.daemon(), client_of(bench) as client:
        await created(client)
        first, again = await asyncio.gather(client.submit(intent), client.submit(intent))
        assert await first.committed(10) == await again.committed(10)
        with pytest.raises(InvalidIntent, match="digest"):
            await client.submit(append("b", digest=digest_of(intent)))
        after = await client.submit(intent)
        assert await after.committed(10) == await first.committed(10)
    assert await bench.live() == ["a"]


async def test_an_intent_goes_on_when_one_of_two_who_submit_it_is_cancelled() -> None:
    bench = Workbench()
    intent = append("a")
    async with client_of(bench) as client:
        bench.redis.down = True
        cancelled = asyncio.create_task(client.submit(intent))
        await asyncio.sleep(0)
        ticket = await client.submit(intent)
        assert cancelled.cancel()
        bench.redis.down = False
        async with bench.daemon():
            await created(client)
            assert not isinstance(await ticket.result(10), Unknown)
        with pytest.raises(asyncio.CancelledError):
            await cancelled


def test_a_client_says_that_it_belongs_to_another_event_loop() -> None:
    bench = Workbench()
    client = client_of(bench)
    tickets: list[AsyncTicket] = []

    async def use() -> None:
        tickets.append(await client.append(TABLE, [content_file("a")]))

    asyncio.run(use())
    assert tickets[0].done, "it is not waited for in vain"
    uses: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        use, lambda: client.outcome(new_id()), lambda: client.table(TABLE), lambda: client.view("db.v"),
        lambda: client.reserved(TABLE), lambda: client.dry_run(append("a")),
    ]  # fmt: skip
    for again in uses:
        with pytest.raises(Misconfigured, match="first used on, which has ended: make one for each loop"):
            asyncio.run(again())


async def test_nobody_waits_for_ever_when_a_program_cancels_all_of_its_tasks() -> None:
    bench = Workbench()
    async with client_of(bench) as client:
        ticket = await client.append(TABLE, [content_file("a")])
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        answer = await ticket.result(5)
        assert isinstance(answer, Unknown)
        assert "the client stopped: cancelled" in answer.reason


async def test_an_id_with_other_content_is_refused_while_the_first_is_under_way() -> None:
    bench = Workbench()
    async with client_of(bench) as client:
        await client.submit(append("a", intent_id=(first := append("a")).intent_id))
        with pytest.raises(InvalidIntent, match="another intent"):
            await client.submit(append("b", intent_id=first.intent_id))


async def test_so_it_is_when_both_have_waited_for_room() -> None:
    bench = Workbench()
    async with client_of(bench, unresolved_max=2) as client:
        async with bench.daemon():
            await created(client)
        for name in ("x", "y"):  # decided in one batch, so that there is room for both at once
            await client.append(TABLE, [content_file(name)])
        first = append("a")
        other = append("b", intent_id=first.intent_id)
        both = [asyncio.create_task(client.submit(intent)) for intent in (first, other)]
        await asyncio.sleep(0.05)
        async with bench.daemon():
            ticket, refused = await asyncio.wait_for(asyncio.gather(*both, return_exceptions=True), 10)
            assert isinstance(refused, InvalidIntent)
            assert isinstance(ticket, AsyncTicket)
            await ticket.committed(10)
    assert await bench.live() == ["a", "x", "y"]


async def test_what_no_daemon_could_answer_is_refused_at_once() -> None:
    bench = Workbench()
    async with client_of(bench) as client:
        for wrong in (append("a", intent_id="17"), append("a", table="no..table")):
            with pytest.raises(InvalidIntent):
                await client.submit(wrong)
        with pytest.raises(InvalidIntent, match="list of files"):
            await client.delete_files(TABLE, "file.parquet")
        assert client.unresolved == 0
    assert await queued(bench) == 0


async def test_wrong_settings_are_named() -> None:
    bench = Workbench()
    with pytest.raises(Misconfigured, match="resubmit_after_s"):
        client_of(bench, resubmit_after_s=0)
    with pytest.raises(Misconfigured, match="unresolved_max"):
        client_of(bench, unresolved_max=0)


async def test_a_writer_finds_the_table_it_heard_of() -> None:
    bench = Workbench()
    async with bench.daemon(), client_of(bench) as client:
        outcome = await created(client)
        view = await client.table(TABLE)
        assert view.metadata_location == outcome.metadata_location
        assert view.snapshot_id is None
        appended = await (await client.append(TABLE, [content_file("a")], table_uuid=view.uuid)).committed(10)
        assert (await client.table(TABLE)).snapshot_id == appended.snapshot_id
        assert [field.name for field in view.schema.fields] == ["id", "ts", "name"]
        bench.redis.flush_all()
        with pytest.raises(NotFound, match="zookeeper="):
            await client.table(TABLE)


def test_an_intent_that_came_through_a_pickle_has_the_digest_that_the_daemon_finds() -> None:
    """Values that equal their defaults without being them: a worker process sends its files that way."""
    file = ContentFile(file_path="memory://t/f", file_format="parquet", spec_id=0, record_count=1, file_size_in_bytes=1)
    intent = Append(intent_id=new_intent_id(), table="db.t", data_files=(file,))
    sent = sealed(pickle.loads(pickle.dumps(intent)), reply_to="firn:replies:x")
    read = msgspec.json.decode(encode_intent(sent), type=Append)
    assert sent.digest == digest_of(read) == sealed(intent, reply_to="firn:replies:x").digest
