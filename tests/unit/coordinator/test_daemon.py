"""The daemon's promises, on in-memory twins."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import msgspec
import pytest

from firn.coordinator.tables.table_reader import TableReader
from firn.model.intent import DropTable, encode_intent
from firn.model.outcome import Committed, Rejected
from firn.storage.intent_streams import Entry
from tests.unit.coordinator.workbench import (
    TABLE,
    Workbench,
    append,
    content_file,
    create,
    decision,
    delete,
    new_id,
    path_of,
    replace,
)


async def test_an_append_is_in_the_table_and_its_writer_is_told() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        outcome = await bench.commit(append("a", "b"))
        metadata = await bench.metadata()
    assert await bench.live() == ["a", "b"]
    assert outcome.snapshot_id == metadata.current_snapshot_id
    assert outcome.sequence_number == 1
    summary = metadata.current_snapshot.summary  # type: ignore[union-attr]
    assert summary is not None
    assert (summary["operation"], summary["total-data-files"], summary["total-records"]) == ("append", "2", "20")


async def test_appends_that_gather_share_one_snapshot() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        outcomes = await bench.settle(*(append(f"f{i}") for i in range(50)))
        metadata = await bench.metadata()
    assert all(isinstance(o, Committed) for o in outcomes)
    assert len(await bench.live()) == 50
    assert len(metadata.snapshots) < 50


async def test_deleting_what_was_replaced_is_refused_and_names_the_winner() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        base = await bench.commit(append("a", "b"))
        assert base.snapshot_id is not None
        won = await bench.commit(replace(["a", "b"], ["ab"], base=base.snapshot_id, rows=20, writer="compactor-1"))
        lost = await bench.refuse(delete("a"))
    assert lost.rule == "missing-file"
    assert lost.hint == "replan"
    assert lost.files == (path_of("a"),)
    assert lost.conflicting_snapshot_id == won.snapshot_id
    assert lost.conflicting_writer == "compactor-1"
    assert await bench.live() == ["ab"]


async def test_of_two_rewrites_of_the_same_files_one_wins_even_within_a_batch() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        base = await bench.commit(append("a", "b", "c"))
        assert base.snapshot_id is not None
        outcomes = await bench.settle(
            replace(["a", "b"], ["ab"], base=base.snapshot_id, rows=20),
            replace(["b", "c"], ["bc"], base=base.snapshot_id, rows=20),
            append("d"),
        )
    assert [type(o) for o in outcomes] == [Committed, Rejected, Committed]
    assert await bench.live() == ["ab", "c", "d"]


async def test_a_resubmitted_intent_is_committed_once_and_gets_its_first_outcome() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        intent = append("a")
        first = await bench.commit(intent)
        await bench.commit(append("b"))
        bench.redis.flush_all()
        assert decision(await bench.commit(intent)) == decision(first)
    assert await bench.live() == ["a", "b"]


async def test_the_same_intent_twice_in_one_batch_is_committed_once() -> None:
    bench = Workbench()
    intent = append("a")
    async with bench.daemon():
        await bench.commit(create())
        await bench.send(intent, intent, intent)
        await bench.outcome(intent)
        await bench.commit(append("z"))
    assert await bench.live() == ["a", "z"]


async def test_an_id_used_for_another_content_is_refused_and_the_first_outcome_stays() -> None:
    bench = Workbench()
    first = append("a")
    second = append("b", intent_id=first.intent_id, reply_to="firn:replies:w")
    async with bench.daemon():
        await bench.commit(create())
        told = await bench.commit(first)
        await bench.send(second)
        (reply,) = await bench.streams.replies("firn:replies:w", block_ms=2000)
        assert b"intent-id-reuse" in reply.data
        assert await bench.outcome(first) == told
    assert await bench.live() == ["a"]


async def test_another_daemon_takes_up_what_the_first_left() -> None:
    bench = Workbench()
    intents = [append(f"f{i}") for i in range(20)]
    async with bench.daemon("a"):
        await bench.commit(create())
        first = await bench.commit(intents[0])
    await bench.send(*intents)
    async with bench.daemon("b"):
        outcomes = [await bench.outcome(intent) for intent in intents]
    assert outcomes[0] == first
    assert all(isinstance(o, Committed) for o in outcomes)
    assert len(await bench.live()) == 20


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_unanswered_swap_is_resolved_by_reading_never_by_guessing(when: str) -> None:
    bench = Workbench()
    async with bench.daemon("a") as daemon:
        await bench.commit(create())
        await bench.commit(append("a"))
        bench.sessions["a"].drop_next_write(when)
        outcome = await bench.commit(append("b"))
        assert daemon.metrics.unknown_swaps._value.get() == 1
    assert await bench.live() == ["a", "b"]
    assert outcome.snapshot_id == (await bench.metadata()).current_snapshot_id
    assert len((await bench.metadata()).snapshots) == 2


async def test_a_daemon_whose_session_expired_cannot_commit_until_it_has_a_new_lock() -> None:
    bench = Workbench()
    async with bench.daemon("a"):
        await bench.commit(create())
        await bench.commit(append("a"))
        bench.zookeeper.expire(bench.sessions["a"])
        await bench.commit(append("b"))
    assert await bench.live() == ["a", "b"]
    tokens = [segment.batch.lock_token for segment in await bench.journal()]
    assert tokens == sorted(tokens)


async def test_two_daemons_share_the_tables_and_keep_every_chain_linear() -> None:
    bench = Workbench()
    tables = [f"db.t{i}" for i in range(6)]
    async with bench.daemon("a"), bench.daemon("b"):
        await asyncio.sleep(0.3)
        await bench.settle(*(create(t) for t in tables))
        intents = [append(f"f{i}", table=t) for i in range(10) for t in tables]
        outcomes = await bench.settle(*intents)
        owned = [len(d.ownership.owned()) for d in bench.daemons]
    assert all(isinstance(o, Committed) for o in outcomes)
    assert sorted(owned) == [2, 2]
    for table in tables:
        assert len(await bench.live(table)) == 10
        segments = await bench.journal(table)
        for before, after in pairwise(segments):
            assert after.batch.previous_segment == before.location
            assert after.batch.base_metadata == before.batch.new_metadata


async def test_bad_entries_are_set_aside_and_the_queue_moves_on() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.streams.submit(0, b"not json")
        await bench.streams.submit(1, b'{"intent-id": "x"}')
        await bench.streams.submit_fields(2, {b"other": b"1"})
        await bench.commit(append("a"))
        letters = await bench.streams.dead_letters()
        async with asyncio.timeout(5):
            while len(letters) < 3:
                await asyncio.sleep(0.01)
                letters = await bench.streams.dead_letters()
    assert len(letters) == 3
    assert await bench.live() == ["a"]


async def test_a_refused_intent_is_an_outcome_and_no_dead_letter() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        foreign = msgspec.structs.replace(content_file("a"), file_path="memory://elsewhere/a.parquet")
        wrong = append(data_files=(foreign,))
        assert (await bench.refuse(wrong)).rule == "location-not-allowed"
        assert (await bench.refuse(delete("never"))).hint == "replan"
        assert (await bench.refuse(append("a", table="db.nowhere"))).rule == "unknown-table"
        assert (await bench.refuse(create())).rule == "table-exists"
        assert not await bench.streams.dead_letters()


async def test_an_entry_in_the_wrong_shard_is_moved_to_its_own() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        intent = append("a")
        for shard in range(bench.shards):
            await bench.streams.submit(shard, encode_intent(intent))
        assert isinstance(await bench.outcome(intent), Committed)
        await bench.commit(append("b"))
    assert await bench.live() == ["a", "b"]


@pytest.mark.parametrize(
    ("intent", "rule"),
    [
        (append("a", table="db.nowhere"), "unknown-table"),
        (append("a", branch="dev"), "unknown-branch"),
        (append("a", table_uuid="00000000-0000-0000-0000-000000000000"), "table-uuid-mismatch"),
        (append("known"), "duplicate-file"),
        (delete("never"), "missing-file"),
        (replace(["known"], ["new"], base=12345), "unknown-base"),
        (append("a", deadline_ms=1), "deadline-passed"),
        (create(), "table-exists"),
        (create("db.other", location=f"memory://wh/{TABLE.replace('.', '/')}/inner"), "location-taken"),
        (create("db.other", location="memory://elsewhere/x"), "location-not-allowed"),
    ],
)
async def test_what_cannot_be_is_refused_by_its_rule_and_changes_nothing(intent: object, rule: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("known"))
        before = await bench.metadata()
        outcome = await bench.refuse(intent)  # type: ignore[arg-type]
        assert outcome.rule == rule
        assert outcome.message
        assert await bench.metadata() == before


async def test_a_dropped_table_still_answers_for_its_intents_and_its_name_can_come_back() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        intent = append("a")
        first = await bench.commit(intent)
        drop = DropTable(intent_id=new_id(), table=TABLE)
        dropped = await bench.commit(drop)
        assert (await bench.refuse(append("b"))).rule == "unknown-table"
        bench.redis.flush_all()
        assert decision(await bench.commit(drop)) == decision(dropped)
        assert decision(await bench.commit(intent)) == decision(first)
        await bench.commit(create())
        await bench.commit(append("c"))
    assert await bench.live() == ["c"]


async def test_many_small_manifests_are_merged_and_no_file_is_lost() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(properties={"commit.manifest.min-count-to-merge": "5"}))
        base = None
        for i in range(23):
            base = await bench.commit(append(f"f{i:02}"))
            await bench.merged()
        metadata = await bench.metadata()
        assert metadata.current_snapshot is not None
        manifests = TableReader(bench.files, limits=bench.limits).manifests(metadata, metadata.current_snapshot)
        assert len(manifests) < 8
        await bench.commit(delete("f03", "f22"))
        assert base is not None
        assert base.snapshot_id is not None
        await bench.commit(replace(["f00", "f01"], ["g"], base=base.snapshot_id, rows=20))
    names = [f"f{i:02}" for i in range(23) if i not in {0, 1, 3, 22}]
    assert await bench.live() == sorted([*names, "g"])


async def test_an_emptied_redis_may_hand_out_an_entry_id_again_for_another_intent() -> None:
    bench = Workbench(shards=1)
    async with bench.daemon() as daemon:
        await bench.commit(create())
        # An entry that is under way for ever stands for one whose outcome could not be sent before Redis was emptied.
        daemon.lanes.admit([Entry(shard=0, entry_id="5-1", payload=b"", deliveries=1)], table=None)
        bench.redis.flush_all()
        intent = append("a")
        bench.redis.add("firn:intents:0", {b"intent": encode_intent(intent)})
        await asyncio.sleep(0.05)
        assert isinstance(await bench.outcome(intent), Committed)
        assert not daemon.lanes.under_way(0, "5-1")


async def test_under_another_prefix_replies_go_to_streams_of_that_prefix_and_to_no_other() -> None:
    bench = Workbench(prefix="wintry")
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("a", reply_to="wintry:replies:w"))
        assert len(await bench.streams.replies("wintry:replies:w", block_ms=2000)) == 1
        assert (await bench.refuse(append("b", reply_to="firn:replies:w"))).rule == "invalid-reply-to"
