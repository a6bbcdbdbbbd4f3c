"""PyIceberg's facts about retries: what a writer hears when others commit first, or when an answer is lost.

Each case is a test of the same name; where firn differs, the data says how and why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from firn.model.operations.upkeep import ExpireSnapshots
from firn.storage.journal import is_journal_file
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.replay.real_rows import RealRows, field_is
from tests.unit.coordinator.workbench import TABLE, Workbench, create, new_id

CASES = json.loads((Path(__file__).parent / "data" / "retry_idempotency.json").read_text(encoding="utf-8"))["cases"]


def rows(*ids: int, region: str = "eu") -> list[tuple[int, str]]:
    return [(id, region) for id in ids]


def test_every_case_is_tested() -> None:
    assert {f"test_{case['name']}" for case in CASES} <= set(globals())


@pytest.fixture
async def bench() -> Any:
    made = Workbench()
    async with made.daemon():
        yield made


async def test_commit_retry_on_commit_failed(bench: Workbench) -> None:
    table = await RealRows.create(bench)
    planned = table.append(table.data(*rows(1)))
    await table.commit(table.append(table.data(*rows(2))))
    bench.sessions["a"].drop_next_write("before")
    await table.commit(planned)
    assert await table.ids() == [1, 2]


async def test_concurrent_append_delete_raises_validation_exception(bench: Workbench) -> None:
    """Differs: the delete takes the rows that came, too."""
    table = await RealRows.create(bench)
    await table.commit(table.append(*(table.data(*rows(id)) for id in (1, 2, 3))))
    planned = table.delete_where(field_is("id", 1))
    await table.commit(table.append(*(table.data(*rows(id)) for id in (1, 2, 3))))
    await table.commit(planned)
    assert await table.ids() == [2, 2, 3, 3]


async def test_retry_exhaustion_raises_commit_failed(bench: Workbench) -> None:
    """Differs: nothing is exhausted."""
    table = await RealRows.create(bench, properties={"commit.retry.num-retries": "0"})
    planned = table.append(table.data(*rows(1)))
    await table.commit(table.append(table.data(*rows(2))))
    bench.sessions["a"].drop_next_write("before")
    assert (await table.committed(planned)).replays == 1


async def test_concurrent_overwrite_append_retries_successfully(bench: Workbench) -> None:
    table = await RealRows.create(bench)
    file = table.data(*rows(1, 2))
    base = await table.commit(table.append(file))
    planned = table.append(table.data(*rows(3)))
    await table.commit(table.overwrite(base, [table.data(*rows(9))], [file]))
    await table.commit(planned)
    assert await table.ids() == [3, 9]


async def test_concurrent_deletes_on_different_partitions_succeed(bench: Workbench) -> None:
    table = await RealRows.create(bench, partitioned=True)
    a, b = table.data(*rows(1, region="a")), table.data(*rows(2, region="b"))
    base = await table.commit(table.append(a, b))
    await table.commit(table.delta(base, table.vector(a, 0)))
    await table.commit(table.delta(base, table.vector(b, 0)))
    assert await table.ids() == []


async def test_overwrite_with_serializable_update_isolation_raises(bench: Workbench) -> None:
    table = await RealRows.create(bench)
    file = table.data(*rows(1))
    base = await table.commit(table.append(file))
    await table.commit(table.append(table.data(*rows(2))))
    assert (await table.refused(table.overwrite(base, [table.data(*rows(9))], [file]))).rule == "new-data"


async def test_negative_wait_properties_do_not_mask_commit_failure(bench: Workbench) -> None:
    """Differs: such properties are refused when they are set."""
    waits = {"commit.retry.min-wait-ms": "-100", "commit.retry.max-wait-ms": "-1"}
    assert (await bench.refuse(create(properties=waits))).rule == "invalid-property"
    table = await RealRows.create(bench)
    bench.sessions["a"].drop_next_write("before")
    await table.commit(table.append(table.data(*rows(1))))
    assert await table.ids() == [1]


async def test_unknown_commit_outcome_keeps_the_committed_files(bench: Workbench) -> None:
    """Differs: the swap that landed is found; either way nothing is deleted."""
    table = await RealRows.create(bench)
    bench.sessions["a"].drop_next_write("after")
    before = {info.location for info in bench.files.list("memory://wh")}
    outcome = await table.committed(table.append(table.data(*rows(1))))
    assert outcome.snapshot_id == (await table.metadata()).current_snapshot_id
    assert before <= {info.location for info in bench.files.list("memory://wh")}
    assert await table.ids() == [1]
    assert await table.unsound() == ()


async def test_reusing_a_committed_transaction_does_not_damage_the_first_commit(bench: Workbench) -> None:
    table = await RealRows.create(bench)
    await table.commit(table.append(table.data(*rows(1, 2, 3))))
    intent = table.append(table.data(*rows(10, 20)))
    first = await table.committed(intent)
    await table.commit(table.append(table.data(*rows(100))))
    assert await table.committed(intent) == first
    assert await table.ids() == [1, 2, 3, 10, 20, 100]


async def test_retried_delete_treats_a_concurrent_commit_atomically() -> None:
    bench = Gathering()
    async with bench.daemon() as daemon:
        table = await RealRows.create(bench)
        await table.commit(table.append(table.data(*rows(0)), table.data(*rows(1))))
        concurrent = table.append(table.data(*rows(1)), table.data(*rows(1, 5)))
        deleted = table.delete_where(field_is("id", 1))
        _, refused = await bench.gathered(daemon, concurrent, deleted)
        paths = {file.file_path for file in concurrent.data_files}
        live = [e.data_file.file_path for e in await table.entries()]
    # The delete cannot split the file with rows 1 and 5: it takes part of nothing, so that both files stay.
    assert getattr(refused, "rule", None) == "partial-match"
    assert paths <= set(live)


async def test_delete_that_matched_nothing_at_staging_still_validates(bench: Workbench) -> None:
    """Differs: it is about the rows that are there when its turn comes."""
    table = await RealRows.create(bench)
    planned = table.delete_where({"type": "gt", "term": "id", "value": 45})
    await table.commit(table.append(table.data(*rows(50))))
    await table.commit(planned)
    assert await table.ids() == []


async def test_manifest_list_cleanup_on_retry(bench: Workbench) -> None:
    """Differs: the list of the attempt that did not come off stays, and only one is the table's."""
    table = await RealRows.create(bench)
    bench.sessions["a"].drop_next_write("before")
    await table.commit(table.append(table.data(*rows(1))))
    lists = [info.location for info in bench.files.list("memory://wh") if "/snap-" in info.location]
    (snapshot,) = (await table.metadata()).snapshots
    assert len(lists) == 2
    assert snapshot.manifest_list in lists


