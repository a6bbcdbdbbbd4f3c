"""Transactions are applied whole or not at all, whatever their tables, and say what became of each member."""

from __future__ import annotations

from tests.unit.coordinator.transactions.ledger import A, B, snapshot_of, transaction, with_tables
from tests.unit.coordinator.workbench import Workbench, append, delete


async def test_all_members_are_committed_by_one_swap() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B)
        await bench.commit(append("old", table=B))
        outcome = await bench.commit(transaction(append("x", table=A), delete("old", table=B), append("y", table=B)))
        assert [await bench.live(t) for t in (A, B)] == [["x"], ["y"]]
        assert outcome.table == A
        assert [m["table"] for m in outcome.details["members"]] == [A, B, B]
        for table, member in ((A, 0), (B, 2)):
            metadata = await bench.metadata(table)
            assert metadata.current_snapshot_id == snapshot_of(outcome, member)
            assert metadata.current_snapshot is not None
            assert metadata.current_snapshot.summary["firn.intent-id"] == outcome.intent_id  # type: ignore[index]
        assert outcome.snapshot_id == snapshot_of(outcome, 0)
    batches = {
        segment.batch.batch for table in (A, B) for segment in await bench.journal(table) if segment.batch.transaction
    }
    assert batches == {outcome.batch}
