"""Rows keep the ids that they were given: who has read them before that does not write them anew after it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.model.manifest import Status
from firn.model.operations.transaction import Transaction
from firn.model.operations.upkeep import UpgradeFormat
from tests.unit.coordinator.replay.real_rows import RealRows
from tests.unit.coordinator.workbench import TABLE, Workbench, new_id

TEN = tuple((id, "eu") for id in range(10))


def upgrade() -> UpgradeFormat:
    return UpgradeFormat(intent_id=new_id(), table=TABLE, format_version=3)


@pytest.mark.parametrize("how", ["compaction", "copy-on-write", "update by position"])
async def test_rows_that_were_given_ids_meanwhile_do_not_lose_them(how: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        await bench.commit(upgrade())

        def planned(base: int) -> Any:
            if how == "compaction":
                return table.replace(base, [file], [table.data(*TEN)])
            if how == "copy-on-write":
                return table.overwrite(base, [table.data(*TEN)], [file], isolation="snapshot")
            return table.delta(base, table.vector(file, 0), added=[table.data((0, "eu"))], isolation="snapshot")

        first = await table.commit(table.append(table.data((20, "eu"))))
        given = await table.row_ids()
        lost = await table.refused(planned(base))
        assert await table.row_ids() == given
        await table.commit(planned(first))
        assert await table.unsound() == ()
    assert (lost.rule, lost.hint, lost.conflicting_snapshot_id) == ("lost-row-ids", "replan", first)
    assert lost.files == (file.file_path,)
    assert await table.ids() == [*range(10), 20]


async def test_rows_without_ids_get_theirs_where_they_are_written_anew() -> None:
    """Nobody has seen them under others; and a delete writes no row anew."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file, other = table.data(*TEN), table.data((20, "eu"))
        base = await table.commit(table.append(file, other))
        await bench.commit(upgrade())
        await table.commit(table.replace(base, [file], [table.data(*TEN)]))
        await table.commit(table.delta(base, table.vector(other, 0)))
        assert await table.unsound() == ()
    assert await table.ids() == list(range(10))
    assert len(set((await table.row_ids()).values())) == 10


async def test_ids_that_the_same_transaction_gives_are_seen_by_nobody() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file, own = table.data(*TEN), table.data((20, "eu"))
        base = await table.commit(table.append(file))
        replaced = table.replace(base, [file, own], [table.data(*TEN, (20, "eu"))])
        members = tuple(
            msgspec.structs.replace(one, intent_id=replaced.intent_id)
            for one in (upgrade(), table.append(own), replaced)
        )
        await table.committed(Transaction(intent_id=replaced.intent_id, table=TABLE, members=members))
        assert await table.unsound() == ()
    assert await table.ids() == [*range(10), 20]
    assert len(set((await table.row_ids()).values())) == 11


async def test_rows_keep_their_ids_where_a_merge_is_taken_over_and_merged_again() -> None:
    """A manifest that is taken over gets its ids with its place in the list, and is a part of the next merge."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, properties={"commit.manifest.min-count-to-merge": "2"})
        given: dict[int, int] = {}
        for id in range(8):
            await table.commit(table.append(table.data((id, "eu"))))
            await bench.merged()
            row_ids = await table.row_ids()
            assert row_ids.items() >= given.items()
            given = row_ids
        assert any(entry.status is Status.EXISTING for entry in await table.entries())
        assert await table.unsound() == ()
    assert await table.ids() == list(range(8))
