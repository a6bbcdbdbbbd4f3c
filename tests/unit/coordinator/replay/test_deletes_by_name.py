"""Files that go by name: what stays is copied, in whatever manifest it stands, and no entry of it is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from firn.model.intent import ContentFile
from firn.model.manifest import Status
from firn.model.operations.upkeep import UpgradeFormat
from firn.model.outcome import Committed
from firn.storage import manifest_reader
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.replay.real_rows import RealRows
from tests.unit.coordinator.workbench import TABLE, Workbench, new_id, path_of

MERGED_AT_ONCE = {"commit.manifest.min-count-to-merge": "2"}


def files_of(table: RealRows, count: int, *, first: int = 0) -> list[ContentFile]:
    """Files of two rows each: those of file n have ids 2 n and 2 n + 1."""
    return [table.data((2 * n, "eu"), (2 * n + 1, "us")) for n in range(first, first + count)]


def ids_of(numbers: Sequence[int]) -> list[int]:
    return sorted(id for n in numbers for id in (2 * n, 2 * n + 1))


@pytest.fixture
def decoding_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(*_: Any, **__: Any) -> Any:
        raise AssertionError("a manifest is decoded")

    monkeypatch.setattr(manifest_reader, "decode_manifest", decode)
    monkeypatch.setattr("firn.coordinator.tables.table_reader.unpack", decode)


@pytest.mark.usefixtures("decoding_fails")
@pytest.mark.parametrize("version", [2, 3])
async def test_nothing_is_decoded_by_a_daemon_that_wrote_the_files_nor_by_the_next(version: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        files = files_of(table, 6)
        await table.commit(table.append(*files))
        await table.commit(table.delete(files[1], files[4]))
    async with bench.daemon("b"):
        await table.commit(table.delete(files[0]))
    snapshot = await table.snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary["total-data-files"] == "3"


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("properties", [{}, MERGED_AT_ONCE], ids=["", "merged"])
async def test_deletes_of_one_batch_follow_each_other_in_one_manifest(version: int, properties: dict[str, str]) -> None:
    bench = Gathering()
    async with bench.daemon() as daemon:
        table = await RealRows.create(bench, version=version, properties=properties)
        files = files_of(table, 6)
        await table.commit(table.append(*files[:4]))
        await table.commit(table.append(*files[4:]))
        blocker = path_of("blocker")
        bench.files.create(blocker, bytes(1000))
        before = {e.data_file.file_path: e for e in await table.entries()}
        intents = [table.delete(files[0], files[5]), table.delete(files[2]), table.delete(files[3])]
        outcomes = await bench.gathered(daemon, *intents)
        assert all(isinstance(outcome, Committed) for outcome in outcomes)
        gone = {e.data_file.file_path for e in await table.entries(live=False) if e.status is Status.DELETED}
        assert gone & {file.file_path for file in files[:4]} == {files[3].file_path}  # older tombstones are no more
        for entry in await table.entries():
            if entry.data_file.file_path != blocker:
                old = before[entry.data_file.file_path]
                assert entry.data_file == old.data_file
                assert (entry.snapshot_id, entry.sequence_number) == (old.snapshot_id, old.sequence_number)
        assert await table.unsound() == ()
        await table.commit(table.delete(files[1]))
        live = {e.data_file.file_path for e in await table.entries()}
        assert live == {files[4].file_path, blocker}
        assert await table.unsound() == ()


async def test_files_from_before_an_upgrade_go_and_the_rest_keeps_its_row_ids() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        files = files_of(table, 4)
        await table.commit(table.append(*files))
        await bench.commit(UpgradeFormat(intent_id=new_id(), table=TABLE, format_version=3))
        await table.commit(table.delete(files[0]))
        row_ids = await table.row_ids()
        await table.commit(table.delete(files[2]))
        assert await table.row_ids() == {id: row_ids[id] for id in ids_of([1, 3])}
        assert await table.ids() == ids_of([1, 3])
        assert await table.unsound() == ()


async def test_a_rewrite_by_name_sees_deletes_of_a_spliced_manifest() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        files = files_of(table, 4)
        base = await table.commit(table.append(*files))
        await table.commit(table.delete(files[0]))
        after = await table.commit(table.delta(base, table.vector(files[1], 0)))
        rejected = await table.refused(table.replace(base, [files[1]], files_of(table, 1, first=1)))
        assert rejected.rule == "new-deletes"
        await table.commit(table.replace(after, files[1:3], [table.data((3, "us"), (4, "eu"), (5, "us"))]))
        assert await table.ids() == [3, 4, 5, 6, 7]
        assert await table.delete_files() == []
        assert await table.unsound() == ()
