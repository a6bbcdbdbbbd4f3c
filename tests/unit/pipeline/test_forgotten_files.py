"""What only forgotten snapshots reach goes, and nothing else, whatever the history and wherever a removal ends."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from firn.model.errors import CorruptFile, Unavailable
from firn.model.limits import Limits
from firn.model.snapshot import MetadataLogEntry
from firn.pipeline.forgotten_files import METADATA_GRACE_MS, SNAPSHOT_GRACE_MS, Removal, Removing
from firn.pipeline.past_versions import past_of
from firn.storage.files import FileInfo, FileStore
from firn.storage.journal import both_locations, segment_location
from firn.storage.manifest_reader import StoredManifests
from firn.storage.memory_files import MemoryFiles
from tests.strategies.table_histories import History

LATER_MS = 10**15


class Failing(MemoryFiles):
    """Another store's files, of which it removes only `deletes_max`, as a removal does that is killed."""

    def __init__(self, files: FileStore, deletes_max: int) -> None:
        super().__init__()
        self.inner = files
        self.left = deletes_max
        self.reads: list[str] = []

    def read(self, location: str, *, bytes_max: int) -> bytes:
        self.reads.append(location)
        return self.inner.read(location, bytes_max=bytes_max)

    def size(self, location: str) -> int:
        return self.inner.size(location)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[FileInfo]:
        return self.inner.list(prefix, after=after)

    def delete(self, location: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise Unavailable(f"{location}: the disk is gone")
        self.inner.delete(location)


def removing(
    history: History, *, files: FileStore | None = None, spared: Collection[str] = (), **options: Any
) -> Removing:
    return Removing(
        history.now,
        history.files if files is None else files,
        limits=Limits(),
        folders=[history.metadata.location],
        look=lambda: (history.now, frozenset(spared)),
        **options,
    )


def tidy(history: History, *, deletes_max: int = 10**9, portion_files: int = 100, **options: Any) -> Removal:
    store = Failing(history.files, deletes_max)
    return removing(history, files=store, portion_files=portion_files, **options).run(LATER_MS)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(2, 4), st.sampled_from(["main", "main", "audit"])),
        st.tuples(st.just("remove"), st.integers(0, 5), st.just("main")),
        st.tuples(st.just("remove"), st.integers(0, 5), st.just("main")),
        st.tuples(st.just("bring-back"), st.integers(0, 20), st.just("main")),
        st.tuples(st.just("expire"), st.one_of(st.just(2**16 - 1), st.integers(0, 2**16 - 1)), st.just("")),
        st.tuples(st.just("tidy"), st.integers(0, 12), st.just("")),
        st.tuples(st.just("tidy"), st.just(10**9), st.just("")),
    ),
    min_size=8,
    max_size=20,
)


@given(steps=STEPS, portion_files=st.sampled_from([1, 2, 100]), version=st.sampled_from([2, 3, 1]))
def test_exactly_what_nothing_reaches_is_removed(steps, portion_files, version):
    history = History(version=version)
    removed = []
    for step, number, branch in steps:
        match step:
            case "append":
                history.commit(*(history.file() for _ in range(number)), branch=branch)
            case "remove" if live := history.live():
                removed.append(live[number % len(live)])
                history.commit(removed=removed[-1:])
            case "bring-back" if removed:
                # Its writer sees that the file is there and adds it again, which firn allows: it is live once more.
                file = removed[number % len(removed)]
                if file.file_path in history.stored() and file not in history.live():
                    history.commit(file)
            case "expire":
                ids = [one.snapshot_id for one in history.metadata.snapshots]
                history.expire(one for at, one in enumerate(ids) if number >> (at % 16) & 1)
            case "tidy":
                tidy(history, deletes_max=number, portion_files=portion_files)
                assert history.reachable() <= history.stored()
    removal = tidy(history, portion_files=portion_files)
    assert history.stored() == history.reachable()
    assert removal.failed == ()
    assert tidy(history).removed == {}


