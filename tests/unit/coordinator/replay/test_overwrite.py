"""Overwrites, deletes by filter and replaced partitions: nothing that came meanwhile is lost or comes back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.model.errors import InvalidIntent
from firn.model.intent_codec import decode_intent
from firn.model.limits import Limits
from tests.unit.coordinator.replay.real_rows import RealRows, field_is
from tests.unit.coordinator.workbench import TABLE, Workbench, new_id

EU = ((0, "eu"), (1, "eu"), (2, "eu"))
US = ((10, "us"), (11, "us"))


def less_than(column: str, value: Any) -> dict[str, Any]:
    return {"type": "lt", "term": column, "value": value}


# ---------------------------------------------------------------------------------------------------------------------
# Delete where


async def test_files_whose_rows_all_match_go_and_no_others() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        await table.commit(table.append(table.data(*EU), table.data(*US)))
        await table.commit(table.delete_where(less_than("id", 5)))
        assert (await table.snapshot()).operation == "delete"  # type: ignore[union-attr]
    assert await table.ids() == [10, 11]


async def test_a_file_with_rows_that_stay_is_named_and_nothing_goes() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        mixed = table.data((1, "eu"), (7, "eu"))
        await table.commit(table.append(table.data(*EU), mixed))
        lost = await table.refused(table.delete_where(less_than("id", 5)))
    assert (lost.rule, lost.hint, lost.files) == ("partial-match", "narrow-filter", (mixed.file_path,))


async def test_a_delete_by_filter_is_about_the_rows_that_are_there_when_its_turn_comes() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, partitioned=True)
        base = await table.commit(table.append(table.data(*EU)))
        await table.commit(table.append(table.data(*US), table.data((3, "eu"))))
        await table.commit(table.delete_where(field_is("region", "eu"), base_snapshot_id=base))
    assert await table.ids() == [10, 11]


async def test_a_delete_that_matches_nothing_is_committed_and_makes_no_snapshot() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        empty = await table.committed(table.delete_where(field_is("id", 4711)))
        head = await table.commit(table.append(table.data(*EU)))
        nothing = await table.committed(table.delete_where(field_is("id", 4711)))
        assert len((await table.metadata()).snapshots) == 1
    assert (empty.snapshot_id, nothing.snapshot_id, nothing.sequence_number) == (None, head, None)


@pytest.mark.parametrize("row_filter", [field_is("nowhere", 1), field_is("id", "x"), {"type": "perhaps"}, {}])
async def test_a_filter_that_means_nothing_here_is_refused(row_filter: Any) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        await table.commit(table.append(table.data(*EU)))
        lost = await table.refused(table.delete_where(row_filter))
    assert (lost.rule, lost.hint) == ("invalid-filter", "fix")
    assert "row-filter" in lost.message


async def test_names_are_matched_whatever_their_case_when_asked() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        await table.commit(table.append(table.data(*EU)))
        assert (await table.refused(table.delete_where(less_than("iD", 5)))).rule == "invalid-filter"
        await table.commit(table.delete_where(less_than("iD", 5), case_sensitive=False))
    assert await table.ids() == []


async def test_vectors_go_with_their_data_files() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        one, two = table.data(*EU), table.data(*US)
        base = await table.commit(table.append(one, two))
        await table.commit(table.delta(base, table.vector(one, 0), table.vector(two, 0)))
        await table.commit(table.delete(one))
        (left,) = await table.delete_files()
        assert left.referenced_data_file == two.file_path
        await table.commit(table.delete_where(True))
        summary = (await table.snapshot()).summary or {}  # type: ignore[union-attr]
        assert await table.entries() == []
    assert (summary["removed-dvs"], summary["total-delete-files"], summary["total-records"]) == ("1", "0", "0")


async def test_position_deletes_that_are_only_for_a_removed_file_go_and_others_stay() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        one, two = table.data(*EU), table.data(*US)
        base = await table.commit(table.append(one, two))
        own = table.positions({one.file_path: [0]}, like=one)
        wide = table.positions({one.file_path: [1], two.file_path: [0]}, like=one)
        await table.commit(table.delta(base, own, wide, table.equality(4711)))
        await table.commit(table.delete(one))
        left = {file.file_path for file in await table.delete_files()}
    assert own.file_path not in left
    assert wide.file_path in left
    assert len(left) == 2
    assert await table.ids() == [11]


# ---------------------------------------------------------------------------------------------------------------------
# Overwrite


async def test_what_the_filter_covers_is_replaced_by_what_is_added() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, partitioned=True)
        base = await table.commit(table.append(table.data(*EU), table.data(*US)))
        await table.commit(
            table.overwrite(base, [table.data((5, "eu"))], row_filter=field_is("region", "eu"), writer="w")
        )
        assert (await table.snapshot()).operation == "overwrite"  # type: ignore[union-attr]
    assert await table.ids() == [5, 10, 11]


@pytest.mark.parametrize(
    ("adds", "removes", "operation"), [(True, False, "append"), (False, True, "delete"), (True, True, "overwrite")]
)
async def test_the_snapshot_says_what_was_done(adds: bool, removes: bool, operation: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*EU)
        base = await table.commit(table.append(file))
        added = [table.data((5, "eu"))] if adds else []
        await table.commit(table.overwrite(base, added, [file] if removes else []))
        assert (await table.snapshot()).operation == operation  # type: ignore[union-attr]


async def test_an_overwrite_of_nothing_makes_no_snapshot() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        nothing = await table.committed(table.overwrite(None, row_filter=field_is("id", 1)))
        assert (await table.metadata()).snapshots == ()
    assert nothing.snapshot_id is None


async def test_rows_that_came_meanwhile_and_match_are_a_conflict_unless_the_intent_asks_for_less() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, partitioned=True)
        base = await table.commit(table.append(table.data(*EU)))
        won = await table.commit(table.append(table.data((3, "eu")), writer="loader"))
        covers: dict[str, Any] = {"row_filter": field_is("region", "eu")}
        lost = await table.refused(table.overwrite(base, [table.data((5, "eu"))], **covers))
        await table.commit(table.overwrite(base, [table.data((6, "us"))], row_filter=field_is("region", "us")))
        await table.commit(table.overwrite(base, [table.data((7, "eu"))], isolation="snapshot", **covers))
    assert (lost.rule, lost.conflicting_snapshot_id, lost.conflicting_writer) == ("new-data", won, "loader")
    assert await table.ids() == [6, 7]


async def test_the_conflict_filter_tells_what_was_read() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*EU)
        base = await table.commit(table.append(file))
        await table.commit(table.append(table.data(*US)))
        assert (await table.refused(table.overwrite(base, [table.data((0, "x"))], [file]))).rule == "new-data"
        await table.commit(table.overwrite(base, [table.data((0, "x"))], [file], conflict_filter=less_than("id", 5)))
    assert await table.rows() == [(0, "x"), (10, "us"), (11, "us")]


async def test_a_file_rewritten_over_deletes_that_came_meanwhile_is_refused() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file, other = table.data(*EU), table.data(*US)
        base = await table.commit(table.append(file, other))
        won = await table.commit(table.delta(base, table.vector(file, 0)))
        lost = await table.refused(table.overwrite(base, [table.data(*EU)], [file], isolation="snapshot"))
        await table.commit(table.overwrite(base, [table.data((12, "us"))], [other], isolation="snapshot"))
    assert (lost.rule, lost.conflicting_snapshot_id, lost.files) == ("new-deletes", won, (file.file_path,))
    assert await table.ids() == [1, 2, 12]


async def test_deletes_of_what_the_filter_covers_are_a_conflict_others_are_not() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, partitioned=True)
        eu, us = table.data(*EU), table.data(*US)
        base = await table.commit(table.append(eu, us))
        won = await table.commit(table.delta(base, table.vector(eu, 0)))
        lost = await table.refused(table.overwrite(base, [table.data(*EU)], row_filter=field_is("region", "eu")))
        await table.commit(table.overwrite(base, [table.data((12, "us"))], row_filter=field_is("region", "us")))
    assert (lost.rule, lost.conflicting_snapshot_id) == ("new-deletes", won)
    assert await table.ids() == [1, 2, 12]


async def test_deletes_that_were_compacted_away_meanwhile_are_found_all_the_same() -> None:
    """The vector names a data file that is gone: its rows may be among those that the overwrite has read."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        eu = table.data(*EU)
        base = await table.commit(table.append(eu))
        deleted = await table.commit(table.delta(base, table.vector(eu, 0)))
        await table.commit(table.replace(deleted, [eu], [table.data(*EU[1:])]))
        covers: dict[str, Any] = {"row_filter": field_is("region", "eu"), "isolation": "snapshot"}
        lost = await table.refused(table.overwrite(base, [table.data(*EU)], **covers))
    assert lost.rule in {"new-deletes", "removed-data"}
    assert await table.ids() == [1, 2]


