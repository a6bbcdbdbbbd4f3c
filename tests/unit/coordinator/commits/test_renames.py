"""Renames: one swap of two names, and whatever was decided under either of them keeps its answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from firn.coordinator.fsck.run import check_table
from firn.model.intent import DropTable, Intent, RenameTable
from firn.model.operations.views import RenameView
from firn.model.outcome import Committed, Rejected
from firn.storage.memory_streams import MemoryRedis
from firn.storage.pointers import Lost, Pointer, Pointers, Unknown
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.view_intents import VIEW, change, new_view, replaced
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, Workbench, append, content_file, create, decision, new_id

NEW = "db.archive"


def rename(table: str = TABLE, new_name: str = NEW, **changes: Any) -> RenameTable:
    return RenameTable(**{"intent_id": new_id(), "table": table, "new_name": new_name, **changes})


async def pointer_of(bench: Workbench, name: str) -> Pointer:
    return (await Pointers(bench.zookeeper.connect()).read(name)).pointer


async def forget_outcomes(bench: Workbench) -> None:
    """A Redis that was lost whole."""
    bench.redis = MemoryRedis()
    bench.streams = bench.redis.connect(names=bench.names)


async def require_whole(bench: Workbench, *names: str) -> None:
    for name in names:
        verdict = check_table(await pointer_of(bench, name), files=bench.files, limits=bench.limits)
        found = [finding for finding in verdict.findings if finding.message != "the data file is gone"]  # none has any
        assert not found, (name, found)


def moved(*names: str) -> tuple[Any, ...]:
    """Files in the folder of the table before it was renamed, for commits under its new name."""
    return tuple(content_file(name) for name in names)


async def test_a_renamed_table_is_what_it_was_under_another_name() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(properties={"write.data.path": f"{WAREHOUSE}/data/events"}))
        await bench.commit(append("a"))
        before, was = await bench.metadata(), await pointer_of(bench, TABLE)
        done = await bench.commit(rename(table_uuid=before.table_uuid))
        now = await pointer_of(bench, NEW)
        assert await bench.metadata(NEW) == before
        late = await bench.refuse(append("b"))
        await bench.commit(append("c", table=NEW, data_files=moved("c")))
        assert await bench.live(NEW) == ["a", "c"]
        types = [(e["type"], e["subject"]) for e in await bench.events()][2:4]
        await require_whole(bench, TABLE, NEW)
    assert done.details == {"renamed-to": NEW}
    assert (now.uuid, now.metadata_location, now.metadata_digest) == (
        was.uuid, was.metadata_location, was.metadata_digest,
    )  # fmt: skip
    assert (now.location, now.also_at) == (was.location, was.also_at)
    assert types == [("firn.table.committed", NEW), ("firn.table.committed", TABLE)]
    assert (late.rule, late.hint, late.conflicting_intent_id) == ("unknown-table", "replan", done.intent_id)
    assert NEW in late.message


async def test_what_was_decided_before_and_after_a_rename_is_answered_again_and_never_applied_again() -> None:
    bench = Workbench()
    first, renaming = append("a"), rename()
    async with bench.daemon("a"):
        await bench.commit(create())
        told = await bench.commit(first)
        renamed = await bench.commit(renaming)
        second = append("b", table=NEW, data_files=moved("b"))
        told_second = await bench.commit(second)
    await forget_outcomes(bench)
    async with bench.daemon("b"):
        again = await bench.settle(first, renaming, second)
        assert list(map(decision, again)) == list(map(decision, [told, renamed, told_second]))
        assert await bench.live(NEW) == ["a", "b"]
        await require_whole(bench, TABLE, NEW)


async def test_an_intent_id_and_an_epoch_are_not_taken_again_under_the_new_name() -> None:
    bench = Workbench()
    first = append("a", writer="etl", writer_sequence=7)
    async with bench.daemon("a"):
        await bench.commit(create())
        told = await bench.commit(first)
        await bench.commit(rename())
    for name in ("b", "c"):  # once with what the rename left, once after another commit
        await forget_outcomes(bench)
        async with bench.daemon(name):
            reused = append("x", table=NEW, data_files=moved("x"), intent_id=first.intent_id)
            await bench.send(reused)
            epoch = append("y", table=NEW, data_files=moved("y"), writer="etl", writer_sequence=7)
            outcome = await bench.commit(epoch)
            assert (outcome.snapshot_id, outcome.sequence_number) == (told.snapshot_id, told.sequence_number)
            refused = [event["data"] for event in await bench.events() if event["type"] == "firn.intent.rejected"]
            assert {data["rule"] for data in refused} == {"intent-id-reuse"}
            assert not await bench.streams.dead_letters()
            await bench.commit(append(name, table=NEW, data_files=moved(name)))
    assert await bench.live(NEW) == ["a", "b", "c"]


async def test_a_name_goes_round_and_every_journal_stays_in_one_piece() -> None:
    bench = Workbench()
    async with bench.daemon():
        made = create()
        await bench.commit(made)
        await bench.commit(append("a"))
        there = rename()
        first = await bench.commit(there)
        # The old name is free, and its folder is not.
        await bench.commit(create())
        other = await pointer_of(bench, TABLE)
        assert other.location.startswith(f"{WAREHOUSE}/db/events-")
        taken = await bench.refuse(rename(NEW, TABLE))
        await bench.commit(DropTable(intent_id=new_id(), table=TABLE))
        back = await bench.commit(rename(NEW, TABLE))
        await bench.commit(append("b"))
        assert await bench.settle(there, made) == [first, await bench.outcome(made)]
        again = await bench.commit(rename())
        assert await bench.live(NEW) == ["a", "b"]
        await require_whole(bench, TABLE, NEW)
        segments = [s.batch.sequence for s in await bench.journal(TABLE)]
    assert (taken.rule, taken.hint) == ("table-exists", "fix")
    assert back.details == {"renamed-to": TABLE}
    assert again.details == {"renamed-to": NEW}
    assert segments == list(range(1, len(segments) + 1))


async def test_a_view_is_renamed_as_its_writer_saw_it() -> None:
    bench = Workbench()
    async with bench.daemon():
        first = await bench.commit(new_view("SELECT 1"))
        second = await bench.commit(replaced(first, "SELECT 2"))
        late = await bench.refuse(change(RenameView, first, new_name="db.other"))
        await bench.commit(create())
        taken = await bench.refuse(change(RenameView, second, new_name=TABLE))
        as_table = await bench.refuse(rename(VIEW, "db.other"))
        as_view = await bench.refuse(change(RenameView, second, table=TABLE, new_name="db.other"))
        await bench.commit(change(RenameView, second, new_name="db.other"))
        third = await bench.commit(replaced(second, "SELECT 3", table="db.other"))
        gone = await bench.refuse(replaced(second, "SELECT 4"))
        await require_whole(bench, VIEW, "db.other")
        assert (await pointer_of(bench, "db.other")).kind == "view"
    assert third.details["version-id"] == 3
    assert (late.rule, taken.rule, as_table.rule, as_view.rule) == (
        "view-conflict", "table-exists", "wrong-kind", "wrong-kind",
    )  # fmt: skip
    assert (gone.rule, gone.conflicting_operation) == ("unknown-table", "rename-view")


async def test_names_that_cannot_be_are_refused() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(create("db.path", catalog="file-system"))
        rules = [
            (await bench.refuse(intent)).rule
            for intent in (
                rename(new_name="db..x"),
                rename(new_name=TABLE),
                rename("db.path"),
                rename("db.none"),
                rename(table_uuid="0192f0c1-5b2e-4cc1-8f4e-2d6a1b3c4d5e"),
                rename(new_name="db.path"),
            )
        ]
        await bench.commit(append("a"))
    assert rules == [
        "invalid-table-name", "invalid-field", "location-fixed", "unknown-table", "table-uuid-mismatch", "table-exists",
    ]  # fmt: skip


@pytest.mark.parametrize("lost", ["unseen", "never sent"])
async def test_an_unanswered_rename_is_looked_up_and_neither_lost_nor_repeated(
    lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("a"))
        swap, calls = Pointers.send, 0

        async def unanswered(self: Pointers, *arguments: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > 1:
                return await swap(self, *arguments, **named)
            if lost == "unseen":
                await swap(self, *arguments, **named)
                return Unknown("no answer")
            return Lost((TABLE,))

        monkeypatch.setattr(Pointers, "send", unanswered)
        done = await bench.commit(rename())
        monkeypatch.undo()
        assert done.details == {"renamed-to": NEW}
        assert calls == (1 if lost == "unseen" else 2)
        assert await bench.live(NEW) == ["a"]
        await require_whole(bench, TABLE, NEW)


async def test_intents_that_wait_behind_a_rename_are_told_where_the_table_went() -> None:
    bench = Gathering()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        outcomes = await bench.gathered(daemon, append("a"), rename(), append("b"))
        assert [type(outcome) for outcome in outcomes] == [Committed, Committed, Rejected]
        assert await bench.live(NEW) == ["a", "blocker"]


async def test_many_renames_at_once_over_two_daemons_leave_one_table_under_one_name() -> None:
    bench = Workbench()
    names = [f"db.t{number}" for number in range(6)]
    async with bench.daemon("a"), bench.daemon("b"):
        await bench.commit(create(names[0]))
        await bench.commit(append("a", table=names[0], data_files=(content_file("a", table=names[0]),)))
        intents: list[Intent] = [rename(one, other) for one in names for other in names if one != other]
        await bench.send(*intents)
        outcomes = await asyncio.gather(*(bench.outcome(intent, timeout_s=60) for intent in intents))
        session = bench.zookeeper.connect()
        found = [(await Pointers(session).read(name)).pointer for name in await Pointers(session).list()]
        live = [pointer for pointer in found if not pointer.dropped]
        assert len(live) == 1
        assert await bench.live(live[0].table) == ["a"]
        await require_whole(bench, *(pointer.table for pointer in found))
        done = sum(isinstance(outcome, Committed) for outcome in outcomes)
    # The name that it has now is the end of a walk that left and entered every other name equally often.
    entered = [o.details["renamed-to"] for o in outcomes if isinstance(o, Committed)]
    left = [o.table for o in outcomes if isinstance(o, Committed)]
    assert done >= 1
    assert all(entered.count(n) - left.count(n) == (n == live[0].table) - (n == names[0]) for n in names)


async def test_a_lane_that_knows_the_new_name_already_takes_over_what_came_with_the_table() -> None:
    bench = Workbench()
    first = append("a", writer="etl", writer_sequence=7)
    async with bench.daemon():
        # The daemon has the new name's journal in memory, from a table that was dropped.
        await bench.commit(create(NEW))
        await bench.commit(DropTable(intent_id=new_id(), table=NEW))
        await bench.commit(create())
        told = await bench.commit(first)
        await bench.commit(rename())
        again = append("y", table=NEW, data_files=moved("y"), writer="etl", writer_sequence=7)
        assert (await bench.commit(again)).snapshot_id == told.snapshot_id
        await bench.send(append("x", table=NEW, data_files=moved("x"), intent_id=first.intent_id))
        await bench.commit(append("b", table=NEW, data_files=moved("b")))
        assert await bench.live(NEW) == ["a", "b"]
        await require_whole(bench, TABLE, NEW)
