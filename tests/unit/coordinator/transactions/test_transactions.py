"""Transactions are applied whole or not at all, whatever their tables, and say what became of each member."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.model.intent import Intent, Overwrite
from firn.model.operations.refs import CreateBranch, CreateTag
from firn.model.operations.transaction import Unchanged
from firn.model.operations.upkeep import UpdateProperties
from firn.model.outcome import Committed
from firn.storage.pointers import Pointers
from firn.storage.sessions import Set
from tests.unit.coordinator.transactions.ledger import A, B, C, fsck, snapshot_of, transaction, unchanged, with_tables
from tests.unit.coordinator.view_intents import VIEW, new_view
from tests.unit.coordinator.workbench import (
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


def set_property(table: str, **updates: str) -> UpdateProperties:
    return UpdateProperties(intent_id=new_id(), table=table, updates=updates)


def overwrite(table: str, *names: str, base: int | None, branch: str = "main", **changes: Any) -> Overwrite:
    """Adds files as a statement that has read the whole table."""
    files = tuple(content_file(name, table=table) for name in names)
    return Overwrite(
        intent_id=new_id(), table=table, branch=branch, base_snapshot_id=base, data_files=files, conflict_filter=True,
        **changes,
    )  # fmt: skip


async def pointers_of(bench: Workbench, *tables: str) -> list[Any]:
    """The pointers' znode versions and content: what a transaction that was refused must not have touched."""
    pointers = Pointers(bench.zookeeper.connect())
    return [await pointers.read(table) for table in tables]


async def test_all_members_are_committed_by_one_swap() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B)
        await bench.commit(append("old", table=B))
        outcome = await bench.commit(transaction(append("x", table=A), delete("old", table=B), append("y", table=B)))
        assert [await bench.live(t) for t in (A, B)] == [["x"], ["y"]]
        assert outcome.table == A
        assert [m["table"] for m in outcome.details["members"]] == [A, B, B]
        assert outcome.snapshot_id == snapshot_of(outcome, 0)
        for table, member in ((A, 0), (B, 2)):
            metadata = await bench.metadata(table)
            assert metadata.current_snapshot_id == snapshot_of(outcome, member)
            assert metadata.current_snapshot is not None
            assert (metadata.current_snapshot.summary or {})["firn.intent-id"] == outcome.intent_id
            (pointer,) = await pointers_of(bench, table)
            assert pointer.pointer.metadata_location == outcome.details["members"][member]["metadata-location"]
        parts = [(await bench.journal(table))[-1] for table in (A, B)]
        await fsck(bench, A, B)
    assert {part.batch.transaction for part in parts} == {outcome.intent_id}
    assert {part.batch.batch for part in parts} == {outcome.batch}
    assert [part.batch.others[0].segment for part in parts] == [parts[1].location, parts[0].location]
    assert all(decision(part.decided[0].outcome) == decision(outcome) for part in parts)


@pytest.mark.parametrize("bad", [0, 1, 2])
async def test_the_first_member_that_is_refused_decides_and_all_tables_stay_as_they_were(bad: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B)
        before, (first, _) = await pointers_of(bench, B), await pointers_of(bench, A, B)
        members: list[Any] = [append("x", table=A), append("y", table=B), set_property(A, p="1")]
        members[bad] = delete("nowhere", table=members[bad].table)
        refused = await bench.refuse(transaction(*members, delete("nothing", table=B), table=A))
        assert (await pointers_of(bench, B)) == before
        assert await bench.live(A) == []
        (now,) = await pointers_of(bench, A)
        assert now.pointer.metadata_location == first.pointer.metadata_location
        await fsck(bench, A, B)
    assert refused.rule == "missing-file"
    assert refused.details == {"member": bad, "table": members[bad].table, "operation": "delete-files"}
    assert refused.message.startswith(f"members[{bad}] (delete-files on {members[bad].table!r}): ")
    assert refused.files == (path_of("nowhere", table=members[bad].table),)


async def test_members_see_what_the_ones_before_them_did_and_do_not_conflict_with_it() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A)
        base = (await bench.commit(append("old", table=A))).snapshot_id
        assert base is not None
        outcome = await bench.commit(
            transaction(
                append("x", table=A),
                overwrite(A, "y", base=base),
                replace(["x", "y"], ["z"], base=base, table=A, rows=20),
                delete("old", table=A),
            )
        )
        assert await bench.live(A) == ["z"]
        metadata = await bench.metadata(A)
        await fsck(bench, A)
    ids = [snapshot_of(outcome, member) for member in range(4)]
    assert [s.snapshot_id for s in metadata.snapshots][-4:] == ids
    assert len(set(ids)) == 4
    assert [entry.snapshot_id for entry in metadata.snapshot_log] == [base, ids[-1]]


