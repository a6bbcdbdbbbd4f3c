"""A table whose files do not pass their checks is refused by name and by check; all others go on, and so it may."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest
from prometheus_client import generate_latest

from firn.coordinator.lanes import lanes, looks
from firn.coordinator.operations import table_patrol
from firn.coordinator.tables.table_reader import TableReader
from firn.model.errors import Unavailable
from firn.model.intent import DropTable
from firn.model.metadata import TableMetadata
from firn.storage.memory_files import MemoryFiles
from firn.storage.pointers import Pointers
from tests.unit.coordinator.lanes.test_pauses import until
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, new_id


def manifest_list(bench: Workbench, metadata: TableMetadata) -> str:
    assert metadata.current_snapshot is not None
    assert metadata.current_snapshot.manifest_list is not None
    return metadata.current_snapshot.manifest_list


def manifest(bench: Workbench, metadata: TableMetadata) -> str:
    assert metadata.current_snapshot is not None
    return TableReader(bench.files, limits=bench.limits).manifests(metadata, metadata.current_snapshot)[0].manifest_path


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[: len(data) // 2],
    "flipped": lambda data: data[:-40] + bytes([data[-40] ^ 1]) + data[-39:],
    "empty": lambda data: b"",
    "another's": lambda data: b"not avro, and not JSON either",
}


@pytest.mark.parametrize("which", ["metadata", "manifest-list", "manifest"])
@pytest.mark.parametrize("damage", DAMAGES)
async def test_damage_is_refused_by_name_and_stops_nothing_else(which: str, damage: str) -> None:
    bench = Workbench()
    async with bench.daemon("a"):
        await bench.commit(create())
        await bench.commit(create("db.other"))
        await bench.commit(append("a"))
        metadata = await bench.metadata()
        pointer = (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer
    location = {
        "metadata": pointer.metadata_location,
        "manifest-list": manifest_list(bench, metadata),
        "manifest": manifest(bench, metadata),
    }[which]
    whole = bench.files.read(location, bytes_max=1_000_000)
    bench.files.replace(location, DAMAGES[damage](whole))
    async with bench.daemon("b") as daemon:
        refused = await bench.refuse(append("b"))
        assert (refused.rule, refused.hint) == ("table-unreadable", "fix")
        assert location in refused.message
        assert "firn fsck" in refused.message
        assert TABLE in daemon.lanes.unreadable
        await bench.commit(append("x", table="db.other"))
        bench.files.replace(location, whole)
        await bench.commit(append("c"))
        assert not daemon.lanes.unreadable
    assert await bench.live() == ["a", "c"]


async def test_what_was_committed_before_the_damage_is_told_again_and_not_refused() -> None:
    bench = Workbench()
    async with bench.daemon("a"):
        await bench.commit(create())
        first = append("a")
        outcome = await bench.commit(first)
        pointer = (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer
    whole = bench.files.read(pointer.metadata_location, bytes_max=1_000_000)
    bench.files.replace(pointer.metadata_location, whole[: len(whole) // 2])
    async with bench.daemon("b"):
        assert await bench.commit(first) == outcome
        assert (await bench.refuse(append("b"))).rule == "table-unreadable"
        bench.files.replace(pointer.metadata_location, whole)
        assert await bench.commit(first) == outcome
    assert await bench.live() == ["a"]


async def test_a_manifest_list_cut_between_two_blocks_is_noticed_by_its_totals() -> None:
    bench = Workbench()
    async with bench.daemon("a"):
        await bench.commit(create())
        await bench.commit(append("a"))
        old = manifest_list(bench, await bench.metadata())
        await bench.commit(append("b"))
        new = manifest_list(bench, await bench.metadata())
    # What a list with one manifest less looks like: a valid file, only shorter.
    reader = TableReader(bench.files, limits=bench.limits)
    metadata = await bench.metadata()
    first = metadata.snapshots[0]
    assert len(reader.manifests(metadata, first)) == 1
    bench.files.replace(new, bench.files.read(old, bytes_max=1_000_000))
    async with bench.daemon("b"):
        assert (await bench.refuse(append("c"))).rule == "table-unreadable"


async def test_an_encrypted_table_is_refused_not_misread() -> None:
    bench = Workbench()
    async with bench.daemon("a"):
        assert (await bench.refuse(create(properties={"encryption.key-id": "k1"}))).rule == "invalid-table"


@pytest.mark.parametrize("which", ["metadata", "manifest", "gone"])
async def test_what_cannot_be_read_stays_known_until_it_can_be(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers that gave up do not make an operator believe that it is over; nor does it take a writer to say it is."""
    monkeypatch.setattr(lanes, "IDLE_SWEEP_S", 0.05)
    bench = Workbench()
    async with bench.daemon("a"):
        await bench.commit(create())
        await bench.commit(append("a"))
        metadata = await bench.metadata()
        pointer = (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer
    location = manifest(bench, metadata) if which == "manifest" else pointer.metadata_location
    whole = bench.files.read(location, bytes_max=1_000_000)
    if which == "gone":
        bench.files.delete(location)
    else:
        bench.files.replace(location, whole[: len(whole) // 2])
    async with bench.daemon("b", lease_idle_s=0.0) as daemon:
        await bench.refuse(append("b"))
        await asyncio.sleep(0.5)
        assert location in daemon.lanes.unreadable[TABLE]
        assert b'firn_table_trouble{table="db.events",trouble="unreadable"} 1.0' in generate_latest(
            daemon.metrics.registry
        )
        bench.files.replace(location, whole)
        async with asyncio.timeout(10):
            while daemon.lanes.unreadable or daemon.lanes.tables():  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.05)
        assert b"firn_unreadable_tables 0.0" in generate_latest(daemon.metrics.registry)


@pytest.mark.parametrize("damage", [*DAMAGES, "gone"])
async def test_damage_is_found_on_a_table_that_nobody_commits_to(damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers who read the table first submit nothing then: it takes no intent to find it, nor to see it mended."""
    monkeypatch.setattr(table_patrol, "PAUSE_S", 0.02)
    monkeypatch.setattr(lanes, "IDLE_SWEEP_S", 0.05)
    bench = Workbench()
    async with bench.daemon("a"):
        await bench.commit(create())
        await bench.commit(create("db.other"))
    location = (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer.metadata_location
    whole = bench.files.read(location, bytes_max=1_000_000)
    if damage == "gone":
        bench.files.delete(location)
    else:
        bench.files.replace(location, DAMAGES[damage](whole))
    async with bench.daemon("b") as daemon:
        async with asyncio.timeout(10):
            while not daemon.lanes.unreadable:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.02)
        assert list(daemon.lanes.unreadable) == [TABLE]
        assert location in daemon.lanes.unreadable[TABLE]
        bench.files.replace(location, whole)
        async with asyncio.timeout(10):
            while daemon.lanes.unreadable:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.02)


async def test_a_store_that_does_not_answer_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a table that was dropped, or that moves while it is looked at."""
    monkeypatch.setattr(table_patrol, "PAUSE_S", 0.02)
    looked_at: list[str] = []

    class Away(MemoryFiles):
        down = False

        def read(self, location: str, *, bytes_max: int) -> bytes:
            if self.down:
                looked_at.append(location)
                raise Unavailable("the store does not answer")
            return super().read(location, bytes_max=bytes_max)

    files = Away()
    bench = Workbench(files=files)
    async with bench.daemon("a"):
        await bench.commit(create())
        await bench.commit(create("db.dropped"))
        await bench.commit(DropTable(intent_id=new_id(), table="db.dropped"))
    files.down = True
    async with bench.daemon("b") as daemon:
        async with asyncio.timeout(10):
            while not looked_at:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)
        assert daemon.lanes.unreadable == {}
        assert {location.partition("/metadata/")[0] for location in looked_at} == {f"{bench.warehouse}/db/events"}


async def test_a_file_that_is_well_is_not_read_again_before_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pays for reading large files every minute; damage that comes later is found all the same."""
    monkeypatch.setattr(table_patrol, "PAUSE_S", 0.01)
    monkeypatch.setattr(table_patrol, "ROUND_S", 0.0)
    reads: list[str] = []

    class Counted(MemoryFiles):
        def read(self, location: str, *, bytes_max: int) -> bytes:
            reads.append(location)
            return super().read(location, bytes_max=bytes_max)

    bench = Workbench(files=Counted())
    async with bench.daemon("a"):
        await bench.commit(create())
    location = (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer.metadata_location
    reads.clear()
    async with bench.daemon("b") as daemon:
        await asyncio.sleep(0.5)
        assert reads == [location]
        bench.files.replace(location, b"{}")
        monkeypatch.setattr(table_patrol, "LOOK_AGAIN_S", 0.0)
        async with asyncio.timeout(10):
            while TABLE not in daemon.lanes.unreadable:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.02)


class HangingFiles(MemoryFiles):
    """Files of which no read below some folders returns before `goes_on` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.hanging: tuple[str, ...] = ()
        self.goes_on = threading.Event()
        self.waiting: list[str] = []

    def read(self, location: str, *, bytes_max: int) -> bytes:
        if any(folder in location for folder in self.hanging):
            self.waiting.append(location)
            self.goes_on.wait(20)
        return super().read(location, bytes_max=bytes_max)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[HangingFiles]:
    """A store that nobody waits for long when he looks at a table."""
    monkeypatch.setattr(table_patrol, "PAUSE_S", 0.01)
    monkeypatch.setattr(table_patrol, "ROUND_S", 0.05)
    monkeypatch.setattr(lanes, "IDLE_SWEEP_S", 0.05)
    monkeypatch.setattr(looks, "PATIENCE_S", 0.05)
    files = HangingFiles()
    yield files
    files.goes_on.set()


async def test_a_store_that_hangs_under_one_table_keeps_damage_of_others_hidden_no_longer(
    hanging: HangingFiles,
) -> None:
    """One look hangs, with one thread; when it comes back the table is looked at again."""
    bench = Workbench(files=hanging)
    others = [f"db.other_{number}" for number in range(3)]
    async with bench.daemon("a"):
        for table in (TABLE, *others):
            await bench.commit(create(table))
    pointers = Pointers(bench.zookeeper.connect())
    places = {table: (await pointers.read(table)).pointer.metadata_location for table in (TABLE, *others)}
    whole = {table: hanging.read(places[table], bytes_max=1_000_000) for table in others}
    for table in others:
        hanging.replace(places[table], b"{}")
    hanging.hanging = ("/events/",)
    async with bench.daemon("b") as daemon:
        await until(lambda: sorted(daemon.lanes.unreadable) == others)
        await until(lambda: bool(hanging.waiting))
        hanging.hanging += ("/other_0/",)
        for table in others:
            hanging.replace(places[table], whole[table])
        await until(lambda: list(daemon.lanes.unreadable) == ["db.other_0"])
        await asyncio.sleep(0.3)
        assert len(hanging.waiting) == len({place.partition("/metadata/")[0] for place in hanging.waiting}) == 2
        hanging.replace(places[TABLE], b"{}")
        hanging.hanging = ()
        hanging.goes_on.set()
        await until(lambda: list(daemon.lanes.unreadable) == [TABLE])
