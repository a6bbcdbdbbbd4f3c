"""Staged snapshots: written and kept, and no branch shows them until they are published."""

from __future__ import annotations

from typing import Any

import pytest

from firn.model.errors import InvalidIntent
from firn.model.intent import encode_intent
from firn.model.intent_codec import decode_intent
from firn.model.limits import Limits
from firn.model.operations.refs import Publish
from tests.unit.coordinator.replay.real_rows import RealRows, field_is
from tests.unit.coordinator.workbench import TABLE, Workbench, new_id

ONE, TWO = ((1, "eu"), (2, "eu")), ((3, "us"),)

OPERATIONS: dict[str, Any] = {
    "append": lambda table, base, file: table.append(table.data(*TWO), stage=True, wap_id="w"),
    "delete-files": lambda table, base, file: table.delete(file, stage=True, wap_id="w"),
    "delete-where": lambda table, base, file: table.delete_where(True, stage=True, wap_id="w"),
    "overwrite": lambda table, base, file: table.overwrite(base, [table.data(*TWO)], [file], stage=True, wap_id="w"),
    "replace-partitions": lambda table, base, file: table.replace_partitions(
        base, table.data(*TWO), stage=True, wap_id="w"
    ),
    "replace": lambda table, base, file: table.replace(base, [file], [table.data(*ONE)], stage=True, wap_id="w"),
    "row-delta": lambda table, base, file: table.delta(base, table.vector(file, 0), stage=True, wap_id="w"),
}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_staged_snapshot_follows_the_head_and_nothing_points_at_it(operation: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*ONE)
        base = await table.commit(table.append(file))
        staged = await table.committed(OPERATIONS[operation](table, base, file))
        metadata = await table.metadata()
        assert metadata.current_snapshot_id == base
        assert {ref.snapshot_id for ref in metadata.refs.values()} == {base}
        snapshot = metadata.snapshot_by_id(staged.snapshot_id or 0)
        assert snapshot is not None
        assert (snapshot.parent_snapshot_id, (snapshot.summary or {})["wap.id"]) == (base, "w")
        assert await table.ids() == [1, 2]
        # What was staged has left no trace in what the next intents stand on.
        await table.commit(table.append(table.data((9, "eu"))))
        await table.commit(table.delta(base, table.vector(file, 1), conflict_filter=field_is("id", 4711)))
        assert await table.unsound() == ()
    assert await table.ids() == [1, 9]


async def test_what_was_staged_is_published() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        await table.commit(table.append(table.data(*ONE)))
        await table.committed(table.append(table.data(*TWO), stage=True, wap_id="w"))
        assert await table.ids() == [1, 2]
        await bench.commit(Publish(intent_id=new_id(), table=TABLE, wap_id="w"))
        assert await table.unsound() == ()
    assert await table.ids() == [1, 2, 3]


async def test_two_staged_snapshots_take_different_row_ids() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        await table.commit(table.append(table.data(*ONE)))
        for name in ("a", "b"):
            await table.committed(table.append(table.data(*TWO), stage=True, wap_id=name))
        ranges = [(snapshot.first_row_id, snapshot.added_rows) for snapshot in (await table.metadata()).snapshots]
        next_row_id = (await table.metadata()).next_row_id
    assert ranges == [(0, 2), (2, 1), (3, 1)]
    assert next_row_id == 4


async def test_an_id_for_publishing_is_for_staged_snapshots() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        intent = table.append(table.data(*ONE), wap_id="w")
    with pytest.raises(InvalidIntent) as refused:
        decode_intent(encode_intent(intent), limits=Limits())
    assert (refused.value.rule, refused.value.where) == ("invalid-field", "wap-id")
