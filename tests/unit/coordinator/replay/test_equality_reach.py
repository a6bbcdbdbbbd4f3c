"""Rewrites and equality deletes: a row is reached in its new file exactly where it was reached in its old one."""

from __future__ import annotations

import msgspec
import pytest

from firn.coordinator.replay import moved_rows
from firn.model.intent import ContentFile
from firn.model.operations.layout import UpdateSpec
from tests.unit.coordinator.replay.real_rows import RealRows, Row, ref
from tests.unit.coordinator.workbench import TABLE, Workbench, new_id

TEN = tuple((id, "eu") for id in range(10))


async def test_equality_deletes_that_came_meanwhile_are_a_conflict_for_rows_that_change_their_partition() -> None:
    """They are for the partition that the rows were in, whatever their age is."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2, partitioned=True)
        file = table.data(*TEN)
        planned = await table.committed(table.append(file))
        base = planned.snapshot_id or 0
        unpartitioned = ({"action": "remove-field", "name": "region"},)
        await bench.commit(
            UpdateSpec(intent_id=new_id(), table=TABLE, base_schema_id=0, base_spec_id=0, changes=unpartitioned)
        )
        won = await table.commit(table.delta(base, table.equality(3, like=file)))
        moved = msgspec.structs.replace(table.data(*TEN), spec_id=1, partition=())
        lost = await table.refused(table.replace(base, [file], [moved], data_sequence_number=planned.sequence_number))
        assert (lost.rule, lost.conflicting_snapshot_id) == ("new-deletes", won)
    assert await table.ids() == [0, 1, 2, 4, 5, 6, 7, 8, 9]


async def test_rows_that_come_beside_others_do_not_come_under_their_equality_deletes() -> None:
    """The rows that they are for stay in their partition, but others come there that they are not for."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        old = table.data((3, "eu"))
        await table.commit(table.append(old))
        await partition_by_region(bench)
        new = in_region(table.data((3, "eu"), (4, "eu")))
        planned = await table.committed(table.append(new))
        base = planned.snapshot_id or 0
        won = await table.commit(table.delta(base, in_region(table.equality(3))))
        compacted = in_region(table.data((3, "eu"), (3, "eu"), (4, "eu")))
        kept = table.replace(base, [old, new], [compacted], data_sequence_number=planned.sequence_number)
        lost = await table.refused(kept)
        assert (lost.rule, lost.hint, lost.conflicting_snapshot_id) == ("wrong-sequence-number", "replan", won)
        assert lost.files == (old.file_path, compacted.file_path)
    assert await table.ids() == [3, 4]


@pytest.mark.parametrize("elsewhere", [(3, "us"), (5, "eu")])
async def test_rows_of_other_partitions_or_keys_come_beside_those_that_equality_deletes_are_for(elsewhere: Row) -> None:
    """Of rows that change their spec, none may be both in the partition and among the keys of the deletes."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        old = table.data(elsewhere)
        await table.commit(table.append(old))
        await partition_by_region(bench)
        new = in_region(table.data((3, "eu"), (4, "eu")))
        planned = await table.committed(table.append(new))
        base = planned.snapshot_id or 0
        await table.commit(table.delta(base, in_region(table.equality(3))))
        rows = {
            region: [row for row in (elsewhere, (3, "eu"), (4, "eu")) if row[1] == region] for region in ("eu", "us")
        }
        compacted = [in_region(table.data(*own), region) for region, own in rows.items() if own]
        await table.commit(table.replace(base, [old, new], compacted, data_sequence_number=planned.sequence_number))
    assert await table.rows() == sorted([elsewhere, (4, "eu")])


async def test_rows_may_have_moved_anywhere_where_there_is_too_much_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    """More is refused then, never less."""
    monkeypatch.setattr(moved_rows, "COMPARISONS_MAX", 0)
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        old = table.data((3, "us"))
        await table.commit(table.append(old))
        await partition_by_region(bench)
        new = in_region(table.data((3, "eu")))
        planned = await table.committed(table.append(new))
        base = planned.snapshot_id or 0
        await table.commit(table.delta(base, in_region(table.equality(3))))
        compacted = [in_region(table.data((3, "eu"))), in_region(table.data((3, "us")), "us")]
        kept = table.replace(base, [old, new], compacted, data_sequence_number=planned.sequence_number)
        assert (await table.refused(kept)).rule == "wrong-sequence-number"


async def test_equality_deletes_of_an_unpartitioned_spec_reach_rows_that_keep_their_age_wherever_they_go() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        old = table.data(*TEN[:5])
        await table.commit(table.append(old))
        await partition_by_region(bench)
        new = in_region(table.data(*TEN[5:]))
        planned = await table.committed(table.append(new))
        base = planned.snapshot_id or 0
        await table.commit(table.delta(base, table.equality(3, 7)))
        compacted = in_region(table.data(*TEN))
        await table.commit(table.replace(base, [old, new], [compacted], data_sequence_number=planned.sequence_number))
    assert await table.ids() == [0, 1, 2, 4, 5, 6, 8, 9]


async def test_equality_deletes_of_rows_that_were_deleted_before_are_no_conflict() -> None:
    """No row with such a key is in the new file, whatever age it gets."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file, gone = table.data(*TEN), table.data((20, "eu"))
        base = await table.commit(table.append(file, gone))
        base = await table.commit(table.delta(base, table.equality(8, 9, 20)))
        await table.commit(table.delta(base, table.equality(9, 20)))
        await table.commit(table.replace(base, [file, gone], [table.data(*TEN[:8])]))
    assert await table.ids() == list(range(8))