async def test_what_came_after_the_base_conflicts_with_members_however_many_are_before_them() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A)
        base = (await bench.commit(append("old", table=A))).snapshot_id
        winner = await bench.commit(append("meanwhile", table=A))
        refused = await bench.refuse(transaction(append("x", table=A), overwrite(A, "y", base=base)))
        assert await bench.live(A) == ["meanwhile", "old"]
    assert (refused.rule, refused.details["member"]) == ("new-data", 1)
    assert refused.conflicting_snapshot_id == winner.snapshot_id
    assert refused.base_snapshot_id == base


async def test_case_7_a_transaction_over_two_branches_loses_no_update_on_the_second() -> None:
    """Elsewhere the requirement that a branch is at a snapshot was kept once per kind: for the last branch only."""
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A)
        base = (await bench.commit(append("old", table=A))).snapshot_id
        assert base is not None
        for branch in ("one", "two"):
            await bench.commit(CreateBranch(intent_id=new_id(), table=A, ref_name=branch, snapshot_id=base))
        for taken, free in (("one", "two"), ("two", "one")):
            planned = (await bench.metadata(A)).refs
            meanwhile = await bench.commit(append(f"to {taken}", table=A, branch=taken))
            members = [overwrite(A, f"{b} {taken}", base=planned[b].snapshot_id, branch=b) for b in ("one", "two")]
            before = (await bench.metadata(A)).refs
            refused = await bench.refuse(transaction(*members))
            assert refused.details["member"] == ["one", "two"].index(taken)
            assert (refused.rule, refused.branch) == ("new-data", taken)
            assert refused.conflicting_snapshot_id == meanwhile.snapshot_id
            assert (await bench.metadata(A)).refs == before
            assert free in before
        refs = (await bench.metadata(A)).refs
        both = await bench.commit(
            transaction(*(overwrite(A, f"last {b}", base=refs[b].snapshot_id, branch=b) for b in ("one", "two")))
        )
        after = (await bench.metadata(A)).refs
    assert [after[b].snapshot_id for b in ("one", "two")] == [snapshot_of(both, 0), snapshot_of(both, 1)]


async def test_a_table_can_be_made_and_filled_by_one_transaction() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A)
        await bench.commit(append("source", table=A))
        outcome = await bench.commit(
            transaction(create(B), append("copy", table=B), set_property(A, copied="yes"), table=B)
        )
        assert await bench.live(B) == ["copy"]
        assert (await bench.metadata(A)).properties["copied"] == "yes"
        refused = await bench.refuse(transaction(append("more", table=A), create(B)))
        assert await bench.live(A) == ["source"]
        await fsck(bench, A, B)
    assert outcome.details["members"][0]["operation"] == "create-table"
    assert (refused.rule, refused.details["member"]) == ("table-exists", 1)


async def test_tables_that_one_transaction_makes_are_different_tables() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(transaction(create(A), create(B), append("x", table=A), append("x", table=B)))
        first, second = [await bench.metadata(table) for table in (A, B)]
        wrong = await bench.refuse(transaction(append("y", table=A), table_uuid=second.table_uuid))
        await bench.commit(transaction(append("z", table=A), append("z", table=B), table_uuid=first.table_uuid))
        await fsck(bench, A, B)
    assert first.table_uuid != second.table_uuid
    assert first.current_snapshot_id != second.current_snapshot_id
    assert wrong.rule == "table-uuid-mismatch"


async def test_two_tables_of_one_transaction_cannot_be_made_in_one_place() -> None:
    bench = Workbench()
    place = f"{bench.warehouse}/shared"
    async with bench.daemon():
        await with_tables(bench, A)
        members = (create(B, location=place), create(C, location=f"{place}/inner"))
        refused = await bench.refuse(transaction(append("x", table=A), *members))
        names = await Pointers(bench.zookeeper.connect()).list()
    assert (refused.rule, refused.details["member"]) == ("location-taken", 2)
    assert names == [A]


async def test_a_table_that_is_not_there_refuses_the_transaction_and_gets_no_lock() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A)
        refused = await bench.refuse(transaction(append("x", table=A), append("y", table=B)))
        nobody = await bench.refuse(transaction(append("y", table=B), append("x", table=A)))
        assert await bench.live(A) == []
        assert bench.zookeeper.node("/firn/locks/db.b") is None
        assert bench.zookeeper.node("/locks/db.b") is None
        assert bench.zookeeper.node("/locks/db.a") is not None
    assert (refused.rule, refused.details) == ("unknown-table", {"member": 1, "table": B, "operation": "append"})
    assert nobody.rule == "unknown-table"


