"""File-system tables through the same lane: safe against foreign writers and a crash at each step."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firn.coordinator.tables.table_reader import TableReader
from firn.model.errors import AlreadyExists
from firn.model.intent import CreateTable, RegisterTable
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import set_properties, with_metadata_log
from firn.model.outcome import Committed
from firn.model.table_properties import JOURNAL_HEAD
from firn.storage.failing_files import FailingFiles, Fault
from firn.storage.file_system_tables import FileSystemTables
from firn.storage.memory_files import MemoryFiles
from firn.storage.metadata_files import encode_metadata
from firn.storage.pointers import PointerChange, Pointers, Won
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, Workbench, append, create, decision, delete, new_id

LOCATION = f"{WAREHOUSE}/db/events"


def create_by_path(**changes: Any) -> CreateTable:
    return create(catalog="file-system", **changes)


def newest(bench: Workbench) -> TableMetadata:
    location = FileSystemTables(bench.files).newest(LOCATION)
    assert location is not None
    return TableReader(bench.files, limits=bench.limits).metadata(location)


def names_of(bench: Workbench, metadata: TableMetadata) -> list[str]:
    snapshot = metadata.current_snapshot
    assert snapshot is not None
    reader = TableReader(bench.files, limits=bench.limits)
    entries = [e for m in reader.manifests(metadata, snapshot) for e in reader.entries(metadata, m)]
    return sorted(Path(e.data_file.file_path).stem for e in entries if e.is_live)


def foreign_commit(bench: Workbench, **properties: str) -> str:
    """Another engine makes the next version, by the file alone."""
    tables = FileSystemTables(bench.files)
    base = tables.newest(LOCATION)
    assert base is not None
    metadata = TableReader(bench.files, limits=bench.limits).metadata(base)
    changed = with_metadata_log(
        set_properties(metadata, properties, now_ms=metadata.last_updated_ms + 1),
        base,
        previous_updated_ms=metadata.last_updated_ms,
    )
    version = int(Path(base).name[1:].partition(".")[0])
    location = tables.location_of(LOCATION, version=version + 1, codec="none")
    tables.put(location, encode_metadata(changed))
    return location


async def test_commits_are_numbered_versions_that_open_by_path() -> None:
    bench = Workbench()
    async with bench.daemon():
        assert (await bench.commit(create_by_path())).metadata_location == f"{LOCATION}/metadata/v1.metadata.json"
        outcome = await bench.commit(append("a"))
        await bench.commit(append("b"))
    assert outcome.metadata_location == f"{LOCATION}/metadata/v2.metadata.json"
    assert bench.files.read(f"{LOCATION}/metadata/version-hint.text", bytes_max=10) == b"3"
    assert names_of(bench, newest(bench)) == ["a", "b"]


async def test_a_foreign_commit_is_built_upon_and_loses_nothing() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create_by_path())
        first = append("a")
        told = await bench.commit(first)
        foreign_commit(bench, owner="somebody else")
        await bench.commit(append("b"))
        bench.redis.flush_all()
        assert decision(await bench.commit(first)) == decision(told)
    metadata = newest(bench)
    assert metadata.properties["owner"] == "somebody else"
    assert names_of(bench, metadata) == ["a", "b"]
    assert [entry.metadata_file.rpartition("/")[2] for entry in metadata.metadata_log] == [
        "v1.metadata.json",
        "v2.metadata.json",
        "v3.metadata.json",
    ]


async def test_rejections_move_the_file_too_so_that_there_is_one_truth() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create_by_path())
        await bench.commit(append("a"))
        before = newest(bench).properties[JOURNAL_HEAD]
        assert (await bench.refuse(delete("never"))).rule == "missing-file"
        assert newest(bench).properties[JOURNAL_HEAD] != before
    assert names_of(bench, newest(bench)) == ["a"]


@pytest.mark.parametrize("moment", ["hint", "znode"])
async def test_a_commit_is_found_again_when_the_daemon_died_right_after_the_put(moment: str) -> None:
    bench = Workbench()
    intent = append("a")
    async with bench.daemon():
        await bench.commit(create_by_path())
        versioned = await Pointers(bench.zookeeper.connect()).read(TABLE)
        told = await bench.commit(intent)
    # As if the daemon had died before it wrote the hint, or the znode.
    bench.files.replace(f"{LOCATION}/metadata/version-hint.text", b"1")
    if moment == "znode":
        pointers = Pointers(bench.zookeeper.connect())
        now = await pointers.read(TABLE)
        back = PointerChange(table=TABLE, pointer=versioned.pointer, expected=now.version)
        assert isinstance(await pointers.swap([back], leases=[]), Won)
    bench.redis.flush_all()
    async with bench.daemon("b"):
        assert decision(await bench.commit(intent)) == decision(told)
        await bench.commit(append("b"))
    assert names_of(bench, newest(bench)) == ["a", "b"]


@pytest.mark.parametrize("kind", ["error", "lost-reply"])
async def test_a_put_without_an_answer_is_resolved_by_reading(kind: str) -> None:
    armed: list[str] = []

    def plan(operation: str, location: str) -> Fault | None:
        if armed and operation == "create" and location.endswith("/v2.metadata.json"):
            armed.clear()
            return Fault(kind=kind)  # type: ignore[arg-type]
        return None

    bench = Workbench(files=FailingFiles(MemoryFiles(), plan))
    async with bench.daemon():
        await bench.commit(create_by_path())
        armed.append("next")
        await bench.commit(append("a"))
        await bench.commit(append("b"))
    assert not armed
    assert names_of(bench, newest(bench)) == ["a", "b"]


async def test_creating_again_after_a_crash_before_registration_takes_up_what_is_there() -> None:
    bench = Workbench()
    intent = create_by_path()
    async with bench.daemon():
        await bench.commit(intent)
    pointers = Pointers(bench.zookeeper.connect())
    now = await pointers.read(TABLE)
    gone = PointerChange(table=TABLE, pointer=None, expected=now.version)
    assert isinstance(await pointers.swap([gone], leases=[]), Won)
    bench.redis.flush_all()
    async with bench.daemon("b"):
        await bench.commit(intent)
        await bench.commit(append("a"))
        await bench.commit(append("b"))
    async with bench.daemon("c"):
        await bench.commit(append("c"))
    assert names_of(bench, newest(bench)) == ["a", "b", "c"]


async def test_a_folder_with_another_table_is_not_created_over() -> None:
    """One that another engine made: of firn's own there is a journal, and the intent waits until it is recovered."""
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create_by_path())
        pointers = Pointers(bench.zookeeper.connect())
        now = await pointers.read(TABLE)
        await pointers.swap([PointerChange(table=TABLE, pointer=None, expected=now.version)], leases=[])
    for info in list(bench.files.list(f"{LOCATION}/metadata/_journal/")):
        bench.files.delete(info.location)
    await bench.streams.settle([], events=[], places={TABLE: None})
    async with bench.daemon("b"):
        assert (await bench.refuse(create_by_path())).rule == "location-taken"
        register = RegisterTable(intent_id=new_id(), table=TABLE, location=LOCATION, catalog="file-system")
        await bench.commit(register)
        await bench.commit(append("a"))
    assert names_of(bench, newest(bench)) == ["a"]


