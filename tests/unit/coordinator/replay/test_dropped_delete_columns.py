"""Equality deletes by a column that is dropped: files that are written anew do not have it any more."""

from __future__ import annotations

from firn.model.operations.layout import UpdateSchema
from firn.model.operations.refs import Publish
from tests.unit.coordinator.replay.real_rows import RealRows, ref
from tests.unit.coordinator.workbench import TABLE, Workbench, new_id


async def drop_regions(bench: Workbench) -> None:
    changes = ({"action": "drop-column", "name": "region"},)
    await bench.commit(UpdateSchema(intent_id=new_id(), table=TABLE, base_schema_id=0, changes=changes))


async def test_nothing_is_deleted_by_a_column_that_was_dropped_meanwhile() -> None:
    """One after the other, the statement fails: there is no such column."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        base = await table.commit(table.append(table.data((1, "eu"), (2, "us"))))
        planned = table.delta(base, table.of_regions("eu"))
        await drop_regions(bench)
        lost = await table.refused(planned)
    assert (lost.rule, lost.hint) == ("invalid-delete-file", "replan")
    assert "deletes rows by column 2, which was dropped" in lost.message


async def test_rows_do_not_go_because_their_new_file_lacks_the_column_that_others_were_deleted_by() -> None:
    """Of files without the column, every row has null in it, which is what was deleted."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file = table.data((1, "eu"), (2, None))
        planned = await table.committed(table.append(file))
        deleted = await table.committed(table.delta(planned.snapshot_id, table.of_regions(None)))
        await drop_regions(bench)
        base = deleted.snapshot_id or 0

        def rewrite(number: int | None) -> object:
            return table.replace(base, [file], [table.of_ids(1)], data_sequence_number=number)

        lost = await table.refused(rewrite(planned.sequence_number))
        await table.commit(rewrite(deleted.sequence_number))
    assert (lost.rule, lost.hint) == ("wrong-sequence-number", "fix")
    assert await table.ids() == [1]


async def test_rows_do_not_come_back_in_a_file_without_the_column_that_they_were_deleted_by() -> None:
    """What was staged before the column was dropped comes to the branch behind a rewrite's base."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file = table.data((1, "eu"), (2, "us"))
        planned = await table.committed(table.append(file))
        base = planned.snapshot_id or 0
        await table.commit(table.delta(base, table.of_regions("eu"), stage=True, wap_id="w"))
        await drop_regions(bench)
        rewrite = table.replace(base, [file], [table.of_ids(1, 2)], data_sequence_number=planned.sequence_number)
        await bench.commit(Publish(intent_id=new_id(), table=TABLE, wap_id="w"))
        lost = await table.refused(rewrite)
    assert lost.rule == "new-deletes"
    assert await table.ids() == [2]


async def test_deletes_by_a_dropped_column_are_written_anew() -> None:
    """They go on deleting what they deleted."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        base = await table.commit(table.append(table.data((1, "eu"), (2, "us"))))
        old = table.of_regions("eu")
        deleted = await table.committed(table.delta(base, old))
        await drop_regions(bench)
        rewrite = table.replace(
            deleted.snapshot_id or 0,
            [],
            removed_delete_files=(ref(old),),
            delete_files=(table.of_regions("eu"),),
            data_sequence_number=deleted.sequence_number,
        )
        await table.commit(rewrite)
        assert await table.unsound() == ()
    assert await table.ids() == [2]
