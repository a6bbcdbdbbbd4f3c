"""Manifests that are merged beside the commit path: begun by one commit, taken over by a later one."""

from __future__ import annotations

from typing import Any

import pytest

from firn.coordinator.daemon import Daemon
from firn.coordinator.operations.bulletin import Bulletin
from firn.coordinator.operations.notices import notice_in
from firn.coordinator.replay import merging
from firn.coordinator.tables import merges_beside
from firn.coordinator.tables.merges_beside import MERGE_LIVES_S, MergesBeside
from firn.model.errors import Unavailable
from firn.model.operations.refs import CreateBranch
from firn.model.operations.upkeep import UpdateProperties, UpgradeFormat
from firn.model.outcome import Committed
from firn.storage.manifest_reader import StoredManifests
from tests.unit.coordinator.replay.real_rows import RealRows
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, delete, new_id

PROPERTIES = {"commit.manifest.min-count-to-merge": "3"}
NO_MERGES = {"commit.manifest-merge.enabled": "false"}


def merges_of(daemon: Daemon) -> MergesBeside:
    return daemon.lanes._shop.merges


async def lists(bench: Workbench) -> list[int]:
    """How many manifests each snapshot of the table lists."""
    metadata = await bench.metadata()
    reader = StoredManifests(bench.files)
    return [len(reader.manifests(metadata, snapshot)) for snapshot in metadata.snapshots]


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_merges_are_taken_over_and_nothing_is_lost(version: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(properties=PROPERTIES, format_version=version))
        for number in range(20):
            assert isinstance(await bench.commit(append(f"f{number:02d}")), Committed)
            await bench.merged()
        assert await bench.live() == [f"f{number:02d}" for number in range(20)]
        counts = await lists(bench)
    assert max(counts) <= 6
    assert min(counts[-3:]) < 6


async def test_files_of_a_manifest_that_was_merged_beside_can_be_removed() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(properties=PROPERTIES))
        for number in range(8):
            await bench.commit(append(f"f{number}", f"g{number}"))
            await bench.merged()
        assert isinstance(await bench.commit(delete("f0", "g3", "f7")), Committed)
        await bench.commit(append("h"))
        expected = sorted({f"{kind}{n}" for n in range(8) for kind in "fg"} - {"f0", "g3", "f7"} | {"h"})
        assert await bench.live() == expected
    async with bench.daemon("b"):  # reads everything from storage
        assert isinstance(await bench.commit(append("f0")), Committed)
        assert await bench.live() == sorted([*expected, "f0"])


async def test_a_list_that_outgrows_its_merges_waits_for_them() -> None:
    bench = Workbench()
    async with bench.daemon() as daemon:
        await bench.commit(create(properties=PROPERTIES))
        for number in range(40):
            await bench.commit(append(f"f{number:02d}"))
        assert max(await lists(bench)) <= merging.UNMERGED_FACTOR * 3 + 2
        assert not daemon.lanes.unreadable


async def test_parts_of_a_merge_that_came_too_late_are_merged_again() -> None:
    bench = Workbench()
    async with bench.daemon() as daemon:
        await bench.commit(create(properties=PROPERTIES))
        for number in range(3):
            await bench.commit(append(f"f{number}"))
        await bench.merged()
        assert merges_of(daemon).finished(TABLE)
        await bench.commit(UpdateProperties(intent_id=new_id(), table=TABLE, updates=NO_MERGES))
        for number in range(3):  # each rewrites a manifest that is a part
            await bench.commit(append(f"g{number}"))
            await bench.commit(delete(f"f{number}"))
        await bench.commit(UpdateProperties(intent_id=new_id(), table=TABLE, removals=tuple(NO_MERGES)))
        for number in range(10, 20):
            await bench.commit(append(f"f{number}"))
            await bench.merged()
        assert await bench.live() == [*(f"f{n}" for n in range(10, 20)), "g0", "g1", "g2"]
        assert (await lists(bench))[-1] <= 6


async def test_a_merge_that_was_not_taken_over_for_long_is_forgotten(monkeypatch: Any) -> None:
    """Its file is named by nothing, so orphan removal may have removed it."""
    bench = Workbench()
    async with bench.daemon() as daemon:
        await bench.commit(create(properties=PROPERTIES))
        for number in range(3):
            await bench.commit(append(f"f{number}"))
            await bench.merged()
        found = merges_of(daemon)
        waiting = [merge.finished for merge in found._open]
        assert waiting
        for merge in waiting:
            assert merge is not None
            bench.files.delete(merge.row.manifest_path)
        later = found._clock_s() + MERGE_LIVES_S + 1
        monkeypatch.setattr(found, "_clock_s", lambda: later)
        for number in range(3, 9):
            await bench.commit(append(f"f{number}"))
    async with bench.daemon("b"):
        assert await bench.live() == [f"f{number}" for number in range(9)]


