"""Journals into a table: every decision once, whoever collects and whatever crashes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from firn.coordinator.client import Answer
from firn.model.errors import UnknownOutcome
from firn.model.intent import DropTable, Intent, RenameTable
from firn.model.operations.transaction import Transaction
from firn.model.operations.upkeep import UpdateProperties
from firn.pipeline import journal_positions
from firn.pipeline.commits_table import COLLECTOR, COMMITS_TABLE
from firn.storage.pointers import Pointers
from tests.unit.coordinator.workbench import append, create, delete, new_id
from tests.unit.pipeline.commits_bench import CommitsBench, LoopClient


async def busy(bench: CommitsBench, *tables: str, appends: int = 3) -> None:
    """Every table with some commits and a rejection."""
    for table in tables:
        await bench.commit(create(table))
        for number in range(appends):
            await bench.commit(append(f"f{number}", table=table, writer=f"w{number}"))
        await bench.refuse(delete("nothing-there", table=table, writer="deleter"))


def told(rows: list[dict[str, Any]]) -> list[tuple[str, int, int, str]]:
    return [(row["table_name"], row["journal_sequence"], row["position"], row["intent_id"]) for row in rows]


async def test_every_decision_is_a_row_with_what_the_journal_says_of_it() -> None:
    bench = CommitsBench()
    async with bench.daemon():
        await busy(bench, "db.a", "db.b")
        journaled = await bench.decided()
        collected = await bench.collect()
        rows = await bench.rows()
        segment = (await bench.journal("db.a"))[1]
    assert told(rows) == journaled
    assert collected.rows == len(rows) == 10
    assert [(one.table, one.committed, one.rejected) for one in collected.tables] == [("db.a", 4, 1), ("db.b", 4, 1)]
    appended = rows[1]
    assert appended["status"] == "committed"
    assert appended["writer"] == "w0"
    assert appended["decided_at"] == segment.batch.timestamp_ms * 1000
    assert appended["snapshot_id"] == segment.decided[0].outcome.snapshot_id  # type: ignore[union-attr]
    refused = rows[4]
    assert (refused["status"], refused["rule"], refused["hint"]) == ("rejected", "missing-file", "replan")
    assert refused["writer"] == "deleter"
    assert refused["snapshot_id"] is None


async def test_a_collection_brings_only_what_is_new() -> None:
    bench = CommitsBench()
    async with bench.daemon():
        await busy(bench, "db.a", "db.b")
        await bench.collect()
        await bench.commit(append("late", table="db.b"))
        second = await bench.collect()
        assert [one.table for one in second.tables] == ["db.b", COMMITS_TABLE]
        assert second.tables[0].committed == 1
        rows = await bench.rows("table_name != 'firn.commits'")
        expected = [one for one in await bench.decided() if one[0] != COMMITS_TABLE]
    assert told(rows) == expected


async def test_collections_alone_are_nothing_to_collect() -> None:
    bench = CommitsBench()
    async with bench.daemon():
        await busy(bench, "db.a")
        await bench.collect()
        first = await bench.metadata(COMMITS_TABLE)
        for _ in range(2):
            again = await bench.collect()
            assert (again.rows, again.commits) == (0, 0)
        assert await bench.metadata(COMMITS_TABLE) == first
        # What others do with the table is news, and brings the collections before it along.
        await bench.commit(UpdateProperties(intent_id=new_id(), table=COMMITS_TABLE, updates={"owner": "us"}))
        await bench.collect()
        own = await bench.rows("table_name = 'firn.commits'")
        assert [row["operation"] for row in own] == ["create-table", "transaction", "update-properties"]
        assert [row["writer"] for row in own] == [COLLECTOR, COLLECTOR, None]


async def test_dropped_and_renamed_tables_are_collected_to_their_ends() -> None:
    bench = CommitsBench()
    async with bench.daemon():
        await busy(bench, "db.a", "db.b")
        await bench.commit(DropTable(intent_id=new_id(), table="db.a"))
        await bench.collect()
        await bench.commit(create("db.a"))
        await bench.commit(append("again", table="db.a"))
        await bench.commit(RenameTable(intent_id=new_id(), table="db.b", new_name="db.c"))
        await bench.commit(UpdateProperties(intent_id=new_id(), table="db.c", updates={"owner": "us"}))
        await bench.collect()
        rows = await bench.rows("table_name != 'firn.commits'")
        expected = [one for one in await bench.decided() if one[0] != COMMITS_TABLE]
    assert told(rows) == expected
    assert len({row["table_uuid"] for row in rows if row["table_name"] == "db.a"}) == 2
    assert {row["table_name"] for row in rows if row["operation"] == "rename-table"} == {"db.b", "db.c"}


async def test_what_is_too_much_for_one_commit_comes_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_positions, "SEGMENTS_KEPT", 2)
    bench = CommitsBench()
    async with bench.daemon():
        await busy(bench, "db.a", "db.b", appends=6)
        expected = await bench.decided()
        collected = await bench.collect(rows_max=3)
        assert collected.commits >= len(expected) // 3
        assert told(await bench.rows()) == expected


class Forgetful(LoopClient):
    """A collector's client that dies when it has submitted, before or after the commit."""

    def outcome(self, intent: Intent, timeout: float) -> Answer:
        if isinstance(intent, Transaction):
            raise UnknownOutcome("killed")
        return super().outcome(intent, timeout)


