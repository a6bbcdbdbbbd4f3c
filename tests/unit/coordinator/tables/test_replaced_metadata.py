"""Metadata files that commits have replaced: removed a while later, and never one that somebody may still need."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from firn.coordinator.daemon import Daemon
from firn.coordinator.tables import replaced_metadata
from firn.coordinator.tables.replaced_metadata import ReplacedMetadata, is_own
from firn.model.errors import InvalidInput
from firn.model.limits import Limits
from firn.model.metadata import TableMetadata
from firn.model.operations.tables import DropTable, RegisterTable
from firn.model.operations.upkeep import UpdateProperties
from firn.model.snapshot import MetadataLogEntry
from firn.storage.failing_files import FailingFiles, Fault, Operation
from firn.storage.memory_files import MemoryFiles
from firn.storage.metadata_files import encode_metadata, version_of
from tests.strategies.metadata import table
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, new_id

LOGGED = {"write.metadata.previous-versions-max": "3"}
DELETE = "write.metadata.delete-after-commit.enabled"
COMPRESSION = "write.metadata.compression-codec"
AT_ONCE = Limits(replaced_metadata_ms=0)


def replaced(daemon: Daemon) -> ReplacedMetadata:
    return daemon._replaced


def versions(bench: Workbench) -> list[int]:
    """Versions of the metadata files that are stored, ascending."""
    found = (version_of(info.location) for info in bench.files.list(f"{bench.warehouse}/db"))
    return sorted(one for one in found if one is not None)


async def commits(bench: Workbench, count: int, *, first: int = 0) -> None:
    for number in range(first, first + count):
        await bench.commit(append(f"f{number}"))


async def test_a_new_table_keeps_as_many_files_as_its_log_names() -> None:
    bench = Workbench(limits=AT_ONCE)
    async with bench.daemon() as daemon:
        await bench.commit(create(properties=LOGGED))
        await commits(bench, 12)
        await replaced(daemon).tidy()
        assert versions(bench) == [9, 10, 11, 12]
        metadata = await bench.metadata()
        assert [version_of(entry.metadata_file) for entry in metadata.metadata_log] == [9, 10, 11]
        assert len(await bench.live()) == 12
        assert daemon.metrics.metadata_files_removed._value.get() == 9


@pytest.mark.parametrize(
    "properties",
    [{DELETE: "false"}, {DELETE: "no"}, {"gc.enabled": "false"}, {DELETE: "true", "gc.enabled": "false"}],
    ids=str,
)
async def test_a_table_that_says_no_keeps_all(properties: dict[str, str]) -> None:
    bench = Workbench(limits=AT_ONCE)
    async with bench.daemon() as daemon:
        await bench.commit(create(properties={**LOGGED, **properties}))
        await commits(bench, 8)
        await replaced(daemon).tidy()
        assert versions(bench) == list(range(9))


async def test_a_table_may_change_its_mind() -> None:
    bench = Workbench(limits=AT_ONCE)
    async with bench.daemon() as daemon:
        await bench.commit(create(properties={**LOGGED, DELETE: "false"}))
        await commits(bench, 5)
        await bench.commit(UpdateProperties(intent_id=new_id(), table=TABLE, updates={DELETE: "true"}))
        await commits(bench, 2, first=5)
        await replaced(daemon).tidy()
        assert versions(bench) == [5, 6, 7, 8]  # also what was replaced before
        await bench.commit(UpdateProperties(intent_id=new_id(), table=TABLE, updates={DELETE: "false"}))
        await commits(bench, 4, first=7)
        await replaced(daemon).tidy()
        assert versions(bench) == list(range(5, 14))


async def test_a_table_that_engines_open_by_path_keeps_its_versions() -> None:
    """A writer that is far behind must find the version that it would make taken."""
    bench = Workbench(limits=AT_ONCE)
    async with bench.daemon() as daemon:
        await bench.commit(create(catalog="file-system", properties={**LOGGED, DELETE: "true"}))
        await commits(bench, 6)
        await replaced(daemon).tidy()
        assert versions(bench) == list(range(1, 8))
        assert COMPRESSION not in (await bench.metadata()).properties


async def test_new_tables_are_compressed_unless_their_creator_says_otherwise() -> None:
    bench = Workbench()
    async with bench.daemon():
        at = (await bench.commit(create())).metadata_location
        assert at is not None
        assert at.endswith(".gz.metadata.json")
        assert bench.files.read(at, bytes_max=10**6)[:2] == b"\x1f\x8b"
        await bench.commit(UpdateProperties(intent_id=new_id(), table=TABLE, updates={COMPRESSION: "none"}))
        at = (await bench.commit(append("a"))).metadata_location
        assert at is not None
        assert not at.endswith(".gz.metadata.json")
        plain = await bench.commit(create(table="db.plain", properties={COMPRESSION: "none", DELETE: "false"}))
        assert plain.metadata_location is not None
        assert not plain.metadata_location.endswith(".gz.metadata.json")
        properties = (await bench.metadata("db.plain")).properties
        assert (properties[COMPRESSION], properties[DELETE]) == ("none", "false")


class Clock:
    """A monotonic clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


