"""Rewrites behind deletes of the same transaction: made with them, they are committed; without, no row comes back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.model.operations.transaction import Transaction
from tests.unit.coordinator.replay.real_rows import RealRows, paths, ref
from tests.unit.coordinator.workbench import TABLE, Workbench, new_id

TEN = tuple((id, "eu") for id in range(10))
OTHER = (20, "eu")


def together(*members: Any) -> Transaction:
    """One transaction of these intents."""
    intent_id = new_id()
    return Transaction(
        intent_id=intent_id,
        table=TABLE,
        members=tuple(msgspec.structs.replace(m, intent_id=intent_id) for m in members),
    )


@pytest.mark.parametrize("wide", [False, True])
async def test_position_delete_files_of_an_earlier_member_are_to_be_applied(wide: bool) -> None:
    """With those of the base: some rows are in both."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file, other = table.data(*TEN), table.data(OTHER)
        base = await table.commit(table.append(file, other))
        base = await table.commit(table.delta(base, table.positions({file.file_path: [0, 1]}, like=file)))
        deleted: dict[str, list[int]] = {file.file_path: [1, 2]} | ({other.file_path: []} if wide else {})
        delta = table.delta(base, table.positions(deleted, like=file))

        def rewrite(*rows: tuple[int, str]) -> Transaction:
            return together(delta, table.replace(base, [file, other], [table.data(*rows, OTHER)]))

        lost = await table.refused(rewrite(*TEN[2:]))
        await table.committed(rewrite(*TEN[3:]))
        assert await table.unsound() == ()
    assert (lost.rule, lost.hint) == ("more-rows", "fix")
    assert "9 come where 11 go, 3 of them deleted by position" in lost.message
    assert await table.ids() == [*range(3, 10), 20]


@pytest.mark.parametrize("version", [2, 3])
async def test_rows_that_an_earlier_member_has_deleted_by_key_stay_deleted(version: int) -> None:
    """That a rewrite was made with equality deletes is not to be seen, so its files stay in their reach."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        age = (await table.metadata()).last_sequence_number
        delta = table.delta(base, table.equality(0, 1))

        def rewrite(*rows: tuple[int, str], **members: Any) -> Transaction:
            return together(delta, table.replace(base, [file], [table.data(*rows)], **members))

        lost = await table.refused(rewrite(*TEN))
        await table.committed(rewrite(*TEN, data_sequence_number=age))
        assert await table.unsound() == ()
    assert (lost.rule, lost.hint) == ("new-deletes", "fix")
    assert lost.message.startswith("members[1] (replace on 'db.events'): an earlier member of this transaction is in ")
    assert (lost.conflicting_snapshot_id, lost.conflicting_intent_id) == (None, None)
    assert await table.ids() == list(range(2, 10))


async def test_equality_deletes_of_other_rows_are_in_nobodys_way() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file, other = table.data(*TEN), table.data(OTHER)
        base = await table.commit(table.append(file, other))
        delta = table.delta(base, table.equality(20))
        await table.committed(together(delta, table.replace(base, [file], [table.data(*TEN)])))
    assert await table.ids() == list(range(10))


@pytest.mark.parametrize("version", [2, 3])
async def test_how_many_rows_were_read_is_not_known_where_equality_deletes_apply(version: int) -> None:
    """A rewrite that has lost as many rows by key as it brings back by position has the right number."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        base = await table.commit(table.delta(base, table.equality(8, 9)))
        deletes = table.vector(file, 0) if version == 3 else table.positions({file.file_path: [0]}, like=file)
        rewrite = table.replace(base, [file], [table.data(*TEN[:8])])
        lost = await table.refused(together(table.delta(base, deletes), rewrite))
        await table.committed(rewrite)
    assert (lost.rule, lost.hint, lost.files) == ("new-deletes", "fix", (file.file_path,))
    assert await table.ids() == list(range(8))


async def test_vectors_that_an_earlier_member_has_put_together_delete_no_rows() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        base = await table.commit(table.delta(base, table.equality(9), table.vector(file, 0)))
        (old,) = [one for one in await table.delete_files() if one.is_deletion_vector]
        rewrite_deletes = table.replace(
            base, [], removed_delete_files=(ref(old),), delete_files=(table.vector(file, 0),)
        )
        await table.committed(together(rewrite_deletes, table.replace(base, [file], [table.data(*TEN[1:9])])))
        assert await table.unsound() == ()
    assert await table.ids() == list(range(1, 9))


async def test_wide_deletes_of_a_file_that_an_earlier_member_rewrites_are_refused() -> None:
    """The rows have gone to another file, and would live on there."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file, other = table.data(*TEN), table.data(OTHER)
        base = await table.commit(table.append(file, other))
        wide = table.delta(base, table.positions({file.file_path: [0], other.file_path: [0]}, like=file))
        lost = await table.refused(together(table.replace(base, [file], [table.data(*TEN)]), wide))
        await table.committed(together(wide, table.append(table.data((30, "eu")))))
    assert (lost.rule, lost.hint, lost.files) == ("missing-file", "fix", paths([file]))
    assert lost.conflicting_snapshot_id is None
    assert await table.ids() == [*range(1, 10), 30]