async def test_a_metastore_table_is_registered_from_its_metadata_file() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        told = await bench.commit(append("a"))
        pointers = Pointers(bench.zookeeper.connect())
        now = await pointers.read(TABLE)
        await pointers.swap([PointerChange(table=TABLE, pointer=None, expected=now.version)], leases=[])
    async with bench.daemon("b"):
        register = RegisterTable(intent_id=new_id(), table=TABLE, metadata_location=told.metadata_location)
        registered = await bench.commit(register)
        assert registered.snapshot_id == told.snapshot_id
        second = RegisterTable(intent_id=new_id(), table="db.alias", metadata_location=told.metadata_location)
        assert (await bench.refuse(second)).rule == "location-taken"
        await bench.commit(append("b"))
    assert await bench.live() == ["a", "b"]


@pytest.mark.parametrize(
    ("members", "rule"),
    [
        ({"metadata_location": "memory://elsewhere/v1.metadata.json"}, "location-not-allowed"),
        ({"metadata_location": f"{WAREHOUSE}/db/none/v1.metadata.json"}, "invalid-table"),
        ({"location": f"{WAREHOUSE}/db/none", "catalog": "file-system"}, "invalid-table"),
        ({"location": f"{WAREHOUSE}/db/none"}, "invalid-field"),
        ({"metadata_location": f"{WAREHOUSE}/x", "catalog": "file-system"}, "invalid-field"),
    ],
)
async def test_what_is_no_table_is_not_registered(members: dict[str, Any], rule: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        intent = RegisterTable(intent_id=new_id(), table="db.new", **members)
        assert (await bench.refuse(intent)).rule == rule


async def test_two_daemons_and_a_foreign_writer_lose_nothing() -> None:
    bench = Workbench(shards=1)
    intents = [append(f"f{i:02}") for i in range(40)]
    async with bench.daemon("a"), bench.daemon("b"):
        await bench.commit(create_by_path())

        async def interfere() -> int:
            done = 0
            for number in range(15):
                await asyncio.sleep(0.01)
                with contextlib.suppress(AlreadyExists):  # the daemon was first
                    foreign_commit(bench, **{f"foreign-{number}": "x"})
                    done += 1
            return done

        foreign = asyncio.create_task(interfere())
        for intent in intents:
            await bench.send(intent)
            await asyncio.sleep(0.005)
        outcomes = [await bench.outcome(intent) for intent in intents]
        done = await foreign
    assert all(isinstance(o, Committed) for o in outcomes)
    metadata = newest(bench)
    assert names_of(bench, metadata) == [f"f{i:02}" for i in range(40)]
    assert sum(name.startswith("foreign-") for name in metadata.properties) == done
    assert msgspec.json.decode(encode_metadata(metadata))["format-version"] == 2
