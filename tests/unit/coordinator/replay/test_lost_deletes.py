"""Deletes that are taken away: nothing that they have deleted comes back, and nothing goes that they have not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.model.intent import ContentFile
from firn.model.operations.layout import UpdateSpec
from firn.model.operations.refs import CherryPick
from firn.model.operations.upkeep import UpgradeFormat
from tests.unit.coordinator.replay.real_rows import RealRows, ref
from tests.unit.coordinator.workbench import TABLE, Workbench, new_id

TEN = tuple((id, "eu") for id in range(10))


@pytest.mark.parametrize("by", ["replace", "row-delta"])
async def test_equality_deletes_go_only_where_they_reach_no_file_that_stays(by: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file, old = table.data(*TEN), table.data((30, "eu"))
        base = await table.commit(table.append(file, old))
        keyed = table.equality(3)
        base = await table.commit(table.delta(base, keyed))
        base = await table.commit(table.append(table.data((3, "new"))))
        gone: dict[str, Any] = {"removed_delete_files": (ref(keyed),)}
        intent = table.replace(base, [], **gone) if by == "replace" else table.delta(base, **gone)
        lost = await table.refused(intent)
        assert (lost.rule, lost.files) == ("lost-deletes", (keyed.file_path, file.file_path))
        left = table.data(*(row for row in TEN if row[0] != 3))
        await table.commit(table.replace(base, [file], [left], **gone))
        assert await table.delete_files() == []
    assert (3, "eu") not in await table.rows()
    assert await table.ids() == [*range(10), 30]


async def test_deletes_of_positions_go_only_where_they_name_no_file_that_stays() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        one, two, three = table.data(*TEN), table.data((20, "eu"), (21, "eu")), table.data((30, "eu"))
        base = await table.commit(table.append(one, two, three))
        wide = table.positions({one.file_path: [3], two.file_path: [0]}, like=one)
        base = await table.commit(table.delta(base, wide))
        left = table.data(*(row for row in TEN if row[0] != 3))
        gone: dict[str, Any] = {"removed_delete_files": (ref(wide),)}
        lost = await table.refused(table.replace(base, [one], [left], **gone))
        assert (lost.rule, lost.files) == ("lost-deletes", (wide.file_path, two.file_path))
        other = table.data((21, "eu"))
        await table.commit(table.replace(base, [one, two], [left, other], **gone))
        assert await table.delete_files() == []
    assert await table.ids() == [0, 1, 2, 4, 5, 6, 7, 8, 9, 21, 30]


async def test_equality_deletes_of_one_partition_are_not_written_anew_for_another() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2, partitioned=True)
        here, there = table.data((1, "eu"), (2, "eu")), table.data((1, "us"), (2, "us"))
        base = await table.commit(table.append(here, there))
        keyed = table.equality(1, like=here)
        planned = await table.committed(table.delta(base, keyed))
        rewrite: dict[str, Any] = {
            "removed_delete_files": (ref(keyed),), "data_sequence_number": planned.sequence_number
        }  # fmt: skip
        base = planned.snapshot_id or 0
        moved = table.replace(base, [], delete_files=(table.equality(1, like=there),), **rewrite)
        assert (await table.refused(moved)).rule == "invalid-partition"
        await table.commit(table.replace(base, [], delete_files=(table.equality(1, like=here),), **rewrite))
    assert await table.rows() == [(1, "us"), (2, "eu"), (2, "us")]


# ---------------------------------------------------------------------------------------------------------------------
# A spec whose fields are all void is unpartitioned: its equality deletes are for all rows


async def test_a_replacement_is_not_picked_over_equality_deletes_of_a_spec_of_voids() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=1, partitioned=True)
        file = table.data((1, "eu"), (2, "eu"))
        base = await table.commit(table.append(file))
        await table.commit(table.append(table.data((1, "us"))))
        await void_region(bench)
        staged = table.replace_partitions(base, table.data((1, "eu"), (3, "eu")), stage=True)
        picked = await table.commit(staged)
        won = await table.commit(table.delta(base, of_voids(table.equality(2, like=file))))
        lost = await table.refused(CherryPick(intent_id=new_id(), table=TABLE, snapshot_id=picked))
    assert (lost.rule, lost.conflicting_snapshot_id) == ("new-deletes", won)


async def test_an_update_by_wide_positions_meets_equality_deletes_of_a_spec_of_voids() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=1, partitioned=True)
        one, two = table.data((1, "eu"), (2, "eu")), table.data((3, "eu"))
        base = await table.commit(table.append(one, two))
        await void_region(bench)
        wide = table.positions({one.file_path: [1], two.file_path: [0]}, like=one)
        won = await table.commit(table.delta(base, of_voids(table.equality(2, like=one))))
        update = table.delta(base, wide, added=[table.data((2, "eu"), (3, "eu"))], isolation="snapshot")
        lost = await table.refused(update)
    assert (lost.rule, lost.conflicting_snapshot_id) == ("new-deletes", won)


async def void_region(bench: Workbench) -> None:
    """v1 keeps a dropped partition field as one that is always null; then deletes become possible."""
    dropped = ({"action": "remove-field", "name": "region"},)
    await bench.commit(UpdateSpec(intent_id=new_id(), table=TABLE, base_schema_id=0, base_spec_id=0, changes=dropped))
    await bench.commit(UpgradeFormat(intent_id=new_id(), table=TABLE, format_version=2))


def of_voids(file: ContentFile) -> ContentFile:
    """The file as one of the spec that is left, whose only field is null."""
    return msgspec.structs.replace(file, spec_id=1, partition=(None,))


# ---------------------------------------------------------------------------------------------------------------------
# Where a data file has a deletion vector, readers look at no other deletes of its positions


async def test_a_vector_does_not_hide_positions_that_came_while_it_was_written() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        old = table.positions({file.file_path: [0]}, like=file)
        base = await table.commit(table.delta(base, old))
        won = await table.commit(table.delta(base, table.positions({file.file_path: [1]}, like=file)))
        await bench.commit(UpgradeFormat(intent_id=new_id(), table=TABLE, format_version=3))
        gone: dict[str, Any] = {"removed_delete_files": (ref(old),)}
        lost = await table.refused(table.replace(base, [], delete_files=(table.vector(file, 0),), **gone))
        assert (lost.rule, lost.conflicting_snapshot_id, lost.files) == ("new-deletes", won, (file.file_path,))
    assert await table.ids() == list(range(2, 10))


@pytest.mark.parametrize("whole", [True, False])
async def test_a_vector_has_the_positions_that_it_hides(whole: bool) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        one, two = table.data(*TEN), table.data((20, "eu"), (21, "eu"))
        base = await table.commit(table.append(one, two))
        own = table.positions({one.file_path: [0]}, like=one)
        wide = table.positions({one.file_path: [1], two.file_path: [0]}, like=one)
        base = await table.commit(table.delta(base, own, wide))
        await bench.commit(UpgradeFormat(intent_id=new_id(), table=TABLE, format_version=3))
        vector = table.vector(one, 0, 1) if whole else table.vector(one, 0)
        rewrite = table.replace(base, [], removed_delete_files=(ref(own),), delete_files=(vector,))
        if whole:
            await table.commit(rewrite)
        else:
            lost = await table.refused(rewrite)
            assert (lost.rule, lost.files) == ("lost-deletes", (wide.file_path, one.file_path))
    assert await table.ids() == [*range(2, 10), 21]
