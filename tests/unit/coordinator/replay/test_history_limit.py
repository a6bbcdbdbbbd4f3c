"""Snapshots that expire with commits, and those that do not."""

from __future__ import annotations

from typing import Any

import pytest

from firn.model.operations.refs import CreateTag
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, delete, new_id

COUNT = 70


async def table_after(properties: dict[str, str], *, tag: bool = False, stage: bool = False) -> Any:
    """A table's metadata after many commits."""
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(properties=properties))
        first = await bench.commit(append("first"))
        if tag:
            assert first.snapshot_id is not None
            intent = CreateTag(intent_id=new_id(), table=TABLE, ref_name="keep", snapshot_id=first.snapshot_id)
            await bench.commit(intent)
        if stage:
            await bench.commit(append("staged", stage=True, wap_id="w"))
        for number in range(COUNT):
            await bench.commit(append(f"f{number:02d}"))
        metadata = await bench.metadata()
        assert await bench.live() == sorted(["first", *(f"f{number:02d}" for number in range(COUNT))])
        await bench.commit(delete("first"))
    return metadata


async def test_a_history_is_cut_back_to_what_the_table_may_keep() -> None:
    metadata = await table_after({"firn.snapshots-max": "10"})
    assert 10 <= len(metadata.snapshots) <= 10 + 2 + 9
    assert len(metadata.snapshot_log) <= len(metadata.snapshots)


@pytest.mark.parametrize(
    "properties",
    [
        {"firn.snapshots-max": "0"},
        {"firn.snapshots-max": "10", "firn.expire-on-commit": "false"},
        {"firn.snapshots-max": "10", "gc.enabled": "false"},
        {"firn.snapshots-max": "10", "history.expire.min-snapshots-to-keep": "100"},
        {"history.expire.max-snapshot-age-ms": "3600000"},
        {},
    ],
)
async def test_a_history_that_the_table_wants_to_keep_stays(properties: dict[str, str]) -> None:
    assert len((await table_after(properties)).snapshots) == COUNT + 1


async def test_what_is_older_than_the_table_says_goes() -> None:
    metadata = await table_after({"history.expire.max-snapshot-age-ms": "1"})
    assert len(metadata.snapshots) < COUNT + 1


async def test_tagged_and_staged_snapshots_stay() -> None:
    metadata = await table_after({"firn.snapshots-max": "10"}, tag=True, stage=True)
    assert metadata.refs["keep"].snapshot_id in {snapshot.snapshot_id for snapshot in metadata.snapshots}
    assert any((snapshot.summary or {}).get("wap.id") == "w" for snapshot in metadata.snapshots)
    assert len(metadata.snapshots) < COUNT
