"""Rows that several intents take by position: what is told by positions is not refused by file, for v2 and v3."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.intent import ContentFile
from firn.model.limits import Limits
from firn.model.operations.upkeep import UpgradeFormat
from firn.model.outcome import Rejected
from tests.strategies.examples import examples
from tests.unit.coordinator.replay.real_rows import RealRows, ref
from tests.unit.coordinator.workbench import TABLE, Workbench, new_id

TEN = tuple((id, "eu") for id in range(10))
SNAPSHOT: dict[str, Any] = {"isolation": "snapshot"}


def deletes(table: RealRows, file: ContentFile, *positions: int) -> ContentFile:
    """Deletes of one data file's rows, as the table's format version has them."""
    if table.created.format_version > 2:
        return table.vector(file, *positions)
    return table.positions({file.file_path: positions}, like=file)


@pytest.mark.parametrize("version", [2, 3])
async def test_deletes_of_one_row_are_one_delete(version: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        for positions in ((0, 1), (1, 2)):
            await table.commit(table.delta(base, deletes(table, file, *positions)))
    assert await table.ids() == [3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("version", [2, 3])
async def test_other_rows_of_a_file_are_updated_and_the_same_row_is_not(version: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        await table.commit(table.delta(base, deletes(table, file, 0)))
        won = await table.commit(
            table.delta(base, deletes(table, file, 3, 4), added=[table.data((34, "eu"))], writer="w", **SNAPSHOT)
        )
        await table.commit(table.delta(base, deletes(table, file, 5), added=[table.data((50, "eu"))], **SNAPSHOT))
        update = table.delta(base, deletes(table, file, 4, 6), added=[table.data((46, "eu"))], **SNAPSHOT)
        lost = await table.refused(update)
    assert (lost.rule, lost.hint, lost.files) == ("row-conflict", "replan", (file.file_path,))
    assert "1 row of" in lost.message
    assert "at position 4" in lost.message
    assert (lost.conflicting_snapshot_id, lost.conflicting_writer, lost.base_snapshot_id) == (won, "w", base)
    assert await table.ids() == [1, 2, 6, 7, 8, 9, 34, 50]


@pytest.mark.parametrize("version", [2, 3])
async def test_a_delete_of_a_row_that_was_changed_meanwhile_is_refused_and_no_other(version: int) -> None:
    """The new version of the row would live on. What others only deleted may be deleted again."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        await table.commit(table.delta(base, deletes(table, file, 2)))
        won = await table.commit(table.delta(base, deletes(table, file, 3), added=[table.data((30, "eu"))], **SNAPSHOT))
        await table.commit(table.delta(base, deletes(table, file, 2, 9), **SNAPSHOT))
        lost = await table.refused(table.delta(base, deletes(table, file, 2, 3), **SNAPSHOT))
    assert (lost.rule, lost.conflicting_snapshot_id) == ("row-conflict", won)
    assert "at position 3" in lost.message
    assert await table.ids() == [0, 1, 4, 5, 6, 7, 8, 30]


@pytest.mark.parametrize("version", [2, 3])
async def test_rows_that_were_gone_when_the_intent_was_planned_are_no_conflict(version: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        old = deletes(table, file, 0)
        base = await table.commit(table.delta(base, old))
        await table.commit(table.delta(base, deletes(table, file, 0, 1), removed_delete_files=(ref(old),)))
        update = table.delta(
            base, deletes(table, file, 0, 2), added=[table.data((20, "eu"))], removed_delete_files=(ref(old),),
            **SNAPSHOT,
        )  # fmt: skip
        await table.commit(update)
    assert await table.ids() == [3, 4, 5, 6, 7, 8, 9, 20]


async def test_only_some_of_many_positions_are_told() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file = table.data(*((id, "eu") for id in range(100)))
        base = await table.commit(table.append(file))
        await table.commit(table.delta(base, deletes(table, file, *range(50))))
        update = table.delta(base, deletes(table, file, *range(100)), added=[table.data((200, "eu"))], **SNAPSHOT)
        lost = await table.refused(update)
    assert "50 rows" in lost.message
    assert lost.message.endswith("positions " + ", ".join(map(str, range(20))) + ", …")


async def test_positions_for_many_files_are_compared_file_by_file() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2, partitioned=True)
        one, two = table.data(*TEN), table.data((20, "eu"), (21, "eu"))
        base = await table.commit(table.append(one, two))
        wide = table.positions({one.file_path: [0], two.file_path: [0]}, like=one)
        assert wide.referenced_data_file is None
        await table.commit(table.delta(base, wide))
        other = table.positions({one.file_path: [1], two.file_path: [1]}, like=one)
        await table.commit(table.delta(base, other, added=[table.data((22, "eu"))], **SNAPSHOT))
        again = table.positions({one.file_path: [2], two.file_path: [0]}, like=one)
        lost = await table.refused(table.delta(base, again, added=[table.data((23, "eu"))], **SNAPSHOT))
    assert (lost.rule, lost.files) == ("row-conflict", (two.file_path,))
    assert await table.ids() == [*range(2, 10), 22]