def test_snapshots_that_came_and_went_between_two_versions_are_found_without_reading_every_version():
    history = History()
    for _ in range(60):
        history.commit(history.file())
    history.expire(range(1, 60))
    for _ in range(60):
        history.commit(history.file())
    store = Failing(history.files, 0)
    removal = removing(history, files=store, dry_run=True).run(LATER_MS)
    assert removal.snapshots == 59
    # The chain of names is followed `LOG_MAX` versions at a time; beside that only a few are looked at.
    versions = [one for one in store.reads if one.endswith(".metadata.json")]
    assert len(versions) < 120 / 2 + 20


def test_what_waiting_work_names_stays_and_a_dry_run_removes_nothing():
    history = History()
    file, kept = history.file(), history.file()
    history.commit(file, kept)
    history.commit(removed=[file, kept])
    history.expire([1])
    before = history.stored()
    told = tidy(history, dry_run=True)
    assert history.stored() == before
    assert told.removed["content files"] == 2
    assert file.file_path in told.locations
    removal = tidy(history, spared={kept.file_path})
    assert (removal.under_way, removal.removed["content files"]) == (1, 1)
    assert kept.file_path in history.stored()
    assert file.file_path not in history.stored()


def test_files_outside_of_the_tables_own_folders_stay():
    history = History()
    stranger = msgspec.structs.replace(history.file(), file_path="memory://wh/other/data/x.parquet")
    history.files.create(stranger.file_path, b"somebody's")
    history.commit(stranger)
    history.commit(removed=[stranger])
    history.expire([1])
    removal = tidy(history)
    assert removal.elsewhere == 1
    assert history.files.size(stranger.file_path) == 10


def test_a_manifest_of_the_table_that_is_cut_ends_the_removal_before_anything_went():
    history = History()
    files = [history.file() for _ in range(3)]
    history.commit(*files)
    history.commit(removed=files[:1])
    history.expire([1])
    (manifest,) = {one for one in history.reachable() if one.endswith(".avro") and "/data/" not in one} - {
        history.metadata.snapshots[0].manifest_list
    }
    data = history.files.read(manifest, bytes_max=10**6)
    history.files.replace(manifest, data[:-20])
    before = history.stored()
    with pytest.raises(CorruptFile):
        tidy(history)
    assert history.stored() == before


def test_forgotten_manifests_that_cannot_be_read_stay_with_what_leads_to_them():
    history = History(log_max=1)
    first = history.file()
    history.commit(first)
    history.commit(removed=[first])
    history.commit(history.file())
    listed = history.metadata.snapshots[0].manifest_list
    assert listed is not None
    history.expire([1])
    history.store()
    history.store()
    history.files.replace(listed, b"Obj\x01 nonsense")
    removal = tidy(history)
    assert removal.unreadable == (listed,)
    assert listed in history.stored()
    assert "metadata files" not in removal.removed


def test_old_metadata_stays_for_readers_that_have_just_begun_with_it():
    history = History()
    for _ in range(6):
        history.commit(history.file())
    newest_ms = history.metadata.last_updated_ms
    assert removing(history).run(newest_ms).removed == {}
    assert removing(history).run(newest_ms + METADATA_GRACE_MS + 1).removed == {"metadata files": 7 - 3}


def test_statistics_files_go_with_their_snapshot():
    history = History()
    history.commit(history.file())
    path = f"{history.metadata.location}/metadata/1.stats"
    history.mirror.create(path, b"PFA1")
    statistics = (
        {
            "snapshot-id": 1,
            "statistics-path": path,
            "file-size-in-bytes": 4,
            "file-footer-size-in-bytes": 4,
            "blob-metadata": [],
        },
    )
    history.table.metadata = msgspec.structs.replace(history.metadata, statistics=statistics)
    history.store()
    history.commit(history.file())
    assert "statistics files" not in tidy(history).removed
    history.table.metadata = msgspec.structs.replace(history.metadata, statistics=())
    history.expire([1])
    assert tidy(history).removed["statistics files"] == 1
    assert path not in history.stored()