async def test_tables_that_are_to_be_unchanged_are() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B, C)
        seen = (await bench.commit(append("price", table=B))).snapshot_id
        same = await unchanged(bench, B, snapshot_id=seen)
        exactly = await unchanged(
            bench, C, metadata_location=(await pointers_of(bench, C))[0].pointer.metadata_location
        )
        empty = await unchanged(bench, C, snapshot_id=None)
        before = await pointers_of(bench, B, C)
        await bench.commit(transaction(append("a", table=A), unchanged=(same, exactly)))
        assert await pointers_of(bench, B, C) == before
        await bench.commit(set_property(C, p="1"))
        exact = await bench.refuse(transaction(append("b", table=A), unchanged=(same, exactly)))
        await bench.commit(transaction(append("c", table=A), unchanged=(same, empty)))
        winner = await bench.commit(append("other price", table=B))
        moved = await bench.refuse(transaction(append("d", table=A), unchanged=(exactly, same)[1:]))
        other = msgspec.structs.replace(same, table_uuid=exactly.table_uuid)
        uuid = await bench.refuse(transaction(append("e", table=A), unchanged=(other,)))
        gone = await bench.refuse(
            transaction(append("f", table=A), unchanged=(msgspec.structs.replace(same, table="no"),))
        )
        assert await bench.live(A) == ["a", "c"]
        await fsck(bench, A, B, C)
    assert (exact.rule, exact.details) == ("table-changed", {"unchanged": 1, "table": C})
    assert (moved.rule, moved.details) == ("table-changed", {"unchanged": 0, "table": B})
    assert moved.conflicting_intent_id == winner.intent_id
    assert (uuid.rule, gone.rule) == ("table-uuid-mismatch", "unknown-table")


async def test_a_pointer_that_moves_under_the_swap_has_it_tried_again_and_judged_anew() -> None:
    """A foreign hand moves a table that is to be unchanged between the reading and the swap: locks do not stop it."""
    bench = Workbench()
    async with bench.daemon() as daemon:
        await with_tables(bench, A, B)
        same = await unchanged(bench, B, snapshot_id=None)
        pointers = Pointers(bench.zookeeper.connect())
        create_all, others = bench.files.create_all, [await pointers.read(B)]

        def meddle(files: Any) -> None:
            create_all(files)
            while others:
                versioned = others.pop()
                node = bench.zookeeper.node("/tables/db.b")
                assert node is not None
                bench.zookeeper.apply_all([_set("/tables/db.b", node[0], versioned.version)])

        bench.files.create_all = meddle  # type: ignore[method-assign]
        outcome = await bench.commit(transaction(append("a", table=A), unchanged=(same,)))
        assert daemon.metrics.replays._value.get() == 1
        assert await bench.live(A) == ["a"]
    assert outcome.replays == 1


def _set(path: str, data: bytes, version: int) -> Any:
    return Set(path, data, version)


async def test_a_transaction_that_is_sent_again_gets_its_first_outcome() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B)
        once = transaction(append("x", table=A), append("y", table=B))
        bad = transaction(delete("x", table=B), append("z", table=A))
        first, refused = await bench.commit(once), await bench.refuse(bad)
        await bench.commit(append("more", table=B))
        for intent, outcome in ((once, first), (bad, refused)):
            await bench.send(intent)
            assert await bench.outcome(intent) == outcome
        assert [await bench.live(t) for t in (A, B)] == [["x"], ["more", "y"]]
        other = msgspec.structs.replace(append("z", table=B), intent_id=once.intent_id)
        await bench.send(other)
        await bench.commit(append("last", table=B))
        assert await bench.live(B) == ["last", "more", "y"]
        await fsck(bench, A, B)


async def test_transactions_and_single_intents_keep_their_order() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B)
        middle = transaction(delete("1", table=A), append("2", table=A), append("b", table=B))
        intents: list[Intent] = [append("1", table=A), middle, delete("2", table=A), append("3", table=A)]
        outcomes = await bench.settle(*intents)
        assert all(isinstance(outcome, Committed) for outcome in outcomes), outcomes
        assert await bench.live(A) == ["3"]


async def test_a_file_system_table_can_only_be_alone_in_a_transaction() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, catalog="file-system")
        await with_tables(bench, B)
        await bench.commit(transaction(append("x", table=A), set_property(A, p="1"), append("y", table=A)))
        together = await bench.refuse(transaction(append("z", table=B), append("z", table=A)))
        asserted = await bench.refuse(
            transaction(append("z", table=B), unchanged=(await unchanged(bench, A, snapshot_id=None),))
        )
        assert [await bench.live(t) for t in (A, B)] == [["x", "y"], []]
        assert len((await bench.metadata(A)).snapshots) == 2
        await fsck(bench, A, B)
    assert {together.rule, asserted.rule} == {"invalid-transaction"}
    assert asserted.details == {"unchanged": 0, "table": A}


