"""Rewrites: rows stay what they are, whatever came while they were rewritten."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.model.intent import Replace
from firn.model.operations.transaction import Transaction
from firn.model.operations.upkeep import ExpireSnapshots, UpgradeFormat
from tests.unit.coordinator.replay.real_rows import RealRows, field_is, paths, ref
from tests.unit.coordinator.workbench import TABLE, Workbench, new_id

TEN = tuple((id, "eu") for id in range(10))


async def test_a_rewrite_of_a_file_with_its_vector() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file, other = table.data(*TEN), table.data((20, "eu"))
        base = await table.commit(table.append(file, other))
        base = await table.commit(table.delta(base, table.vector(file, 0), table.vector(other, 0)))
        await table.commit(table.replace(base, [file], [table.data(*TEN[1:])]))
        (left,) = await table.delete_files()
        snapshot = await table.snapshot()
    assert left.referenced_data_file == other.file_path
    assert snapshot is not None
    assert snapshot.operation == "replace"
    assert await table.ids() == list(range(1, 10))
    assert await table.unsound() == ()


@pytest.mark.parametrize("together", [False, True])
async def test_a_rewrite_that_has_not_applied_vectors_is_refused(together: bool) -> None:
    """Neither those of its base, nor, in a transaction, those of a member before it: the rows would come back."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file, other = table.data(*TEN), table.data((20, "eu"))
        base = await table.commit(table.append(file, other))
        delta = table.delta(base, table.vector(file, 0, 1))
        if not together:
            base = await table.commit(delta)

        def rewrite(*rows: tuple[int, str]) -> Any:
            intent = table.replace(base, [file, other], [table.data(*rows, (20, "eu"))])
            if not together:
                return intent
            members = tuple(msgspec.structs.replace(one, intent_id=intent.intent_id) for one in (delta, intent))
            return Transaction(intent_id=intent.intent_id, table=TABLE, members=members)

        lost = await table.refused(rewrite(*TEN[1:]))
        await table.committed(rewrite(*TEN[2:]))
        assert await table.unsound() == ()
    assert lost.rule == "more-rows"
    assert "10 come where 11 go, 2 of them deleted" in lost.message
    assert await table.ids() == [*range(2, 10), 20]


async def test_small_vectors_are_rewritten_into_one_file() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        one, two = table.data(*TEN), table.data((20, "eu"), (21, "eu"))
        base = await table.commit(table.append(one, two))
        old = table.vector(one, 0), table.vector(two, 0)
        base = await table.commit(table.delta(base, *old))
        new = table.vector(one, 0), table.vector(two, 0)
        await table.commit(table.replace(base, [], removed_delete_files=tuple(map(ref, old)), delete_files=new))
        assert {file.file_path for file in await table.delete_files()} == {file.file_path for file in new}
    assert await table.ids() == [*range(1, 10), 21]


async def test_position_deletes_become_vectors_after_an_upgrade() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        old = table.positions({file.file_path: [0, 1]}, like=file)
        base = await table.commit(table.delta(base, old))
        await bench.commit(UpgradeFormat(intent_id=new_id(), table=TABLE, format_version=3))
        rewrite: dict[str, Any] = {"removed_delete_files": (ref(old),), "delete_files": (table.vector(file, 0, 1),)}
        await table.commit(table.replace(base, [], **rewrite))
        assert [one.is_deletion_vector for one in await table.delete_files()] == [True]
    assert await table.ids() == list(range(2, 10))


async def test_a_rewritten_vector_that_another_writer_has_added_to_is_refused() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        old = table.vector(file, 0)
        base = await table.commit(table.delta(base, old))
        await table.commit(table.delta(base, table.vector(file, 0, 1), removed_delete_files=(ref(old),)))
        rewrite: dict[str, Any] = {"removed_delete_files": (ref(old),), "delete_files": (table.vector(file, 0),)}
        assert (await table.refused(table.replace(base, [], **rewrite))).rule == "missing-file"
    assert await table.ids() == list(range(2, 10))