async def test_positions_for_many_files_are_refused_when_one_of_them_was_compacted() -> None:
    """Nobody had to name them: what the delete file says itself is read."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2, partitioned=True)
        one, two, three = table.data(*TEN), table.data((20, "eu")), table.data((30, "eu"))
        base = await table.commit(table.append(one, two, three))
        await table.commit(table.replace(base, [three], [table.data((30, "eu"))]))
        await table.commit(table.delta(base, table.positions({one.file_path: [0], two.file_path: [0]}, like=one)))
        lost = await table.refused(
            table.delta(base, table.positions({one.file_path: [1], three.file_path: [0]}, like=one))
        )
    assert (lost.rule, lost.files) == ("missing-file", (three.file_path,))
    assert await table.ids() == [*range(1, 10), 30]


async def test_rows_that_were_read_of_a_file_whose_rows_go_meanwhile_may_not_be_written_anew() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        await table.commit(table.delta(base, deletes(table, file, 0)))
        copy = table.delta(base, added=[table.data((100, "eu"))], referenced_data_files=(file.file_path,), **SNAPSHOT)
        lost = await table.refused(copy)
    assert lost.rule == "new-deletes"


async def test_a_vector_takes_in_position_deletes_that_came_before_the_table_was_upgraded() -> None:
    """Readers ignore position delete files beside a vector: what the vector has not absorbed would come back."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        await table.commit(table.delta(base, table.positions({file.file_path: [0]}, like=file)))
        await bench.commit(UpgradeFormat(intent_id=new_id(), table=TABLE, format_version=3))
        lost = await table.refused(
            table.delta(base, table.vector(file, 0), added=[table.data((100, "eu"))], **SNAPSHOT)
        )
        await table.commit(table.delta(base, table.vector(file, 1)))
        (vector,) = [one for one in await table.delete_files() if one.is_deletion_vector]
    assert lost.rule == "row-conflict"
    assert vector.record_count == 2
    assert await table.ids() == list(range(2, 10))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("members", [{}, {"validate": "none"}])
async def test_a_vector_takes_in_position_deletes_of_its_base(members: dict[str, Any], wide: bool) -> None:
    """Its writer has seen them, and left them where no reader will look for them."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file, other = table.data(*TEN), table.data((100, "eu"), (101, "eu"))
        base = await table.commit(table.append(file, other))
        deleted = {file.file_path: [0, 3]} | ({other.file_path: [0]} if wide else {})
        base = await table.commit(table.delta(base, table.positions(deleted, like=file)))
        await bench.commit(UpgradeFormat(intent_id=new_id(), table=TABLE, format_version=3))
        whole = table.vector(file, 0, 3, 5)
        base = await table.commit(table.delta(base, table.vector(file, 5), **members))
        await table.commit(table.delta(base, whole, **members))
        vectors = [one for one in await table.delete_files() if one.is_deletion_vector]
        assert await table.unsound() == ()
    assert [(one.file_path, one.record_count) for one in vectors] == [(whole.file_path, 3)]
    assert await table.ids() == [1, 2, 4, *range(6, 10), *([] if wide else [100]), 101]


@pytest.mark.parametrize("broken", ["gone", "damaged"])
async def test_positions_that_cannot_be_read_when_they_are_needed_are_their_writers_mistake(broken: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        await table.commit(table.delta(base, deletes(table, file, 0)))
        mine = deletes(table, file, 1)
        bench.files.delete(mine.file_path)
        if broken == "damaged":
            bench.files.create(mine.file_path, b"PAR1")
        lost = await table.refused(table.delta(base, mine, added=[table.data((100, "eu"))], **SNAPSHOT))
    assert (lost.rule, lost.files) == ("invalid-delete-file", (mine.file_path,))


async def test_more_positions_than_are_read_are_refused() -> None:
    bench = Workbench(limits=Limits(deletion_vector_bytes_max=10))
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        await table.commit(table.delta(base, deletes(table, file, 0)))
        lost = await table.refused(
            table.delta(base, deletes(table, file, 1), added=[table.data((100, "eu"))], **SNAPSHOT)
        )
    assert lost.rule == "merge-too-large"


STEPS = st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 9), min_size=1, max_size=4)), min_size=2, max_size=6)


@examples(15, at_most=500)
@given(version=st.sampled_from([2, 3]), steps=STEPS)
async def test_no_row_comes_back_and_none_is_there_twice(version: int, steps: list[tuple[bool, set[int]]]) -> None:
    """Deletes and updates planned on one base: those that commit are one after the other, whatever their order.

    An update is refused exactly when another took a row of it, a delete exactly when another changed one.
    """
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        taken, changed, made, fresh = set[int](), set[int](), set[int](), itertools.count(100)
        for updates, positions in steps:
            ids = {next(fresh) for _ in positions} if updates else set()
            added = [table.data(*((id, "eu") for id in sorted(ids)))] if updates else []
            intent = table.delta(base, deletes(table, file, *positions), added=added, **SNAPSHOT)
            (outcome,) = await bench.settle(intent)
            in_the_way = positions & (taken if updates else changed)
            assert isinstance(outcome, Rejected) == bool(in_the_way)
            if isinstance(outcome, Rejected):
                assert outcome.rule == "row-conflict"
                assert outcome.message.endswith(", ".join(map(str, sorted(in_the_way))))
            else:
                taken |= positions
                changed |= positions if updates else set()
                made |= ids
            assert await table.ids() == sorted(set(range(10)) - taken | made)
        if version > 2:
            assert len(await table.delete_files()) <= 1
        assert await table.unsound() == ()