async def test_every_table_tells_what_happened_to_it() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B)
        outcome = await bench.commit(transaction(append("x", table=A), append("y", table=B, summary={"k": "member"}),
                                                 summary={"k": "all", "job": "7"}))  # fmt: skip
        events = [e for e in await bench.events() if e["data"].get("transaction") == outcome.intent_id]
        summaries = [(await bench.metadata(t)).current_snapshot.summary for t in (A, B)]  # type: ignore[union-attr]
    assert [(e["subject"], e["type"]) for e in events] == [(B, "firn.table.committed"), (A, "firn.table.committed")]
    assert all(event["data"]["tables"] == [A, B] for event in events)
    assert [event["data"]["snapshot-ids"] for event in events] == [[snapshot_of(outcome, 1)], [snapshot_of(outcome, 0)]]
    assert [(s["k"], s["job"]) for s in summaries if s] == [("all", "7"), ("member", "7")]


async def test_what_another_table_has_wrong_with_it_is_not_held_against_the_first() -> None:
    bench = Workbench()
    async with bench.daemon() as daemon:
        await with_tables(bench, A, B)
        (broken,) = await pointers_of(bench, B)
        location = broken.pointer.metadata_location
        data = bench.files.read(location, bytes_max=1 << 20)
        bench.files.replace(location, data[:-10])
        intent = transaction(append("x", table=A), append("y", table=B))
        refused = await bench.refuse(intent)
        assert daemon.lanes.unreadable == {}
        await bench.commit(append("z", table=A))
        bench.files.replace(location, data)
        assert [await bench.live(t) for t in (A, B)] == [["z"], []]
    assert (refused.rule, refused.hint) == ("table-unreadable", "fix")
    assert B in refused.message


async def test_who_changed_what_no_snapshot_tells_of_is_remembered_of_transactions_too() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B)
        base = (await bench.commit(append("x", table=B))).snapshot_id
        assert base is not None
        tag = CreateTag(intent_id=new_id(), table=B, ref_name="t", snapshot_id=base)
        outcome = await bench.commit(transaction(append("x", table=A), set_property(B, p="2"), tag))
        expecting = UpdateProperties(intent_id=new_id(), table=B, updates={"p": "3"}, expect={"p": "1"})
        refused = await bench.refuse(expecting)
    assert refused.rule == "expectation-failed"
    assert refused.conflicting_intent_id == outcome.intent_id
    assert refused.conflicting_operation == "update-properties"


async def test_a_streaming_writers_epoch_counts_in_its_first_table() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B)
        epoch: dict[str, Any] = {"writer": "etl", "writer_sequence": 5}
        first = await bench.commit(transaction(append("x", table=A), append("y", table=B), **epoch))
        again = await bench.commit(transaction(append("x2", table=A), append("y2", table=B), **epoch))
        late = await bench.refuse(transaction(append("w", table=A), **{**epoch, "writer_sequence": 4}))
        assert [await bench.live(t) for t in (A, B)] == [["x"], ["y"]]
        metadata = await bench.metadata(B)
    assert again.snapshot_id == first.snapshot_id
    assert late.rule == "writer-sequence-passed"
    assert metadata.current_snapshot is not None
    assert (metadata.current_snapshot.summary or {})["firn.writer"] == "etl"


async def test_a_transaction_that_is_late_is_refused_and_nothing_else_is_looked_at() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B)
        refused = await bench.refuse(transaction(append("x", table=A), append("y", table=B), deadline_ms=1))
        assert [await bench.live(t) for t in (A, B)] == [[], []]
    assert refused.rule == "deadline-passed"


async def test_pointers_that_do_not_fit_into_one_packet_refuse_the_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firn.coordinator.commits.transaction_commit.SWAP_BYTES_MAX", 700)
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B)
        await bench.commit(transaction(append("x", table=A)))
        refused = await bench.refuse(transaction(append("y", table=A), append("y", table=B)))
        assert [await bench.live(t) for t in (A, B)] == [["x"], []]
    assert refused.rule == "transaction-too-large"


async def test_a_view_can_be_asserted_but_not_changed() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A)
        await bench.commit(new_view())
        (view,) = await pointers_of(bench, VIEW)
        same = Unchanged(table=VIEW, table_uuid=view.pointer.uuid, metadata_location=view.pointer.metadata_location)
        await bench.commit(transaction(append("x", table=A), unchanged=(same,)))
        member = await bench.refuse(transaction(append("y", table=A), append("y", table=VIEW)))
        rows = msgspec.structs.replace(same, snapshot_id=None)
        snapshot = await bench.refuse(transaction(append("z", table=A), unchanged=(rows,)))
        assert await bench.live(A) == ["x"]
    assert (member.rule, member.details["member"]) == ("wrong-kind", 1)
    assert (snapshot.rule, snapshot.details["table"]) == ("invalid-transaction", VIEW)