async def test_a_vector_that_was_rewritten_meanwhile_is_merged_by_a_delete() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        old = table.vector(file, 0)
        base = await table.commit(table.delta(base, old))
        rewrite: dict[str, Any] = {"removed_delete_files": (ref(old),), "delete_files": (table.vector(file, 0),)}
        await table.commit(table.replace(base, [], **rewrite))
        await table.commit(table.delta(base, table.vector(file, 0, 5), removed_delete_files=(ref(old),)))
        assert len(await table.delete_files()) == 1
    assert await table.ids() == [1, 2, 3, 4, 6, 7, 8, 9]


async def test_deletes_are_added_only_for_those_that_go() -> None:
    """A rewrite must not delete rows."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file, other = table.data(*TEN), table.data((20, "eu"))
        base = await table.commit(table.append(file, other))
        adds = await table.refused(table.replace(base, [file], delete_files=(table.vector(other, 0),)))
        old = table.vector(file, 0)
        base = await table.commit(table.delta(base, old))
        drops = await table.refused(table.replace(base, [], removed_delete_files=(ref(old),)))
        dangling = await table.refused(
            table.replace(base, [file], removed_delete_files=(ref(old),), delete_files=(table.vector(file, 0),))
        )
    assert (adds.rule, drops.rule, dangling.rule) == ("invalid-field", "lost-deletes", "invalid-delete-file")


async def test_a_rewrite_replaces_something() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        base = await table.commit(table.append(table.data(*TEN)))
        lost = await table.refused(table.replace(base, []))
    assert lost.rule == "invalid-field"


# ---------------------------------------------------------------------------------------------------------------------
# Age


async def test_equality_deletes_that_came_meanwhile_still_reach_rows_that_keep_their_age() -> None:
    """Case 4, the sequence number given: the deletes are kept."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        one, two = table.data(*TEN[:5]), table.data(*TEN[5:])
        await table.commit(table.append(one))
        planned = await table.committed(table.append(two))
        base = planned.snapshot_id or 0
        await table.commit(table.delta(base, table.equality(3)))
        compacted = table.data(*TEN)
        kept = table.replace(base, [one, two], [compacted], data_sequence_number=planned.sequence_number)
        await table.commit(kept)
        ages = {e.data_file.file_path: e.sequence_number for e in await table.entries()}
    assert ages[compacted.file_path] == planned.sequence_number
    assert await table.ids() == [0, 1, 2, 4, 5, 6, 7, 8, 9]


async def test_equality_deletes_that_came_meanwhile_are_a_conflict_for_rows_that_get_younger() -> None:
    """Case 4, no sequence number given: the deletes would be lost."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        won = await table.commit(table.delta(base, table.equality(3)))
        lost = await table.refused(table.replace(base, [file], [table.data(*TEN)]))
    assert (lost.rule, lost.conflicting_snapshot_id, lost.files) == ("new-deletes", won, (file.file_path,))


@pytest.mark.parametrize("shift", [-1, 1])
async def test_an_age_that_no_row_may_have_is_refused(shift: int) -> None:
    """Younger than the base: deletes are lost. Older than a rewritten file: its rows go with deletes before it."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file = table.data(*TEN)
        await table.commit(table.append(table.data((50, "eu"))))
        planned = await table.committed(table.append(file))
        assert planned.sequence_number is not None
        number = planned.sequence_number + shift
        lost = await table.refused(
            table.replace(planned.snapshot_id or 0, [file], [table.data(*TEN)], data_sequence_number=number)
        )
    assert (lost.rule, lost.hint) == ("wrong-sequence-number", "fix")


async def test_positions_that_came_meanwhile_are_a_conflict_whatever_the_age() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        planned = await table.committed(table.append(file))
        base = planned.snapshot_id or 0
        await table.commit(table.delta(base, table.vector(file, 3)))
        kept = table.replace(base, [file], [table.data(*TEN)], data_sequence_number=planned.sequence_number)
        assert (await table.refused(kept)).rule == "new-deletes"