async def test_a_file_stays_until_its_time_has_come() -> None:
    bench, clock = Workbench(), Clock()
    async with bench.daemon() as daemon:
        replaced(daemon)._clock_s = clock
        await bench.commit(create(properties=LOGGED))
        await commits(bench, 6)
        clock.now_s += bench.limits.replaced_metadata_ms / 1000 - 1
        await commits(bench, 2, first=6)
        await replaced(daemon).tidy()
        assert versions(bench) == list(range(9))
        clock.now_s += 1
        await replaced(daemon).tidy()
        assert versions(bench) == [3, 4, 5, 6, 7, 8]
        assert replaced(daemon).waiting == 2


@pytest.mark.parametrize("clean_end", [True, False])
async def test_what_a_daemon_has_left_is_found_by_the_next(clean_end: bool) -> None:
    bench = Workbench(limits=Limits(replaced_metadata_ms=10**9))
    async with bench.daemon("a"):
        await bench.commit(create(properties=LOGGED))
        await commits(bench, 20)
        if not clean_end:
            bench.zookeeper.expire(bench.sessions["a"])
    assert versions(bench) == list(range(21))
    bench.limits = AT_ONCE
    async with bench.daemon("b") as daemon:
        await replaced(daemon).tidy()
        assert versions(bench) == list(range(21))  # of a table that nobody commits to nothing is looked for
        await commits(bench, 1, first=20)
        await replaced(daemon).tidy()
        assert versions(bench) == [18, 19, 20, 21]


async def test_a_swap_that_it_did_not_hear_of_leaves_nothing() -> None:
    """Its answer was lost, or another daemon had the table for a while."""
    bench = Workbench(limits=AT_ONCE)
    async with bench.daemon() as daemon:
        await bench.commit(create(properties=LOGGED))
        await commits(bench, 6)
        await replaced(daemon).tidy()
        hear = replaced(daemon).moved
        replaced(daemon).moved = lambda before, after: None  # type: ignore[method-assign]
        await commits(bench, 2, first=6)
        replaced(daemon).moved = hear  # type: ignore[method-assign]
        await commits(bench, 2, first=8)
        await replaced(daemon).tidy()
        assert versions(bench) == [7, 8, 9, 10]


async def test_leftovers_are_found_past_those_that_are_gone() -> None:
    """An earlier search ended in its middle, or somebody removed single files."""
    bench = Workbench(limits=Limits(replaced_metadata_ms=10**9))
    async with bench.daemon("a"):
        await bench.commit(create(properties={"write.metadata.previous-versions-max": "10"}))
        await commits(bench, 30)
        for info in list(bench.files.list(f"{bench.warehouse}/db")):
            if version_of(info.location) in {0, 1, 2, 15, 17}:
                bench.files.delete(info.location)
    bench.limits = AT_ONCE
    async with bench.daemon("b") as daemon:
        await commits(bench, 1, first=30)
        await replaced(daemon).tidy()
        assert versions(bench) == list(range(21, 32))


OTHERS = [
    "00007-0b9e5cf2-6a55-4a44-8a0c-6f1ad0a4c1a5.metadata.json",
    "00007-of-another.metadata.json",
    "v7.metadata.json",
    "00007-01a21428-14ee-7e9a-bbe2-85a5738ac4cb.json",
    "x/00007-01a21428-14ee-7e9a-bbe2-85a5738ac4cb.metadata.json",
]


@pytest.mark.parametrize("name", OTHERS)
def test_only_names_that_firn_gives_are_its_own(name: str) -> None:
    own = "memory://wh/db/t/metadata/00007-01a21428-14ee-7e9a-bbe2-85a5738ac4cb"
    assert is_own(f"{own}.metadata.json", "memory://wh/db/t")
    assert is_own(f"{own}.gz.metadata.json", "memory://wh/db/t")
    assert not is_own(f"{own}.gz.metadata.json", "memory://wh/db/other")
    assert not is_own(f"memory://wh/db/t/metadata/{name}", "memory://wh/db/t")


