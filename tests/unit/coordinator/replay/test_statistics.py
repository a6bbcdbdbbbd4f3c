"""Statistics files: attached to a snapshot that is there, from the table's own place, and detached."""

from __future__ import annotations

from typing import Any

import pytest

from firn.model.operations.upkeep import (
    ExpireSnapshots,
    RemovePartitionStatistics,
    RemoveStatistics,
    SetPartitionStatistics,
    SetStatistics,
)
from firn.model.outcome import Committed
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, Workbench, append, create, new_id

PATH = f"{WAREHOUSE}/db/events/metadata/stats.puffin"


def intent(kind: type, **members: Any) -> Any:
    return kind(**{"intent_id": new_id(), "table": TABLE, **members})


def table_statistics(snapshot_id: int | None, **changes: Any) -> dict[str, Any]:
    blob = {"type": "apache-datasketches-theta-v1", "snapshot-id": snapshot_id, "sequence-number": 1, "fields": [1]}
    whole = {
        "snapshot-id": snapshot_id, "statistics-path": PATH, "file-size-in-bytes": 100,
        "file-footer-size-in-bytes": 10, "blob-metadata": [blob],
    }  # fmt: skip
    return {**whole, **changes}


def partition_statistics(snapshot_id: int | None, **changes: Any) -> dict[str, Any]:
    return {"snapshot-id": snapshot_id, "statistics-path": PATH, "file-size-in-bytes": 100, **changes}


@pytest.mark.parametrize("catalog", ["metastore", "file-system"])
async def test_statistics_are_attached_and_detached(catalog: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(catalog=catalog))
        first = (await bench.commit(append("a"))).snapshot_id
        outcomes = await bench.settle(
            append("b"),
            intent(SetStatistics, statistics=table_statistics(first)),
            intent(SetPartitionStatistics, partition_statistics=partition_statistics(first)),
            append("c"),
        )
        assert all(isinstance(o, Committed) for o in outcomes)
        metadata = await bench.metadata()
        assert metadata.statistics == (table_statistics(first),)
        assert metadata.partition_statistics == (partition_statistics(first),)
        await bench.commit(intent(RemoveStatistics, snapshot_id=first))
        await bench.commit(intent(RemovePartitionStatistics, snapshot_id=first))
        await bench.commit(intent(RemovePartitionStatistics, snapshot_id=1))
        metadata = await bench.metadata()
    assert (metadata.statistics, metadata.partition_statistics) == ((), ())


async def test_newer_statistics_take_the_place_of_older_ones() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        first = (await bench.commit(append("a"))).snapshot_id
        newer = table_statistics(first, **{"file-size-in-bytes": 200})
        await bench.commit(intent(SetStatistics, statistics=table_statistics(first)))
        await bench.commit(intent(SetStatistics, statistics=newer))
        assert (await bench.metadata()).statistics == (newer,)


async def test_nothing_is_attached_to_a_snapshot_that_has_expired() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        first = (await bench.commit(append("a"))).snapshot_id
        await bench.commit(append("b"))
        await bench.commit(intent(ExpireSnapshots, older_than_ms=2**62))
        for late in (
            intent(SetStatistics, statistics=table_statistics(first)),
            intent(SetPartitionStatistics, partition_statistics=partition_statistics(first)),
        ):
            assert (await bench.refuse(late)).rule == "unknown-snapshot"
        assert (await bench.metadata()).statistics == ()


@pytest.mark.parametrize("partition", [False, True])
@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"snapshot-id": "one"}, "invalid-field"),
        ({"file-size-in-bytes": -1}, "invalid-field"),
        ({"statistics-path": 1}, "invalid-field"),
        ({"statistics-path": f"{WAREHOUSE}/db/other/stats.puffin"}, "location-not-allowed"),
    ],
)
async def test_what_is_no_statistics_file_of_the_table_is_refused(
    changes: dict[str, Any], rule: str, *, partition: bool
) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        first = (await bench.commit(append("a"))).snapshot_id
        wrong = (
            intent(SetPartitionStatistics, partition_statistics=partition_statistics(first, **changes))
            if partition
            else intent(SetStatistics, statistics=table_statistics(first, **changes))
        )
        assert (await bench.refuse(wrong)).rule == rule
        assert (await bench.metadata()).statistics == ()