async def test_rewritten_equality_deletes_keep_the_age_of_those_they_replace() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        base = await table.commit(table.append(table.data(*TEN)))
        one, two = table.equality(1), table.equality(2)
        planned = await table.committed(table.delta(base, one, two))
        base = await table.commit(table.append(table.data((1, "new"))))
        rewrite: dict[str, Any] = {
            "removed_delete_files": (ref(one), ref(two)), "delete_files": (table.equality(1, 2),),
        }  # fmt: skip
        lost = await table.refused(table.replace(base, [], **rewrite))
        await table.commit(table.replace(base, [], data_sequence_number=planned.sequence_number, **rewrite))
    assert lost.rule == "wrong-sequence-number"
    assert (1, "new") in await table.rows()
    assert await table.ids() == [0, 1, 3, 4, 5, 6, 7, 8, 9]


async def test_a_base_that_expired_but_whose_followers_are_known_will_do() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        later = await table.commit(table.append(table.data((20, "eu"))))
        await table.commit(table.append(table.data((21, "eu"))))
        await bench.commit(ExpireSnapshots(intent_id=new_id(), table=TABLE, snapshot_ids=(base,), older_than_ms=0))
        await table.commit(table.replace(base, [file], [table.data(*TEN)]))
        await bench.commit(ExpireSnapshots(intent_id=new_id(), table=TABLE, snapshot_ids=(later,), older_than_ms=0))
        bench.lose_dropped_snapshots()
        lost = await table.refused(table.overwrite(base, [], conflict_filter=field_is("id", 1)))
    assert lost.rule == "unknown-base"


async def test_a_file_inside_and_outside_of_a_rewrite() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        again = Replace(
            intent_id=new_id(), table=TABLE, base_snapshot_id=base,
            removed_data_files=paths([file]), data_files=(file,),
        )  # fmt: skip
        assert (await table.refused(again)).rule == "duplicate-file"


# ---------------------------------------------------------------------------------------------------------------------
# Deletes by position that came meanwhile, and delete nothing more


async def test_vectors_that_were_put_together_meanwhile_are_no_conflict() -> None:
    """The rewrite was made without their rows, as they were deleted before."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        old = table.vector(file, 0)
        base = await table.commit(table.delta(base, old))
        await table.commit(
            table.replace(base, [], removed_delete_files=(ref(old),), delete_files=(table.vector(file, 0),))
        )
        await table.commit(table.replace(base, [file], [table.data(*TEN[1:])]))
        assert await table.delete_files() == []
    assert await table.ids() == list(range(1, 10))


async def test_vectors_that_were_put_together_after_others_added_to_them_are_a_conflict() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        old, more = table.vector(file, 0), table.vector(file, 0, 1)
        base = await table.commit(table.delta(base, old))
        won = await table.commit(table.delta(base, more, removed_delete_files=(ref(old),)))
        again = table.vector(file, 0, 1)
        last = await table.commit(table.replace(won, [], removed_delete_files=(ref(more),), delete_files=(again,)))
        lost = await table.refused(table.replace(base, [file], [table.data(*TEN[1:])]))
    assert lost.rule == "new-deletes"
    assert lost.conflicting_snapshot_id in {won, last}


@pytest.mark.parametrize("of_another", [True, False])
async def test_position_deletes_of_several_files_are_a_conflict_where_they_name_the_rewritten_one(
    of_another: bool,
) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        one, two, three = table.data(*TEN), table.data((20, "eu"), (21, "eu")), table.data((30, "eu"))
        base = await table.commit(table.append(one, two, three))
        first = three if of_another else one
        wide = table.positions({first.file_path: [0], two.file_path: [0]}, like=one)
        await table.commit(table.delta(base, wide))
        rewrite = table.replace(base, [one], [table.data(*TEN)])
        if of_another:
            await table.commit(rewrite)
            assert await table.ids() == [*range(10), 21]
        else:
            assert (await table.refused(rewrite)).rule == "new-deletes"
            assert await table.ids() == [*range(1, 10), 21, 30]
