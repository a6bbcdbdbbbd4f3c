"""Intents that replace one position delete file of v2 at once: both deletes stay, or the loser names the winner."""

from __future__ import annotations

from typing import Any

import pytest

from firn.model.intent import ContentFile
from tests.unit.coordinator.replay.real_rows import RealRows, ref
from tests.unit.coordinator.workbench import Workbench

ONE = tuple((id, "eu") for id in range(10))
TWO = ((20, "eu"), (21, "eu"), (22, "eu"))
SNAPSHOT: dict[str, Any] = {"isolation": "snapshot"}


class Shared:
    """Two data files of one partition, and a position delete file that deletes the first row of one or of both."""

    def __init__(self, table: RealRows, one: ContentFile, two: ContentFile, old: ContentFile, base: int) -> None:
        self.table, self.one, self.two, self.old, self.base = table, one, two, old, base

    @classmethod
    async def create(cls, bench: Workbench, *, of: str) -> Shared:
        table = await RealRows.create(bench, version=2, partitioned=True)
        one, two = table.data(*ONE), table.data(*TWO)
        base = await table.commit(table.append(one, two))
        shared = cls(table, one, two, one, base)
        shared.old = shared.positions(of, 0)
        shared.base = await table.commit(table.delta(base, shared.old))
        return shared

    def positions(self, of: str, *positions: int) -> ContentFile:
        """Deletes of rows of one data file, or of both."""
        files = [self.one, self.two] if of == "both" else [self.one]
        deletes = self.table.positions({file.file_path: positions for file in files}, like=self.one)
        assert (deletes.referenced_data_file is None) == (of == "both")
        return deletes

    def instead(self, *deletes: ContentFile, **members: Any) -> Any:
        """A row delta that replaces the old deletes by these."""
        return self.table.delta(self.base, *deletes, removed_delete_files=(ref(self.old),), **members)


@pytest.mark.parametrize("old", ["one", "both"])
@pytest.mark.parametrize("first", ["one", "both"])
@pytest.mark.parametrize("second", ["one", "both"])
async def test_two_deletes_that_replace_one_position_delete_file_both_apply(old: str, first: str, second: str) -> None:
    if old == "both" and first == "one":
        first = "both"  # it has to bring what the old file deleted from the other data file
    bench = Workbench()
    async with bench.daemon():
        shared = await Shared.create(bench, of=old)
        table = shared.table
        await table.commit(shared.instead(shared.positions(first, 0, 1)))
        await table.commit(shared.instead(shared.positions(second, 0, 2)))
        assert len(await table.delete_files()) == 2
        assert await table.unsound() == ()
    deleted = {0, 1, 2}
    if old == "both":
        deleted.add(20)
    deleted |= {20, 21} if first == "both" else set()
    deleted |= {20, 22} if second == "both" else set()
    assert await table.ids() == sorted({*range(10), 20, 21, 22} - deleted)


async def test_a_delete_applies_beside_a_rewrite_of_the_deletes_that_it_replaces() -> None:
    bench = Workbench()
    async with bench.daemon():
        shared = await Shared.create(bench, of="both")
        table = shared.table
        again = shared.positions("both", 0)
        await table.commit(
            table.replace(shared.base, [], removed_delete_files=(ref(shared.old),), delete_files=(again,))
        )
        await table.commit(shared.instead(shared.positions("both", 0, 1)))
        assert await table.unsound() == ()
    assert await table.ids() == [*range(2, 10), 22]


async def test_an_update_that_replaces_the_same_deletes_conflicts_by_row_only() -> None:
    bench = Workbench()
    async with bench.daemon():
        shared = await Shared.create(bench, of="both")
        table = shared.table
        won = await table.commit(shared.instead(shared.positions("both", 0, 1)))
        lost = await table.refused(
            shared.instead(shared.positions("both", 0, 1), added=[table.data((100, "eu"))], **SNAPSHOT)
        )
        assert (lost.rule, lost.hint, lost.conflicting_snapshot_id) == ("row-conflict", "replan", won)
        await table.commit(shared.instead(shared.positions("both", 0, 2), added=[table.data((100, "eu"))], **SNAPSHOT))
        assert await table.unsound() == ()
    assert await table.ids() == [*range(3, 10), 100]


async def test_deletes_of_rows_that_a_compaction_moved_are_refused() -> None:
    bench = Workbench()
    async with bench.daemon():
        shared = await Shared.create(bench, of="both")
        table = shared.table
        moved = table.data(*ONE[1:], *TWO[1:])
        won = await table.commit(table.replace(shared.base, [shared.one, shared.two], [moved]))
        assert await table.delete_files() == []
        lost = await table.refused(shared.instead(shared.positions("both", 0, 1)))
    assert (lost.rule, lost.hint, lost.conflicting_snapshot_id) == ("missing-file", "replan", won)
    assert set(lost.files) == {shared.one.file_path, shared.two.file_path}


@pytest.mark.parametrize("kind", ["nothing in its place", "another partition", "equality deletes", "replace"])
async def test_a_delete_file_that_is_gone_is_refused_and_names_who_removed_it(kind: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        shared = await Shared.create(bench, of="both")
        table, old = shared.table, shared.old
        there = table.data((50, "us"))
        await table.commit(table.append(there))
        winner = shared.instead(shared.positions("both", 0, 1), writer="w", **SNAPSHOT)
        won = await table.commit(winner)
        losers: dict[str, Any] = {
            "nothing in its place": shared.instead(**SNAPSHOT),
            "another partition": shared.instead(table.positions({there.file_path: [0]}, like=there), **SNAPSHOT),
            "equality deletes": shared.instead(table.equality(1, like=shared.one), **SNAPSHOT),
            "replace": table.replace(
                shared.base, [], removed_delete_files=(ref(old),), delete_files=(shared.positions("both", 0),)
            ),
        }
        lost = await table.refused(losers[kind])
    assert (lost.rule, lost.hint, lost.files) == ("missing-file", "replan", (old.file_path,))
    assert (lost.conflicting_snapshot_id, lost.conflicting_intent_id) == (won, winner.intent_id)
    assert lost.conflicting_writer == "w"
    assert f"snapshot {won}" in lost.message