async def test_files_of_another_writer_that_the_log_names_stay() -> None:
    bench = Workbench(limits=AT_ONCE)
    async with bench.daemon("a") as daemon:
        await bench.commit(create(properties=LOGGED))
        at = (await bench.commit(append("a"))).metadata_location
        metadata = await bench.metadata()
        await bench.commit(DropTable(intent_id=new_id(), table=TABLE))
        assert at is not None
        entries = [
            msgspec.structs.replace(metadata.metadata_log[0], metadata_file=f"{metadata.location}/metadata/{name}")
            for name in OTHERS[:3]
        ]
        for entry in entries:
            bench.files.create(entry.metadata_file, b"{}")
        foreign = f"{metadata.location}/metadata/00009-of-another.metadata.json"
        bench.files.create(foreign, encode_metadata(msgspec.structs.replace(metadata, metadata_log=tuple(entries))))
        await register(bench, foreign)
        await commits(bench, 8, first=1)
        await replaced(daemon).tidy()
        assert versions(bench)[-4:] == [14, 15, 16, 17]
        for location in (foreign, *(entry.metadata_file for entry in entries)):
            assert bench.files.size(location)


async def register(bench: Workbench, location: str) -> None:
    await bench.commit(RegisterTable(intent_id=new_id(), table=TABLE, metadata_location=location))


async def test_a_store_that_does_not_answer_is_asked_again(monkeypatch: Any) -> None:
    monkeypatch.setattr(replaced_metadata, "PAUSE_S", 0.001)
    clock, down, asked = Clock(), [True], asyncio.Event()
    loop = asyncio.get_running_loop()

    def plan(operation: Operation, _: str) -> Fault | None:
        if operation != "delete" or not down[0]:
            return None
        loop.call_soon_threadsafe(asked.set)
        return Fault(kind="error")

    bench = Workbench(files=FailingFiles(MemoryFiles(), plan), limits=AT_ONCE)
    async with bench.daemon() as daemon:
        replaced(daemon)._clock_s = clock
        await bench.commit(create(properties=LOGGED))
        await commits(bench, 6)
        await asyncio.wait_for(asked.wait(), 5)
        await asyncio.sleep(0.02)
        down[0] = False
        await asyncio.sleep(0.05)
        assert versions(bench) == list(range(7))  # not at once
        clock.now_s += replaced_metadata.RETRY_S
        async with asyncio.timeout(5):
            while versions(bench) != [3, 4, 5, 6]:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)


async def test_one_file_that_cannot_be_removed_does_not_hold_up_the_others() -> None:
    bench = Workbench(limits=AT_ONCE)
    delete = bench.files.delete

    def refuse_one(location: str) -> None:
        if version_of(location) == 1:
            raise InvalidInput("is a folder", where=location)
        delete(location)

    bench.files.delete = refuse_one  # type: ignore[method-assign]
    async with bench.daemon() as daemon:
        await bench.commit(create(properties=LOGGED))
        await commits(bench, 6)
        await replaced(daemon).tidy()
        assert versions(bench) == [1, 3, 4, 5, 6]


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"table-uuid": "another"}'])
async def test_an_old_file_that_is_damaged_ends_the_search_for_leftovers(data: bytes) -> None:
    bench = Workbench(limits=Limits(replaced_metadata_ms=10**9))
    async with bench.daemon("a"):
        await bench.commit(create(properties={**LOGGED, COMPRESSION: "none"}))
        await commits(bench, 8)
        bench.files.replace((await bench.metadata()).metadata_log[0].metadata_file, data)
    bench.limits = AT_ONCE
    async with bench.daemon("b") as daemon:
        await commits(bench, 1, first=8)
        await replaced(daemon).tidy()
        assert len(await bench.live()) == 9
        assert versions(bench)[-4:] == [6, 7, 8, 9]


def test_what_waits_and_what_is_known_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(replaced_metadata, "WAITING_MAX", 5)
    monkeypatch.setattr(replaced_metadata, "TABLES_KNOWN_MAX", 2)
    bench = Workbench()

    async def run(work: Any, *arguments: Any, **named: Any) -> Any:
        return work(*arguments, **named)

    kept = ReplacedMetadata(bench.files, limits=AT_ONCE, run=run)
    for uuid in "abc":
        tables = [_logged(uuid, range(first, first + 3)) for first in range(4)]
        for before, after in pairwise(tables):
            kept.moved(before, after)
    assert kept.waiting == 5
    assert len(kept._known) == len(kept._unseen) == 2
    kept.moved(None, tables[0])
    kept.moved(tables[0], None)
    kept.moved(tables[0], _logged("other", []))
    assert kept.waiting == 5


def _logged(uuid: str, numbers: Sequence[int]) -> TableMetadata:
    metadata = table()
    log = tuple(
        MetadataLogEntry(
            metadata_file=f"{metadata.location}/metadata/{n:05d}-01a21428-14ee-7e9a-bbe2-85a5738ac4cb.metadata.json",
            timestamp_ms=n,
        )
        for n in numbers
    )
    return msgspec.structs.replace(metadata, table_uuid=uuid, metadata_log=log, properties={DELETE: "true"})