async def test_removals_of_what_the_filter_covers_are_a_conflict() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, partitioned=True)
        eu, us = table.data(*EU), table.data(*US)
        base = await table.commit(table.append(eu, us))
        won = await table.commit(table.delete(eu))
        lost = await table.refused(table.overwrite(base, [table.data(*EU)], row_filter=field_is("region", "eu")))
        await table.commit(table.overwrite(base, [table.data((12, "us"))], row_filter=field_is("region", "us")))
    assert (lost.rule, lost.conflicting_snapshot_id, lost.files) == ("removed-data", won, (eu.file_path,))
    assert await table.ids() == [12]


async def test_added_files_are_inside_the_row_filter() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        base = await table.commit(table.append(table.data(*EU)))
        outside = table.data((5, "eu"), (6, "us"))
        covers: dict[str, Any] = {"row_filter": field_is("region", "eu")}
        lost = await table.refused(table.overwrite(base, [outside], **covers))
        await table.commit(table.overwrite(base, [outside], validate="none", **covers))
        summary = (await table.snapshot()).summary or {}  # type: ignore[union-attr]
    assert (lost.rule, lost.files) == ("outside-filter", (outside.file_path,))
    assert summary["firn.validation"] == "none"
    assert await table.ids() == [5, 6]


async def test_an_overwrite_says_what_it_was_planned_on() -> None:
    """A base of null is the empty branch: then everything came meanwhile. One that is left out is refused."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        await table.commit(table.overwrite(None, [table.data(*EU)]))
        assert (await table.refused(table.overwrite(None, [table.data(*EU)]))).rule == "new-data"
    without = msgspec.json.encode({"operation": "overwrite", "table": TABLE, "intent-id": new_id()})
    with pytest.raises(InvalidIntent) as refused:
        decode_intent(without, limits=Limits())
    assert refused.value.rule == "missing-field"


async def test_a_file_that_is_already_there_is_not_added_again() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*EU)
        base = await table.commit(table.append(file))
        assert (await table.refused(table.overwrite(base, [file]))).rule == "duplicate-file"


# ---------------------------------------------------------------------------------------------------------------------
# Replace partitions


async def test_the_partitions_of_the_added_files_are_replaced_and_no_others() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, partitioned=True)
        base = await table.commit(table.append(table.data(*EU), table.data(*US)))
        await table.commit(table.replace_partitions(base, table.data((5, "eu")), table.data((7, "asia"))))
        snapshot = await table.snapshot()
    assert snapshot is not None
    assert snapshot.operation == "overwrite"
    assert (snapshot.summary or {})["replace-partitions"] == "true"
    assert await table.ids() == [5, 7, 10, 11]


async def test_an_unpartitioned_table_is_replaced_whole() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        base = await table.commit(table.append(table.data(*EU), table.data(*US)))
        await table.commit(table.replace_partitions(base, table.data((5, "eu"))))
        lost = await table.refused(table.replace_partitions(base, table.data((6, "eu"))))
    assert lost.rule == "new-data"
    assert await table.ids() == [5]


async def test_what_comes_to_other_partitions_is_no_conflict() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, partitioned=True)
        eu, us = table.data(*EU), table.data(*US)
        base = await table.commit(table.append(eu, us))
        await table.commit(table.delta(base, table.vector(us, 0)))
        await table.commit(table.append(table.data((12, "us"))))
        await table.commit(table.replace_partitions(base, table.data((5, "eu"))))
        assert (await table.refused(table.replace_partitions(base, table.data((20, "us"))))).rule == "new-data"
        snapshot = table.replace_partitions(base, table.data((20, "us")), isolation="snapshot")
        assert (await table.refused(snapshot)).rule == "new-deletes"
    assert await table.ids() == [5, 11, 12]


async def test_null_is_a_partition_like_any_other() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, partitioned=True)
        base = await table.commit(table.append(table.data((1, None)), table.data(*US)))
        await table.commit(table.replace_partitions(base, table.data((2, None))))
        assert (await table.refused(table.replace_partitions(base, table.data((3, None))))).rule == "new-data"
    assert await table.ids() == [2, 10, 11]


# ---------------------------------------------------------------------------------------------------------------------
# Deletes that reach nothing any more


@pytest.mark.parametrize("version", [2, 3])
async def test_deletes_that_are_older_than_every_data_file_go_with_the_last_one_that_they_were_for(
    version: int,
) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        eu, us = table.data(*EU), table.data(*US)
        base = await table.commit(table.append(eu, us))
        base = await table.commit(table.delta(base, table.equality(1)))
        young = table.equality(4711)
        await table.commit(table.append(table.data((20, "eu"))))
        await table.commit(table.delta(base, young))
        base = await table.commit(table.delete(us))
        assert len(await table.delete_files()) == 2
        await table.commit(table.replace(base, [eu], [table.data((0, "eu"), (2, "eu"))]))
        (left,) = await table.delete_files()
        summary = (await table.snapshot()).summary or {}  # type: ignore[union-attr]
        assert await table.unsound() == ()
    assert left.file_path == young.file_path
    assert (summary["removed-equality-deletes"], summary["total-delete-files"]) == ("1", "1")
    assert await table.ids() == [0, 2, 20]


async def test_deletes_stay_while_a_compaction_keeps_its_files_as_old_as_they_were() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        eu = table.data(*EU)
        base = await table.commit(table.append(eu))
        await table.commit(table.delta(base, table.equality(1)))
        await table.commit(table.replace(base, [eu], [table.data(*EU)], data_sequence_number=1))
        assert len(await table.delete_files()) == 1
    assert await table.ids() == [0, 2]