def path_of_kind(history: History, kind: str) -> str:
    """A file that the table names, or a segment of its journal."""
    head = history.metadata.current_snapshot
    assert head is not None
    assert head.manifest_list is not None
    match kind:
        case "data file":
            return history.live()[0].file_path
        case "manifest list":
            return head.manifest_list
        case "manifest":
            return StoredManifests(history.files).manifests(history.metadata, head)[0].manifest_path
        case "metadata file":
            return history.versions[-1]
        case "journal segment":
            return segment_location(history.metadata.location, sequence=1, token="x")
        case _:
            return both_locations(segment_location(history.metadata.location, sequence=1, token="x"))[1]


def change(history: History, **members: Any) -> None:
    history.table.metadata = msgspec.structs.replace(history.metadata, **members)
    history.store()


def forget_under_another_name(history: History, path: str, called: str) -> None:
    """Have an older version of the table name a file as what it is not; the newest no longer does."""
    log = history.metadata.metadata_log
    before = MetadataLogEntry(metadata_file=history.versions[-1], timestamp_ms=0)
    match called:
        case "statistics":
            entry = {"snapshot-id": 1, "statistics-path": path, "file-size-in-bytes": 4}
            change(history, partition_statistics=(entry,))
        case "content":
            stranger = msgspec.structs.replace(history.file(), file_path=path)
            added = history.commit(stranger)
            history.commit(removed=[stranger])
            history.commit(history.file())
            history.expire([added, added + 1])
            return
        case _:
            change(history, metadata_log=(MetadataLogEntry(metadata_file=path, timestamp_ms=0), *log))
    # The oldest version of the log is always read.
    named = MetadataLogEntry(metadata_file=history.versions[-1], timestamp_ms=0)
    change(history, partition_statistics=(), metadata_log=(named, *log, before))


@pytest.mark.parametrize("called", ["statistics", "content", "older version"])
@pytest.mark.parametrize("respell", [str, lambda path: path.replace("memory://wh", "MEMORY://WH")])
@pytest.mark.parametrize(
    "kind", ["data file", "manifest", "manifest list", "metadata file", "journal segment", "old segment"]
)
def test_a_file_that_something_live_names_stays_whatever_a_forgotten_snapshot_called_it(kind, respell, called):
    history = History(log_max=100)
    for segment in both_locations(segment_location(history.metadata.location, sequence=1, token="x")):
        history.mirror.create(segment, b"segment")
    history.commit(history.file())
    history.commit(history.file())
    path = path_of_kind(history, kind)
    forget_under_another_name(history, respell(path), called)
    tidy(history)
    assert history.files.size(path)
    assert history.reachable() - {respell(path)} <= history.stored()


def test_snapshots_that_were_made_minutes_ago_leave_their_files_to_the_next_removal():
    """A daemon may remember a manifest of theirs as the merge of others that the table lists again."""
    history = History()
    history.commit(history.file())
    history.commit(removed=history.live())
    history.expire([1])
    past = past_of(history.metadata, history.files, limits=Limits(), now_ms=LATER_MS)
    made_ms = next(one.timestamp_ms for one in past.snapshots)
    assert removing(history).run(made_ms + SNAPSHOT_GRACE_MS).count == 0
    later = removing(history).run(made_ms + SNAPSHOT_GRACE_MS + 1)
    assert later.removed == {"content files": 1, "manifests": 1, "manifest lists": 1}


def test_delete_files_go_with_the_snapshots_that_had_them():
    history = History(version=3)
    data = history.file()
    history.commit(data)
    vector = history.table.vector(data, [0])
    history.commit(vector)
    history.commit(removed=[vector])
    history.expire([1, 2])
    assert vector.file_path in history.stored()
    assert tidy(history).removed["content files"] == 1
    assert history.stored() == history.reachable()