async def test_clean_all_uncommitted_on_validation_exception(bench: Workbench) -> None:
    """Differs: what is refused has written nothing but its place in the journal."""
    table = await RealRows.create(bench)
    base = await table.commit(table.append(table.data(*rows(1))))
    await table.commit(table.append(table.data(*rows(2))))
    overwrite = table.overwrite(base, [table.data(*rows(9))])
    before = {info.location for info in bench.files.list("memory://wh")}
    await table.refused(overwrite)
    written = {info.location for info in bench.files.list("memory://wh")} - before
    assert [location for location in written if not is_journal_file(location)] == []


async def test_validate_concurrency_raises_on_missing_starting_snapshot(bench: Workbench) -> None:
    table = await RealRows.create(bench)
    file = table.data(*rows(1))
    base = await table.commit(table.append(file))
    later = await table.commit(table.append(table.data(*rows(2))))
    await table.commit(table.append(table.data(*rows(3))))
    expiry = ExpireSnapshots(intent_id=new_id(), table=TABLE, snapshot_ids=(base, later), older_than_ms=0)
    await bench.commit(expiry)
    bench.lose_dropped_snapshots()  # firn keeps what it expires on record for a day
    assert (await table.refused(table.delta(base, table.vector(file, 0)))).rule == "unknown-base"
