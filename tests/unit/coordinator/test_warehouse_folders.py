"""A warehouse that is not there: a daemon waits for it, refuses nothing and makes no second one in its place."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from firn.coordinator.config import Settings, WarehouseSettings
from firn.coordinator.daemon import Daemon
from firn.coordinator.warehouse_folders import warehouse_folders
from firn.model.errors import Unavailable
from firn.model.intent import Intent
from firn.model.outcome import Committed
from firn.storage.local_files import LocalFiles
from firn.storage.locations import MARK_NAME
from firn.storage.marked_folders import MarkedFiles, MarkedFolders
from firn.storage.memory_coordination import MemoryZooKeeper
from tests.unit.coordinator.lanes.test_failing_disks import located
from tests.unit.coordinator.lanes.test_swap_faults import check_chain
from tests.unit.coordinator.workbench import Workbench, append, create


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firn.coordinator.lanes.lane.BACKOFF_S", (0.001, 0.01))


async def known(warehouse: Path, zookeeper: MemoryZooKeeper, *, allowed: tuple[Path, ...] = ()) -> MarkedFolders:
    settings = Settings(warehouse=WarehouseSettings(location=str(warehouse), allowed=tuple(map(str, allowed))))
    return await warehouse_folders(settings, session=zookeeper.connect(), files=LocalFiles())


async def test_the_first_daemon_marks_the_warehouse_and_the_others_find_it_so(tmp_path: Path) -> None:
    zookeeper, warehouse = MemoryZooKeeper(), tmp_path / "deep" / "warehouse"
    first = await known(warehouse, zookeeper)
    mark = (warehouse / MARK_NAME).read_text().strip()
    assert dict(first.marks) == {str(warehouse): mark} == dict((await known(warehouse, zookeeper)).marks)
    assert dict((await known(warehouse, MemoryZooKeeper())).marks) == {str(warehouse): mark}  # ZooKeeper lost


async def test_a_daemon_that_starts_before_the_disk_is_mounted_waits_for_it(tmp_path: Path) -> None:
    zookeeper, warehouse = MemoryZooKeeper(), tmp_path / "warehouse"
    await known(warehouse, zookeeper)
    warehouse.rename(tmp_path / "aside")
    folders = await known(warehouse, zookeeper)
    assert not warehouse.exists()
    with pytest.raises(Unavailable, match="Mount its disk"):
        folders.check([f"{warehouse}/db/t"])
    (tmp_path / "aside").rename(warehouse)
    folders.check([f"{warehouse}/db/t"])


async def test_two_hosts_with_a_warehouse_each_are_told_apart(tmp_path: Path) -> None:
    """Both start at once, and each makes the folder on its own disk: the one whose mark was noted works."""
    zookeeper, warehouse = MemoryZooKeeper(), tmp_path / "warehouse"
    await known(warehouse, zookeeper)
    warehouse.rename(tmp_path / "of-the-first")
    await known(warehouse, MemoryZooKeeper())
    second = await known(warehouse, zookeeper)
    with pytest.raises(Unavailable, match="is another folder than it was"):
        second.check([str(warehouse)])


async def test_further_places_are_marked_where_they_are_there_and_can_be_written(tmp_path: Path) -> None:
    zookeeper, warehouse = MemoryZooKeeper(), tmp_path / "warehouse"
    there, later, sealed = tmp_path / "there", tmp_path / "later", Path("/proc")
    there.mkdir()
    folders = await known(warehouse, zookeeper, allowed=(there, later, sealed))
    assert set(folders.marks) == {str(warehouse), str(there)}
    assert not later.exists()
    later.mkdir()
    assert str(later) in (await known(warehouse, zookeeper, allowed=(there, later))).marks


@pytest.mark.parametrize("catalog", ["metastore", "file-system"])
@pytest.mark.parametrize("left", ["nothing", "an older copy"])
async def test_a_warehouse_that_goes_under_a_daemon_stops_its_tables_and_nothing_is_refused_or_lost(
    tmp_path: Path, catalog: Literal["metastore", "file-system"], left: str
) -> None:
    """What is beneath the mount point may be empty, or what the warehouse was before it got a disk of its own."""
    warehouse, aside = tmp_path / "warehouse", tmp_path / "aside"
    bench = Workbench(warehouse=str(warehouse))
    folders = await known(warehouse, bench.zookeeper)
    bench.files = MarkedFiles(LocalFiles(), folders)
    names = [f"f{n}" for n in range(6)]
    appends: list[Intent] = [located(append(name), str(warehouse)) for name in names]
    async with bench.daemon("a"):
        await bench.commit(create(catalog=catalog))
        await bench.commit(appends[0])
        beneath = _copy_without_mark(warehouse, tmp_path / "beneath") if left == "an older copy" else None
        await bench.commit(appends[1])
        warehouse.rename(aside)
        if beneath is not None:
            beneath.rename(warehouse)
        before = _names(warehouse)
        other: Intent = create("db.other", catalog=catalog)
        await bench.send(appends[2], other)
        await asyncio.sleep(0.2)
        assert _names(warehouse) == before
    async with bench.daemon("b") as daemon:  # a start without the disk
        await bench.send(appends[3])
        await _stalled(daemon, "db.events")
        assert "is not the folder it was" in daemon.lanes.stalled["db.events"]
        assert not daemon.lanes.unreadable
        assert _names(warehouse) == before
        assert [await bench.streams.outcome(one.intent_id) for one in (*appends[2:4], other)] == [None] * 3
        if beneath is not None:
            warehouse.rename(tmp_path / "beneath")
        aside.rename(warehouse)
        outcomes = [await bench.outcome(one) for one in (*appends[2:4], other)]
        assert all(isinstance(outcome, Committed) for outcome in outcomes), outcomes
        for one in appends[4:]:
            await bench.commit(one)
    assert await bench.live() == names
    await check_chain(bench)


def _copy_without_mark(folder: Path, target: Path) -> Path:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != MARK_NAME:
            copy = target / path.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    return target


def _names(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*")) if folder.exists() else []


async def _stalled(daemon: Daemon, table: str) -> None:
    async with asyncio.timeout(10):
        while table not in daemon.lanes.stalled:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