async def test_equality_deletes_that_became_others_meanwhile_are_a_conflict() -> None:
    """A rewrite made them position deletes, which say nothing of the file that the rows come to."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file = table.data(*TEN)
        planned = await table.committed(table.append(file))
        base = planned.snapshot_id or 0
        keyed = table.equality(3)
        won = await table.commit(table.delta(base, keyed))
        by_position = table.positions({file.file_path: [3]}, like=file)
        await table.commit(table.replace(won, [], removed_delete_files=(ref(keyed),), delete_files=(by_position,)))
        kept = table.replace(base, [file], [table.data(*TEN)], data_sequence_number=planned.sequence_number)
        lost = await table.refused(kept)
        assert (lost.rule, lost.conflicting_snapshot_id, lost.files) == ("new-deletes", won, (file.file_path,))
    assert await table.ids() == [0, 1, 2, 4, 5, 6, 7, 8, 9]


async def test_equality_deletes_that_were_written_anew_meanwhile_still_reach_rows_that_keep_their_age() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file = table.data(*TEN)
        planned = await table.committed(table.append(file))
        base = planned.snapshot_id or 0
        keyed = table.equality(3)
        deleted = await table.committed(table.delta(base, keyed))
        await table.commit(
            table.replace(
                deleted.snapshot_id or 0, [], removed_delete_files=(ref(keyed),), delete_files=(table.equality(3),),
                data_sequence_number=deleted.sequence_number,
            )
        )  # fmt: skip
        kept = table.replace(base, [file], [table.data(*TEN)], data_sequence_number=planned.sequence_number)
        await table.commit(kept)
    assert await table.ids() == [0, 1, 2, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("meanwhile", [True, False])
async def test_rows_do_not_come_under_equality_deletes_of_the_partition_that_they_move_to(meanwhile: bool) -> None:
    """Whether the deletes came before the rewrite was planned or after: they never were for these rows."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file = table.data(*TEN)
        appended = await table.committed(table.append(file))
        await partition_by_region(bench)
        deleted = await table.committed(table.delta(appended.snapshot_id, in_region(table.equality(3))))
        planned = appended if meanwhile else deleted
        base, compacted = planned.snapshot_id or 0, in_region(table.data(*TEN))
        kept = table.replace(base, [file], [compacted], data_sequence_number=appended.sequence_number)
        lost = await table.refused(kept)
        assert (lost.rule, lost.hint) == ("wrong-sequence-number", "replan" if meanwhile else "fix")
        assert lost.conflicting_snapshot_id == (deleted.snapshot_id if meanwhile else None)
        base = deleted.snapshot_id or 0
        await table.commit(table.replace(base, [file], [compacted], data_sequence_number=deleted.sequence_number))
    assert await table.ids() == list(range(10))


async def partition_by_region(bench: Workbench) -> None:
    by_region = ({"action": "add-field", "source": "region", "transform": "identity"},)
    await bench.commit(UpdateSpec(intent_id=new_id(), table=TABLE, base_schema_id=0, base_spec_id=0, changes=by_region))


def in_region(file: ContentFile, region: str = "eu") -> ContentFile:
    """The file as one of the partition by region that the table has got."""
    return msgspec.structs.replace(file, spec_id=1, partition=(region,))
