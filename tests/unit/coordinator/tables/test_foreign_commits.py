"""Tables that another engine commits to between a daemon's own commits: what it changed is read, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firn.coordinator.daemon import Daemon
from firn.coordinator.replay.draft import ManifestRef
from firn.coordinator.replay.head import Head
from firn.coordinator.replay.known_deletes import find_deletes
from firn.coordinator.tables.table_reader import TableReader
from firn.coordinator.tables.table_state import TableState
from firn.model.limits import Limits
from firn.model.manifest import ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import with_metadata_log
from firn.model.operations.files import RowDelta
from firn.model.outcome import Committed
from firn.model.refs import set_current
from firn.storage.failing_files import FailingFiles, Fault
from firn.storage.file_system_tables import FileSystemTables
from firn.storage.manifest_reader import StoredManifests
from firn.storage.memory_files import MemoryFiles
from firn.storage.metadata_files import encode_metadata
from tests.unit.coordinator.tables.foreign_writer import ForeignWriter
from tests.unit.coordinator.workbench import (
    TABLE,
    WAREHOUSE,
    Workbench,
    append,
    content_file,
    create,
    delete,
    new_id,
    path_of,
)

LOCATION = f"{WAREHOUSE}/db/events"
NO_MERGES = {"commit.manifest-merge.enabled": "false"}


def newest(bench: Workbench) -> tuple[str, TableMetadata]:
    location = FileSystemTables(bench.files).newest(LOCATION)
    assert location is not None
    return location, TableReader(bench.files, limits=bench.limits).metadata(location)


def names(bench: Workbench) -> list[str]:
    """Names of the live files of main, by what is stored; one that is live twice is there twice."""
    writer = ForeignWriter(bench.files, newest(bench)[1])
    return sorted(Path(path).stem for one in writer.manifests() for path in writer.live(one))


def foreign(bench: Workbench, change: Callable[..., Any], *arguments: Any, **named: Any) -> TableMetadata:
    """Another engine makes the next version of the table, by the file alone: a method of `ForeignWriter` does it."""
    tables = FileSystemTables(bench.files)
    location, before = newest(bench)
    writer = ForeignWriter(bench.files, before)
    change(writer, *arguments, **named)
    changed = with_metadata_log(writer.metadata, location, previous_updated_ms=before.last_updated_ms)
    version = int(Path(location).name[1:].partition(".")[0]) + 1
    tables.put(tables.location_of(LOCATION, version=version, codec="none"), encode_metadata(changed))
    return changed


def state_of(daemon: Daemon) -> TableState:
    return daemon.lanes._lanes[TABLE]._commits._state


@pytest.fixture
def read_manifests(monkeypatch: Any) -> list[str]:
    """The manifests that are read for heads, in order."""
    read: list[str] = []
    original = TableReader._read

    def counted(self: TableReader, manifest: Any) -> bytes:
        read.append(manifest.manifest_path)
        return original(self, manifest)

    monkeypatch.setattr(TableReader, "_read", counted)
    return read


@pytest.fixture
def made(monkeypatch: Any) -> list[int]:
    """How many heads were known when one was made; each that is made is compared with what reading all finds."""
    found: list[int] = []
    original = TableReader.head

    def compared(self: TableReader, metadata: TableMetadata, snapshot_id: int | None, *, known: Any = ()) -> Head:
        head = original(self, metadata, snapshot_id, known=known)
        whole = original(self, metadata, snapshot_id)
        assert tuple(head.manifests) == tuple(whole.manifests)
        assert len(head.live.index) == len(whole.live.index)
        paths = [path_of(f"f{number}") for number in range(200)]
        assert [head.live.manifest_of(path) for path in paths] == [whole.live.manifest_of(path) for path in paths]
        found.append(sum(one.snapshot_id is not None for one in known))
        return head

    monkeypatch.setattr(TableReader, "head", compared)
    return found


async def test_after_a_foreign_commit_only_new_manifests_are_read(read_manifests: list[str]) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(catalog="file-system", properties=NO_MERGES))
        for number in range(12):
            await bench.commit(append(f"f{number}"))
        assert read_manifests == []
        foreign(bench, ForeignWriter.append, [path_of("foreign")])
        (added, *_) = ForeignWriter(bench.files, newest(bench)[1]).manifests()
        await bench.commit(append("g"))
        assert read_manifests == [added.manifest_path]
        assert (await bench.refuse(append("foreign"))).rule == "duplicate-file"
        assert (await bench.refuse(append("f3"))).rule == "duplicate-file"
        await bench.commit(delete("foreign", "f5"))
        foreign(bench, ForeignWriter.delete, [path_of("f7")])
        assert (await bench.refuse(delete("f7"))).rule == "missing-file"
        await bench.commit(append("f7"))
    assert names(bench) == sorted([*(f"f{n}" for n in range(12) if n != 5), "g"])


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
async def test_firn_and_another_engine_in_turns(made: list[int], version: int, seed: int) -> None:
    """Merges of both, deletes of each other's files, and a table that goes back: every head is the right one."""
    rng, bench, live = random.Random(seed), Workbench(), set[str]()
    names_left = (f"f{number}" for number in range(200))
    properties = {"commit.manifest.min-count-to-merge": "4"}
    async with bench.daemon() as daemon:
        await bench.commit(create(catalog="file-system", properties=properties, format_version=version))
        for _ in range(25):
            new, old = [next(names_left), next(names_left)], rng.sample(sorted(live), min(len(live), 2))
            match rng.choice(["append", "delete", "foreign append", "foreign delete", "foreign merge", "go back"]):
                case "append":
                    await bench.commit(append(*new))
                    live.update(new)
                case "delete" if old:
                    await bench.commit(delete(*old))
                    live.difference_update(old)
                case "foreign append":
                    foreign(bench, ForeignWriter.append, map(path_of, new))
                    live.update(new)
                case "foreign delete" if old:
                    foreign(bench, ForeignWriter.delete, [path_of(name) for name in old])
                    live.difference_update(old)
                case "foreign merge":
                    foreign(bench, ForeignWriter.merge, rng.sample(range(6), 3))
                case "go back" if live:
                    snapshot_id = rng.choice(newest(bench)[1].snapshots).snapshot_id

                    def go_back(writer: ForeignWriter, snapshot_id: int = snapshot_id) -> None:
                        writer.metadata = set_current(
                            writer.metadata, snapshot_id, branch="main", now_ms=writer.metadata.last_updated_ms + 1
                        )

                    foreign(bench, go_back)
                    live = set(names(bench))
        await bench.commit(append("last"))
        assert names(bench) == sorted({*live, "last"})
        assert len(state_of(daemon).heads) <= 2
    assert sum(made) >= 3


