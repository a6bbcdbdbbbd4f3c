"""Replaced partitions hold what replaced them and nothing else, whatever partition specs their files had."""

from __future__ import annotations

from typing import Any

import pytest

from firn.model.intent import ContentFile
from firn.model.operations.layout import UpdateSpec
from tests.unit.coordinator.replay.real_rows import RealRows
from tests.unit.coordinator.workbench import TABLE, Workbench, new_id

EU = ((0, "eu"), (1, "eu"))
US = ((10, "us"), (11, "us"))
REGION = {"action": "add-field", "source": "region", "transform": "identity"}
BUCKET = {"action": "add-field", "source": "id", "transform": "bucket[4]"}


async def change_spec(table: RealRows, *changes: dict[str, Any]) -> int:
    """New files are of the changed spec. The head, which later intents are planned on."""
    before = await table.metadata()
    await table.bench.commit(
        UpdateSpec(
            intent_id=new_id(),
            table=TABLE,
            base_spec_id=before.default_spec_id,
            base_schema_id=before.current_schema_id,
            changes=changes,
        )
    )
    table.created = await table.metadata()
    assert table.created.current_snapshot_id is not None
    return table.created.current_snapshot_id


async def test_files_from_before_the_table_was_partitioned_go_when_their_metrics_prove_that_they_are_inside() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        eu, us = table.data(*EU), table.data(*US)
        base = await table.commit(table.append(eu, us))
        await table.commit(table.delta(base, table.vector(eu, 0)))
        base = await change_spec(table, REGION)
        await table.commit(table.replace_partitions(base, table.data((5, "eu"))))
        assert await table.delete_files() == []
    assert await table.ids() == [5, 10, 11]


async def test_a_file_that_may_have_rows_of_other_partitions_is_named_and_nothing_goes() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        mixed = table.data((0, "eu"), (10, "us"))
        await table.commit(table.append(mixed, table.data((20, "asia"))))
        base = await change_spec(table, REGION)
        lost = await table.refused(table.replace_partitions(base, table.data((5, "eu"))))
        await table.commit(table.replace_partitions(base, table.data((6, "asia"))))
    assert (lost.rule, lost.files) == ("partial-match", (mixed.file_path,))
    assert "spec 0" in lost.message
    assert await table.ids() == [0, 6, 10]


async def test_a_partition_inside_the_replaced_one_goes_whole_and_one_around_it_is_refused() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, partitioned=True)
        coarse = bare(table.data(*EU))
        await table.commit(table.append(coarse, bare(table.data(*US))))
        base = await change_spec(table, BUCKET)
        lost = await table.refused(table.replace_partitions(base, table.data((5, "eu"))))
        fine = [bare(table.data((id, "eu"))) for id in range(2, 6)]
        await table.commit(table.append(*fine))
        base = await change_spec(table, {"action": "remove-field", "name": "id_bucket_4"})
        await table.commit(table.replace_partitions(base, table.data((9, "eu"))))
    assert (lost.rule, lost.files) == ("partial-match", (coarse.file_path,))
    assert await table.ids() == [9, 10, 11]


def bare(file: ContentFile) -> ContentFile:
    """The file without metrics: only its partition tells what is in it."""
    return ContentFile(
        file_path=file.file_path,
        file_format=file.file_format,
        spec_id=file.spec_id,
        partition=file.partition,
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
    )


async def test_what_comes_under_another_spec_conflicts_where_it_may_be_inside() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        eu, us = table.data(*EU), table.data(*US)
        await table.commit(table.append(eu, us))
        old = table.data((2, "eu")), table.data((12, "us"))
        base = await change_spec(table, REGION)
        own = table.data((5, "eu")), table.data((15, "us"))
        won = await table.commit(table.append(old[0]))
        lost = await table.refused(table.replace_partitions(base, own[0]))
        await table.commit(table.replace_partitions(base, own[1]))
        base = await table.commit(table.append(table.data((30, "asia"))))
        gone = await table.commit(table.delete(eu))
        again = await table.refused(table.replace_partitions(base, own[0], isolation="snapshot"))
    assert (lost.rule, lost.conflicting_snapshot_id, lost.files) == ("new-data", won, (old[0].file_path,))
    assert (again.rule, again.conflicting_snapshot_id) == ("removed-data", gone)
    assert await table.ids() == [2, 15, 30]


@pytest.mark.parametrize("region", ["eu", None])
async def test_partitions_of_several_fields_are_told_apart(region: str | None) -> None:
    """Not field by field: (eu, 1) and (us, 2) do not make (eu, 2)."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        kept = table.data((3, region))
        await table.commit(table.append(kept, table.data((1, region)), table.data((2, "us"))))
        base = await change_spec(table, REGION, {"action": "add-field", "source": "id", "transform": "identity"})
        await table.commit(table.replace_partitions(base, table.data((1, region)), table.data((3, "us"))))
    assert await table.ids() == [1, 2, 3, 3]


async def test_partitions_are_filled_once_where_the_intent_asks_for_it() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, partitioned=True)
        await table.commit(table.replace_partitions(None, table.data(*EU), append_only=True))
        base = await table.commit(table.replace_partitions(None, table.data(*US), append_only=True))
        load = table.replace_partitions(base, table.data((5, "eu")), table.data((6, "asia")), append_only=True)
        lost = await table.refused(load)
    assert (lost.rule, lost.hint, lost.partitions) == ("occupied-partition", "replan", ("region=eu",))
    assert await table.ids() == [0, 1, 10, 11]