async def test_a_collector_that_dies_with_its_commit_on_the_way_doubles_nothing() -> None:
    bench = CommitsBench()
    async with bench.daemon():
        await busy(bench, "db.a")
        expected = await bench.decided()
        with pytest.raises(UnknownOutcome):
            await bench.collect(client=Forgetful(bench))
        await bench.collect()  # finds the first one's commit there, or comes before it
        await bench.collect()
        rows = await bench.rows("table_name = 'db.a'")
    assert told(rows) == expected


async def test_collectors_at_the_same_time_bring_each_row_once() -> None:
    bench = CommitsBench()
    async with bench.daemon():
        await busy(bench, "db.a", "db.b")
        await bench.collect()
        for number in range(5):
            await bench.commit(append(f"late{number}", table="db.a"))
        await asyncio.gather(*(bench.collect(rows_max=2) for _ in range(4)))
        rows = await bench.rows("table_name != 'firn.commits'")
        expected = [one for one in await bench.decided() if one[0] != COMMITS_TABLE]
        live = await bench.live(COMMITS_TABLE)
        stored = [one.location for one in bench.files.list("memory://wh/firn/commits/data")]
    assert told(rows) == expected
    assert len(stored) == len(live), "a collection that was overtaken leaves its files"


async def test_a_journal_that_was_replaced_is_told_of_and_the_others_are_collected() -> None:
    bench = CommitsBench()
    async with bench.daemon():
        await busy(bench, "db.a", "db.b")
        await bench.collect()
        rows = await bench.rows("table_name = 'db.a'")
        await bench.commit(append("late", table="db.b"))
        heads = await bench.heads()
        pointer = (await Pointers(bench.zookeeper.connect()).read("db.a")).pointer
        assert pointer.journal_head is not None
        folder, _, name = pointer.journal_head.rpartition("/")
        other = f"{folder}/{name.partition('-')[0]}-another.jsonl.gz"
        bench.files.create(other, bench.files.read(pointer.journal_head, bytes_max=10**6))
        moved = [type(one)(one.table, other) if one.table == "db.a" else one for one in heads]
        collected = await asyncio.to_thread(bench.commits_table().collect, moved)
        assert next(one.table for one in collected.tables) == "db.b"
        assert len(collected.problems) == 1
        assert "db.a" in collected.problems[0]
        assert "was replaced" in collected.problems[0]
        assert await bench.rows("table_name = 'db.a'") == rows