async def test_of_each_branch_one_head_stays_known() -> None:
    """Its own, or while that has not been asked for the last one, however often others have committed since."""
    bench = Workbench()
    async with bench.daemon() as daemon:
        await bench.commit(create(catalog="file-system"))
        main = (await bench.commit(append("a"))).snapshot_id
        foreign(bench, ForeignWriter.append, [path_of("other")], branch="audit")
        await bench.refuse(delete("never", branch="audit"))
        audit = newest(bench)[1].refs["audit"].snapshot_id
        assert set(state_of(daemon).heads) - {None} == {main, audit}
        for number in range(3):
            foreign(bench, ForeignWriter.append, [path_of(f"foreign-{number}")])
            await bench.refuse(delete("never", branch="audit"))
            assert set(state_of(daemon).heads) - {None} == {main, audit}
        main = (await bench.commit(append("b"))).snapshot_id
        assert set(state_of(daemon).heads) - {None} == {main, audit}
    assert names(bench) == ["a", "b", "foreign-0", "foreign-1", "foreign-2"]


async def test_a_manifest_that_cannot_be_read_at_first_holds_up_one_commit_and_nothing_is_lost(
    made: list[int],
) -> None:
    failing: list[str] = []

    def plan(operation: str, location: str) -> Fault | None:
        if operation == "read" and location in failing:
            failing.remove(location)
            return Fault(kind="error")
        return None

    bench = Workbench(files=FailingFiles(MemoryFiles(), plan))
    async with bench.daemon():
        await bench.commit(create(catalog="file-system", properties=NO_MERGES))
        for number in range(6):
            await bench.commit(append(f"f{number}"))
        foreign(bench, ForeignWriter.append, [path_of("f10")])
        foreign(bench, ForeignWriter.append, [path_of("f11")])
        failing.append(ForeignWriter(bench.files, newest(bench)[1]).manifests()[1].manifest_path)
        intent = append("f12")
        await bench.send(intent)
        assert isinstance(await bench.outcome(intent, timeout_s=60), Committed)
        assert not failing
        assert (await bench.refuse(append("f10"))).rule == "duplicate-file"
        assert (await bench.refuse(append("f2"))).rule == "duplicate-file"
    assert names(bench) == sorted([*(f"f{n}" for n in range(6)), "f10", "f11", "f12"])
    assert made


def upsert(number: int) -> RowDelta:
    """A new file, and an equality delete for rows of older ones."""
    equality = msgspec.structs.replace(content_file(f"d{number}"), content="equality-deletes", equality_ids=(1,))
    return RowDelta(intent_id=new_id(), table=TABLE, data_files=(content_file(f"u{number}"),), delete_files=(equality,))


async def test_after_a_foreign_commit_only_new_manifests_of_delete_files_are_read(monkeypatch: Any) -> None:
    bench = Workbench(limits=Limits(manifest_cache_bytes_max=0))
    read: list[str] = []
    original = StoredManifests.entries

    def counted(self: StoredManifests, metadata: TableMetadata, manifest: Any) -> Any:
        read.append(manifest.manifest_path)
        return original(self, metadata, manifest)

    async with bench.daemon() as daemon:
        await bench.commit(create(catalog="file-system", properties=NO_MERGES))
        for number in range(6):
            await bench.commit(upsert(number))
        foreign(bench, ForeignWriter.append, [path_of("foreign")])
        foreign(bench, ForeignWriter.append, [path_of("foreign-deletes")], content="deletes")
        (added, *_) = ForeignWriter(bench.files, newest(bench)[1]).manifests()
        await bench.commit(append("f"))  # nobody asks for delete files
        with monkeypatch.context() as patch:
            patch.setattr(StoredManifests, "entries", counted)
            await bench.commit(upsert(6))
        assert read == [added.manifest_path]
        head = state_of(daemon).heads[newest(bench)[1].current_snapshot_id]
        assert head.deletes is not None
        known = sorted((one.file.file_path, one.manifest, one.entry) for one in head.deletes)
        metadata = newest(bench)[1]
        whole = find_deletes(
            head.manifests, lambda one: StoredManifests(bench.files).entries(metadata, stored(one)), known=None
        )
        assert known == sorted((one.file.file_path, one.manifest, one.entry) for one in whole)
        assert len(known) == 8


def stored(manifest: ManifestRef) -> ManifestFile:
    assert isinstance(manifest, ManifestFile)
    return manifest