async def test_all_but_the_last_merges_that_were_taken_over_are_forgotten(monkeypatch: Any) -> None:
    """They name all that they were made of: a few megabytes, of a table that is written to for minutes."""
    monkeypatch.setattr(merges_beside, "TAKEN_KEPT_MAX", 2)
    bench = Workbench()
    async with bench.daemon() as daemon:
        await bench.commit(create(properties=PROPERTIES))
        merges, begun = merges_of(daemon), set()
        for number in range(20):
            await bench.commit(append(f"f{number}"))
            await bench.merged()
            begun |= {part.manifest_path for merge in (*merges._open, *merges._taken) for part in merge.parts}
        assert len(begun) > 12
        assert len(merges._taken) == 2
        assert len(merges._open) <= 1


# ---------------------------------------------------------------------------------------------------------------------
# Manifests that are listed with other numbers: on another branch, or once row ids were given


async def test_rows_keep_the_ids_that_an_upgraded_table_gives_them_while_they_are_merged() -> None:
    """The commit that begins the merge is the one that gives ids to what it merges."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        for number in range(4):
            await table.commit(table.append(table.data((number, "eu"))))
        await bench.commit(UpgradeFormat(intent_id=new_id(), table=TABLE, format_version=3))
        await bench.commit(UpdateProperties(intent_id=new_id(), table=TABLE, updates=PROPERTIES))
        table.created = await table.metadata()
        given: dict[int, int] = {}
        for number in range(4, 10):
            await table.commit(table.append(table.data((number, "eu"))))
            await bench.merged()
            row_ids = await table.row_ids()
            assert {row: row_ids[row] for row in given} == given
            given = row_ids
        assert (await lists(bench))[-1] < 8
        assert await table.unsound() == ()
    assert len(set(given.values())) == 10


@pytest.mark.parametrize("version", [2, 3])
async def test_a_merge_of_one_branch_is_not_taken_over_by_another_where_its_rows_have_other_numbers(
    version: int,
) -> None:
    """One written manifest is appended to two branches; between the two, deletes came to the second."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        start = await table.commit(table.append(table.data((100, "eu"))))
        await bench.commit(CreateBranch(intent_id=new_id(), table=TABLE, ref_name="other", snapshot_id=start))
        shared = [table.manifest(table.added(table.data((number, "eu")))) for number in range(3)]
        for manifest in shared:
            await table.commit(table.append(manifests=(manifest,)))
        await table.commit(table.delta(start, table.equality(0, 1, 2), branch="other"))
        for manifest in shared:
            await table.commit(table.append(manifests=(manifest,), branch="other"))
        before = {entry.data_file.file_path: entry for entry in await table.entries(snapshot_id=await head(table))}
        await bench.commit(UpdateProperties(intent_id=new_id(), table=TABLE, updates=PROPERTIES))
        for branch in ("main", "other", "other"):
            await table.commit(table.append(table.data((200, "eu")), branch=branch))
            await bench.merged()
        after = {entry.data_file.file_path: entry for entry in await table.entries(snapshot_id=await head(table))}
        assert await table.unsound() == ()
    assert await table.ids(ref="other") == [0, 1, 2, 100, 200, 200]
    for path, entry in before.items():
        now = after[path]
        assert (now.sequence_number, now.snapshot_id) == (entry.sequence_number, entry.snapshot_id)
        assert now.data_file.first_row_id == entry.data_file.first_row_id


async def head(table: RealRows) -> int:
    """The snapshot that the branch ``other`` is at."""
    return (await table.metadata()).refs["other"].snapshot_id


# ---------------------------------------------------------------------------------------------------------------------
# Merges that cannot be made


async def test_a_manifest_that_is_gone_is_left_alone_and_the_others_are_merged_around_it() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(properties=PROPERTIES))
        await bench.commit(append("lost"))
        metadata = await bench.metadata()
        assert metadata.current_snapshot is not None
        (lost,) = StoredManifests(bench.files).manifests(metadata, metadata.current_snapshot)
    async with bench.daemon("b") as daemon:
        await bench.commit(append("f0"))
        bench.files.delete(lost.manifest_path)
        daemon.lanes._shop.reader.cache._kept.clear()
        for number in range(1, 12):
            await bench.commit(append(f"f{number}"))
            await bench.merged()
        merges = merges_of(daemon)
        assert set(merges.unmergeable) == {TABLE}
        assert lost.manifest_path in merges.unmergeable[TABLE]
        assert notice_in(Bulletin(daemon._membership, daemon.lanes).first(None)).unmerged == merges.unmergeable
        assert daemon.metrics.merges_failed.labels("part")._value.get() == 1
        assert (await lists(bench))[-1] <= 7


async def test_a_store_that_does_not_answer_stops_merges_for_a_while_and_no_commit(monkeypatch: Any) -> None:
    bench = Workbench()
    async with bench.daemon() as daemon:
        merges = merges_of(daemon)

        def refuse(*_: Any, **__: Any) -> Any:
            raise Unavailable("no answer")

        monkeypatch.setattr(merges, "_write", refuse)
        await bench.commit(create(properties=PROPERTIES))
        for number in range(6):
            await bench.commit(append(f"f{number}"))
            await bench.merged()
        assert merges.unmergeable == {}
        assert daemon.metrics.merges_failed.labels("store")._value.get() == 1
        assert await bench.live() == [f"f{number}" for number in range(6)]
